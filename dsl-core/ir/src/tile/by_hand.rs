//! Kernels of tile IR that are written down by hand: for tests of the crates that work on it.

use super::{
    Block, Carry, Combine, Form, Index, Kernel, KnobId, Op, Operator, Param, ParamKind, Size, Stmt, TileLoop, Ty, Update, Value, ValueId,
    View, ViewAxis, ViewId,
};
use crate::loc::SourceLoc;
use crate::schedule::{Choice, Knob, KnobKind};
use crate::types::{AtomicOp, BinaryOp, DType, Literal, MemoryOrder, Scope, UnaryOp};

const LOC: SourceLoc = SourceLoc::NONE;

/// Builds tile IR: values are numbered as they are made, statements go to the innermost open block.
pub struct Builder {
    pub kernel: Kernel,
    blocks: Vec<Block>,
}

impl Builder {
    pub fn new(name: &str, knobs: Vec<Knob>) -> Builder {
        let kernel = Kernel {
            name: name.into(),
            path: format!("tests::{name}"),
            instance: vec![],
            loc: LOC,
            source: String::new(),
            params: vec![],
            knobs,
            deterministic: false,
            values: vec![],
            views: vec![],
            shared: vec![],
            requirements: vec![],
            body: vec![],
        };
        Builder { kernel, blocks: vec![vec![]] }
    }

    /// With one tile knob T of the choices.
    pub fn tiled(name: &str, sizes: &[i64]) -> Builder {
        let choices = sizes.iter().map(|s| Choice::Int(*s)).collect();
        Builder::new(name, vec![Knob { name: "T".into(), kind: KnobKind::Tile, of: None, choices, loc: LOC }])
    }

    pub fn value(&mut self, ty: Ty) -> ValueId {
        self.kernel.values.push(Value { ty, name: None, loc: LOC });
        ValueId(self.kernel.values.len() as u32 - 1)
    }

    pub fn push(&mut self, stmt: Stmt) {
        self.blocks.last_mut().expect("an open block").push(stmt);
    }

    pub fn op(&mut self, ty: Ty, op: Op) -> ValueId {
        let id = self.value(ty);
        self.push(Stmt::Let(id, op));
        id
    }

    /// All elements of a tile of one axis, combined.
    pub fn reduce(&mut self, operator: Operator, v: ValueId) -> ValueId {
        let result = self.value(Ty::Scalar(DType::F32));
        let form = Form::Reduce { axes: vec![0] };
        self.push(Stmt::Combine(Combine { operator, form, inputs: vec![v], results: vec![result], loc: LOC }));
        result
    }

    pub fn literal(&mut self, literal: Literal) -> ValueId {
        self.op(Ty::Scalar(literal.dtype), Op::Literal(literal))
    }

    fn ty(&self, v: ValueId) -> Ty {
        self.kernel.ty(v).clone()
    }

    pub fn unary(&mut self, op: UnaryOp, a: ValueId) -> ValueId {
        self.op(self.ty(a), Op::Unary(op, a))
    }

    pub fn binary(&mut self, op: BinaryOp, a: ValueId, b: ValueId) -> ValueId {
        self.op(self.ty(a), Op::Binary(op, a, b))
    }

    /// A packed tensor parameter with its whole view.
    pub fn tensor(&mut self, name: &str, dtype: DType, rank: usize, mutable: bool) -> ViewId {
        let param = self.kernel.params.len();
        self.kernel.params.push(Param { name: name.into(), kind: ParamKind::Tensor { dtype, rank, mutable } });
        let index = || Ty::Scalar(DType::I64);
        let axes = (0..rank)
            .map(|k| ViewAxis { len: self.op(index(), Op::Dim(param, k)), stride: self.op(index(), Op::Stride(param, k)) })
            .collect();
        let offset = self.literal(Literal::index(0));
        self.view(param, dtype, axes, offset)
    }

    pub fn view(&mut self, param: usize, dtype: DType, axes: Vec<ViewAxis>, offset: ValueId) -> ViewId {
        let text = self.kernel.params[param].name.clone();
        self.kernel.views.push(View { param, dtype, axes, offset, parts: vec![], injective: true, text, loc: LOC });
        ViewId(self.kernel.views.len() as u32 - 1)
    }

    pub fn size() -> Size {
        Size::knob(KnobId(0))
    }

    pub fn tile_ty(dtype: DType) -> Ty {
        Ty::Tile(dtype, vec![Builder::size()])
    }

    /// A loop over tiles of T elements of axis 0; the body gets the tile index and the carried values.
    pub fn tiles(
        &mut self,
        view: ViewId,
        carry: Option<ValueId>,
        body: impl FnOnce(&mut Builder, ValueId, Option<ValueId>) -> Option<ValueId>,
    ) -> Option<ValueId> {
        let var = self.value(Ty::TileIdx(Builder::size()));
        let inner = carry.map(|c| self.value(self.ty(c)));
        self.blocks.push(vec![]);
        let next = body(self, var, inner);
        let turn = self.blocks.pop().expect("the body");
        let carries: Vec<Carry> = match (carry, inner, next) {
            (Some(init), Some(inner), Some(next)) => vec![Carry { init, inner, next, result: self.value(self.ty(init)) }],
            _ => vec![],
        };
        let result = carries.first().map(|c| c.result);
        self.push(Stmt::Tiles(TileLoop {
            view,
            axes: vec![0],
            vars: vec![var],
            span: None,
            strided: carry.is_some(),
            in_order: false,
            carries,
            body: turn,
            loc: LOC,
        }));
        result
    }

    pub fn block(&mut self, body: impl FnOnce(&mut Builder)) -> Block {
        self.blocks.push(vec![]);
        body(self);
        self.blocks.pop().expect("the block")
    }

    pub fn load(&mut self, view: ViewId, t: ValueId) -> ValueId {
        let dtype = self.kernel.view(view).dtype;
        self.op(Builder::tile_ty(dtype), Op::Load(view, vec![Index::Tile(t)]))
    }

    pub fn store(&mut self, view: ViewId, t: ValueId, value: ValueId) {
        self.push(Stmt::Store { view, index: vec![Index::Tile(t)], value, loc: LOC });
    }

    pub fn splat(&mut self, literal: Literal) -> ValueId {
        let scalar = self.literal(literal);
        self.op(Builder::tile_ty(literal.dtype), Op::Splat(scalar))
    }

    pub fn atomic(&mut self, view: ViewId, index: ValueId, value: ValueId) {
        let (scope, order) = (Scope::Device, MemoryOrder::Relaxed);
        let update = Update { op: AtomicOp::Add, indices: vec![index], value, expected: None, result: None };
        self.push(Stmt::Atomic { update, view, scope, order, loc: LOC });
    }

    pub fn finish(mut self) -> Kernel {
        self.kernel.body = self.blocks.pop().expect("the body");
        self.kernel
    }
}

/// `y[t] = x[t] + 1`.
pub fn add_one(mut b: Builder) -> Kernel {
    let (x, y) = (b.tensor("x", DType::F32, 1, false), b.tensor("y", DType::F32, 1, true));
    b.tiles(y, None, |b, t, _| {
        let (v, one) = (b.load(x, t), b.splat(Literal::f32(1.0)));
        let sum = b.binary(BinaryOp::Add, v, one);
        b.store(y, t, sum);
        None
    });
    b.finish()
}

/// `y[t] = x[t] + 1` with knobs T, C, V and P.
pub fn four_knobs() -> Kernel {
    let ints = |v: &[i64]| v.iter().map(|i| Choice::Int(*i)).collect::<Vec<_>>();
    let words = |v: &[&str]| v.iter().map(|w| Choice::Word(w.to_string())).collect::<Vec<_>>();
    let knob = |name: &str, kind, choices| Knob { name: name.into(), kind, of: None, choices, loc: LOC };
    let knobs = vec![
        knob("T", KnobKind::Tile, ints(&[256, 512, 1024])),
        knob("C", KnobKind::Coarsen { of: KnobId(0) }, ints(&[1, 2, 4])),
        knob("V", KnobKind::Vector, ints(&[1, 2, 4])),
        knob("P", KnobKind::Copy, words(&["Registers", "Async"])),
    ];
    add_one(Builder::new("k", knobs))
}
