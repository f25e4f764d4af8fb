//! Stores that two blocks could make to one place do not compile.

use girih::prelude::*;
use girih_core::error::CompileError;
use girih_core::tile::Kernel;
use girih_core::tile::access::classify;

/// The published reversal in place: each block stores its mirror image over what another block has yet to read.
#[kernel(tile(T = [64, 256]))]
pub fn racy_reversal(x: &mut Tensor<f32, 1>) {
    let mut mirrored = x.reversed(0);
    for t in x.tiles([T]) {
        mirrored.store(t, x.load(t));
    }
}

/// Every block stores the same row.
#[kernel(tile(R = [8, 16], C = [32, 64]))]
pub fn one_row(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in x.tiles([R, C]) {
        y.store((0, c), x.load((r, c)).sum_axis(0));
    }
}

/// The mistakes of a kernel, as text.
pub fn mistakes(def: girih_core::registry::KernelDef) -> String {
    let of = |kernel: Kernel| match classify(&kernel) {
        Ok(_) => panic!("{} was accepted", kernel.name),
        Err(diagnostics) => CompileError::Kernel(diagnostics).to_string(),
    };
    match (def.build)() {
        Ok(kernel) => of(kernel),
        Err(e) => e.to_string(),
    }
}

#[test]
fn racy_stores_are_rejected() {
    let text = mistakes(racy_reversal::Kernel::def());
    assert!(text.contains("is loaded where another block may already have stored"), "{text}");
    assert!(text.contains("split_at") && text.contains("tests/it/access.rs:"), "{text}");
    let text = mistakes(one_row::Kernel::def());
    assert!(text.contains("the same elements") && text.contains("tests/it/access.rs:"), "{text}");
}
