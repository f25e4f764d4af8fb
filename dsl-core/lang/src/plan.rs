//! Programs: launches, temporaries, memory operations and views of whole tensors, recorded on the host side.

use super::build;
use super::elem::Elem;
use super::index::{Lengths, Part};
pub(super) use super::plan_views::{chunked, flat, permuted, reinterpret, reversed, slice, split_at, strided};
use super::recorder::{self, ProgramBuilder, ProgramTensor, binary, index};
use super::scalar::Scalar;
use super::session::{self, Handle};
use super::tensor::Tensor;
use super::world::World;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::program::{Arg, Base, Expr, ProgramDef, Stmt, Temp, TensorView};
use girih_ir::registry::KernelDef;
use girih_ir::types::{BinaryOp, CompareOp, DType, Literal};

/// The recording of a program, as the world of its launches. Inside of a `#[program]` every launch goes there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan;

impl World for Plan {
    type Tensor<T: Elem, const N: usize> = Tensor<T, N>;
    type Scalar<T: Elem> = Scalar<T>;
    type Arg<'a> = PlanArg;
    type Done = ();

    fn read<T: Elem, const N: usize>(tensor: &Tensor<T, N>) -> Self::Arg<'_> {
        PlanArg { handle: tensor.handle(), kind: Kind::Read }
    }
    fn write<T: Elem, const N: usize>(tensor: &mut Tensor<T, N>) -> Self::Arg<'_> {
        PlanArg { handle: tensor.handle(), kind: Kind::Write }
    }
    fn scalar<'a, T: Elem>(value: Scalar<T>) -> Self::Arg<'a> {
        PlanArg { handle: value.handle(), kind: Kind::Scalar }
    }

    #[track_caller]
    fn launch(&self, kernel: KernelDef, args: Vec<PlanArg>) {
        let loc = SourceLoc::caller();
        session::with(|s| {
            let Some(p) = s.program("a launch", loc) else { return };
            let Some(args) = args.into_iter().map(|a| a.resolve(p, loc)).collect::<Option<Vec<_>>>() else { return };
            let site = p.sites;
            p.sites += 1;
            p.push(Stmt::Launch { site, kernel, args, loc });
        });
    }

    #[track_caller]
    fn run(&self, program: ProgramDef, args: Vec<PlanArg>) {
        let loc = SourceLoc::caller();
        let ready = session::with(|s| {
            let p = s.program("a program", loc)?;
            args.iter().map(|a| a.resolve(p, loc)).collect::<Option<Vec<_>>>()?;
            // Its body runs in this recording, with these arguments for its parameters.
            p.inline = Some(args.iter().map(|a| a.handle).collect());
            Some(())
        });
        if ready.is_some() {
            let inlined = (program.build)();
            debug_assert!(inlined.is_ok(), "language: mistakes of a called program are those of its caller");
        }
    }
}

/// An argument in a recording.
#[derive(Clone, Copy, Debug)]
pub struct PlanArg {
    handle: Handle,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Read,
    Write,
    Scalar,
}

impl PlanArg {
    fn resolve(&self, p: &mut ProgramBuilder, loc: SourceLoc) -> Option<Arg> {
        match self.kind {
            Kind::Scalar => p.read(self.handle, loc).map(|(e, _)| Arg::Scalar(e)),
            Kind::Read => p.view(self.handle).map(|t| Arg::Tensor(t.view.clone())),
            Kind::Write => writable(p, self.handle, loc).map(|t| Arg::Tensor(t.view)),
        }
    }
}

fn writable(p: &mut ProgramBuilder, handle: Handle, loc: SourceLoc) -> Option<ProgramTensor> {
    let tensor = p.view(handle)?.clone();
    if !tensor.mutable {
        let message = format!("`{}` is written, but its tensor is taken by `&`", tensor.text);
        p.error(Diagnostic::new(loc, message).help("take the program's parameter by `&mut`"));
        return None;
    }
    Some(tensor)
}

/// In a program: a choice that changes speed and nothing else, left to the tuner.
/// `if variant("row in registers") { .. } else { .. }` has both sides compute the same; the first one is taken until the tuner has
/// found the other one faster. The same name is the same choice.
#[track_caller]
pub fn variant(name: &str) -> Scalar<bool> {
    let loc = SourceLoc::caller();
    Scalar::of(session::with(|s| {
        let Some(p) = s.program("`variant`", loc) else { return Handle::POISON };
        if name.is_empty() || name.contains([';', ':', '=', '|', '#']) {
            let message = format!("`{name}` names no variant");
            return p
                .error(Diagnostic::new(loc, message).help("say in words what the first side does, without `;`, `:`, `=`, `|` and `#`"));
        }
        let known = p.program.variants.iter().position(|v| v == name);
        let index = known.unwrap_or_else(|| {
            p.program.variants.push(name.to_string());
            p.program.variants.len() - 1
        });
        p.expr(Expr::Variant(index), DType::Bool, loc)
    }))
}

/// A temporary of a program: memory that lives as long as the call, with undefined contents.
#[track_caller]
pub fn temp<T: Elem, const N: usize>(lens: impl Lengths<N>) -> Tensor<T, N> {
    let loc = SourceLoc::caller();
    Tensor::of(new_temp(lens.parts().into(), T::DTYPE, None, loc))
}

/// A temporary of a program whose elements become `value` where it is made: in a branch only if it is taken, in a loop at each turn.
#[track_caller]
pub fn temp_filled<T: Elem, const N: usize>(lens: impl Lengths<N>, value: T) -> Tensor<T, N> {
    let loc = SourceLoc::caller();
    Tensor::of(new_temp(lens.parts().into(), T::DTYPE, Some(value.literal()), loc))
}

fn new_temp(lens: Vec<Part>, dtype: DType, fill: Option<Literal>, loc: SourceLoc) -> Handle {
    session::with(|s| {
        let Some(p) = s.program("`temp`", loc) else { return Handle::POISON };
        let Some(lens) = lens.into_iter().map(|l| bound(p, l, loc)).collect::<Option<Vec<_>>>() else { return Handle::POISON };
        if !lens.iter().all(recorder::is_fixed) {
            let message = "the size of a temporary depends on a loop or on a value read back";
            return p.error(
                Diagnostic::new(loc, message).help("compute it from the program's parameters alone: its memory is made before the call"),
            );
        }
        let name = format!("temp{}", p.program.temps.len());
        let base = Base::Temp(p.temp(Temp { name: name.clone(), dtype, lens: lens.clone() }));
        let view = build::packed(base, dtype, lens);
        if let Some(value) = fill {
            p.push(Stmt::Memset { tensor: view.clone(), value, loc });
        }
        p.tensor(ProgramTensor { view, mutable: true, text: name })
    })
}

pub(super) fn bound(p: &mut ProgramBuilder, part: Part, loc: SourceLoc) -> Option<Expr> {
    match part {
        Part::Constant(c) => Some(index(c)),
        Part::At(h) => {
            let wide = p.cast(DType::I64, h, loc);
            p.read(wide, loc).map(|(e, _)| e)
        }
        Part::Tile(_) | Part::All(_) => panic!("language: a tile index in a program"),
    }
}

impl<T: Elem, const N: usize> Tensor<T, N> {
    /// In a program: sets every element. The tensor must have no gaps.
    #[track_caller]
    pub fn fill(&mut self, value: T) {
        let loc = SourceLoc::caller();
        session::with(|s| {
            let Some(p) = s.program("`fill`", loc) else { return };
            let Some(tensor) = writable(p, self.handle(), loc).and_then(|t| without_gaps(p, t, "`fill`", loc)) else { return };
            p.push(Stmt::Memset { tensor, value: value.literal(), loc });
        });
    }

    /// In a program: copies every element of `from`, which has the same lengths. Both must have no gaps.
    #[track_caller]
    pub fn copy_from(&mut self, from: &Tensor<T, N>) {
        let loc = SourceLoc::caller();
        session::with(|s| {
            let Some(p) = s.program("`copy_from`", loc) else { return };
            let Some(to) = writable(p, self.handle(), loc).and_then(|t| without_gaps(p, t, "`copy_from`", loc)) else { return };
            let Some(from) = p.view(from.handle()).cloned().and_then(|t| without_gaps(p, t, "`copy_from`", loc)) else { return };
            for (a, b) in to.lens.clone().into_iter().zip(from.lens.clone()) {
                p.require((CompareOp::Eq, a, b), "a copy goes to a tensor of the same lengths", loc);
            }
            p.push(Stmt::Copy { to, from, loc });
        });
    }
}

pub(super) fn without_gaps(p: &mut ProgramBuilder, t: ProgramTensor, what: &str, loc: SourceLoc) -> Option<TensorView> {
    if !t.view.packed {
        let message = format!("{what} of `{}`, which has gaps", t.text);
        p.error(Diagnostic::new(loc, message).help("slice along the first axis only, or launch a kernel"));
        return None;
    }
    Some(t.view)
}

/// `tensor.at(..)` in a program: one element, read back to the host.
pub(crate) fn read_back(tensor: Handle, parts: &[Part], dtype: DType, loc: SourceLoc) -> Handle {
    session::with(|s| {
        let Some(p) = s.program("reading back", loc) else { return Handle::POISON };
        let Some(t) = p.view(tensor).cloned() else { return Handle::POISON };
        let Some(at) = parts.iter().map(|c| bound(p, *c, loc)).collect::<Option<Vec<_>>>() else { return Handle::POISON };
        let mut from = t.view;
        for (i, stride) in at.into_iter().zip(from.strides.clone()) {
            from.offset = binary(BinaryOp::Add, from.offset, binary(BinaryOp::Mul, i, stride));
        }
        from.lens = vec![index(1)];
        from.strides = vec![index(1)];
        from.packed = true;
        let var = p.var(dtype, "read");
        p.push(Stmt::ReadBack { var, from, loc });
        p.expr(Expr::Var(var), dtype, loc)
    })
}
