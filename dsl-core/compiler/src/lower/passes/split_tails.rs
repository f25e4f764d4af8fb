//! How a block checks the tiles that may reach beyond the tensor: not at all, once for each thread, at each access, or in a text of their own.

use super::Source;
use crate::block::{Access, Grid, Index, Kernel, Loop, Op, Stmt, Tail, ValueId, visit};
use crate::plan::anchor::grid_sizes;
use girih_ir::layout::{Digit, Layout, Source as From};
use girih_ir::tile::presence::Presence;
use girih_ir::types::MemoryOrder;

/// Statements of a body that is worth a second text.
const SMALL: usize = 60;

/// Decides the tail of the grid loop. Blocks that meet over the grid meet at the same place of the text.
pub(crate) fn split_tails(page: &mut Kernel, source: &Source) {
    let Some(l) = page.grid_loop() else { return };
    let Some(grid) = &l.grid else { return };
    let tail = if let Some(layout) = guard_layout(page, source, l, grid) {
        Tail::OneIf(layout)
    } else if l.carries.is_empty() && grid.divides {
        Tail::None
    } else if !page.launch.cooperative && both_worthwhile(page, l) {
        Tail::TwoTexts
    } else {
        Tail::Predicates
    };
    for stmt in &mut page.body {
        if let Stmt::Loop(Loop { grid: Some(grid), .. }) = stmt {
            grid.tail = tail.clone();
        }
    }
}

/// The body once more for the tail is worth its text where the body is small and something is gained: vectors or fewer checks.
fn both_worthwhile(page: &Kernel, l: &Loop) -> bool {
    let (mut statements, mut copied) = (0, false);
    visit(&l.body, &mut |stmt| {
        statements += 1;
        copied |= matches!(stmt, Stmt::Window(_, window) if window.tile.read.shared);
    });
    // The copy of a window, or of a dot's operand, checks its bounds in any case.
    statements <= SMALL && !copied && !page.launch.has_dots
}

/// Where each thread owns one run and every access is at the grid's own tile, one `if` around the body does: the layout of that tile. Threads
/// that meet at barriers cannot be guarded so.
fn guard_layout(page: &Kernel, source: &Source, l: &Loop, grid: &Grid) -> Option<Layout> {
    if grid.divides || source.plan.anchor_sizes != grid_sizes(source.kernel) || !l.carries.is_empty() {
        return None;
    }
    let layout = page.teams[0].anchor.clone()?;
    let last = layout.axes.len().checked_sub(1)?;
    let run = layout.run(last);
    let len = page.value(page.view(l.view).axes[l.axes[last]].len).host.as_ref()?;
    if layout.registers != run || page.host_multiple(len) % run != 0 || layout.distinct_threads() != layout.threads {
        return None;
    }
    let straight = |access: &Access| is_straight(page, l, access, &layout);
    let mut pending: Vec<&Stmt> = l.body.iter().collect();
    let mut simple = true;
    while let Some(stmt) = pending.pop() {
        match stmt {
            Stmt::Load(v, access) if page.ty(*v).shape().is_some() => simple &= straight(access),
            Stmt::Window(_, window) if window.tile.read.shared => return None,
            Stmt::Let(_, Op::Transpose(..) | Op::Broadcast(..) | Op::Shuffle { .. } | Op::Vote(..)) => return None,
            Stmt::Combine(_) | Stmt::OverCluster(_) | Stmt::Together(_) | Stmt::Shared { .. } | Stmt::Barrier(_) | Stmt::Copies { .. } => {
                return None;
            }
            Stmt::Meet(_) | Stmt::Alone(_) | Stmt::Finish(_) => return None,
            // Threads that hold the same element, or the same scalar, meet at barriers to exchange an old value.
            Stmt::Atomic { update, order, .. } if update.result.is_some() || *order != MemoryOrder::Relaxed => return None,
            Stmt::Let(..) | Stmt::Load(..) | Stmt::Window(..) | Stmt::Scatter { .. } | Stmt::Atomic { .. } => {}
            Stmt::Store { from: Some(from), .. } if *from != layout => return None,
            Stmt::Store { to, .. } => simple &= straight(to),
            Stmt::Loop(_) => return None,
            Stmt::Range { body, .. } | Stmt::Where { body, .. } => pending.extend(body),
            Stmt::While { header, body, .. } => pending.extend(header.iter().chain(body)),
            Stmt::If { then, otherwise, .. } => pending.extend(then.iter().chain(otherwise)),
        }
    }
    // What belongs to the block is there for threads beyond the end, too.
    let body = &source.kernel.grid_loop()?.body;
    (simple && Presence::of(source.kernel).accesses_end(body, &[])).then_some(layout)
}

/// Whether an access is at the grid's own tile, as its threads own it, and ends where the loop does.
fn is_straight(page: &Kernel, l: &Loop, access: &Access, own: &Layout) -> bool {
    let tiles: Vec<ValueId> = access.index.iter().filter_map(|i| if let Index::Tile(v) = i { Some(*v) } else { None }).collect();
    let host = |v: ValueId| page.value(v).host.is_some();
    let bounded = access.index.iter().zip(&page.view(access.view).axes).all(|(at, axis)| match at {
        Index::Tile(v) => page.lengths.walked[v] == axis.len || host(axis.len) && host(page.lengths.walked[v]),
        Index::At(_) | Index::All(_) => true,
    });
    let in_rows = page.launch.shared_rows && page.whole_rows(access).is_some();
    tiles == l.vars && bounded && same_threads(access, own) && !in_rows
}

/// Whether a tile is dealt to threads as the grid's own tile is, whole axes aside.
fn same_threads(access: &Access, own: &Layout) -> bool {
    let mut layout = access.dealt().clone();
    let axes: Vec<&Index> = access.index.iter().filter(|i| !matches!(i, Index::At(_))).collect();
    for (k, axis) in axes.iter().enumerate().rev() {
        if matches!(axis, Index::All(_)) {
            layout = layout.without(k);
        }
    }
    let threads = |l: &Layout| -> Vec<Vec<Digit>> {
        l.axes.iter().map(|a| a.iter().copied().filter(|d| d.source == From::Thread).collect()).collect()
    };
    threads(&layout) == threads(own)
}
