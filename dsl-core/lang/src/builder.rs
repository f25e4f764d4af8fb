//! Records a kernel's tile IR: values, regions, views. Folds constants, shares equal values, and moves scalar arithmetic that
//! depends on arguments alone to the top of the kernel, where the host can compute it too.

use super::session::Handle;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::scalar;
use girih_ir::tile::host::MOST_OPERATIONS;
use girih_ir::tile::{
    Block, Combine, Form, Kernel, Op, Requirement, RequirementKind, Size, Stmt, Ty, Value, ValueId, View, ViewAxis, ViewId,
};
use girih_ir::types::{BinaryOp, DType, Literal};
use std::collections::HashMap;

/// A kernel's build.
pub(crate) struct KernelBuilder {
    /// The build's stamp, which handles carry.
    pub(crate) build: u32,
    /// What is being built; its body is filled in at the end.
    pub(crate) kernel: Kernel,
    /// Mistakes so far.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Sizes that bodies computed.
    pub(crate) sizes: Vec<Size>,
    /// The kernel has its grid loop.
    pub(crate) has_grid: bool,
    /// The grid's loop has begun, and takes tiles in order.
    pub(crate) takes_in_order: bool,
    /// Number of `split_at` so far.
    pub(crate) splits: u32,
    /// The length that the loop of each tile index walks.
    pub(crate) walked: HashMap<ValueId, ValueId>,
    /// The view that each tensor parameter is.
    pub(crate) param_views: Vec<Option<ViewId>>,
    /// Accesses of shared arrays so far.
    pub(crate) shared_accesses: u32,
    regions: Vec<Region>,
    region_open: Vec<bool>,
    /// The region in which each value is usable.
    home: Vec<u32>,
    /// How each value was made; `None` for loop variables and the like.
    ops: Vec<Option<Op>>,
    known: HashMap<String, Vec<ValueId>>,
}

struct Region {
    id: u32,
    transparent: bool,
    stmts: Block,
}

impl KernelBuilder {
    /// A build of a kernel whose header (all but values, views, requirements and body) is `kernel`.
    pub(crate) fn new(kernel: Kernel, build: u32) -> KernelBuilder {
        KernelBuilder {
            build,
            kernel,
            diagnostics: Vec::new(),
            sizes: Vec::new(),
            has_grid: false,
            takes_in_order: false,
            splits: 0,
            walked: HashMap::new(),
            param_views: Vec::new(),
            shared_accesses: 0,
            regions: vec![Region { id: 0, transparent: false, stmts: Vec::new() }],
            region_open: vec![true],
            home: Vec::new(),
            ops: Vec::new(),
            known: HashMap::new(),
        }
    }

    /// The kernel, or the mistakes.
    pub(crate) fn finish(mut self) -> Result<Kernel, Vec<Diagnostic>> {
        if !self.diagnostics.is_empty() {
            return Err(self.diagnostics);
        }
        assert!(self.regions.len() == 1, "language: a region is still open at the end of {}", self.kernel.name);
        self.kernel.body = self.regions.remove(0).stmts;
        super::ends::insert(&mut self.kernel);
        let mut mistakes = super::knob_targets::check(&self.kernel);
        mistakes.extend(girih_ir::tile::meetings::misplaced(&self.kernel));
        if mistakes.is_empty() { Ok(self.kernel) } else { Err(mistakes) }
    }

    /// Records a mistake.
    pub(crate) fn error(&mut self, diagnostic: Diagnostic) {
        if !self.diagnostics.iter().any(|d| d.loc == diagnostic.loc && d.message == diagnostic.message) {
            self.diagnostics.push(diagnostic);
        }
    }

    /// The handle of a value.
    pub(crate) fn handle(&self, value: ValueId) -> Handle {
        Handle::new(value.0, self.build)
    }

    /// The value of a handle that is used at `loc`; `None` for poison. A value whose region has ended is a mistake.
    pub(crate) fn operand(&mut self, handle: Handle, loc: SourceLoc) -> Option<ValueId> {
        let value = handle.value(self.build)?;
        if self.region_open[self.home[value.0 as usize] as usize] {
            return Some(value);
        }
        let made = self.kernel.value(value).clone();
        let what = made.name.map(|n| format!("`{n}`")).unwrap_or_else(|| "this value".into());
        self.error(
            Diagnostic::new(loc, format!("{what} is used outside of the loop or branch in which it was made"))
                .note("made here", made.loc)
                .help("assign it to a variable that is declared before the loop or branch: such a variable is carried out"),
        );
        None
    }

    /// Adds a value that no `Let` makes, usable in the region `depth` levels out of the innermost.
    pub(crate) fn new_value(&mut self, ty: Ty, name: Option<String>, loc: SourceLoc, depth: usize) -> ValueId {
        let home = self.regions[self.regions.len() - 1 - depth].id;
        self.add_value(ty, name, loc, home, None)
    }

    fn add_value(&mut self, ty: Ty, name: Option<String>, loc: SourceLoc, home: u32, op: Option<Op>) -> ValueId {
        self.kernel.values.push(Value { ty, name, loc });
        self.home.push(home);
        self.ops.push(op);
        ValueId(self.kernel.values.len() as u32 - 1)
    }

    /// The value of an operation: an equal one that is already there, a constant, or a new one.
    pub(crate) fn emit(&mut self, op: Op, ty: Ty, loc: SourceLoc) -> ValueId {
        if let Some(known) = self.fold(&op, &ty, loc) {
            return known;
        }
        let shared = !matches!(op, Op::Load(..) | Op::Gather(..) | Op::GatherInside(..) | Op::Window { .. });
        let key = format!("{op:?} {ty:?}");
        // A spread constant with a name is the start of an accumulator: other uses of the constant have a tile of their own.
        let spread = matches!(op, Op::Splat(_) | Op::Like { .. });
        let usable = |v: &&ValueId| self.is_open(**v) && !(spread && self.kernel.value(**v).name.is_some());
        if shared && let Some(known) = self.known.get(&key).and_then(|all| all.iter().find(usable)) {
            return *known;
        }
        let top = self.is_top(&op, &ty);
        let level = if top { 0 } else { self.regions.len() - 1 };
        let home = self.regions[level].id;
        let value = self.add_value(ty, None, loc, home, Some(op.clone()));
        self.regions[level].stmts.push(Stmt::Let(value, op));
        if shared {
            self.known.entry(key).or_default().push(value);
        }
        value
    }

    /// A constant.
    pub(crate) fn literal(&mut self, literal: Literal, loc: SourceLoc) -> ValueId {
        self.emit(Op::Literal(literal), Ty::Scalar(literal.dtype), loc)
    }

    /// A scalar i64 operation.
    pub(crate) fn index_op(&mut self, op: BinaryOp, a: ValueId, b: ValueId, loc: SourceLoc) -> ValueId {
        self.emit(Op::Binary(op, a, b), Ty::Scalar(DType::I64), loc)
    }

    /// An i64 constant.
    pub(crate) fn index(&mut self, value: i64, loc: SourceLoc) -> ValueId {
        self.literal(Literal::index(value), loc)
    }

    /// The constant that a value is, if it is one.
    pub(crate) fn constant(&self, value: ValueId) -> Option<Literal> {
        match &self.ops[value.0 as usize] {
            Some(Op::Literal(l)) => Some(*l),
            _ => None,
        }
    }

    /// How a value was made; `None` for loop variables and the like.
    pub(crate) fn op(&self, value: ValueId) -> Option<&Op> {
        self.ops[value.0 as usize].as_ref()
    }

    /// The axis along which a value is what a scan made, if it is.
    pub(crate) fn scanned_along(&self, value: ValueId) -> Option<usize> {
        let mut along = None;
        for region in &self.regions {
            girih_ir::tile::access::visit(&region.stmts, &mut |stmt| {
                if let Stmt::Combine(Combine { form: Form::Scan { axis, .. }, results, .. }) = stmt
                    && results.contains(&value)
                {
                    along = Some(*axis);
                }
            });
        }
        along
    }

    fn is_open(&self, value: ValueId) -> bool {
        self.region_open[self.home[value.0 as usize] as usize]
    }

    /// Scalar arithmetic on values of the top level: computed there, once.
    fn is_top(&self, op: &Op, ty: &Ty) -> bool {
        let at_top = |v: &ValueId| self.home[v.0 as usize] == 0 && matches!(self.kernel.ty(*v), Ty::Scalar(_));
        matches!(ty, Ty::Scalar(_))
            && match op {
                Op::Literal(_) | Op::Param(_) | Op::Dim(..) | Op::Stride(..) => true,
                Op::Unary(_, a) | Op::Cast(a) | Op::Bitcast(a) => at_top(a),
                Op::Binary(_, a, b) | Op::Compare(_, a, b) => at_top(a) && at_top(b),
                Op::Ternary(_, a, b, c) | Op::Select(a, b, c) => at_top(a) && at_top(b) && at_top(c),
                _ => false,
            }
    }

    fn fold(&mut self, op: &Op, ty: &Ty, loc: SourceLoc) -> Option<ValueId> {
        let Ty::Scalar(dtype) = *ty else { return self.fold_tile(op, ty) };
        let bits = match op {
            Op::Unary(o, a) if !dtype.is_float() => scalar::unary_fn(*o, dtype)?(self.constant(*a)?.bits),
            Op::Cast(a) if self.kernel.ty(*a) == ty => return Some(*a),
            Op::Cast(a) => {
                let from = self.constant(*a)?;
                scalar::cast(from.dtype, dtype, from.bits)
            }
            Op::Compare(o, a, b) => {
                let (a, b) = (self.constant(*a)?, self.constant(*b)?);
                scalar::compare_fn(*o, a.dtype)?(a.bits, b.bits) as u64
            }
            Op::Binary(o, a, b) if !dtype.is_narrow_float() => match (self.constant(*a), self.constant(*b)) {
                (Some(x), Some(y)) => scalar::binary_fn(*o, dtype)?(x.bits, y.bits),
                (x, y) if dtype.is_int() => return neutral(*o, (*a, x), (*b, y)),
                _ => return None,
            },
            _ => return None,
        };
        Some(self.literal(Literal { dtype, bits }, loc))
    }

    /// Integer tiles beside a neutral constant.
    fn fold_tile(&self, op: &Op, ty: &Ty) -> Option<ValueId> {
        let Op::Binary(o, a, b) = op else { return None };
        // A product with 0 is absent where its factor is.
        if *o == BinaryOp::Mul
            && [a, b].iter().any(|v| matches!(self.op(**v), Some(Op::Splat(s)) if self.constant(*s).is_some_and(|l| l.to_i64() == 0)))
        {
            return None;
        }
        let spread = |v: &ValueId| match self.op(*v) {
            Some(Op::Splat(s)) => self.constant(*s),
            _ => None,
        };
        if ty.dtype().is_some_and(DType::is_int) { neutral(*o, (*a, spread(a)), (*b, spread(b))) } else { None }
    }

    /// Opens a region. Values of a `transparent` one (a side of a per-element choice) stay usable after it.
    pub(crate) fn open(&mut self, transparent: bool) {
        let id = if transparent { self.regions[self.regions.len() - 1].id } else { self.region_open.len() as u32 };
        if !transparent {
            self.region_open.push(true);
        }
        self.regions.push(Region { id, transparent, stmts: Vec::new() });
    }

    /// Closes the innermost region.
    pub(crate) fn close(&mut self) -> Block {
        let region = self.regions.pop().expect("language: a region is closed that was opened");
        if !region.transparent {
            self.region_open[region.id as usize] = false;
        }
        region.stmts
    }

    /// The statements of the innermost region so far, which stays open.
    pub(crate) fn split(&mut self) -> Block {
        std::mem::take(&mut self.regions.last_mut().expect("language: the body's own region is open").stmts)
    }

    /// The number of the innermost region.
    pub(crate) fn region(&self) -> u32 {
        self.regions[self.regions.len() - 1].id
    }

    /// As [`KernelBuilder::operand`] for the result of a branch whose region `own` has just been closed.
    pub(crate) fn operand_of(&mut self, handle: Handle, own: u32, loc: SourceLoc) -> Option<ValueId> {
        let value = handle.value(self.build)?;
        if self.home[value.0 as usize] == own { Some(value) } else { self.operand(handle, loc) }
    }

    /// How many regions are open inside of the kernel's body.
    pub(crate) fn depth(&self) -> usize {
        self.regions.len() - 1
    }

    /// The statements of the top level so far.
    pub(crate) fn at_top(&self) -> &[Stmt] {
        &self.regions[0].stmts
    }

    /// Inside a side of a per-element choice.
    pub(crate) fn in_where(&self) -> bool {
        self.regions.iter().any(|r| r.transparent)
    }

    /// Appends a statement.
    pub(crate) fn push(&mut self, stmt: Stmt) {
        self.regions.last_mut().expect("language: the body's own region is open").stmts.push(stmt);
    }

    /// Gives a value the author's name, unless it has one or is a constant.
    pub(crate) fn name(&mut self, handle: Handle, name: &str) {
        if let Some(value) = handle.value(self.build)
            && self.constant(value).is_none()
        {
            self.kernel.values[value.0 as usize].name.get_or_insert_with(|| name.to_string());
        }
    }

    /// Text of a value's type for messages: `[BM, BN] of f32`.
    pub(crate) fn describe(&self, value: ValueId) -> String {
        match self.kernel.ty(value) {
            Ty::Scalar(d) => format!("a scalar {d}"),
            Ty::Tile(_, shape) => self.shape_text(shape),
            Ty::TileIdx(size) => format!("a tile index of {}", size.display(&self.kernel.knobs)),
            Ty::Window(..) => "a window".to_string(),
        }
    }

    /// Text of a shape: `[BM, BN]`.
    pub(crate) fn shape_text(&self, shape: &[Size]) -> String {
        let sizes: Vec<String> = shape.iter().map(|s| s.display(&self.kernel.knobs)).collect();
        format!("[{}]", sizes.join(", "))
    }

    /// Whether the host can compute a scalar before the launch.
    pub(crate) fn host_known(&self, value: ValueId) -> bool {
        self.host_computes(value, &mut { MOST_OPERATIONS })
    }

    fn host_computes(&self, value: ValueId, left: &mut usize) -> bool {
        let Some(less) = left.checked_sub(1) else { return false };
        *left = less;
        use BinaryOp::{Add, Div, Max, Min, Mul, Rem, Sub};
        let wide = *self.kernel.ty(value) == Ty::Scalar(DType::I64);
        match self.op(value) {
            Some(Op::Literal(l)) => !l.dtype.is_float(),
            Some(Op::Dim(..) | Op::Stride(..)) => true,
            Some(Op::Param(_)) => self.kernel.ty(value).dtype().is_some_and(DType::is_int),
            Some(Op::Cast(v)) => wide && self.host_computes(*v, left),
            Some(Op::Binary(Add | Sub | Mul | Div | Rem | Min | Max, a, b)) => {
                wide && self.host_computes(*a, left) && self.host_computes(*b, left)
            }
            _ => false,
        }
    }

    /// Adds something that a launch must satisfy, unless constants already do.
    pub(crate) fn require(&mut self, kind: RequirementKind, loc: SourceLoc) {
        let constants = |a: ValueId, b: ValueId| Some((self.constant(a)?.to_i64(), self.constant(b)?.to_i64()));
        let holds = match kind {
            RequirementKind::Packed(_) | RequirementKind::Aligned(..) | RequirementKind::Values(..) => false,
            RequirementKind::AtMost(a, b) => a == b || constants(a, b).is_some_and(|(a, b)| a <= b),
            RequirementKind::Equal(a, b) => a == b || constants(a, b).is_some_and(|(a, b)| a == b),
            RequirementKind::Divisible(a, by) => by == 1 || self.constant(a).is_some_and(|a| a.to_i64() % by == 0),
        };
        let known = self.kernel.requirements.iter().any(|r| format!("{:?}", r.kind) == format!("{kind:?}"));
        if !holds && !known {
            self.kernel.requirements.push(Requirement { kind, loc });
        }
    }

    /// Adds a view.
    pub(crate) fn add_view(&mut self, view: View) -> ViewId {
        self.kernel.views.push(view);
        ViewId(self.kernel.views.len() as u32 - 1)
    }

    /// The whole of a tensor parameter.
    pub(crate) fn whole(&mut self, param: usize, dtype: DType, rank: usize, loc: SourceLoc) -> ViewId {
        let axes = (0..rank)
            .map(|k| ViewAxis {
                len: self.emit(Op::Dim(param, k), Ty::Scalar(DType::I64), loc),
                stride: self.emit(Op::Stride(param, k), Ty::Scalar(DType::I64), loc),
            })
            .collect();
        let offset = self.index(0, loc);
        let text = self.kernel.params[param].name.clone();
        self.add_view(View { param, dtype, axes, offset, parts: Vec::new(), injective: true, text, loc })
    }
}

/// `a op b` where one of them is a neutral integer constant.
fn neutral(op: BinaryOp, a: (ValueId, Option<Literal>), b: (ValueId, Option<Literal>)) -> Option<ValueId> {
    let is = |side: (ValueId, Option<Literal>), value| side.1.is_some_and(|l| l.to_i64() == value);
    match op {
        BinaryOp::Add | BinaryOp::Or | BinaryOp::Xor if is(a, 0) => Some(b.0),
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr if is(b, 0) => Some(a.0),
        BinaryOp::Mul if is(a, 1) || is(b, 0) => Some(b.0),
        BinaryOp::Mul | BinaryOp::Div if is(b, 1) => Some(a.0),
        BinaryOp::Mul if is(a, 0) => Some(a.0),
        _ => None,
    }
}
