//! Access classes: why no two blocks of a launch write the same element, and what a launch must promise for it.
//!
//! - *Disjoint*, [`Class::Disjoint`]: at the grid's own coordinates, in the loop's order; or behind a combination over the grid, where one
//!   block runs alone.
//! - *Permuted*, [`Class::Permuted`]: at the grid's coordinates in another order, or through a reversed or permuted view: still one block per element.
//! - *Atomic*, [`Class::Atomic`]: read-modify-write.
//! - *Scattered*, [`Class::Scattered`]: at computed positions, or at a tile that the block has drawn; the author asserts that they differ, the simulator checks it.
//!
//! Anything else is rejected: a store that leaves out a grid coordinate (blocks overwrite each other), and a tensor that is loaded at
//! other coordinates than those it is stored at (a block reads what another may have overwritten).

pub use super::axes::{
    bounded_axes, constant_params, dim_classes, dim_constants, loop_lengths, loop_spans, shape_requirements, tile_size, walked_tiles,
};
use super::host::HostExpr;
use super::meetings::Phases;
pub use super::visit::{blocks, index_values, operands, operations, visit};
use super::{Combine, Form, Index, Kernel, Op, Stmt, TileLoop, ValueId, View, ViewId};
use crate::error::Diagnostic;
use crate::loc::SourceLoc;
use crate::schedule::Choice;
use crate::types::BinaryOp;

/// Why a store is safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Own coordinates.
    Disjoint,
    /// Own coordinates, exchanged or mirrored.
    Permuted,
    /// Read-modify-write.
    Atomic,
    /// Asserted by the author.
    Scattered,
}

/// A store and its class.
#[derive(Clone, Debug)]
pub struct ClassifiedStore {
    /// The tensor parameter.
    pub param: usize,
    /// Its class.
    pub class: Class,
    /// The author's line.
    pub loc: SourceLoc,
}

#[derive(Clone)]
enum At {
    Tiles(Vec<Index>),
    Computed,
}

#[derive(Clone)]
struct Access {
    view: ViewId,
    at: At,
    loc: SourceLoc,
    place: Place,
    /// The statement.
    by: *const Stmt,
    /// It is that of a window.
    window: bool,
}

/// Who runs a statement.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Every block, once per turn of the grid loop.
    Grid,
    /// Every block, once.
    Outside,
    /// The last block, behind a combination over the grid.
    Last,
}

#[derive(Default)]
struct Accesses {
    loads: Vec<Access>,
    stores: Vec<Access>,
    scatters: Vec<Access>,
    atomics: Vec<Access>,
}

/// Classifies every store, or says what is wrong with it.
pub fn classify(kernel: &Kernel) -> Result<Vec<ClassifiedStore>, Vec<Diagnostic>> {
    let mut all = Accesses::default();
    let last = kernel.body.iter().position(|s| matches!(s, Stmt::Combine(Combine { form: Form::Grid, .. })));
    let (every, last) = kernel.body.split_at(last.unwrap_or(kernel.body.len()));
    collect(kernel, every, Place::Outside, &mut all);
    collect(kernel, last, Place::Last, &mut all);
    let grid = kernel.grid_loop();
    let mut errors = Vec::new();
    let mut classes = Vec::new();
    for store in &all.stores {
        match class_of_store(kernel, grid, store) {
            Ok(class) => classes.push(ClassifiedStore { param: kernel.view(store.view).param, class, loc: store.loc }),
            Err(d) => errors.push(d),
        }
    }
    for (list, class) in [(&all.scatters, Class::Scattered), (&all.atomics, Class::Atomic)] {
        classes.extend(list.iter().map(|a| ClassifiedStore { param: kernel.view(a.view).param, class, loc: a.loc }));
    }
    check_in_place(kernel, &all, &mut errors);
    super::shared::check(kernel, &mut errors);
    if errors.is_empty() {
        return Ok(classes);
    }
    // An unrolled loop makes the same mistake in each turn.
    let mut told: Vec<Diagnostic> = Vec::new();
    errors.retain(|error| {
        let new = !told.contains(error);
        told.extend(new.then(|| error.clone()));
        new
    });
    Err(errors.into_iter().map(|e| e.with_source(&kernel.source, kernel.loc)).collect())
}

fn class_of_store(kernel: &Kernel, grid: Option<&TileLoop>, store: &Access) -> Result<Class, Diagnostic> {
    let view = kernel.view(store.view);
    let Some(grid) = grid else { return Ok(Class::Disjoint) };
    if store.place == Place::Outside {
        let message = format!("store to `{}` outside of the grid loop: every block would do it", view.text);
        let help = "move it into the loop, use an atomic, or combine what the blocks have first (`.sum_grid()`): what follows runs once";
        return Err(Diagnostic::new(store.loc, message).help(help));
    }
    if !view.injective {
        let message = format!("store to `{}`: different indices of this view reach the same element", view.text);
        return Err(Diagnostic::new(store.loc, message).help("store through a view without repeated or overlapping elements"));
    }
    if store.place == Place::Last {
        return Ok(Class::Disjoint);
    }
    let At::Tiles(index) = &store.at else { panic!("access: a plain store at computed positions") };
    let used: Vec<ValueId> = index
        .iter()
        .filter_map(|i| match i {
            Index::Tile(v) => Some(*v),
            Index::At(v) => number_of_single(kernel, *v),
            Index::All(_) => None,
        })
        .collect();
    if used.iter().any(|var| is_drawn(kernel, *var)) {
        return Ok(Class::Scattered);
    }
    for var in &grid.vars {
        if used.iter().filter(|v| *v == var).count() != 1 {
            let name = kernel.value(*var).name.clone().unwrap_or_else(|| "_".into());
            let message =
                format!("store to `{}` leaves out the grid's tile index `{name}`: several blocks would write the same elements", view.text);
            return Err(Diagnostic::new(store.loc, message)
                .help("index the store with every tile index of the grid loop, or use an atomic or a scatter"));
        }
    }
    let own: Vec<ValueId> = used.into_iter().filter(|v| grid.vars.contains(v)).collect();
    let straight = own == grid.vars && goes_straight(kernel, view);
    Ok(if straight { Class::Disjoint } else { Class::Permuted })
}

/// Whether a tile index is that of a tile which a block has drawn.
fn is_drawn(kernel: &Kernel, var: ValueId) -> bool {
    loop_spans(kernel).get(&var).is_some_and(|span| span.drawn)
}

/// The tile index whose number a coordinate is, where its tiles have one element: then it is that element's coordinate.
fn number_of_single(kernel: &Kernel, value: ValueId) -> Option<ValueId> {
    let mut found = None;
    visit(&kernel.body, &mut |s| {
        if let Stmt::Let(v, Op::Number(index)) = s
            && *v == value
        {
            found = Some(*index);
        }
    });
    let size = tile_size(kernel, found?);
    let one = size.is_pinned(&kernel.knobs)
        && size.value(|k| match &kernel.knob(k).choices[0] {
            Choice::Int(n) => *n,
            Choice::Word(_) => 0,
        }) == 1;
    if one { found } else { None }
}

/// Whether a view has its tensor's axes in their order, each from front to back.
fn goes_straight(kernel: &Kernel, view: &View) -> bool {
    let strides: Vec<HostExpr> = view.axes.iter().filter_map(|a| HostExpr::of_value(kernel, a.stride)).collect();
    let negative = |e: &HostExpr| matches!(e, HostExpr::Const(c) if *c < 0);
    let backwards = |e: &HostExpr| negative(e) || matches!(e, HostExpr::Binary(BinaryOp::Mul, _, by) if negative(by));
    let axis = |e: &HostExpr| if let HostExpr::Stride(_, k) = e { Some(*k) } else { None };
    !strides.iter().any(backwards) && strides.iter().filter_map(axis).is_sorted()
}

fn literal(kernel: &Kernel, value: ValueId) -> Option<i64> {
    match HostExpr::of_value(kernel, value) {
        Some(HostExpr::Const(c)) => Some(c),
        _ => None,
    }
}

/// A tensor that is written may be read only where the same element is the block's own, or in a part that is never written.
fn check_in_place(kernel: &Kernel, all: &Accesses, errors: &mut Vec<Diagnostic>) {
    let tensor = |a: &Access| kernel.view(a.view).param;
    let one_block = kernel.grid_loop().is_none();
    let phases = Phases::of(kernel);
    let writes: Vec<&Access> = all.stores.iter().chain(&all.scatters).chain(&all.atomics).collect();
    for (i, write) in writes.iter().enumerate() {
        for load in all.loads.iter().filter(|l| tensor(l) == tensor(write)) {
            // What a window has may be read at any time until its last use.
            let in_order = !load.window && !phases.at_once(load.by, write.by);
            let apart = in_order || disjoint(kernel, load.view, write.view) || one_block && differ(kernel, load, write);
            if !apart && !same_place(kernel, load, write) && !own_part(kernel, load, write) {
                let (from, to) = (&kernel.view(load.view).text, &kernel.view(write.view).text);
                let (who, help) = if one_block {
                    (
                        "thread of the block",
                        "keep what the block reads again in a `shared` array, or load and store at constant coordinates that differ",
                    )
                } else {
                    (
                        "block",
                        "load and store the same tensor at the same coordinates, or split it (`split_at`; even from odd elements by \
                         `chunked(axis, 2).split_at(axis + 1, 1)`) into parts of which each block owns its own",
                    )
                };
                let message = format!("`{from}` is loaded where another {who} may already have stored to `{to}`");
                errors.push(Diagnostic::new(load.loc, message).note("stored here", write.loc).help(help));
            }
        }
        for other in writes[i + 1..].iter().filter(|o| tensor(o) == tensor(write)) {
            let among = |some: &[Access]| some.iter().any(|a| a.loc == write.loc) && some.iter().any(|a| a.loc == other.loc);
            // The author asserts of scatters that nothing meets, of several to one tensor too.
            let asserted = among(&all.atomics) || among(&all.scatters);
            let alone = one_block || write.place == Place::Last && other.place == Place::Last;
            let ordered = !phases.at_once(write.by, other.by) || alone && one_after_the_other(kernel, write, other);
            let apart = disjoint(kernel, other.view, write.view) || own_part(kernel, other, write);
            if !apart && !same_place(kernel, other, write) && !asserted && !ordered {
                let name = &kernel.params[tensor(write)].name;
                let message = match one_block {
                    true => format!("`{name}` is stored at two places that may meet, by different threads of the block"),
                    false => format!("`{name}` is stored at two places that may meet in different blocks"),
                };
                let help = "store through two sides of one `split_at` (`chunked(axis, 2).split_at(axis + 1, 1)` parts even elements from odd ones), \
                            or `scatter` both, which asserts that no two elements meet";
                errors.push(Diagnostic::new(other.loc, message).note("the other store", write.loc).help(help));
            }
        }
    }
}

/// Whether two views are different sides of a split.
pub fn disjoint(kernel: &Kernel, a: ViewId, b: ViewId) -> bool {
    let (a, b) = (kernel.view(a), kernel.view(b));
    a.parts.iter().any(|(split, side)| b.parts.iter().any(|(s, o)| s == split && o != side))
}

fn same_place(kernel: &Kernel, a: &Access, b: &Access) -> bool {
    let (At::Tiles(x), At::Tiles(y)) = (&a.at, &b.at) else { return false };
    let (v, w) = (kernel.view(a.view), kernel.view(b.view));
    a.view == b.view && x == y || x == y && v.dtype == w.dtype && v.axes == w.axes && v.offset == w.offset
}

/// Both are in the part of one view that the block's own grid coordinates cut out, wherever they are inside of it.
fn own_part(kernel: &Kernel, a: &Access, b: &Access) -> bool {
    let (At::Tiles(x), At::Tiles(y)) = (&a.at, &b.at) else { return false };
    let (v, w) = (kernel.view(a.view), kernel.view(b.view));
    let same_view = a.view == b.view || v.dtype == w.dtype && v.axes == w.axes && v.offset == w.offset;
    let in_turn = a.place == Place::Grid && b.place == Place::Grid;
    let cut = |var: &ValueId| x.iter().zip(y).any(|(i, j)| *i == Index::Tile(*var) && i == j);
    same_view && v.injective && in_turn && kernel.grid_loop().is_some_and(|l| l.vars.iter().all(cut))
}

/// In one block, stores of single elements are one thread's, in order; others must go to different constant coordinates.
fn one_after_the_other(kernel: &Kernel, a: &Access, b: &Access) -> bool {
    let (At::Tiles(x), At::Tiles(y)) = (&a.at, &b.at) else { return false };
    let single = |index: &[Index]| index.iter().all(|i| matches!(i, Index::At(_)));
    single(x) && single(y) || differ(kernel, a, b)
}

/// At constant coordinates of one view that are not the same.
fn differ(kernel: &Kernel, a: &Access, b: &Access) -> bool {
    let (At::Tiles(x), At::Tiles(y)) = (&a.at, &b.at) else { return false };
    a.view == b.view && x.iter().zip(y).any(|pair| differ_at(kernel, pair))
}

/// Whether both indices are constants, and not the same.
pub fn differ_at(kernel: &Kernel, (a, b): (&Index, &Index)) -> bool {
    let constant = |i: &Index| if let Index::At(v) = i { literal(kernel, *v) } else { None };
    constant(a).zip(constant(b)).is_some_and(|(a, b)| a != b)
}

fn collect(kernel: &Kernel, block: &[Stmt], place: Place, all: &mut Accesses) {
    for stmt in block {
        let (by, window) = (std::ptr::from_ref(stmt), matches!(stmt, Stmt::Let(_, Op::Window { .. })));
        match stmt {
            Stmt::Let(v, op) => {
                let loc = kernel.value(*v).loc;
                match op {
                    Op::Load(view, index) => all.loads.push(Access { view: *view, at: At::Tiles(index.clone()), loc, place, by, window }),
                    Op::Gather(view, _) | Op::GatherInside(view, _) | Op::Window { view, .. } => {
                        all.loads.push(Access { view: *view, at: At::Computed, loc, place, by, window })
                    }
                    _ => {}
                }
            }
            Stmt::Store { view, index, loc, .. } => {
                all.stores.push(Access { view: *view, at: At::Tiles(index.clone()), loc: *loc, place, by, window })
            }
            Stmt::Shared(access) => {
                all.loads.extend(access.kind.view().map(|view| Access { view, at: At::Computed, loc: access.loc, place, by, window }));
            }
            Stmt::Combine(_) | Stmt::Barrier { .. } | Stmt::Copies { .. } => {}
            Stmt::Scatter { view, loc, .. } => all.scatters.push(Access { view: *view, at: At::Computed, loc: *loc, place, by, window }),
            Stmt::Atomic { view, loc, .. } => all.atomics.push(Access { view: *view, at: At::Computed, loc: *loc, place, by, window }),
            Stmt::Tiles(l) => collect(kernel, &l.body, if place == Place::Outside { Place::Grid } else { place }, all),
            Stmt::Range { body, .. } | Stmt::Where { body, .. } => collect(kernel, body, place, all),
            Stmt::While { header, body, .. } => {
                collect(kernel, header, place, all);
                collect(kernel, body, place, all);
            }
            Stmt::If { then, otherwise, .. } => {
                collect(kernel, then, place, all);
                collect(kernel, otherwise, place, all);
            }
        }
    }
}
