//! What identifies a kernel in stores and caches, and what does not.

use super::rungs::all_kernels;
use girih_core::registry::kernels;
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
fn another_choice_of_a_knob_keeps_the_identity() {
    for kernel in all_kernels() {
        for knob in 0..kernel.knobs.len() {
            let mut wider = kernel.clone();
            let first = wider.knobs[knob].choices[0].clone();
            wider.knobs[knob].choices.push(first);
            assert_eq!(wider.identity(), kernel.identity(), "{}", kernel.path);
            assert_ne!(wider.former_identity(), kernel.former_identity(), "{}", kernel.path);
        }
    }
}
