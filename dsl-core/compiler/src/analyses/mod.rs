//! What is found out about tile IR, before a plan or beside it. Nothing here depends on a schedule.

pub(crate) mod absorbed;
pub(crate) mod barriers;
pub(crate) mod chained;
pub(crate) mod converted;
pub(crate) mod dots;
mod placed_stores;
pub(crate) mod same_block_hazards;
pub(crate) mod tail_liveness;
pub(crate) mod totals;
pub(crate) mod uses;
pub(crate) mod window_groups;
