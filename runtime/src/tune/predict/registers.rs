//! A guess at the registers of a kernel that is not compiled: those of the arrays that are in use at the same time.

use girih_core::model;
use girih_core::simt::visit::{blocks, each_read, inner_blocks, set_by};
use girih_core::simt::{Kernel, Stmt};

/// Registers of a thread that has no arrays.
const LEAST_REGISTERS: u32 = 32;
/// Registers for addresses and counters.
const ADDRESSES: u32 = 24;
/// Bytes of a register.
const REGISTER: u32 = 4;
/// Bytes of traffic that a register costs which there is no room for: it is stored and loaded.
const SPILLED: u32 = 8;

/// What the compiled kernel occupies, about: a thread's arrays, and what addresses and counters take, as far as the launch bounds leave it
/// registers; the rest is spilled, stored and loaded.
pub(super) fn guessed(simt: &Kernel) -> model::Resources {
    let mut changes = vec![false; simt.vars.len()];
    mark_changing(&simt.body, &mut changes);
    let bytes = simt.vars.iter().zip(changes).map(|(v, changes)| v.len.filter(|_| changes).map_or(0, |n| n * v.dtype.size() as u32));
    let arrays = most_at_once(&mut simt.body.clone(), &bytes.collect::<Vec<_>>());
    let wanted = (ADDRESSES + arrays / REGISTER).max(LEAST_REGISTERS);
    let most = model::most_registers(simt.launch.block, simt.launch.min_blocks);
    model::Resources { registers: wanted.min(most), shared: simt.shared_bytes(), spills: SPILLED * wanted.saturating_sub(most) }
}

/// Marks the variables that statements set, declarations aside: what an array is filled with once needs no registers of its own.
fn mark_changing(body: &[Stmt], changes: &mut [bool]) {
    for stmt in body {
        if let Some(var) = set_by(stmt).filter(|_| !matches!(stmt, Stmt::Declare { .. })) {
            changes[var.0 as usize] = true;
        }
        inner_blocks(stmt).into_iter().for_each(|block| mark_changing(block, changes));
    }
}

/// Bytes of the arrays that a block declares, at the place where most of them are still read, and what the statement there has inside.
fn most_at_once(body: &mut [Stmt], bytes: &[u32]) -> u32 {
    let mut last_read = vec![0; bytes.len()];
    for (at, stmt) in body.iter_mut().enumerate() {
        each_read(std::slice::from_mut(stmt), &mut |var| last_read[var.0 as usize] = at);
    }
    let (mut live, mut most) = (vec![0; body.len() + 1], 0);
    for (at, stmt) in body.iter().enumerate() {
        if let Stmt::Declare { var, .. } = stmt {
            let var = var.0 as usize;
            live[at..=last_read[var].max(at)].iter_mut().for_each(|sum| *sum += bytes[var]);
        }
    }
    for (at, stmt) in body.iter_mut().enumerate() {
        let inside = blocks(stmt).into_iter().map(|block| most_at_once(block, bytes)).max().unwrap_or(0);
        most = most.max(live[at] + inside);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use girih_core::simt::{Expr, VarId};
    use girih_core::types::Literal;

    fn declare(var: u32) -> Stmt {
        Stmt::Declare { var: VarId(var), init: None }
    }

    fn reads(var: u32) -> Stmt {
        let element = Expr::Element(VarId(var), Box::new(Expr::Literal(Literal::i32(0))));
        Stmt::If { condition: element, then: vec![], otherwise: vec![] }
    }

    #[test]
    fn arrays_that_follow_each_other_share_registers() {
        let bytes = [100, 40, 30];
        let most = |mut body: Vec<Stmt>| most_at_once(&mut body, &bytes);
        assert_eq!(most(vec![declare(0), reads(0), declare(1), reads(1)]), 100);
        assert_eq!(most(vec![declare(0), declare(1), reads(0), reads(1)]), 140);
        // What is read behind a block is there while it runs, and two ways have one each.
        let condition = Expr::Literal(Literal::bool(true));
        let ways = Stmt::If { condition, then: vec![declare(1), reads(1)], otherwise: vec![declare(2), reads(2)] };
        assert_eq!(most(vec![declare(0), ways.clone(), reads(0)]), 140);
        assert_eq!(most(vec![declare(0), reads(0), ways]), 100);
    }
}
