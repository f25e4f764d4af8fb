//! Which tile is the anchor, whose elements the schedule deals to the threads of a block (see [`crate::block::layouts`]).

use girih_ir::schedule::{Choice, KnobKind};
use girih_ir::tile::{Carry, Kernel, Op, Size, Stmt};

/// A tile of a constant extent up to this lies in the registers of each thread.
const REGISTER_AXIS: i64 = 64;

/// Extents of the grid loop's tile; none without a grid loop.
pub(crate) fn grid_sizes(kernel: &Kernel) -> Vec<Size> {
    let vars = kernel.grid_loop().map(|l| l.vars.as_slice()).unwrap_or_default();
    vars.iter().map(|v| girih_ir::tile::access::tile_size(kernel, *v).clone()).collect()
}

/// Extents of the anchor: of the grid's tile, the carried and the loaded ones (in this order) the first with the most axes that are
/// coarsened, then with the most axes. Where that is less than a warp could share out, of all tiles.
pub(crate) fn sizes(kernel: &Kernel) -> Vec<Size> {
    let grid = grid_sizes(kernel);
    let dealt = |shape: &[Size]| -> Vec<Size> { shape.iter().filter(|s| !lies_in_registers(s) || grid.contains(s)).cloned().collect() };
    let (mut carried, mut loaded) = (Vec::new(), Vec::new());
    girih_ir::tile::access::visit(&kernel.body, &mut |stmt| {
        let carries: &[Carry] = match stmt {
            Stmt::Tiles(l) => &l.carries,
            Stmt::Range { carries, .. } | Stmt::While { carries, .. } => carries,
            Stmt::Let(v, Op::Load(..)) => {
                loaded.extend(kernel.ty(*v).shape().map(dealt));
                &[]
            }
            _ => &[],
        };
        carried.extend(carries.iter().filter_map(|c| kernel.ty(c.init).shape().map(dealt)));
    });
    let coarsened = |s: &Size| kernel.knobs.iter().any(|k| matches!(k.kind, KnobKind::Coarsen { of } if s.as_knob() == Some(of)));
    let score = |shape: &Vec<Size>| (shape.iter().filter(|s| coarsened(s)).count(), shape.len());
    let mut best = grid.clone();
    for shape in carried.into_iter().chain(loaded) {
        if score(&shape) > score(&best) {
            best = shape;
        }
    }
    if has_few(kernel, &best) {
        // Few elements to a block: whatever tile there is gives its threads something to do.
        let all = kernel.values.iter().filter_map(|v| v.ty.shape()).map(dealt);
        let several = all.filter(|shape| !has_few(kernel, shape));
        best = several.reduce(|best, shape| if score(&shape) > score(&best) { shape } else { best }).unwrap_or(best);
    }
    best
}

/// A short axis of a constant extent, which every thread keeps in registers.
pub(crate) fn lies_in_registers(size: &Size) -> bool {
    size.as_constant().is_some_and(|n| n <= REGISTER_AXIS)
}

/// A tile that has fewer elements than a warp has lanes, under every schedule.
fn has_few(kernel: &Kernel, shape: &[Size]) -> bool {
    let largest = |id| {
        let numbers = kernel.knob(id).choices.iter().filter_map(|c| if let Choice::Int(n) = c { Some(*n) } else { None });
        numbers.max().unwrap_or(0)
    };
    shape.iter().map(|size| size.value(largest)).product::<i64>() < 32
}
