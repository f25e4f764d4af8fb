//! How the threads of a block exchange values while they combine: by way of the lanes of a warp, and through shared memory between warps.

use super::combine::{Partial, int};
use super::context::{Expanded, Expander};
use super::elements::unrolled;
use super::index::{all, compare, without_cast};
use crate::block::Combine;
use girih_ir::layout::{Layout, Source};
use girih_ir::simt::{Expr, Place, SharedId, Space, Stmt, VarId};
use girih_ir::types::{CompareOp, DType};

/// Where threads of several warps left their parts: for each register and group of threads `count` of them side by side.
pub(crate) struct Meeting {
    /// One array per component.
    pub arrays: Vec<SharedId>,
    group: Expr,
    groups: i64,
    /// Parts of a group.
    pub count: i64,
    /// Which part this thread's is.
    pub number: Expr,
}

impl Meeting {
    /// The first part of a thread's group for one of its registers.
    pub fn first(&self, slot: Option<&Expr>) -> Expr {
        let ix = super::index::Index { dtype: DType::I32 };
        let row = match slot {
            Some(e) => ix.add(ix.mul(e.clone(), ix.lit(self.groups)), self.group.clone()),
            None => self.group.clone(),
        };
        ix.mul(row, ix.lit(self.count))
    }
}

impl Expander<'_> {
    /// `thread` as i32.
    pub fn thread32(&self) -> Expr {
        without_cast(self.thread.clone())
    }

    /// `thread / stride % extent` as i32.
    pub fn thread_part(&self, stride: i64, extent: i64) -> Expr {
        let ix = super::index::Index { dtype: DType::I32 };
        let quotient = ix.div(self.thread32(), stride);
        if stride * extent == self.team.threads { quotient } else { ix.rem(quotient, extent) }
    }

    /// Runs `body` for every register of a partial combination, with its index if there are several.
    pub fn each_slot(&mut self, registers: i64, body: &mut dyn FnMut(&mut Self, Option<&Expr>) -> Expanded<()>) -> Expanded<()> {
        if registers == 1 {
            return body(self, None);
        }
        let (var, e) = self.loop_var("e");
        self.open();
        body(self, Some(&e))?;
        let turn = self.close();
        self.emit(unrolled(var, registers, turn));
        Ok(())
    }

    /// Combines over threads of several warps: of the lanes that have `agreed`, one writes, all meet, all read their group's values in order.
    pub fn combine_threads(&mut self, c: &Combine, partial: &mut Partial, agreed: &[(i64, i64)], parts: &[(i64, i64)]) -> Expanded<()> {
        let count: i64 = parts.iter().map(|p| p.1).product();
        self.comment(format!("combine {count} parts of the block through shared memory"));
        let writer = all(agreed.iter().map(|(s, n)| compare(CompareOp::Eq, self.thread_part(*s, *n), int(0))));
        let meeting = self.meet(partial, agreed, parts, writer)?;
        self.combine_meeting(c, partial, &meeting)
    }

    /// Combines what the threads of a group have left for each other.
    pub fn combine_meeting(&mut self, c: &Combine, partial: &mut Partial, meeting: &Meeting) -> Expanded<()> {
        let (count, vars) = (meeting.count, partial.vars.clone());
        if self.lanes_share(c, meeting) {
            self.each_slot(partial.layout.registers, &mut |cx, slot| {
                let lane = super::index::Index { dtype: DType::I32 }.rem(cx.thread32(), count);
                cx.read_one(&vars, slot, meeting, lane);
                Ok(())
            })?;
            return self.combine_lanes(c, partial, 1, count);
        }
        self.each_slot(partial.layout.registers, &mut |cx, slot| cx.combine_run(c, &vars, slot, meeting))
    }

    /// Whether the lanes of each warp read one part each and exchange them: fewer instructions than all parts read by every thread, from
    /// some number of parts on; lanes that keep an order also find out who is left and who is right. It takes one group for all lanes.
    fn lanes_share(&self, c: &Combine, meeting: &Meeting) -> bool {
        let (count, few) = (meeting.count, if c.operator.commutative() { 8 } else { 16 });
        meeting.groups == 1 && count > few && count <= 32 && (count as u64).is_power_of_two() && self.team.threads % 32 == 0
    }

    /// Sets `vars` to part `number` of their group.
    fn read_one(&mut self, vars: &[VarId], slot: Option<&Expr>, meeting: &Meeting, number: Expr) {
        let ix = super::index::Index { dtype: DType::I32 };
        for (var, array) in vars.iter().zip(&meeting.arrays) {
            let dtype = self.vars[var.0 as usize].dtype;
            let place = Place { space: Space::Shared(*array), dtype, index: ix.add(meeting.first(slot), number.clone()) };
            let value = Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() };
            self.emit(Stmt::Assign { var: *var, index: slot.cloned(), value });
        }
    }

    /// Threads that differ in `parts` leave their values in shared memory, and all meet. Of the lanes that are the `same`, the `writer` does.
    pub fn meet(&mut self, partial: &Partial, same: &[(i64, i64)], parts: &[(i64, i64)], writer: Option<Expr>) -> Expanded<Meeting> {
        let meeting = self.arrange_meeting(partial, same, parts);
        self.await_last_meeting();
        self.leave_for_group(partial, &meeting, &writer)?;
        self.emit(Stmt::Barrier(self.team_barrier()));
        Ok(meeting)
    }

    /// Some threads may still read what the last turn left where the next one's parts go.
    pub fn await_last_meeting(&mut self) {
        if self.repeated {
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
    }

    /// Where threads leave their parts.
    pub fn arrange_meeting(&mut self, partial: &Partial, same: &[(i64, i64)], parts: &[(i64, i64)]) -> Meeting {
        let count: i64 = parts.iter().map(|p| p.1).product();
        let gone: Vec<(i64, i64)> = same.iter().chain(parts).copied().collect();
        let (group, groups) = self.thread_without(&gone);
        let ix = super::index::Index { dtype: DType::I32 };
        let (mut number, mut scale) = (ix.lit(0), 1);
        for (stride, extent) in parts {
            number = ix.add(number, ix.mul(self.thread_part(*stride, *extent), ix.lit(scale)));
            scale *= extent;
        }
        let registers = partial.layout.registers;
        let arrays: Vec<SharedId> = partial
            .vars
            .iter()
            .map(|v| {
                let var = &self.vars[v.0 as usize];
                let (name, dtype) = (format!("{}_parts", var.name), var.dtype);
                self.new_shared(&name, dtype, registers * groups * count)
            })
            .collect();
        Meeting { arrays, group, groups, count, number }
    }

    /// Leaves a thread's parts for the others of its group.
    pub fn leave_for_group(&mut self, partial: &Partial, meeting: &Meeting, writer: &Option<Expr>) -> Expanded<()> {
        let ix = super::index::Index { dtype: DType::I32 };
        let vars = partial.vars.clone();
        self.each_slot(partial.layout.registers, &mut |cx, slot| {
            for (var, array) in vars.iter().zip(&meeting.arrays) {
                let index = ix.add(meeting.first(slot), meeting.number.clone());
                let dtype = cx.vars[var.0 as usize].dtype;
                let place = Place { space: Space::Shared(*array), dtype, index };
                let value = cx.slot(*var, slot);
                cx.emit(Stmt::Store { place, value, predicate: writer.clone(), cache: Default::default() });
            }
            Ok(())
        })
    }

    /// The parts of a thread's group, in order: an array for each of `vars`, after which they are named.
    pub fn read_meeting(&mut self, vars: &[VarId], meeting: &Meeting, slot: Option<&Expr>) -> Vec<VarId> {
        let first = meeting.first(slot);
        vars.iter()
            .zip(&meeting.arrays)
            .map(|(var, array)| {
                let Expr::Var(read) = self.read_parts(*var, *array, &first, meeting.count) else {
                    panic!("exchange: parts lie in a variable")
                };
                read
            })
            .collect()
    }

    /// Sets `vars` to the combination of the parts of their group, in order.
    fn combine_run(&mut self, c: &Combine, vars: &[VarId], slot: Option<&Expr>, meeting: &Meeting) -> Expanded<()> {
        let reads = self.read_meeting(vars, meeting, slot);
        self.combine_read(c, (vars, slot), &reads, meeting.count)
    }

    /// Sets `vars` to the combination of so many parts that were read, in order.
    pub fn combine_read(&mut self, c: &Combine, (vars, slot): (&[VarId], Option<&Expr>), reads: &[VarId], count: i64) -> Expanded<()> {
        let start: Vec<Expr> = reads.iter().map(|v| self.slot(*v, Some(&int(0)))).collect();
        self.assign_components(vars, slot, start);
        let (k, e) = self.loop_var("k");
        self.open();
        let at = super::index::Index { dtype: DType::I32 }.add(e, int(1));
        let right = reads.iter().map(|v| self.slot(*v, Some(&at))).collect();
        let right = self.settled(&c.operator, right);
        let left = vars.iter().map(|v| self.slot(*v, slot)).collect();
        let new = self.apply_operator(&c.operator, left, right)?;
        self.assign_components(vars, slot, new);
        let turn = self.close();
        self.emit(unrolled(k, count - 1, turn));
        Ok(())
    }

    /// Reads `count` neighbours of a shared array into registers, as wide as they divide.
    fn read_parts(&mut self, like: VarId, array: SharedId, first: &Expr, count: i64) -> Expr {
        let (name, dtype) = (format!("{}_part", self.vars[like.0 as usize].name), self.vars[like.0 as usize].dtype);
        let var = self.new_var(&name, dtype, Some(count as u32));
        self.emit(Stmt::Declare { var, init: None });
        let width = [4, 2].into_iter().find(|w| count % w == 0 && w * dtype.size() as i64 <= 16 && dtype != DType::Bool).unwrap_or(1);
        let ix = super::index::Index { dtype: DType::I32 };
        let (k, e) = self.loop_var("k");
        let at = ix.mul(e, ix.lit(width));
        let place = Place { space: Space::Shared(array), dtype, index: ix.add(first.clone(), at.clone()) };
        let turn = if width > 1 {
            Stmt::LoadVector { var, at, place, lanes: width as u32, predicate: None, cache: Default::default() }
        } else {
            let value = Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() };
            Stmt::Assign { var, index: Some(at), value }
        };
        self.emit(unrolled(k, count / width, vec![turn]));
        Expr::Var(var)
    }

    /// The thread index with some digits (stride, extent) taken out, and how many values it has.
    pub fn thread_without(&self, gone: &[(i64, i64)]) -> (Expr, i64) {
        let ix = super::index::Index { dtype: DType::I32 };
        let mut cuts = gone.to_vec();
        cuts.sort_unstable();
        cuts.push((self.team.threads, 1));
        let (mut index, mut scale, mut below) = (ix.lit(0), 1, 1);
        for (start, extent) in cuts {
            if start > below {
                let part = self.thread_part(below, start / below);
                index = ix.add(index, ix.mul(part, ix.lit(scale)));
                scale *= start / below;
            }
            below = start * extent;
        }
        (index, scale)
    }

    /// A layout that deals one value to each thread along one axis.
    pub fn one_each(&self) -> Layout {
        let digit = girih_ir::layout::Digit { source: Source::Thread, stride: 1, extent: self.team.threads, place: 1 };
        Layout { axes: vec![if self.team.threads > 1 { vec![digit] } else { vec![] }], threads: self.team.threads, registers: 1 }
    }
}
