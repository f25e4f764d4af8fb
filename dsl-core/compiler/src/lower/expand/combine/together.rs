//! Reductions for which the threads of a block meet once: each goes its way as far as warps alone come, all leave their parts, and then each
//! is read.

use super::{Partial, int};
use crate::block::steps::Step;
use crate::block::{Combine, Form};
use crate::lower::expand::context::{Expanded, Expander};
use crate::lower::expand::exchange::Meeting;
use crate::lower::expand::index::{all, compare};
use girih_ir::layout::Layout;
use girih_ir::simt::Stmt;
use girih_ir::types::CompareOp;

/// A reduction on its way.
struct Going<'c> {
    combine: &'c Combine,
    partial: Partial,
    result: Layout,
    /// Lanes that agree by now, the threads that have to meet, if any do, and what is left behind that.
    agreed: Vec<(i64, i64)>,
    parts: Option<Vec<(i64, i64)>>,
    rest: Vec<Step>,
}

impl Expander<'_> {
    /// Lowers reductions that do not depend on each other.
    pub fn combine_together(&mut self, combines: &[Combine]) -> Expanded<()> {
        let going = combines.iter().map(|c| self.within_warps(c)).collect::<Expanded<Vec<Going>>>()?;
        let meeting = going.iter().filter(|g| g.parts.is_some()).count();
        if meeting > 0 {
            self.comment(format!("meet once for {meeting} reductions"));
        }
        let mut arranged: Vec<Option<Meeting>> = Vec::new();
        for g in &going {
            arranged.push(g.parts.as_ref().map(|parts| self.arrange_meeting(&g.partial, &g.agreed, parts)));
        }
        if meeting > 0 {
            self.await_last_meeting();
        }
        for (g, meeting) in going.iter().zip(&arranged) {
            let writer = all(g.agreed.iter().map(|(s, n)| compare(CompareOp::Eq, self.thread_part(*s, *n), int(0))));
            meeting.iter().try_for_each(|m| self.leave_for_group(&g.partial, m, &writer))?;
        }
        if meeting > 0 {
            self.emit(Stmt::Barrier(self.team_barrier()));
        }
        for (mut g, meeting) in going.into_iter().zip(arranged) {
            if let Some(meeting) = meeting {
                self.combine_meeting(g.combine, &mut g.partial, &meeting)?;
                self.take_steps_of(g.combine, &mut g.partial, g.rest, &mut g.agreed)?;
            }
            self.end_reduction(g.combine, &g.partial, &g.result);
        }
        Ok(())
    }

    /// The steps of a reduction that no other warp has a part in.
    fn within_warps<'c>(&mut self, combine: &'c Combine) -> Expanded<Going<'c>> {
        let Form::Reduce { axes } = &combine.form else { panic!("combine: threads meet once for what is no reduction") };
        let (mut partial, steps, result) = self.begin_reduction(combine, axes)?;
        let meets = steps.iter().position(|s| matches!(s, Step::Threads(_))).unwrap_or(steps.len());
        let mut rest = steps;
        let first = rest.drain(..meets).collect();
        let parts = (!rest.is_empty()).then(|| rest.remove(0)).map(|step| match step {
            Step::Threads(parts) => parts,
            step => panic!("combine: {step:?} is no step of threads"),
        });
        let mut agreed = Vec::new();
        self.take_steps_of(combine, &mut partial, first, &mut agreed)?;
        Ok(Going { combine, partial, result, agreed, parts, rest })
    }
}
