//! Vector addition whose end is dealt with apart.

use crate::vector_add::vector_add;
use girih::prelude::*;

/// Elements of which all but the last launch have whole tiles.
const TILE: i64 = 1024;

/// A rung's program: whole tiles, then what is left.
#[program]
pub fn solve(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, c: &mut Tensor<f32, 1>) {
    let whole = c.len(0) / TILE * TILE;
    let rest = c.len(0) - whole;
    if whole > 0 {
        vector_add(&a.slice(0, 0, whole), &b.slice(0, 0, whole), &mut c.slice(0, 0, whole));
    }
    if rest > 0 {
        vector_add(&a.slice(0, whole, rest), &b.slice(0, whole, rest), &mut c.slice(0, whole, rest));
    }
}
