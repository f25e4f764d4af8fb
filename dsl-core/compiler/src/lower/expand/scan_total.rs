//! What scans come to: their threads know it already, or the last lane of each group tells the others.

use super::combine::{Partial, int};
use super::context::{Expanded, Expander};
use super::index::binary;
use crate::block::ValueId;
use crate::block::layouts::renumbered;
use girih_ir::layout::Layout;
use girih_ir::simt::{Expr, ShuffleKind, Stmt, VarId};
use girih_ir::types::{BinaryOp, DType};

/// Where a component of a scan has ended.
#[derive(Clone, Debug)]
pub(crate) struct ScanEnd {
    var: VarId,
    /// The layout of the totals, the scanned axis among them.
    layout: Layout,
    axis: usize,
    /// Lanes, a distance apart and so many, of which one alone knows the total: this one.
    known_by: Option<(i64, i64, i64)>,
}

impl Expander<'_> {
    /// Remembers where a scan has ended, for whom it may concern.
    pub fn end_scan(&mut self, results: &[ValueId], totals: &Partial, axis: usize, known_by: Option<(i64, i64, i64)>) {
        for (value, var) in results.iter().zip(&totals.vars) {
            self.scan_ends.insert(*value, ScanEnd { var: *var, layout: totals.layout.clone(), axis, known_by });
        }
    }

    /// The total of a scan, for all threads.
    pub fn total(&mut self, value: ValueId, scan: ValueId) -> Expanded<()> {
        let Some(ScanEnd { var, layout, axis, known_by }) = self.scan_ends.get(&scan).cloned() else {
            panic!("scan: {scan:?} has not ended in\n{}", self.kernel);
        };
        let var = match known_by {
            Some(lanes) => self.spread_total(value, var, layout.registers, lanes)?,
            None => var,
        };
        let kept = layout.axes.iter().enumerate().filter(|(k, _)| *k != axis).map(|(_, digits)| digits.clone()).collect();
        self.set_combined(value, var, &renumbered(kept, layout.threads));
        Ok(())
    }

    pub fn spread_total(
        &mut self,
        value: ValueId,
        var: VarId,
        registers: i64,
        (distance, extent, end): (i64, i64, i64),
    ) -> Expanded<VarId> {
        let (name, dtype) = (self.name_of(value, "total"), self.vars[var.0 as usize].dtype);
        let total = self.new_var(&name, dtype, (registers > 1).then_some(registers as u32));
        self.emit(Stmt::Declare { var: total, init: None });
        let ix = super::index::Index { dtype: DType::I32 };
        let (part, lane) = (self.thread_part(distance, extent), ix.rem(self.thread32(), 32));
        let source = ix.add(binary(BinaryOp::Sub, lane, ix.mul(part, ix.lit(distance))), int(end * distance));
        let source = self.declare_let("source", DType::I32, source);
        self.each_slot(registers, &mut |cx, slot| {
            let own: Expr = cx.slot(var, slot);
            let all = cx.shuffle(own, ShuffleKind::Index, source.clone());
            cx.emit(Stmt::Assign { var: total, index: slot.cloned(), value: all });
            Ok(())
        })?;
        Ok(total)
    }
}
