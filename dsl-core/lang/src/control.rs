//! Control flow, chosen by type: a host value gives ordinary Rust, a symbolic one gives IR. The attributes write the calls.

mod begin;
mod by_element;

use by_element::ByElement;
pub use by_element::LoopCondition;

use super::carry::{Carrier, Carry, Kept};
use super::elem::Int;
use super::index::Part;
use super::loops::{self, Slots, close_region, open_region, push_stmt};
use super::operand::{Operand, ScalarRhs};
use super::ops;
use super::recorder::Reached;
use super::scalar::Scalar;
use super::session::{self, Handle, Session};
use super::span::Ends;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::program;
use girih_ir::tile::{Size, Stmt, TileLoop, ValueId};
use girih_ir::types::BinaryOp;
use std::marker::PhantomData;

/// The tiles of a tensor's axes: what `for` goes over.
pub struct Tiles<A> {
    tensor: Handle,
    axes: Vec<usize>,
    sizes: Vec<Size>,
    strided: bool,
    in_order: bool,
    /// Only the tiles that hold positions in all of these.
    pub(super) spans: Vec<Ends>,
    /// The number of the only tile.
    pub(super) drawn: Option<Part>,
    vars: PhantomData<fn() -> A>,
}

impl<A> Tiles<A> {
    pub(crate) fn new(tensor: Handle, axes: Vec<usize>, sizes: Vec<Size>) -> Tiles<A> {
        Tiles { tensor, axes, sizes, strided: false, in_order: false, spans: Vec::new(), drawn: None, vars: PhantomData }
    }
    /// Turns are dealt to blocks as the schedule likes, and each block may carry values from one of its turns to the next.
    pub fn strided(mut self) -> Tiles<A> {
        self.strided = true;
        self
    }
    /// Blocks begin in the order of the tiles: where a tile's block has begun, the blocks of all tiles before it have, so that it may wait for what
    /// they leave. Of the grid's loop.
    pub fn in_order(mut self) -> Tiles<A> {
        self.in_order = true;
        self
    }
}

/// `a..b` whose end is a scalar: a loop that runs on the GPU (in a program: on the host).
pub struct ScalarRange<T> {
    start: Handle,
    end: Handle,
    elem: PhantomData<fn() -> T>,
}

/// The end of a range decides what the range is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the end of a range from `{A}`",
    label = "neither a host integer nor an integer scalar",
    note = "a `for` counts host integers (unrolled) or up to a `Scalar` of an integer type; knobs are no numbers",
    note = "a range from a `Scalar` up to a number ends with `scalar(8)`; downwards count by a `while`, or `for k in 0..n` and `n - 1 - k`"
)]
pub trait RangeEnd<A> {
    /// The range.
    type Range;
    /// `start..self`, or `start..=self`.
    #[doc(hidden)]
    fn range(self, start: A, inclusive: bool, loc: SourceLoc) -> Self::Range;
}

macro_rules! host_ranges {
    ($($int:ty),*) => {$(
        impl RangeEnd<$int> for $int {
            type Range = std::ops::Range<$int>;
            fn range(self, start: $int, inclusive: bool, _loc: SourceLoc) -> Self::Range {
                start..if inclusive { self + 1 } else { self }
            }
        }
    )*};
}
host_ranges!(i8, u8, i16, u16, i32, u32, i64, u64, isize, usize);

impl<T: Int, A: Operand<T> + ScalarRhs> RangeEnd<A> for Scalar<T> {
    type Range = ScalarRange<T>;
    fn range(self, start: A, inclusive: bool, loc: SourceLoc) -> ScalarRange<T> {
        let mut end = self.handle();
        if inclusive {
            end = ops::binary(BinaryOp::Add, end, ops::int_literal(T::DTYPE, 1, loc), loc);
        }
        ScalarRange { start: start.operand(loc), end, elem: PhantomData }
    }
}

/// Holds for no type: ranges of the GPU have one direction and one step.
#[diagnostic::on_unimplemented(
    message = "a `for` that runs on the GPU counts upwards, one by one",
    label = "not on the GPU",
    note = "backwards: `for k in 0..n` with `let i = n - 1 - k`; in steps: `for k in 0..n / 2` with `let i = 2 * k`; otherwise a `while`"
)]
pub trait OtherSteps {}

impl<T> ScalarRange<T> {
    /// Start and end.
    pub(super) fn handles(&self) -> (Handle, Handle) {
        (self.start, self.end)
    }
    /// Refused: says what to write instead.
    pub fn rev(self) -> Self
    where
        T: OtherSteps,
    {
        self
    }
    /// Refused: says what to write instead.
    pub fn step_by<S>(self, _step: S) -> Self
    where
        T: OtherSteps,
    {
        self
    }
}

/// `start..end` in the header of a `for`.
#[track_caller]
pub fn range<A, B: RangeEnd<A>>(start: A, end: B) -> B::Range {
    end.range(start, false, SourceLoc::caller())
}

/// `start..=end` in the header of a `for`.
#[track_caller]
pub fn range_inclusive<A, B: RangeEnd<A>>(start: A, end: B) -> B::Range {
    end.range(start, true, SourceLoc::caller())
}

/// What `for` goes over.
#[diagnostic::on_unimplemented(message = "`for` cannot go over `{Self}`", label = "nothing to loop over")]
pub trait Start {
    /// The loop.
    type Loop;
    /// Starts the loop; `names` are those of the pattern's variables.
    #[doc(hidden)]
    fn start(self, names: &[&str], loc: SourceLoc) -> Self::Loop;
}

/// Starts a `for`.
#[track_caller]
pub fn start<S: Start>(over: S, names: &[&str]) -> S::Loop {
    over.start(names, SourceLoc::caller())
}

/// A loop on the host: it is unrolled into the kernel.
pub struct HostFor<I>(I);

impl<I: IntoIterator> Start for I {
    type Loop = HostFor<I::IntoIter>;
    fn start(self, _names: &[&str], _loc: SourceLoc) -> Self::Loop {
        HostFor(self.into_iter())
    }
}

impl<I: Iterator> HostFor<I> {
    /// Nothing to carry: the turns are one after the other in the kernel.
    pub fn carry<C>(&mut self, _name: &str, _variable: &mut C) {}
    /// The next turn.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }
}
impl<I: Iterator> Carrier for HostFor<I> {
    fn carry<C: Carry>(&mut self, _name: &str, _variable: &mut C) {}
}

/// A loop that is recorded: its body runs once.
pub struct RecordedFor<V> {
    kind: Kind,
    loc: SourceLoc,
    slots: Slots,
    kept: Kept,
    turn: Turn,
    var: fn(&[Handle]) -> V,
    vars: Vec<Handle>,
}

#[derive(PartialEq)]
enum Turn {
    Before,
    Inside,
}

enum Kind {
    Tiles { head: TileLoop, grid: bool },
    Range { start: ValueId, end: ValueId, var: ValueId },
    Counted { start: program::Expr, end: program::Expr, var: program::ScalarVar },
    Wrong,
}

impl<V> RecordedFor<V> {
    fn new((kind, vars): (Kind, Vec<Handle>), var: fn(&[Handle]) -> V, loc: SourceLoc) -> RecordedFor<V> {
        RecordedFor { kind, loc, slots: Slots::default(), kept: Kept::default(), turn: Turn::Before, var, vars }
    }
    /// Carries a variable: called before the first turn and at the end of the turn.
    pub fn carry<C: Carry>(&mut self, name: &str, variable: &mut C) {
        let (slots, loc, turn) = (&mut self.slots, self.loc, &self.turn);
        if matches!(self.kind, Kind::Wrong) {
            return;
        }
        variable.handles(&mut |h| match turn {
            Turn::Before => slots.enter(name, h, loc),
            Turn::Inside => slots.leave(h, 1, loc),
        });
    }
    /// The one turn that is recorded.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<V> {
        if self.turn == Turn::Before {
            self.turn = Turn::Inside;
            return Some((self.var)(&self.vars));
        }
        let loc = self.loc;
        match std::mem::replace(&mut self.kind, Kind::Wrong) {
            Kind::Wrong => {}
            Kind::Tiles { head, grid } => loops::close_tiles(&self.slots, head, grid),
            Kind::Range { start, end, var } => {
                let mut body = close_region()?;
                let carries = self.slots.carries(&mut [&mut body]);
                push_stmt(Stmt::Range { var, start, end, carries, body, loc });
            }
            Kind::Counted { start, end, var } => {
                self.slots.set_variables(loc);
                session::with(|s| {
                    if let Session::Program(p) = s {
                        let body = p.close();
                        p.push(program::Stmt::For { var, start, end, body });
                    }
                });
            }
        }
        None
    }
}
impl<V> Carrier for RecordedFor<V> {
    fn carry<C: Carry>(&mut self, name: &str, variable: &mut C) {
        RecordedFor::carry(self, name, variable);
    }
    fn keep(&mut self, name: &str, tensor: &mut Handle) {
        self.kept.visit(name, tensor, self.loc);
    }
}

/// A `while` that is recorded: its condition and its body run once.
pub struct RecordedWhile {
    loc: SourceLoc,
    slots: Slots,
    kept: Kept,
    turn: Turn,
    header: girih_ir::tile::Block,
    condition: Handle,
    /// Each element has a condition of its own.
    each: Option<ByElement>,
    /// The condition assigns variables.
    assigns: bool,
    program_header: Vec<program::Stmt>,
}

/// Starts a `while`.
#[track_caller]
pub fn while_loop() -> RecordedWhile {
    let loc = SourceLoc::caller();
    open_region();
    RecordedWhile {
        loc,
        slots: Slots::default(),
        kept: Kept::default(),
        turn: Turn::Before,
        header: Vec::new(),
        condition: Handle::POISON,
        each: None,
        assigns: false,
        program_header: Vec::new(),
    }
}

impl RecordedWhile {
    /// Carries a variable: called before the condition and at the end of the turn.
    pub fn carry<C: Carry>(&mut self, name: &str, variable: &mut C) {
        let (slots, each, loc, turn) = (&mut self.slots, &mut self.each, self.loc, &self.turn);
        variable.handles(&mut |h| match turn {
            Turn::Before => slots.enter(name, h, loc),
            Turn::Inside => {
                if let Some(each) = each {
                    *h = each.leave(slots, *h);
                }
                slots.leave(h, 2, loc);
            }
        });
    }
    /// The condition assigns variables, too.
    pub fn assigns(&mut self) {
        self.assigns = true;
    }
    /// The condition follows.
    pub fn header(&mut self) {
        open_region();
    }
    /// The condition is known; the body follows.
    #[track_caller]
    pub fn test(&mut self, condition: impl LoopCondition) {
        let loc = SourceLoc::caller();
        let (condition, by_element) = condition.condition();
        self.condition = condition;
        self.turn = Turn::Inside;
        session::with(|s| match s {
            Session::Kernel(k) => {
                // What elements have for themselves is tested and used in one region.
                self.header = k.split();
                if !by_element {
                    k.close();
                    k.open(false);
                }
            }
            Session::Program(p) => {
                let kept = p.read(condition, loc);
                self.program_header = p.close();
                // The condition's expression belongs to the header, which is closed: it is kept as it is.
                if let Some((expr, dtype)) = kept {
                    self.condition = p.expr_outside(expr, dtype, 0, loc);
                }
                p.open(Reached::Perhaps);
            }
        });
        self.each = by_element.then_some(ByElement { mask: condition, loc, open: true });
        if by_element && self.assigns {
            let message = "a condition that each element has for itself cannot assign variables";
            session::with(|s| s.error(Diagnostic::new(loc, message).help("assign them in the body, or before the loop")));
        }
    }
    /// The turn is over.
    pub fn end(mut self) {
        let loc = self.loc;
        if let Some(each) = &mut self.each {
            each.close();
        }
        self.slots.set_variables(loc);
        let condition = session::with(|s| match s {
            Session::Kernel(k) => self.condition.value(k.build),
            Session::Program(p) => {
                let body = p.close();
                let condition = p.read(self.condition, loc);
                p.close();
                if let Some((condition, _)) = condition {
                    p.push(program::Stmt::While { header: std::mem::take(&mut self.program_header), condition, body });
                }
                None
            }
        });
        let Some(mut body) = close_region() else { return };
        let shell = close_region();
        debug_assert!(shell.is_none_or(|s| s.is_empty()), "language: a statement between a while's header and body");
        let carries = self.slots.carries(&mut [&mut self.header, &mut body]);
        let Some(condition) = condition.map(|c| self.slots.resolved(c)) else { return };
        if let Some(each) = &self.each {
            each.check(&self.header, &body);
        }
        push_stmt(Stmt::While { once: false, carries, header: self.header, condition, body, loc });
    }
}
impl Carrier for RecordedWhile {
    fn carry<C: Carry>(&mut self, name: &str, variable: &mut C) {
        RecordedWhile::carry(self, name, variable);
    }
    fn keep(&mut self, name: &str, tensor: &mut Handle) {
        self.kept.visit(name, tensor, self.loc);
    }
}
