//! Reads of windows. All reads of one block whose offsets differ by constants are made together: a thread reads the rectangle of elements
//! that it needs once, in wide accesses, and every moved tile is a part of these registers. A run of `C` elements that is read at `K`
//! neighbouring offsets takes `C + K - 1` reads.

mod rectangle;

use crate::block::Group;
use rectangle::Rectangle;

use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::elements::unrolled;
use super::index::Index;
use super::mask::Mask;
use super::window::{Outside, WindowCopy, WindowRep};
use crate::block::{Boundary, Ty, ValueId};
use crate::lower::refusal::Refusal;
use girih_ir::simt::{Expr, Place, Space, Stmt, VarId};
use girih_ir::types::DType;

/// Index arithmetic in registers and shared memory.
const LOCAL: Index = Index { dtype: DType::I32 };

/// A position along an axis, counted from the thread's first element: an expression and the least and largest value that it has.
#[derive(Clone)]
struct Reached {
    at: Expr,
    least: i64,
    most: i64,
}

/// Where a group's elements come from.
enum Origin {
    /// Shared memory: the part of the address that all of a thread's reads have, and the part along the fast axis that is not constant.
    Copy { base: Expr, along: Option<Expr> },
    /// Global memory: the coordinates of the thread's first element.
    Global(Vec<Expr>),
}

impl Expander<'_> {
    /// Lowers a read of a window: the first of a group makes them all.
    pub fn near(&mut self, value: ValueId) -> Expanded<()> {
        if self.values.get(value).is_none() {
            let group = self.kernel.window_groups.groups[self.kernel.window_groups.of[&value]].clone();
            self.read_group(&group)?;
        }
        let sides = self.sides_of(self.kernel.value(value).form);
        if let Some(Rep::Tile(rep)) = self.values.entry(value) {
            rep.mask.sides.clear();
            rep.mask.and(&sides);
        }
        Ok(())
    }

    fn read_group(&mut self, group: &Group) -> Expanded<()> {
        let Rep::Window(window) = self.rep(group.window).clone() else { panic!("near: {:?} is no window", group.window) };
        self.check_reach(group, &window)?;
        let origin = self.origin(group, &window);
        let rectangle = self.rectangle(group, &window, &origin);
        let dtype = self.kernel.view(window.view).dtype;
        let name = format!("{}_{}", self.name_of(group.window, "window"), if group.scalar { "element" } else { "near" });
        if rectangle.registers == 1 {
            let at: Vec<Reached> = rectangle.axes.iter().map(|a| Reached { at: LOCAL.lit(a.0), least: a.0, most: a.0 }).collect();
            let (place, predicate) = self.near_place(group, &window, &rectangle, &origin, &at);
            let cache = if matches!(place.space, Space::Global(_)) { self.kernel.launch.load_cache } else { Default::default() };
            let e = Expr::Load { place: Box::new(place), predicate: predicate.map(Box::new), cache };
            let e = self.load_register(Some(dtype), e);
            let e = self.declare_let(&name, dtype.compute(), e);
            group.members.iter().for_each(|(v, _)| self.set_near(group, &window, *v, Data::One(e.clone())));
            return Ok(());
        }
        let var = self.new_var(&name, dtype, Some(rectangle.registers as u32));
        self.emit(Stmt::Declare { var, init: None });
        self.read_rectangle(group, &window, &rectangle, &origin, var);
        for (value, offsets) in &group.members {
            let within: i64 = offsets.iter().zip(&rectangle.axes).map(|(o, (low, _, step))| (o - low) * step).sum();
            let at = rectangle.lead + within;
            let data = if group.scalar || window.layout.registers == 1 {
                Data::One(self.register(var, LOCAL.lit(at)))
            } else {
                Data::Moved { var, at, digits: rectangle.digits(&window) }
            };
            self.set_near(group, &window, *value, data);
        }
        Ok(())
    }

    fn set_near(&mut self, group: &Group, window: &WindowRep, value: ValueId, data: Data) {
        let rep = match (group.scalar, data) {
            (true, Data::One(e)) => Rep::Scalar(e),
            (_, data) => {
                let bound = |(axis, index): (usize, &ValueId)| super::mask::Bound { axis, index: *index, len: self.length(*index) };
                let bounds = window.index.iter().enumerate().map(bound).collect();
                Rep::Tile(TileRep { elsewhere: vec![], layout: Some(window.layout.clone()), mask: Mask { bounds, sides: vec![] }, data })
            }
        };
        self.set(value, rep);
    }

    /// Constant offsets lie in the halo that this schedule gives.
    fn check_reach(&self, group: &Group, window: &WindowRep) -> Expanded<()> {
        let Ty::Window(_, reach) = self.kernel.ty(group.window) else { panic!("near: {:?} is no window", group.window) };
        for (value, offsets) in &group.members {
            for (k, offset) in offsets.iter().enumerate().filter(|(k, _)| group.bases[*k].is_none()) {
                let (before, after) = window.halo[k];
                let last = after + if group.scalar { reach[k].size - 1 } else { 0 };
                if (-before..=last).contains(offset) {
                    continue;
                }
                let (offset, window) = (*offset, group.window);
                return Err(Refusal::Reach { window, read: *value, axis: k, offset, before, last });
            }
        }
        Ok(())
    }

    fn origin(&mut self, group: &Group, window: &WindowRep) -> Origin {
        let bases: Vec<Option<Expr>> = group.bases.iter().map(|b| b.map(|b| self.index_of(b))).collect();
        if let Some(copy) = &window.copy {
            let own = if group.scalar { LOCAL.lit(0) } else { self.copy_part(copy, &window.layout) };
            let mut base = LOCAL.add(copy.first.clone(), own);
            for (k, b) in bases.iter().enumerate().filter(|(k, _)| *k != copy.fast) {
                if let Some(b) = b {
                    let b = LOCAL.cast(self.ix.dtype, b.clone());
                    base = LOCAL.add(base, LOCAL.mul(b, LOCAL.lit(copy.axes[k].pitch)));
                }
            }
            let base = if matches!(base, Expr::Literal(_)) { base } else { self.declare_let("from", DType::I32, base) };
            let along = bases[copy.fast].clone().map(|b| LOCAL.cast(self.ix.dtype, b));
            return Origin::Copy { base, along };
        }
        let mut first = Vec::new();
        for (k, base) in bases.into_iter().enumerate() {
            let mut at =
                if group.scalar { self.tile_start(window.index[k]) } else { self.base_coordinate(window.index[k], &window.layout, k) };
            for part in window.shift[k].by.iter().chain(&base) {
                at = self.ix.add(at, part.clone());
            }
            first.push(at);
        }
        Origin::Global(first)
    }

    /// Reads all rows of a rectangle: in a loop where they are alike, else one by one.
    fn read_rectangle(&mut self, group: &Group, window: &WindowRep, r: &Rectangle, origin: &Origin, var: VarId) {
        let mut loops = Vec::new();
        let mut register = LOCAL.lit(0);
        let rank = r.axes.len();
        let mut moved = vec![(LOCAL.lit(0), 0); rank];
        for (axis, place, extent, step) in &r.outer {
            let (v, e) = self.loop_var("u");
            register = LOCAL.add(register, LOCAL.mul(e.clone(), LOCAL.lit(*step)));
            moved[*axis] = (LOCAL.add(moved[*axis].0.clone(), LOCAL.mul(e, LOCAL.lit(*place))), moved[*axis].1 + place * (extent - 1));
            loops.push((v, *extent));
            self.open();
        }
        let rows = r.rows(group);
        let all: i64 = (0..rank).filter(|k| *k != r.fast).map(|k| r.axes[k].1 - r.axes[k].0).product();
        let alike = rows.len() as i64 == all && rows.values().all(|range| *range == (r.axes[r.fast].0, r.axes[r.fast].1));
        if alike && rows.len() > 1 {
            let mut at = vec![Reached { at: LOCAL.lit(0), least: 0, most: 0 }; rank];
            for k in (0..rank).filter(|k| *k != r.fast) {
                let (low, high, step) = r.axes[k];
                let (v, e) = self.loop_var("r");
                register = LOCAL.add(register, LOCAL.mul(e.clone(), LOCAL.lit(step)));
                at[k] = Reached { at: LOCAL.add(e, LOCAL.lit(low)), least: low, most: high - 1 };
                loops.push((v, high - low));
                self.open();
            }
            self.read_row(group, window, r, origin, var, (&at, &moved), register, (r.axes[r.fast].0, r.axes[r.fast].1));
        } else {
            for (row, range) in rows {
                let mut at = vec![Reached { at: LOCAL.lit(0), least: 0, most: 0 }; rank];
                let mut first = register.clone();
                for (k, c) in (0..rank).filter(|k| *k != r.fast).zip(row) {
                    first = LOCAL.add(first, LOCAL.lit((c - r.axes[k].0) * r.axes[k].2));
                    at[k] = Reached { at: LOCAL.lit(c), least: c, most: c };
                }
                self.read_row(group, window, r, origin, var, (&at, &moved), first, range);
            }
        }
        for (v, extent) in loops.into_iter().rev() {
            let turn = self.close();
            self.emit(unrolled(v, extent, turn));
        }
    }

    /// Reads the elements `range` of a row into registers from `register` on.
    #[expect(clippy::too_many_arguments, reason = "one place in a loop nest, described by all of it")]
    fn read_row(
        &mut self,
        group: &Group,
        window: &WindowRep,
        r: &Rectangle,
        origin: &Origin,
        var: VarId,
        (row, moved): (&[Reached], &[(Expr, i64)]),
        register: Expr,
        range: (i64, i64),
    ) {
        for (low, count, width) in self.segments(group, window, r, range) {
            let (v, e) = self.loop_var("v");
            self.open();
            let along = LOCAL.add(LOCAL.mul(e, LOCAL.lit(width)), LOCAL.lit(low));
            let mut at = row.to_vec();
            at[r.fast] = Reached { at: along.clone(), least: low, most: low + count * width - 1 };
            for (a, (by, most)) in at.iter_mut().zip(moved) {
                *a = Reached { at: LOCAL.add(by.clone(), a.at.clone()), least: a.least, most: a.most + most };
            }
            let (place, predicate) = self.near_place(group, window, r, origin, &at);
            let index = LOCAL.add(register.clone(), LOCAL.sub(along, LOCAL.lit(r.axes[r.fast].0 - r.lead)));
            let cache = if matches!(place.space, Space::Global(_)) { self.kernel.launch.load_cache } else { Default::default() };
            self.emit(if width == 1 {
                let value = Expr::Load { place: Box::new(place), predicate: predicate.map(Box::new), cache };
                Stmt::Assign { var, index: Some(index), value }
            } else {
                Stmt::LoadVector { var, at: index, place, lanes: width as u32, predicate, cache }
            });
            let turn = self.close();
            self.emit(unrolled(v, count, turn));
        }
    }

    /// A row cut into accesses: first offset, number of accesses, elements of each.
    fn segments(&mut self, group: &Group, window: &WindowRep, r: &Rectangle, (low, high): (i64, i64)) -> Vec<(i64, i64, i64)> {
        let mut found: Vec<(i64, i64, i64)> = Vec::new();
        let mut at = low;
        while at < high {
            let reached = Reached { at: LOCAL.lit(at), least: at, most: at + r.width - 1 };
            // Elements that may be outside are clamped one by one.
            let clamps = window.copy.is_none()
                && window.boundary == Boundary::Clamp
                && (at < 0 || !self.surely_before_end(group, window, r, r.fast, &reached));
            let fits = at.rem_euclid(r.width) == 0 && at + r.width <= high && !clamps;
            let width = if fits { r.width } else { 1 };
            match found.last_mut().filter(|(_, _, w)| *w == width) {
                Some((_, count, _)) => *count += 1,
                None => found.push((at, 1, width)),
            }
            at += width;
        }
        found
    }

    /// The place of a position, and the condition under which it is read.
    fn near_place(&mut self, group: &Group, window: &WindowRep, r: &Rectangle, origin: &Origin, at: &[Reached]) -> (Place, Option<Expr>) {
        let dtype = self.kernel.view(window.view).dtype;
        match (origin, &window.copy) {
            (Origin::Copy { base, along }, Some(copy)) => {
                let mut index = base.clone();
                for (k, a) in at.iter().enumerate().filter(|(k, _)| *k != copy.fast) {
                    let c = LOCAL.add(a.at.clone(), LOCAL.lit(copy.axes[k].before));
                    index = LOCAL.add(index, LOCAL.mul(c, LOCAL.lit(copy.axes[k].pitch)));
                }
                let column = self.copy_column(copy, along.clone(), at[copy.fast].at.clone());
                (Place { space: Space::Shared(copy.id), dtype, index: LOCAL.add(index, column) }, None)
            }
            (Origin::Global(first), _) => {
                let global: Vec<Expr> =
                    first.iter().zip(at).map(|(f, a)| self.ix.add(f.clone(), self.ix.cast(DType::I32, a.at.clone()))).collect();
                let mut negative = Vec::new();
                let mut upper = Vec::new();
                for (k, a) in at.iter().enumerate() {
                    let forward = window.shift[k].forward && group.bases[k].is_none_or(|b| self.kernel.window_groups.forward.contains(&b));
                    negative.push(a.least < 0 || !forward);
                    upper.push(!self.surely_before_end(group, window, r, k, a));
                }
                let outside = Outside { at: &global, tested: &global, negative: &negative, upper: &upper, inside: None };
                self.outside_place(window, &outside)
            }
            _ => panic!("near: a copy without its window"),
        }
    }

    /// Whether a position surely lies before the tensor's end: not behind the grid's own tile, which lies inside as a whole, or promised
    /// with it.
    fn surely_before_end(&mut self, group: &Group, window: &WindowRep, r: &Rectangle, axis: usize, at: &Reached) -> bool {
        let still = window.shift[axis].by.is_none() && group.bases[axis].is_none();
        if !still || !self.tile_lies_inside(window, axis) {
            return false;
        }
        let own = if group.scalar {
            self.window_size(window, axis)
        } else {
            r.runs[axis] + r.outer.iter().filter(|(k, ..)| *k == axis).map(|(_, place, extent, _)| place * (extent - 1)).sum::<i64>()
        };
        window.boundary == Boundary::Valid || (self.walks_itself(window, axis) && at.most < own)
    }

    /// The place along the fast axis of a copy, gaps included.
    fn copy_column(&self, copy: &WindowCopy, along: Option<Expr>, at: Expr) -> Expr {
        let at = LOCAL.add(at, LOCAL.lit(copy.axes[copy.fast].before));
        match along {
            None => match super::index::as_literal(&at) {
                Some(c) => LOCAL.lit(copy.column_at(c)),
                None => copy.column(at),
            },
            Some(b) if copy.gap == 0 || self.multiple(&b) % copy.run == 0 => {
                let column = self.copy_column(copy, None, LOCAL.sub(at, LOCAL.lit(copy.axes[copy.fast].before)));
                LOCAL.add(copy.column(b), column)
            }
            Some(b) => copy.column(LOCAL.add(b, at)),
        }
    }
}
