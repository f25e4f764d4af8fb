//! What some threads do for the block: a warp, or one thread, waits for other blocks while the others go on to the one barrier behind it. What
//! it found out goes through shared memory; what it acquired, the barrier passes on.

use super::combine::int;
use super::context::{Data, Expanded, Expander, Rep};
use super::index::compare;
use crate::block::{Alone, Told, ValueId};
use girih_ir::layout::{Layout, Source};
use girih_ir::simt::{Barrier, Expr, Place, SharedId, ShuffleKind, Space, Stmt, VarId};
use girih_ir::types::{CompareOp, Literal};

impl Expander<'_> {
    /// Writes out what some threads do for the block, and how the others come to know of it.
    pub fn run_alone(&mut self, alone: &Alone) -> Expanded<()> {
        let threads = self.kernel.alone[alone.team].threads;
        match alone.told {
            Told::Block => self.tell_block(alone, threads),
            Told::Warp if threads == 1 => self.tell_warp(alone),
            // All lanes know.
            Told::Warp => {
                let (body, given) = self.body_alone(alone)?;
                body.into_iter().for_each(|s| self.emit(s));
                alone.gives.iter().zip(given).for_each(|(v, e)| self.set(*v, Rep::Scalar(e)));
                Ok(())
            }
        }
    }

    /// The first thread leaves what was found out in shared memory, all meet, all read it.
    fn tell_block(&mut self, alone: &Alone, threads: i64) -> Expanded<()> {
        let places: Vec<Place> = alone.gives.iter().map(|v| self.place_of_given(*v)).collect();
        if !places.is_empty() {
            self.await_last_meeting();
        }
        let (mut then, given) = self.body_alone(alone)?;
        let first = (threads > 1).then(|| compare(CompareOp::Eq, self.thread32(), int(0)));
        for (place, value) in places.iter().zip(given) {
            then.push(Stmt::Store { place: place.clone(), value, predicate: first.clone(), cache: Default::default() });
        }
        self.comment(if threads == 1 { "thread 0 waits for the block" } else { "one warp waits for the block" });
        self.emit(Stmt::If { condition: self.runs_alone(threads), then, otherwise: vec![] });
        self.emit(Stmt::Barrier(self.team_barrier()));
        for (value, place) in alone.gives.iter().zip(places) {
            let (name, dtype) = (self.name_of(*value, "found"), place.dtype);
            let read = Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() };
            let e = self.declare_let(&name, dtype, read);
            self.set(*value, Rep::Scalar(e));
        }
        Ok(())
    }

    /// The first lane of the only warp tells the others.
    fn tell_warp(&mut self, alone: &Alone) -> Expanded<()> {
        let vars: Vec<VarId> = alone.gives.iter().map(|v| self.declare_given(*v)).collect();
        let (mut then, given) = self.body_alone(alone)?;
        then.extend(vars.iter().zip(given).map(|(var, value)| Stmt::Assign { var: *var, index: None, value }));
        self.comment("thread 0 waits for the block");
        self.emit(Stmt::If { condition: self.runs_alone(1), then, otherwise: vec![] });
        self.emit(Stmt::Barrier(Barrier::Warp));
        for (value, var) in alone.gives.iter().zip(vars) {
            let e = self.shuffled_from(*value, Expr::Var(var), int(0));
            self.set(*value, Rep::Scalar(e));
        }
        Ok(())
    }

    /// The statements of some threads, and what they give.
    fn body_alone(&mut self, alone: &Alone) -> Expanded<(Vec<Stmt>, Vec<Expr>)> {
        let kernel = self.kernel;
        let (team, values, coordinates) = (self.team, self.values.clone(), std::mem::take(&mut self.coordinates));
        (self.team, self.alone) = (&kernel.alone[alone.team], true);
        self.open();
        self.lower_block(&alone.again)?;
        self.lower_block(&alone.body)?;
        let given = alone.gives.iter().map(|v| self.scalar(*v)).collect();
        let body = self.close();
        (self.team, self.alone) = (team, false);
        (self.values, self.coordinates) = (values, coordinates);
        Ok((body, given))
    }

    /// Whether a thread is among the first ones.
    fn runs_alone(&self, threads: i64) -> Expr {
        let (op, than) = if threads == 1 { (CompareOp::Eq, 0) } else { (CompareOp::Lt, threads) };
        compare(op, self.thread32(), int(than))
    }

    fn place_of_given(&mut self, value: ValueId) -> Place {
        let (dtype, name) = (self.register_type(value), self.name_of(value, "word"));
        let id: SharedId = self.new_shared(&format!("{name}_found"), dtype, 1);
        Place { space: Space::Shared(id), dtype, index: int(0) }
    }

    fn declare_given(&mut self, value: ValueId) -> VarId {
        let (dtype, name) = (self.register_type(value), self.name_of(value, "found"));
        let var = self.new_var(&name, dtype, None);
        self.emit(Stmt::Declare { var, init: Some(Expr::Literal(Literal::from_i64(dtype, 0))) });
        var
    }

    /// What a lane has of a value, in all lanes of the warp.
    fn shuffled_from(&mut self, value: ValueId, e: Expr, lane: Expr) -> Expr {
        let (dtype, name) = (self.register_type(value), self.name_of(value, "found"));
        let found = self.shuffle_as(&name, e, ShuffleKind::Index, lane);
        if matches!(found, Expr::Var(_)) { found } else { self.declare_let(&name, dtype, found) }
    }

    /// Makes what the first of several lanes with the same element has known to all of them.
    pub fn spread_in_warp(&mut self, layout: &Layout, value: ValueId) {
        let digits = layout.axes.iter().flatten().filter(|d| d.source == Source::Thread);
        let ix = super::index::Index { dtype: girih_ir::types::DType::I32 };
        let first = digits.fold(int(0), |sum, d| ix.add(sum, ix.mul(self.thread_part(d.stride, d.extent), int(d.stride))));
        match self.rep(value).clone() {
            Rep::Scalar(e) => {
                let e = self.shuffled_from(value, e, first);
                self.set(value, Rep::Scalar(e));
            }
            Rep::Tile(mut tile) => {
                let Data::One(e) = tile.data else { panic!("alone: a lane has several elements of {value:?} in\n{}", self.kernel) };
                tile.data = Data::One(self.shuffled_from(value, e, first));
                self.set(value, Rep::Tile(tile));
            }
            other => panic!("alone: {value:?} is fetched as {other:?}"),
        }
    }
}
