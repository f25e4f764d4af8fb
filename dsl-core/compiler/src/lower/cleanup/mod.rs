//! What is tidied up in SIMT IR once a kernel is lowered. Nothing here knows a schedule, a plan or tile IR.

pub(crate) mod absent_zeros;
pub(crate) mod array_copies;
pub(crate) mod drop_restrict;
mod fold;
pub(crate) mod known_bounds;
pub(crate) mod known_conditions;
mod lets;
pub(crate) mod narrow;
pub(crate) mod overlay_arrays;
pub(crate) mod remove_barriers;
pub(crate) mod same_conditions;
pub(crate) mod simplify;
