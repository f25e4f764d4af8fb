//! How loaded tiles and windows come to those who read them: from a copy in shared memory or from where they are, and how they are copied.
//! Each load asks the knobs that count where it is.

use crate::analyses::dots::Dots;
use girih_ir::schedule::words::{CopyPath, HaloPath, OperandPath, Words};
use girih_ir::schedule::{KnobKind, Schedule, Site};
use girih_ir::tile::access::blocks;
use girih_ir::tile::{Block, Kernel, KnobId, Op, Stmt, ValueId, ViewId};
use std::collections::HashMap;

/// How a loaded tile or a window is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReadPlan {
    /// From a copy in shared memory, where it is a window or an operand of a dot.
    pub shared: bool,
    /// An operand that lies along the axis of the sum is transposed on the way there.
    pub transposed: bool,
    /// How it is copied, and the knob that says so.
    pub copy: CopyPath,
    pub copied_by: Option<KnobId>,
    /// The copy of f32 holds what matrix instructions read of it: a tensor map rounds.
    pub rounded: bool,
    /// Stages of the loop that it is in.
    pub stages: i64,
}

impl ReadPlan {
    /// It is copied to shared memory by `cp.async`.
    pub fn is_async(&self) -> bool {
        self.shared && self.copy.is_async()
    }

    /// It is copied to shared memory by a tensor map.
    pub fn is_tensor(&self) -> bool {
        self.shared && self.copy == CopyPath::Tensor
    }

    /// The copies are handed over by mbarriers.
    pub fn by_mbarriers(&self) -> bool {
        self.copy == CopyPath::Mbarriers
    }
}

/// How all loaded tiles and windows of a kernel are read. `windows` says whether moved tiles of windows are read.
pub(super) fn reads(kernel: &Kernel, schedule: &Schedule, windows: bool) -> HashMap<ValueId, ReadPlan> {
    let mut all = Reads { kernel, schedule, windows, dots: kernel.has_dots(), found: HashMap::new() };
    all.block(&kernel.body, &Site::default());
    all.found
}

struct Reads<'p> {
    kernel: &'p Kernel,
    schedule: &'p Schedule,
    windows: bool,
    dots: bool,
    found: HashMap<ValueId, ReadPlan>,
}

impl<'p> Reads<'p> {
    fn block(&mut self, block: &'p Block, site: &Site<'p>) {
        for stmt in block {
            match stmt {
                Stmt::Let(value, Op::Load(view, _)) => self.read(*value, *view, false, site),
                Stmt::Let(value, Op::Window { view, .. }) => self.read(*value, *view, true, site),
                Stmt::Tiles(l) => {
                    let mut inner = site.clone();
                    inner.loops.push(&l.vars);
                    self.block(&l.body, &inner);
                }
                other => blocks(other).into_iter().for_each(|b| self.block(b, site)),
            }
        }
    }

    fn read(&mut self, value: ValueId, view: ViewId, window: bool, site: &Site<'p>) {
        let (kernel, schedule) = (self.kernel, self.schedule);
        let own = Site { loops: site.loops.last().copied().into_iter().collect(), tensor: None };
        let site = Site { tensor: Some(kernel.view(view).param), ..site.clone() };
        let path = operand_path(kernel, schedule, &site);
        let halo = kernel.knob_at(KnobKind::Halo, &site).and_then(|id| HaloPath::chosen(schedule, id));
        let copied_by = kernel.knob_at(KnobKind::Copy, &site);
        let plan = ReadPlan {
            shared: if window { self.windows && halo != Some(HaloPath::Direct) } else { self.dots && path != Some(OperandPath::Direct) },
            transposed: self.dots && path == Some(OperandPath::Transposed),
            copy: copied_by.and_then(|id| CopyPath::chosen(schedule, id)).unwrap_or(CopyPath::Registers),
            copied_by,
            rounded: false,
            stages: schedule.int_at(kernel, KnobKind::Stages, &own, 1),
        };
        self.found.insert(value, plan);
    }
}

/// Whether some windows are copied to shared memory.
pub(super) fn copies_windows(kernel: &Kernel, reads: &HashMap<ValueId, ReadPlan>) -> bool {
    let is_window = |v: &ValueId| matches!(kernel.ty(*v), girih_ir::tile::Ty::Window(..));
    reads.iter().any(|(v, read)| read.shared && is_window(v))
}

/// Where a dot's operand at a site is read from, if a knob says so.
pub(super) fn operand_path(kernel: &Kernel, schedule: &Schedule, site: &Site) -> Option<OperandPath> {
    OperandPath::chosen(schedule, kernel.knob_at(KnobKind::Operands, site)?)
}

/// Whether some operands of dots are copied to shared memory, and whether some are transposed on the way. Where no operand is a load, as the
/// knob for all says.
pub(super) fn operands(kernel: &Kernel, schedule: &Schedule, reads: &HashMap<ValueId, ReadPlan>, dots: &Dots) -> (bool, bool) {
    let mut loaded = reads.iter().filter(|(v, _)| dots.is_load(**v)).map(|(_, read)| (read.shared, read.transposed)).peekable();
    if loaded.peek().is_none() {
        let path = operand_path(kernel, schedule, &Site::default());
        let is = |it| kernel.has_dots() && path == Some(it);
        return (kernel.has_dots() && !is(OperandPath::Direct), is(OperandPath::Transposed));
    }
    loaded.fold((false, false), |(shared, transposed), read| (shared || read.0, transposed || read.1))
}
