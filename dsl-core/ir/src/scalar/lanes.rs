//! An operation in two forms: on one value, and on those of a warp's 32 lanes in one loop, which is compiled to vector instructions.

use super::{BinaryFn, CompareFn, TernaryFn};

/// The values of a warp's lanes, as bit patterns.
pub type Lanes = [u64; 32];
/// A binary operation on all lanes; the last argument takes the results.
pub type BinaryLanes = fn(&Lanes, &Lanes, &mut Lanes);
/// A ternary operation on all lanes; the last argument takes the results.
pub type TernaryLanes = fn(&Lanes, &Lanes, &Lanes, &mut Lanes);

/// A binary operation.
pub(super) struct Binary {
    pub(super) one: BinaryFn,
    pub(super) lanes: BinaryLanes,
}

/// A comparison; its lanes are 0 or 1.
pub(super) struct Compare {
    pub(super) one: CompareFn,
    pub(super) lanes: BinaryLanes,
}

/// A ternary operation.
pub(super) struct Ternary {
    pub(super) one: TernaryFn,
    pub(super) lanes: TernaryLanes,
}

/// Both forms of a binary operation or a comparison (`Binary`, `Compare`), as `forms!(Binary, |a, b| a & b)`.
macro_rules! forms {
    ($form:ident, |$a:ident, $b:ident| $value:expr) => {
        $form {
            one: |$a, $b| $value,
            lanes: |a, b, out| {
                for lane in 0..32 {
                    let ($a, $b) = (a[lane], b[lane]);
                    out[lane] = u64::from($value);
                }
            },
        }
    };
    ($form:ident, |$a:ident, $b:ident, $c:ident| $value:expr) => {
        $form {
            one: |$a, $b, $c| $value,
            lanes: |a, b, c, out| {
                for lane in 0..32 {
                    let ($a, $b, $c) = (a[lane], b[lane], c[lane]);
                    out[lane] = $value;
                }
            },
        }
    };
}

pub(super) use forms;
