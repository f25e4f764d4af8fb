//! What identifies a kernel, and what is committed under that name.

use super::rungs::all_kernels;
use girih::winners;
use girih_core::facts::Facts;
use girih_core::lower;
use girih_core::registry::kernels;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use std::collections::HashMap;

#[test]
fn identities_tell_kernels_apart() {
    let mut seen = HashMap::new();
    for kernel in all_kernels() {
        if let Some(other) = seen.insert(kernel.identity(), kernel.path.clone()) {
            panic!("{} and {other} have one identity", kernel.path);
        }
    }
    for def in kernels() {
        let (a, b) = ((def.build)().expect("well formed"), (def.build)().expect("well formed"));
        assert_eq!(a.identity(), b.identity(), "{} has another identity at every build", def.path());
    }
}

#[test]
fn identities_leave_the_source_aside() {
    for kernel in all_kernels() {
        let mut moved = kernel.clone();
        moved.source.push_str("// a comment\n");
        moved.loc.line += 1;
        moved.values.iter_mut().for_each(|v| v.loc.line += 1);
        assert_eq!(moved.identity(), kernel.identity(), "{}", kernel.path);
    }
}

#[test]
fn committed_winners_are_legal() {
    for winner in winners::all() {
        let kernel = all_kernels().into_iter().find(|k| winners::kernel_path(k) == winner.kernel);
        let kernel = kernel.unwrap_or_else(|| panic!("winners' file: no kernel {}", winner.kernel));
        let schedule = parse_schedule(&kernel, &winner.schedule).unwrap_or_else(|e| panic!("{winner}: {e}"));
        let target = Target::find(&winner.arch).unwrap_or_else(|| panic!("{winner}: no target has this architecture"));
        lower::check(&kernel, &Facts::best(&kernel), &schedule, target).unwrap_or_else(|e| panic!("{winner}: {e}"));
    }
}
