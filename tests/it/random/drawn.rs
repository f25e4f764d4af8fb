//! Which choices of the knobs that say how a loop is run came to a loop that adds up a dot and does something else in the same turn.

use girih_core::schedule::{Choice, KnobKind, Schedule};
use girih_core::tile::access::visit;
use girih_core::tile::{Kernel, Op, Stmt, TileLoop, Ty};
use girih_core::types::UnaryOp;

/// The choices of which none came, as `name = choice`, where each of the kernels, which have the same knobs, was launched under some schedules.
pub fn missing(kernels: &[Kernel], schedules: &[Vec<Schedule>]) -> Vec<String> {
    let bodies = kernels.iter().zip(schedules).filter(|(kernel, _)| dots_have_company(kernel));
    let came: Vec<&Schedule> = bodies.flat_map(|(_, schedules)| schedules).collect();
    let knobs = kernels.first().map_or(&[][..], |kernel| &kernel.knobs).iter().enumerate().filter(|(_, k)| runs_loops(k.kind));
    let of = |k: usize, choice: &&Choice| !came.iter().any(|s| s.choices[k] == **choice);
    knobs.flat_map(|(k, knob)| knob.choices.iter().filter(move |c| of(k, c)).map(|c| format!("{} = {c}", knob.name))).collect()
}

fn runs_loops(kind: KnobKind) -> bool {
    matches!(kind, KnobKind::Operands | KnobKind::Unit | KnobKind::Copy | KnobKind::Split | KnobKind::Slices)
}

/// Whether a loop within a tile of the grid has a dot and another statement.
pub fn dots_have_company(kernel: &Kernel) -> bool {
    let grid = kernel.grid_loop().unwrap_or_else(|| panic!("{} has a loop over the grid", kernel.name));
    let mut found = false;
    visit(&grid.body, &mut |stmt| found |= matches!(stmt, Stmt::Tiles(l) if has_company(kernel, l)));
    found
}

fn has_company(kernel: &Kernel, l: &TileLoop) -> bool {
    let (mut dot, mut company) = (false, false);
    visit(&l.body, &mut |stmt| match stmt {
        Stmt::Let(_, Op::Dot { .. }) => dot = true,
        // It belongs to the operand.
        Stmt::Let(_, Op::Unary(UnaryOp::RoundTf32, _)) => {}
        Stmt::Let(v, Op::Unary(..) | Op::Binary(..) | Op::Ternary(..) | Op::Select(..)) => {
            company |= matches!(kernel.ty(*v), Ty::Tile(..));
        }
        Stmt::Combine(_) | Stmt::Atomic { .. } => company = true,
        _ => {}
    });
    dot && company
}
