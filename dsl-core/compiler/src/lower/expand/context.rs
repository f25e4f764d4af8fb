//! The state of one lowering: the SIMT kernel that grows, and what became of each tile value.

mod declare;
mod rep;
mod reps;

pub(crate) use rep::{Data, Rep, TileRep};
pub(crate) use reps::Reps;

use super::index::{Index, multiple};
use super::mask::Mask;
use super::params::pointer_or_scalar;
use crate::block::Key;
use crate::block::Uses;
use crate::block::{self, Access, Dealt, Grid, HostExpr, Kernel, Op, SharedId as ArrayId, Team, ValueId};
use crate::lower::refusal::Refusal;
use girih_ir::layout::{Digit, Layout};
use girih_ir::simt::{self, Expr, Param, ParamKind, SharedArray, SharedId, Special, Stmt, Var, VarId};
use girih_ir::types::DType;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Which bounds checks a tile's code has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// The whole tile lies inside: the grid's bounds hold.
    Full,
    /// Every access is predicated.
    Tail,
}

/// A thread's first coordinate along the axis of a tile index, already in a variable: for this index and these thread digits.
#[derive(Clone)]
pub(crate) struct Coordinate {
    /// `None`: positions in the tile itself.
    pub index: Option<ValueId>,
    pub digits: Vec<Digit>,
    pub base: Expr,
    pub depth: usize,
}

pub(crate) struct Expander<'a> {
    pub kernel: &'a Kernel,
    /// What was decided for the grid loop.
    pub grid: Option<&'a Grid>,
    /// The threads that work together on the statement at hand.
    pub team: &'a Team,
    /// They run it for the whole block.
    pub alone: bool,
    /// How values are made: by operations, loads and windows.
    pub ops: HashMap<ValueId, &'a Op>,
    pub loads: HashMap<ValueId, &'a Access>,
    /// Index arithmetic of this kernel: i32 where the facts allow it.
    pub ix: Index,
    pub params: Vec<Param>,
    pub vars: Vec<Var>,
    pub shared: Vec<SharedArray>,
    /// The author's shared arrays.
    pub arrays: HashMap<ArrayId, super::shared::Array>,
    /// The author's chains that have begun.
    pub chains: HashMap<ArrayId, super::chain::Chain>,
    /// Shared arrays of a path that excludes this one.
    pub reusable: Vec<SharedId>,
    /// Shared arrays made so far, in order.
    pub taken: Vec<SharedId>,
    /// Shared arrays whose contents nobody needs any more: those of loops that have ended.
    pub vacant: Vec<SharedId>,
    /// Open blocks, innermost last.
    pub blocks: Vec<Vec<Stmt>>,
    pub values: Reps,
    /// The loop of steps of the dots that were lowered last, where it is written out.
    pub steps: Option<super::fragment_prefetch::LoweredSteps>,
    /// Some copies to shared memory go by registers, where memory has less than 4 bytes at once.
    pub stored_copies: bool,
    /// In which layout loads and stores have accessed their tensors.
    pub accessed_in: HashMap<Key, Layout>,
    /// Each thread accesses tensors at elements of its own alone, under a condition of its own.
    pub keeps_to_own: bool,
    /// Scalars that threads of a block may have different values of.
    pub differing: HashSet<ValueId>,
    /// Variables of which scalars are made that threads of a block have alike.
    pub alike: BTreeSet<VarId>,
    /// Copies to shared memory write zeros where this is false.
    pub copies_if: Option<Expr>,
    /// Between which numbers variables, and all elements of arrays, surely lie.
    pub ranges: HashMap<VarId, crate::block::range::Range>,
    /// Known divisors of variables.
    pub multiples: HashMap<VarId, i64>,
    pub coordinates: Vec<Coordinate>,
    /// What was computed before the loop or branch at hand: value, variable, and the open blocks where it is.
    pub hoisted: Vec<(Expr, Expr, usize)>,
    pub mode: Mode,
    /// The positions to which the loop of a tile index keeps, of loops that have begun.
    pub walked: HashMap<ValueId, super::spans::Walked>,
    /// The same of the vectors that hold some of them.
    pub walked_in_vectors: HashMap<ValueId, super::spans::Walked>,
    /// Loads that started before their tile's turn: their statements do nothing.
    pub loaded_early: HashSet<ValueId>,
    pub grid_vars: Vec<ValueId>,
    /// The choices around the statement at hand.
    pub sides: Vec<(ValueId, Mask)>,
    /// Which way branches went whose results ask for it, by their first result.
    pub taken_ways: HashMap<ValueId, VarId>,
    /// The code may run several times in one block: shared memory may still be read from the last time.
    pub repeated: bool,
    /// The workspace at which the grid's blocks count themselves when they meet.
    pub meetings: Option<usize>,
    /// The thread's number among those that work on a tile together.
    pub thread: Expr,
    /// Its slice of the block, and its number in the block, where there are slices.
    pub slice: Expr,
    /// Its warp group among those that work on a tile together, where matrix instructions ask for it.
    pub group: Option<Expr>,
    /// What is written out is the consumers': another warp of the block copies.
    pub has_roles: bool,
    /// Sums of the iteration that are in flight, where it says itself when it waits for them.
    pub in_flight: Option<Vec<VarId>>,
    /// So many warp groups multiply in turn.
    pub in_turn: Option<u32>,
    pub block_thread: Expr,
    /// The number of this block, once the grid loop has begun.
    pub block: Option<Expr>,
    /// Its number in its cluster, where blocks work together.
    pub in_cluster: Option<Expr>,
    /// The launch behind this one.
    pub next: Option<Box<Expander<'a>>>,
    /// The turns of a shared loop that the block takes, while that loop is lowered.
    pub share: Option<super::split_k::Share>,
    /// Variables of one register that may change.
    pub carried: HashSet<VarId>,
    /// Variables whose absent elements hold zeros: they were loaded so.
    pub zero_filled: HashSet<VarId>,
    /// Variables whose elements inside of all bounds hold zeros where they are absent.
    pub zero_inside: HashSet<VarId>,
    /// Where the results of scans have ended.
    pub scan_ends: HashMap<ValueId, super::scan_total::ScanEnd>,
    /// Workspaces with what tiles pass on to those behind them: of each component, by the first result of the combination.
    pub passed_on: HashMap<ValueId, Vec<Vec<usize>>>,
    /// The launch in which a word is left, in the upper 30 bits of 32, as the ticket says it in shared memory.
    pub launch_tag: Option<Expr>,
}

/// The result of a step: what a schedule, or a kernel under any, cannot have stops it.
pub(crate) type Expanded<T> = Result<T, Refusal>;

impl<'a> Expander<'a> {
    pub fn new(kernel: &'a Kernel) -> Expander<'a> {
        let (mut ops, mut loads) = (HashMap::new(), HashMap::new());
        block::visit(&kernel.body, &mut |stmt| {
            if let block::Stmt::Let(v, op) = stmt {
                ops.insert(*v, op);
            } else if let block::Stmt::Load(v, access) = stmt {
                loads.insert(*v, access);
            }
        });
        let params = (0..kernel.params.len()).map(|p| pointer_or_scalar(kernel, p)).collect();
        let mut expander = Expander {
            kernel,
            grid: kernel.grid(),
            team: &kernel.teams[0],
            alone: false,
            ops,
            loads,
            ix: Index { dtype: kernel.index },
            params,
            vars: Vec::new(),
            shared: Vec::new(),
            arrays: HashMap::new(),
            chains: HashMap::new(),
            reusable: Vec::new(),
            taken: Vec::new(),
            vacant: Vec::new(),
            blocks: vec![Vec::new()],
            values: Reps::none(kernel.values.len()),
            steps: None,
            stored_copies: false,
            accessed_in: HashMap::new(),
            keeps_to_own: false,
            differing: crate::block::uniform::Differing::of(kernel),
            alike: BTreeSet::new(),
            copies_if: None,
            ranges: HashMap::new(),
            multiples: HashMap::new(),
            coordinates: Vec::new(),
            hoisted: Vec::new(),
            mode: Mode::Tail,
            walked: HashMap::new(),
            walked_in_vectors: HashMap::new(),
            loaded_early: HashSet::new(),
            grid_vars: kernel.grid_loop().map(|l| l.vars.clone()).unwrap_or_default(),
            sides: Vec::new(),
            taken_ways: HashMap::new(),
            repeated: false,
            meetings: None,
            thread: Expr::Special(Special::Thread),
            slice: super::index::literal(DType::I32, 0),
            group: None,
            has_roles: false,
            in_flight: None,
            in_turn: None,
            block_thread: Expr::Special(Special::Thread),
            block: None,
            in_cluster: None,
            next: None,
            share: None,
            carried: HashSet::new(),
            zero_filled: HashSet::new(),
            zero_inside: HashSet::new(),
            scan_ends: HashMap::new(),
            passed_on: HashMap::new(),
            launch_tag: None,
        };
        expander.begin_threads();
        for index in &kernel.fitting {
            *expander.values.entry(*index) = Some(Rep::TileIndex(expander.ix.lit(0)));
        }
        expander
    }

    pub fn emit(&mut self, stmt: Stmt) {
        self.blocks.last_mut().expect("lowering: no open block").push(stmt);
    }

    /// How many statements the innermost block has.
    pub fn mark(&self) -> usize {
        self.blocks.last().expect("lowering: no open block").len()
    }

    /// Takes the statements behind a mark out of the innermost block.
    pub fn take_from(&mut self, mark: usize) -> Vec<Stmt> {
        self.blocks.last_mut().expect("lowering: no open block").split_off(mark)
    }

    pub fn comment(&mut self, text: impl Into<String>) {
        self.emit(Stmt::Comment(text.into()));
    }

    pub fn open(&mut self) {
        self.blocks.push(Vec::new());
    }

    /// Closes the innermost block; coordinates computed in it are out of scope.
    pub fn close(&mut self) -> Vec<Stmt> {
        let depth = self.blocks.len();
        self.coordinates.retain(|c| c.depth < depth);
        self.hoisted.retain(|(_, _, at)| *at < depth);
        self.blocks.pop().expect("lowering: no open block")
    }

    pub fn rep(&self, value: ValueId) -> &Rep {
        self.values.get(value).unwrap_or_else(|| panic!("expand: {value:?} is used before it is made in\n{}", self.kernel))
    }

    pub fn tile(&self, value: ValueId) -> &TileRep {
        match self.rep(value) {
            Rep::Tile(t) => t,
            other => panic!("lowering: {value:?} is no tile but {other:?}"),
        }
    }

    pub fn set(&mut self, value: ValueId, rep: Rep) {
        if let (Rep::Scalar(e), false) = (&rep, self.differing.contains(&value)) {
            variables(&mut e.clone(), &mut self.alike);
        }
        *self.values.entry(value) = Some(rep);
    }

    pub fn used(&self, value: ValueId) -> Uses {
        self.kernel.value(value).uses
    }

    /// How a value is made, if by an operation on others.
    pub fn op(&self, value: ValueId) -> Option<&'a Op> {
        self.ops.get(&value).copied()
    }

    /// How a tile of some form is dealt to the threads at hand.
    pub fn dealt_as(&self, form: Option<u32>) -> &'a Dealt {
        let form = form.unwrap_or_else(|| panic!("expand: a layout of no tile in\n{}", self.kernel));
        &self.team.dealt[form as usize]
    }

    /// The layout that a tile has by its shape.
    pub fn own_layout(&self, value: ValueId) -> Layout {
        self.dealt_as(self.kernel.value(value).form).own.clone()
    }

    /// The layout of a tile that fits every layout.
    pub fn natural_layout(&self, value: ValueId) -> Layout {
        self.dealt_as(self.kernel.value(value).form).natural.clone()
    }

    /// What the host computes of the launch's arguments.
    pub fn host_of(&self, value: ValueId) -> Option<HostExpr> {
        self.kernel.value(value).host.clone()
    }

    /// One block runs in any case: its first tile need not be there.
    pub fn runs_anyway(&self) -> bool {
        self.grid.is_some_and(|g| g.runs_anyway)
    }

    /// The length value that bounds a tile index.
    pub fn length(&self, index: ValueId) -> ValueId {
        self.kernel.lengths.walked[&index]
    }

    /// The author's name of a value, or a fallback.
    pub fn name_of(&self, value: ValueId, fallback: &str) -> String {
        self.kernel.value(value).name.clone().unwrap_or_else(|| fallback.to_string())
    }

    /// By what an index expression is surely divisible.
    pub fn multiple(&self, e: &Expr) -> i64 {
        multiple(e, &self.multiples, &|p| match &self.params[p].kind {
            ParamKind::Host { value, .. } => self.kernel.host_multiple(value),
            _ => 1,
        })
    }

    /// Between which numbers an integer surely lies; `None` for floats and u64.
    pub fn range_of(&self, e: &Expr) -> Option<crate::block::range::Range> {
        let known = super::range::Known {
            vars: &self.vars,
            params: &self.params,
            ranges: &self.ranges,
            launch: &super::range::Launch::any(self.team.threads * self.team.slices),
        };
        known.range(e)
    }

    /// A scalar i64 value (length, stride, offset) in index arithmetic.
    pub fn index_of(&mut self, value: ValueId) -> Expr {
        if let Some(host) = self.host_of(value) {
            let name = self.name_of(value, "extent");
            return self.host_index(&host, &name);
        }
        let dtype = self.kernel.ty(value).dtype().unwrap_or(DType::I64);
        let scalar = self.scalar(value);
        self.ix.cast(dtype, scalar)
    }

    /// The constant value of a scalar, given the facts.
    pub fn constant(&mut self, value: ValueId) -> Option<i64> {
        let e = self.index_of(value);
        super::index::as_literal(&e)
    }

    /// The type of an expression.
    pub fn dtype_of(&self, e: &Expr) -> DType {
        simt::expr_dtype(e, &self.vars, &self.params)
    }

    /// A register value as it is stored: rounded to its 16-bit type, or the bits it was read with.
    pub fn to_storage(&self, dtype: DType, e: Expr) -> Expr {
        match e {
            e if self.dtype_of(&e) == dtype => e,
            Expr::Cast(_, inner) if self.dtype_of(&inner) == dtype => *inner,
            e => Expr::Cast(dtype, Box::new(e)),
        }
    }

    /// The finished kernel.
    pub fn finish(self, launch: simt::LaunchRecord, provenance: simt::Provenance) -> simt::Kernel {
        assert_eq!(self.blocks.len(), 1, "lowering: a block was left open");
        let body = self.blocks.into_iter().next().unwrap_or_default();
        let name = self.kernel.name.clone();
        let (vars, alike) = (self.vars, self.alike);
        simt::Kernel { name, params: self.params, vars, alike, shared: self.shared, body, launch, provenance, next: None }
    }
}

/// Adds the scalar variables of an expression.
fn variables(e: &mut Expr, found: &mut BTreeSet<VarId>) {
    if let Expr::Var(v) = e {
        found.insert(*v);
    }
    girih_ir::simt::visit::children(e, &mut |child| variables(child, found));
}
