//! `if`: on a host bool one side runs while the kernel is built, on a `Scalar<bool>` one side runs on the GPU, on a `Tile<bool>`
//! both sides are evaluated and each element takes its own.

use super::carry::{Carrier, Carry, Kept};
use super::elem::Elem;
use super::elementwise::is_lifted;
pub use super::join::{FromLiterals, Join};
use super::ops;
use super::recorder::Reached;
use super::scalar::Scalar;
use super::session::{self, Handle, Session};
use super::tile::Tile;
pub use super::tile_branch::TileBranch;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::program;
use girih_ir::tile::{self, Block, Stmt};
use girih_ir::types::UnaryOp;

/// The condition of an `if` decides what the `if` is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no condition",
    label = "neither true nor false",
    note = "conditions are `bool`, `Scalar<bool>` and `Tile<bool>`: compare with `==`, `<`, .."
)]
pub trait Condition {
    /// The branch.
    type Branch;
    /// Starts the branch.
    #[doc(hidden)]
    fn branch(self, loc: SourceLoc) -> Self::Branch;
}

/// Starts an `if`.
#[track_caller]
pub fn branch<C: Condition>(condition: C) -> C::Branch {
    condition.branch(SourceLoc::caller())
}

/// An `if` of the host.
pub struct HostBranch(bool);

impl Condition for bool {
    type Branch = HostBranch;
    fn branch(self, _loc: SourceLoc) -> HostBranch {
        HostBranch(self)
    }
}

impl HostBranch {
    /// Nothing to carry.
    pub fn carry<C>(&mut self, _name: &str, _variable: &mut C) {}
    /// Whether the first side runs.
    pub fn then(&mut self) -> bool {
        self.0
    }
    /// Whether the second side runs.
    pub fn otherwise(&mut self) -> bool {
        !self.0
    }
    /// The value of the side that ran.
    pub fn join<V>(self, then: Option<V>, otherwise: Option<V>) -> V {
        then.or(otherwise).expect("one side of an `if` runs")
    }
    /// The value of the side that ran.
    pub fn join_literals<V>(self, then: Option<V>, otherwise: Option<V>) -> V {
        self.join(then, otherwise)
    }
    /// The end of an `if` without a value.
    pub fn finish(self) {}
}
impl Carrier for HostBranch {
    fn carry<C: Carry>(&mut self, _name: &str, _variable: &mut C) {}
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Side {
    Before,
    Then,
    Otherwise,
    Joined,
}

/// A variable that changes in an `if`, or the value of one.
pub(super) struct Change<'n> {
    /// The variable's name.
    pub name: Option<&'n str>,
    /// As it was before; none of the value of an `if`.
    pub old: Option<Handle>,
    pub then: Handle,
    pub otherwise: Handle,
}

/// The variables that change in an `if`: as they were before it, and after its first side.
#[derive(Default)]
pub(super) struct Changes {
    names: Vec<String>,
    old: Vec<Handle>,
    then: Vec<Handle>,
    cursor: usize,
}

impl Changes {
    /// One handle of a variable; `join` gives the value after both sides.
    pub(super) fn visit(&mut self, name: &str, side: Side, h: &mut Handle, join: &mut dyn FnMut(Change) -> Handle) {
        match side {
            Side::Before => {
                self.names.push(name.to_string());
                self.old.push(*h);
            }
            Side::Then => {
                self.then.push(*h);
                *h = self.old[self.then.len() - 1];
            }
            Side::Otherwise | Side::Joined => {
                let i = self.cursor;
                self.cursor += 1;
                if self.then[i] != *h {
                    *h = join(Change { name: Some(&self.names[i]), old: Some(self.old[i]), then: self.then[i], otherwise: *h });
                }
            }
        }
    }
}

/// An `if` on a scalar: one side runs. In a program, on the host. Where the scalar stands for a tile's elements, a choice per element.
pub struct ScalarBranch {
    per_element: Option<TileBranch>,
    condition: Handle,
    loc: SourceLoc,
    side: Side,
    changes: Changes,
    kept: Kept,
    regions: [u32; 2],
    blocks: [Block; 2],
    program_blocks: [Vec<program::Stmt>; 2],
    results: Vec<tile::Branch>,
}

impl Condition for Scalar<bool> {
    type Branch = ScalarBranch;
    fn branch(self, loc: SourceLoc) -> ScalarBranch {
        ScalarBranch {
            per_element: is_lifted(self.handle()).then(|| Tile::of(self.handle()).branch(loc)),
            condition: self.handle(),
            loc,
            side: Side::Before,
            changes: Changes::default(),
            kept: Kept::default(),
            regions: [0; 2],
            blocks: [Vec::new(), Vec::new()],
            program_blocks: [Vec::new(), Vec::new()],
            results: Vec::new(),
        }
    }
}

impl ScalarBranch {
    /// Carries a variable: called before the `if`, after the first side, and after the second.
    pub fn carry<C: Carry>(&mut self, name: &str, variable: &mut C) {
        if let Some(branch) = &mut self.per_element {
            return branch.carry(name, variable);
        }
        if self.side == Side::Otherwise {
            self.settle();
        }
        let mut changes = std::mem::take(&mut self.changes);
        let side = self.side;
        variable.handles(&mut |h| changes.visit(name, side, h, &mut |c| self.result(c.name, c.then, c.otherwise)));
        self.changes = changes;
    }
    /// The first side follows.
    pub fn then(&mut self) -> bool {
        if let Some(branch) = &mut self.per_element {
            return branch.then();
        }
        self.side = Side::Then;
        self.regions[0] = open(self.condition, true, self.loc);
        true
    }
    /// The second side follows.
    pub fn otherwise(&mut self) -> bool {
        if let Some(branch) = &mut self.per_element {
            return branch.otherwise();
        }
        (self.blocks[0], self.program_blocks[0]) = close();
        self.side = Side::Otherwise;
        self.regions[1] = open(self.condition, false, self.loc);
        true
    }
    fn settle(&mut self) {
        if self.side != Side::Joined {
            (self.blocks[1], self.program_blocks[1]) = close();
            self.side = Side::Joined;
        }
    }
    /// The value of the `if`.
    pub fn join<A: Join<B>, B>(mut self, then: Option<A>, otherwise: Option<B>) -> A::Output {
        if let Some(branch) = self.per_element {
            return branch.join(then, otherwise);
        }
        self.settle();
        let (Some(a), Some(b)) = (then, otherwise) else { panic!("language: both sides of a recorded `if` run") };
        let loc = self.loc;
        let joined = a.join(b, loc, &mut |a, b| self.result(None, a, b));
        self.finish();
        joined
    }
    /// The value of an `if` whose sides are both literals.
    pub fn join_literals<L, T: Elem>(mut self, then: Option<L>, otherwise: Option<L>) -> Scalar<T>
    where
        Scalar<T>: FromLiterals<L>,
    {
        if let Some(branch) = self.per_element.take() {
            return branch.join_scalars(then, otherwise);
        }
        self.settle();
        let (Some(a), Some(b)) = (then, otherwise) else { panic!("language: both sides of a recorded `if` run") };
        let loc = self.loc;
        let joined = Scalar::<T>::from_literals(a, b, loc, &mut |a, b| self.result(None, a, b));
        self.finish();
        joined
    }
    /// The end of the `if`.
    pub fn finish(mut self) {
        if let Some(branch) = self.per_element {
            return branch.finish();
        }
        self.settle();
        let loc = self.loc;
        session::with(|s| match s {
            Session::Kernel(k) => {
                let Some(condition) = k.operand(self.condition, loc) else { return };
                let [then, otherwise] = self.blocks;
                k.push(Stmt::If { condition, then, otherwise, results: self.results, loc });
            }
            Session::Program(p) => {
                let Some((condition, _)) = p.read(self.condition, loc) else { return };
                let [then, otherwise] = self.program_blocks;
                p.push(program::Stmt::If { condition, then, otherwise });
            }
        });
    }
    fn result(&mut self, name: Option<&str>, a: Handle, b: Handle) -> Handle {
        let (loc, [own_then, own_otherwise]) = (self.loc, self.regions);
        session::with(|s| match s {
            Session::Kernel(k) => {
                let (Some(then), Some(otherwise)) = (k.operand_of(a, own_then, loc), k.operand_of(b, own_otherwise, loc)) else {
                    return Handle::POISON;
                };
                let [then, otherwise] = spread(k, [then, otherwise], loc);
                if k.kernel.ty(then) != k.kernel.ty(otherwise) {
                    let message = format!("the sides of this `if` give {} and {}", k.describe(then), k.describe(otherwise));
                    let notes = [k.kernel.value(then).loc, k.kernel.value(otherwise).loc];
                    k.error(
                        Diagnostic::new(loc, message)
                            .note("one side was made here", notes[0])
                            .note("the other was made here", notes[1])
                            .help("bring both sides to one shape with `.like(..)` or `.expand(axis, size)`"),
                    );
                    return Handle::POISON;
                }
                let ty = k.kernel.ty(then).clone();
                let result = k.new_value(ty, name.map(str::to_string), loc, 0);
                self.results.push(tile::Branch { then, otherwise, result });
                k.handle(result)
            }
            Session::Program(p) => {
                let (Some((then, dtype)), Some((otherwise, _))) = (p.read_of(a, own_then, loc), p.read_of(b, own_otherwise, loc)) else {
                    return Handle::POISON;
                };
                let var = p.var(dtype, name.unwrap_or("choice"));
                self.program_blocks[0].push(program::Stmt::Set { var, value: then });
                self.program_blocks[1].push(program::Stmt::Set { var, value: otherwise });
                p.expr(program::Expr::Var(var), dtype, loc)
            }
        })
    }
}
impl Carrier for ScalarBranch {
    fn carry<C: Carry>(&mut self, name: &str, variable: &mut C) {
        ScalarBranch::carry(self, name, variable);
    }
    fn keep(&mut self, name: &str, tensor: &mut Handle) {
        self.kept.visit(name, tensor, self.loc);
    }
}

/// A scalar side that is known before the `if` is spread over the other side's tile.
fn spread(k: &mut super::builder::KernelBuilder, sides: [tile::ValueId; 2], loc: SourceLoc) -> [tile::ValueId; 2] {
    let shape = sides.iter().find_map(|v| k.kernel.ty(*v).shape()).map(<[_]>::to_vec);
    match shape {
        Some(shape) => sides.map(|v| if k.constant(v).is_some() { ops::splat_to(k, v, &shape, loc) } else { v }),
        None => sides,
    }
}

fn open(condition: Handle, holds: bool, loc: SourceLoc) -> u32 {
    session::with(|s| match s {
        Session::Kernel(k) => {
            k.open(false);
            k.region()
        }
        Session::Program(p) => {
            let condition = p.read(condition, loc).map(|(c, _)| c);
            let condition = if holds { condition } else { condition.map(|c| program::Expr::Unary(UnaryOp::Not, Box::new(c))) };
            p.open(condition.map_or(Reached::Perhaps, Reached::when));
            p.region()
        }
    })
}

fn close() -> (Block, Vec<program::Stmt>) {
    session::with(|s| match s {
        Session::Kernel(k) => (k.close(), Vec::new()),
        Session::Program(p) => (Vec::new(), p.close()),
    })
}
