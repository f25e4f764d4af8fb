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
