//! Loads of whole rows through shared memory: all threads read the tile as the one contiguous run that it is in memory, then each
//! thread takes its own rows. Structures of three or five numbers are then read by full vectors of neighbouring threads.

use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::elements::unrolled;
use super::index::{all, compare};
use super::mask::Mask;
use crate::block::{Access, ValueId, ViewId};
use girih_ir::layout::{Layout, Source};
use girih_ir::simt::{Expr, Place, Space, Stmt};
use girih_ir::types::{CompareOp, DType};

/// A tile of whole rows that lies in memory without gaps.
struct Rows {
    /// Tile index of the rows.
    index: ValueId,
    /// Rows of the tile.
    rows: i64,
    /// Elements per row.
    columns: i64,
}

impl Expander<'_> {
    /// Loads a tile of whole rows through shared memory, if the schedule asks for it and the tile is one. Every thread of the block takes
    /// part, so the access must not be guarded as a whole.
    pub fn load_staged(&mut self, value: ValueId, access: &Access) -> Expanded<bool> {
        let Some(rows) = self.whole_rows(access).filter(|_| self.kernel.launch.shared_rows) else { return Ok(false) };
        let mask = self.mask_at(access, self.kernel.value(value).form);
        let view = access.view;
        if !mask.sides.is_empty() {
            return Ok(false);
        }
        let dtype = self.kernel.view(view).dtype;
        let name = self.fragment_name(value, view);
        let elements = rows.rows * rows.columns;
        let smem = self.new_shared(&format!("{name}_smem"), dtype, elements);
        self.comment(format!(
            "read the tile's {elements} elements as one run, then hand out rows of {} through shared memory",
            rows.columns
        ));
        if self.repeated {
            // Some threads may still read what the last turn left there.
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
        let space = Space::Shared(smem);
        self.read_run(view, &rows, &mask, &name, space, self.cut_of(access).width);
        self.emit(Stmt::Barrier(self.team_barrier()));
        let layout = self.layout_at(access);
        let var = self.new_var(&name, dtype, Some(layout.registers as u32));
        self.emit(Stmt::Declare { var, init: None });
        self.take_rows(var, space, dtype, &layout, rows.columns);
        self.set(value, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout), mask, data: Data::Array(var) }));
        Ok(true)
    }

    /// Whether a body loads whole rows through shared memory under this schedule.
    pub fn stages_rows(&self, access: &Access) -> bool {
        self.kernel.launch.shared_rows && self.whole_rows(access).is_some()
    }

    fn whole_rows(&self, access: &Access) -> Option<Rows> {
        let (index, columns) = self.kernel.whole_rows(access)?;
        // A loop that keeps to some positions may begin within a run.
        (!self.walked.contains_key(&index)).then(|| Rows { index, rows: self.kernel.tile_size(index), columns })
    }

    /// All threads copy the tile's run to shared memory, neighbouring threads next to each other, `width` elements at once.
    fn read_run(&mut self, view: ViewId, rows: &Rows, mask: &Mask, name: &str, space: Space, width: i64) {
        let dtype = self.kernel.view(view).dtype;
        let (threads, elements) = (self.team.threads, rows.rows * rows.columns);
        let tile = match self.rep(rows.index) {
            Rep::TileIndex(e) => e.clone(),
            other => panic!("staged: {other:?} is no tile index"),
        };
        let first = self.ix.mul(tile, self.ix.lit(elements));
        let offset = self.index_of(self.kernel.view(view).offset);
        let start = self.ix.add(offset, first.clone());
        let len = self.index_of(mask.bounds[0].len);
        let end = self.ix.mul(len, self.ix.lit(rows.columns));
        let full = !self.is_open(&mask.bounds[0]);
        let steps = (elements + threads * width - 1) / (threads * width);
        let (turn, u) = self.loop_var("u");
        self.open();
        let thread = self.thread32();
        let ix = super::index::Index { dtype: DType::I32 };
        let own = ix.add(ix.mul(u, ix.lit(threads * width)), ix.mul(thread, ix.lit(width)));
        let own = self.declare_let("at", DType::I32, own);
        let wide = self.ix.cast(DType::I32, own.clone());
        let inside = (steps * threads * width != elements).then(|| compare(CompareOp::Lt, own.clone(), ix.lit(elements)));
        let present = (!full).then(|| compare(CompareOp::Lt, self.ix.add(first, wide.clone()), end));
        let place = self.place(view, self.ix.add(start, wide));
        let to = Place { space, dtype, index: own };
        let (cache, store) = (self.kernel.launch.load_cache, Default::default());
        let loaded = all(inside.clone().into_iter().chain(present));
        if width == 1 {
            let load = Expr::Load { place: Box::new(place), predicate: loaded.map(Box::new), cache };
            self.emit(Stmt::Store { place: to, value: load, predicate: inside, cache: store });
        } else {
            let var = self.new_var(&format!("{name}_run"), dtype, Some(width as u32));
            self.emit(Stmt::Declare { var, init: None });
            let lanes = width as u32;
            self.emit(Stmt::LoadVector { var, at: ix.lit(0), place, lanes, predicate: loaded, cache });
            self.emit(Stmt::StoreVector { place: to, var, at: ix.lit(0), lanes, predicate: inside, cache: store });
        }
        let body = self.close();
        self.emit(unrolled(turn, steps, body));
    }

    /// Each thread reads the registers of its own rows: runs of them lie together in shared memory.
    fn take_rows(&mut self, var: girih_ir::simt::VarId, space: Space, dtype: DType, layout: &Layout, columns: i64) {
        let ix = super::index::Index { dtype: DType::I32 };
        let thread = self.thread32();
        let mut row = ix.lit(0);
        for d in layout.axes[0].iter().filter(|d| d.source == Source::Thread) {
            let quotient = ix.div(thread.clone(), d.stride);
            let digit = if d.stride * d.extent == layout.threads { quotient } else { ix.rem(quotient, d.extent) };
            row = ix.add(row, ix.mul(digit, ix.lit(d.place)));
        }
        // Rows that follow each other in registers and memory make one run.
        let digits = layout.register_digits();
        let run = digits.iter().rev().fold(1, |run, (axis, d)| {
            let step = if *axis == 0 { d.place * columns } else { d.place };
            if d.stride == run && step == run { run * d.extent } else { run }
        });
        let mut width = 16 / dtype.size() as i64;
        while width > 1 && run % width != 0 {
            width /= 2;
        }
        let (mut loops, mut flat) = (Vec::new(), ix.lit(0));
        for (_, d) in digits.iter().filter(|(_, d)| d.stride >= run) {
            let (turn, u) = self.loop_var("u");
            row = ix.add(row, ix.mul(u.clone(), ix.lit(d.place)));
            flat = ix.add(flat, ix.mul(u, ix.lit(d.stride)));
            loops.push((turn, d.extent));
            self.open();
        }
        let (turn, v) = self.loop_var("v");
        loops.push((turn, run / width));
        self.open();
        let within = ix.mul(v, ix.lit(width));
        let at = ix.add(flat, within.clone());
        let place = Place { space, dtype, index: ix.add(ix.mul(row, ix.lit(columns)), within) };
        let cache = Default::default();
        self.emit(if width == 1 {
            Stmt::Assign { var, index: Some(at), value: Expr::Load { place: Box::new(place), predicate: None, cache } }
        } else {
            Stmt::LoadVector { var, at, place, lanes: width as u32, predicate: None, cache }
        });
        for (turn, extent) in loops.into_iter().rev() {
            let body = self.close();
            self.emit(unrolled(turn, extent, body));
        }
    }
}
