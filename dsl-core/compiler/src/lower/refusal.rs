//! Why a page cannot be written out: facts of the page, from which the error is made with the names of the author's kernel.

use crate::block::ValueId;
use crate::plan::legality::Rule;
use crate::plan::matrix_units::unit;
use crate::plan::slices::knob;
use crate::plan::{Plan, illegal};
use girih_ir::error::{CompileError, Diagnostic};
use girih_ir::schedule::ScheduleError;
use girih_ir::schedule::words::{CopyPath, DotUnit};
use girih_ir::tile::{Kernel, KnobId, Size, Ty};

/// What cannot be written out.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// Mbarriers hand over the stages of several pipelines.
    MbarriersPipeline(Option<KnobId>),
    /// Mbarriers wait for copies of less than 4 bytes, which are stores.
    MbarriersBytes(Option<KnobId>),
    /// A thread's so many elements cannot be dealt to the slices.
    Slices { registers: i64 },
    /// A chain of warps on a GPU without mbarriers.
    ChainTarget,
    /// A chain of warps that begins again and again.
    ChainOnce,
    /// A chain of warps of so many elements to so many threads.
    ChainLanes { along: i64, threads: i64 },
    /// Lanes exchange values along an axis of this tile that has no whole warps.
    Lanes { value: ValueId, extent: i64, threads: i64 },
    /// An operand of warp groups in so many rows of so many bytes.
    GroupRows { bytes: i64, count: i64 },
    /// A window of which an element beyond its halo is read.
    Reach { window: ValueId, read: ValueId, axis: usize, offset: i64, before: i64, last: i64 },
    /// A pick along an axis of which some positions may be absent.
    Pick { value: ValueId, axis: usize },
}

impl Refusal {
    /// The error, in the words of the author's kernel.
    pub fn error(self, kernel: &Kernel, plan: &Plan) -> CompileError {
        let schedule = match self {
            Refusal::MbarriersPipeline(knob) => mbarriers(kernel, knob, Rule::MbarriersPipeline),
            Refusal::MbarriersBytes(knob) => mbarriers(kernel, knob, Rule::MbarriersBytes),
            Refusal::Slices { registers } => {
                let at = knob(kernel).unwrap_or_else(|| panic!("slices: no such knob in\n{kernel}"));
                illegal(kernel, &[at], plan.slices.to_string(), Rule::SlicesRegisters.with(&[&registers]))
            }
            Refusal::ChainTarget => illegal(kernel, &[], "an older GPU".into(), Rule::ChainTarget),
            Refusal::ChainOnce => illegal(kernel, &[], "several tiles to a block".into(), Rule::ChainOnce),
            Refusal::ChainLanes { along, threads } => {
                illegal(kernel, &[], format!("{along} elements to {threads} threads"), Rule::ChainLanes)
            }
            Refusal::Lanes { value, extent, threads } => {
                let knobs: Vec<KnobId> = kernel.ty(value).shape().unwrap_or_default().iter().flat_map(Size::knobs).collect();
                illegal(kernel, &knobs, chosen(plan, &knobs), Rule::Lanes.with(&[&extent, &threads]))
            }
            Refusal::GroupRows { bytes, count } => {
                illegal(kernel, &[unit(kernel)], DotUnit::Wgmma.to_string(), Rule::UnitGroupRows.with(&[&count, &bytes]))
            }
            Refusal::Reach { window, read, axis, offset, before, last } => {
                let Ty::Window(_, reach) = kernel.ty(window) else { panic!("refusal: {window:?} is no window") };
                let sizes = [&reach[axis].size, &reach[axis].before, &reach[axis].after];
                let mut knobs: Vec<KnobId> = sizes.into_iter().flat_map(Size::knobs).collect();
                knobs.dedup();
                let rule = Rule::HaloReach.with(&[&-before, &last, &axis, &offset]);
                ScheduleError { loc: Some(kernel.value(read).loc), ..illegal(kernel, &knobs, chosen(plan, &knobs), rule) }
            }
            Refusal::Pick { value, axis } => return CompileError::Kernel(vec![picked_from_some(kernel, value, axis)]),
        };
        CompileError::Schedule(schedule)
    }
}

/// A choice of mbarriers, by a knob, that breaks a rule.
fn mbarriers(kernel: &Kernel, knob: Option<KnobId>, rule: Rule) -> ScheduleError {
    illegal(kernel, knob.as_slice(), CopyPath::Mbarriers.to_string(), rule)
}

/// The values of knobs.
fn chosen(plan: &Plan, knobs: &[KnobId]) -> String {
    knobs.iter().map(|k| plan.knobs[k.0 as usize].to_string()).collect::<Vec<_>>().join(" / ")
}

/// Whether an element is there must not depend on which position is picked.
fn picked_from_some(kernel: &Kernel, value: ValueId, axis: usize) -> Diagnostic {
    let message = format!(
        "a pick along axis {axis} of a tile of which some positions may be absent: it goes along the tiles of a loop, or an `if` per element loaded it"
    );
    let help = "pick from an axis that is loaded whole (`x.load((..4, t))`, with the number of its elements), from `stack`, or from what is computed; \
                load outside of an `if` per element and choose with `select`";
    Diagnostic::new(kernel.value(value).loc, message).help(help).with_source(&kernel.source, kernel.loc)
}
