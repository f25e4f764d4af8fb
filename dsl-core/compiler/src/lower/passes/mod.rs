//! The passes that make block IR of tile IR, and decide what `expand` then writes out. None knows another.

mod assign_layouts;
mod assign_widths;
mod defer_lanes;
mod drop_unread;
mod feed_dots;
mod fit_rows;
mod hoist_operands;
mod join_tails;
mod lower_tiles;
mod place_barriers;
mod record_presence;
mod share_meetings;
mod split_tails;
mod wait_alone;

pub(crate) use assign_layouts::assign_layouts;
pub(crate) use assign_widths::assign_widths;
pub(crate) use defer_lanes::defer_lanes;
pub(crate) use drop_unread::drop_unread;
pub(crate) use feed_dots::feed_dots;
pub(crate) use fit_rows::fit;
pub(crate) use hoist_operands::hoist_operands;
pub(crate) use join_tails::join_tails;
pub(crate) use lower_tiles::lower_tiles;
pub(crate) use place_barriers::place_barriers;
pub(crate) use record_presence::record_presence;
pub(crate) use share_meetings::share_meetings;
pub(crate) use split_tails::split_tails;
pub(crate) use wait_alone::wait_alone;

use crate::plan::Plan;
use girih_ir::facts::Facts;
use girih_ir::tile;

/// What a page is made of.
pub(crate) struct Source<'a> {
    pub kernel: &'a tile::Kernel,
    pub facts: &'a Facts,
    pub plan: &'a Plan,
    /// The plan of the whole block, where slices share a sum before.
    pub whole: &'a Plan,
}
