//! Results of matrix instructions that are stored in 16 bits or less: they go to memory in whole rows, through shared memory.
//!
//! A lane has two neighbours of such a result, one word. Each lane writes its words to shared memory, all meet, and consecutive threads
//! read 16 bytes each of one row after the other: fewer instructions than shuffles of accumulators take (`quads`), and stores that cover
//! whole lines. The tile lies where the loop of the sum had its operands, which nobody reads any more; where those have too little room,
//! in an array of its own, if blocks have the shared memory for it.

use super::context::{Data, Expanded, Expander, Rep};
use super::convert::{Lying, describe_rows, dimensions, flattened};
use crate::block::{ValueId, ViewId};
use girih_ir::layout::{Layout, SharedLayout, SharedUse, wavefronts};
use girih_ir::simt::{Expr, SharedId, Stmt};
use girih_ir::types::DType;

/// How a result goes through shared memory.
struct Passage {
    /// The tile as the matrix instructions left it, and as it is stored, in rows and columns.
    from: Layout,
    to: Layout,
    /// How it lies in between.
    shared: SharedLayout,
    array: SharedId,
    /// Whether the array was that of an operand.
    inherited: bool,
}

impl Expander<'_> {
    /// Brings a tile from where matrix instructions left it into a layout of whole rows, if shared memory has room for that.
    pub fn through_shared(&mut self, view: ViewId, value: ValueId, own: &Layout, to: &Layout) -> Expanded<bool> {
        let dtype = self.kernel.view(view).dtype;
        let tensor = self.kernel.params[self.kernel.view(view).param].name.clone();
        let Some(passage) = self.passage(&tensor, dtype, own, to) else { return Ok(false) };
        let Passage { from: flat, to: rows, shared, array, inherited } = passage;
        let pairs = self.fill_array(value, own, &format!("{tensor}_pairs"), dtype)?;
        let whose = if inherited { ", which nobody reads any more" } else { "" };
        let way = format!("{}{whose}, {}", self.shared[array.0 as usize].name, describe_rows(&shared, rows.shape()[1]));
        self.comment(format!("the {} tile goes to memory in whole rows, by way of {way}", dimensions(&to.shape())));
        let [from, to_rows] = [(&flat, "pair"), (&rows, "run")].map(|(flat, what)| {
            let first = [(0, "row"), (1, "col")].map(|(axis, along)| {
                let position = self.first_of_thread(flat, axis);
                match position {
                    Expr::Literal(_) | Expr::Var(_) => position,
                    position => self.declare_let(&format!("{what}_{along}"), DType::I32, position),
                }
            });
            Lying { id: array, dtype, flat, shared: &shared, first: Some(first) }
        });
        if inherited || self.repeated {
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
        self.shared_vectors(pairs, &from, 2, true);
        self.emit(Stmt::Barrier(self.team_barrier()));
        let out = self.new_var(&format!("{tensor}_out"), dtype, Some(to.registers as u32));
        self.emit(Stmt::Declare { var: out, init: None });
        self.shared_vectors(out, &to_rows, rows.run(1), false);
        let mut rep = self.tile(value).clone();
        rep.elsewhere.push((own.clone(), Data::Array(pairs)));
        (rep.layout, rep.data) = (Some(to.clone()), Data::Array(out));
        self.set(value, Rep::Tile(rep));
        Ok(true)
    }

    /// Where a tile lies on its way from one layout to the other.
    fn passage(&mut self, tensor: &str, dtype: DType, from: &Layout, to: &Layout) -> Option<Passage> {
        let (from, to, bytes) = (flattened(from), flattened(to), dtype.size() as i64);
        let [rows, columns] = to.shape()[..] else { return None };
        let write = SharedUse { layout: &from, width: 2 };
        let read = SharedUse { layout: &to, width: to.run(1) };
        let waves = |shared: &SharedLayout| wavefronts(shared, write, bytes) + wavefronts(shared, read, bytes);
        let best = SharedLayout::choose(rows, columns, bytes, write, read);
        // As good, without padding: it may fit where the best does not.
        let tight = SharedLayout::swizzled(columns, bytes, 16, [8, 1]).filter(|s| waves(s) <= waves(&best));
        for shared in [Some(best), tight].into_iter().flatten() {
            if let Some(array) = self.vacant_shared(dtype, shared.len(rows)) {
                return Some(Passage { from, to, shared, array, inherited: true });
            }
        }
        if !self.has_room(dtype, best.len(rows)) {
            return None;
        }
        let array = self.new_shared(&format!("{tensor}_smem"), dtype, best.len(rows));
        Some(Passage { from, to, shared: best, array, inherited: false })
    }
}
