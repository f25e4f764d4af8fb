//! The state of one lowering: the SIMT kernel that grows, and what became of each tile value.

mod declare;
mod rep;

pub(crate) use rep::{Data, Rep, TileRep};

use super::index::{Index, multiple};
use super::layouts::Layouts;
use super::mask::Mask;
use super::params::pointer_or_scalar;
use super::uses::Uses;
use crate::plan::{LoopPlan, Plan};
use girih_ir::error::CompileError;
use girih_ir::facts::Facts;
use girih_ir::layout::{Digit, Layout};
use girih_ir::simt::{self, Expr, Param, ParamKind, SharedArray, SharedId, Special, Stmt, Var, VarId};
use girih_ir::tile::access::{dim_classes, dim_constants, loop_lengths};
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::{Kernel, TileLoop, ValueId};
use girih_ir::types::DType;
use std::collections::{HashMap, HashSet};

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

pub(crate) struct Lowering<'a> {
    pub kernel: &'a Kernel,
    pub facts: &'a Facts,
    pub plan: &'a Plan,
    /// Index arithmetic of this kernel: i32 where the facts allow it.
    pub ix: Index,
    pub params: Vec<Param>,
    pub vars: Vec<Var>,
    pub shared: Vec<SharedArray>,
    /// The author's shared arrays.
    pub arrays: HashMap<girih_ir::tile::SharedId, super::shared::Array>,
    /// The author's chains that have begun.
    pub chains: HashMap<girih_ir::tile::SharedId, super::chain::Chain>,
    /// Where the block meets between accesses of shared arrays.
    pub barriers: super::barriers::Barriers,
    /// Shared arrays of a path that excludes this one.
    pub reusable: Vec<SharedId>,
    /// Shared arrays made so far, in order.
    pub taken: Vec<SharedId>,
    /// Shared arrays whose contents nobody needs any more: those of loops that have ended.
    pub vacant: Vec<SharedId>,
    /// Open blocks, innermost last.
    pub blocks: Vec<Vec<Stmt>>,
    pub values: Vec<Option<Rep>>,
    /// Reads of windows.
    pub near: super::window_reads::Near<'a>,
    /// What dots read.
    pub dots: super::dots::Dots,
    /// Where the copy of a window to shared memory has just ended.
    pub copies_end: Option<super::copy_to_shared::CopiesEnd>,
    /// The loop of steps of the dots that were lowered last, where it is written out.
    pub steps: Option<super::fragment_prefetch::LoweredSteps>,
    /// Some copies to shared memory go by registers, where memory has less than 4 bytes at once.
    pub stored_copies: bool,
    /// In which layout loads and stores have accessed their tensors.
    pub accessed_in: HashMap<super::same_block_hazards::Key, Layout>,
    /// Each thread accesses tensors at elements of its own alone, under a condition of its own.
    pub keeps_to_own: bool,
    /// Copies to shared memory write zeros where this is false.
    pub copies_if: Option<Expr>,
    /// How often and where each value is used.
    pub uses: Vec<Uses>,
    /// Between which numbers variables, and all elements of arrays, surely lie.
    pub ranges: HashMap<VarId, super::range::Range>,
    /// Known divisors of variables.
    pub multiples: HashMap<VarId, i64>,
    pub coordinates: Vec<Coordinate>,
    /// What was computed before the loop or branch at hand: value, variable, and the open blocks where it is.
    pub hoisted: Vec<(Expr, Expr, usize)>,
    pub mode: Mode,
    pub lengths: HashMap<ValueId, ValueId>,
    /// The positions to which the loop of a tile index keeps, of loops that have begun.
    pub walked: HashMap<ValueId, super::spans::Walked>,
    /// The same of the vectors that hold some of them.
    pub walked_in_vectors: HashMap<ValueId, super::spans::Walked>,
    /// Tile indices of axes that fit one tile: always 0.
    pub fitting: HashSet<ValueId>,
    /// Loads that started before their tile's turn: their statements do nothing.
    pub loaded_early: HashSet<ValueId>,
    pub grid_vars: Vec<ValueId>,
    /// Neighbours of the anchor's fast axis in a warp, where its other lanes lie along the next axis.
    pub anchor_lanes: Option<i64>,
    /// The choices around the statement at hand.
    pub sides: Vec<(ValueId, Mask)>,
    /// What says whether each element of a gather's or branch's result exists: a value of its own behind those of the kernel's author.
    pub found: HashMap<ValueId, ValueId>,
    /// Tensor parameters that the kernel writes.
    pub written: Vec<bool>,
    /// The code may run several times in one block: shared memory may still be read from the last time.
    pub repeated: bool,
    /// The thread's number among those that work on a tile together.
    pub thread: Expr,
    /// Its slice of the block, and its number in the block, where there are slices.
    pub slice: Expr,
    pub block_thread: Expr,
    /// The plan behind a loop that slices share.
    pub whole: &'a Plan,
    /// The number of this block, once the grid loop has begun.
    pub block: Option<Expr>,
    /// The launch behind this one.
    pub next: Option<Box<Lowering<'a>>>,
    /// The turns of a shared loop that the block takes, while that loop is lowered.
    pub share: Option<super::split_k::Share>,
    /// Variables of one register that may change.
    pub carried: HashSet<VarId>,
    /// Variables whose absent elements hold zeros: they were loaded so.
    pub zero_filled: HashSet<VarId>,
    /// Representative of each class of equal lengths.
    pub dim_class: HashMap<(usize, usize), (usize, usize)>,
    /// Lengths that every launch proves to be a constant.
    pub dim_constant: HashMap<(usize, usize), i64>,
}

/// The result of a lowering step: the author's mistakes and illegal schedules stop it.
pub(crate) type Lowered<T> = Result<T, CompileError>;

impl<'a> Lowering<'a> {
    pub fn new(kernel: &'a Kernel, found: HashMap<ValueId, ValueId>, facts: &'a Facts, plan: &'a Plan, whole: &'a Plan) -> Lowering<'a> {
        let ix = Index { dtype: if facts.index32 { DType::I32 } else { DType::I64 } };
        let written = super::uses::written_params(kernel);
        let uses = super::uses::count(kernel);
        let dots = super::dots::Dots::new(kernel, &uses, &written);
        let params = kernel.params.iter().enumerate().map(|(p, param)| pointer_or_scalar(kernel, facts, &written, p, param)).collect();
        let mut lowering = Lowering {
            kernel,
            facts,
            plan,
            ix,
            params,
            vars: Vec::new(),
            shared: Vec::new(),
            arrays: HashMap::new(),
            chains: HashMap::new(),
            barriers: super::barriers::place(kernel, plan.grid > 0),
            reusable: Vec::new(),
            taken: Vec::new(),
            vacant: Vec::new(),
            blocks: vec![Vec::new()],
            values: vec![None; kernel.values.len()],
            near: super::window_reads::Near::new(kernel),
            dots,
            copies_end: None,
            steps: None,
            stored_copies: false,
            accessed_in: HashMap::new(),
            keeps_to_own: false,
            copies_if: None,
            uses,
            ranges: HashMap::new(),
            multiples: HashMap::new(),
            coordinates: Vec::new(),
            hoisted: Vec::new(),
            mode: Mode::Tail,
            lengths: loop_lengths(kernel),
            walked: HashMap::new(),
            walked_in_vectors: HashMap::new(),
            fitting: HashSet::new(),
            loaded_early: HashSet::new(),
            grid_vars: kernel.grid_loop().map(|l| l.vars.clone()).unwrap_or_default(),
            anchor_lanes: super::layouts::lanes(kernel, plan),
            sides: Vec::new(),
            found,
            written,
            repeated: false,
            thread: Expr::Special(Special::Thread),
            slice: super::index::literal(DType::I32, 0),
            block_thread: Expr::Special(Special::Thread),
            whole,
            block: None,
            next: None,
            share: None,
            carried: HashSet::new(),
            zero_filled: HashSet::new(),
            dim_class: dim_classes(kernel),
            dim_constant: dim_constants(kernel),
        };
        lowering.begin_threads();
        lowering
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
        self.copies_end = None;
        let depth = self.blocks.len();
        self.coordinates.retain(|c| c.depth < depth);
        self.hoisted.retain(|(_, _, at)| *at < depth);
        self.blocks.pop().expect("lowering: no open block")
    }

    pub fn rep(&self, value: ValueId) -> &Rep {
        self.values[value.0 as usize]
            .as_ref()
            .unwrap_or_else(|| panic!("lowering: value {value:?} is used before it is made in\n{}", self.kernel))
    }

    pub fn tile(&self, value: ValueId) -> &TileRep {
        match self.rep(value) {
            Rep::Tile(t) => t,
            other => panic!("lowering: {value:?} is no tile but {other:?}"),
        }
    }

    pub fn set(&mut self, value: ValueId, rep: Rep) {
        self.values[value.0 as usize] = Some(rep);
    }

    pub fn used(&self, value: ValueId) -> Uses {
        self.uses[value.0 as usize]
    }

    /// What layouts are chosen by.
    pub fn layouts(&self) -> Layouts<'_> {
        let Lowering { kernel, facts, plan, anchor_lanes: lanes, written, dim_constant, .. } = self;
        Layouts { kernel, facts, plan, lanes: *lanes, written, dim_constant }
    }

    /// How a loop over tiles runs.
    pub fn loop_plan(&self, l: &TileLoop) -> &'a LoopPlan {
        &self.plan.loops[&l.vars[0]]
    }

    /// The author's name of a value, or a fallback.
    pub fn name_of(&self, value: ValueId, fallback: &str) -> String {
        self.kernel.value(value).name.clone().unwrap_or_else(|| fallback.to_string())
    }

    /// By what an index expression is surely divisible.
    pub fn multiple(&self, e: &Expr) -> i64 {
        multiple(e, &self.multiples, &|p| match &self.params[p].kind {
            ParamKind::Host { value, .. } => self.host_multiple(value),
            _ => 1,
        })
    }

    /// Between which numbers an integer surely lies; `None` for floats and u64.
    pub fn range_of(&self, e: &Expr) -> Option<super::range::Range> {
        let known = super::range::Known {
            vars: &self.vars,
            params: &self.params,
            ranges: &self.ranges,
            threads: self.plan.threads * self.plan.slices,
        };
        known.range(e)
    }

    /// A scalar i64 value (length, stride, offset) in index arithmetic.
    pub fn index_of(&mut self, value: ValueId) -> Expr {
        if let Some(host) = HostExpr::of_value(self.kernel, value) {
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
        simt::Kernel { name, params: self.params, vars: self.vars, shared: self.shared, body, launch, provenance, next: None }
    }
}
