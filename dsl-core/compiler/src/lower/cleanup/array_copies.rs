//! Arrays of shared memory of which a block has several copies.

use crate::lower::expand::index::Index;
use girih_ir::simt::{Expr, Param, Place, SharedArray, Var, expr_dtype};
use girih_ir::types::DType;

/// Makes so many copies of an array, each aligned as the array is: the bytes from one to the next.
pub(crate) fn in_copies(array: &mut SharedArray, copies: u32) -> i64 {
    let len = array.len.next_multiple_of((array.align / array.dtype.size() as u32).max(1));
    array.len = len * copies;
    i64::from(len) * array.dtype.size() as i64
}

/// Moves an access to the copy of this number (i32) of its array.
pub(crate) fn move_to_copy(place: &mut Place, bytes: i64, copy: &Expr, vars: &[Var], params: &[Param]) {
    let ix = Index { dtype: expr_dtype(&place.index, vars, params) };
    let at = std::mem::replace(&mut place.index, ix.lit(0));
    place.index = ix.add(ix.mul(ix.cast(DType::I32, copy.clone()), ix.lit(bytes / place.dtype.size() as i64)), at);
}
