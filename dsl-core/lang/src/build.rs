//! Runs a body once and gives its IR: what `KernelDef::build` and `ProgramDef::build` call.

use super::builder::KernelBuilder;
use super::recorder::{self, ProgramBuilder, ProgramTensor};
use super::session::{self, Handle, Session};
use girih_ir::error::{CompileError, Diagnostic};
use girih_ir::loc::SourceLoc;
use girih_ir::program::{Base, Expr, Program, TensorView};
use girih_ir::registry::instance_path;
use girih_ir::schedule::Knob;
use girih_ir::tile::{Kernel, Op, Param, ParamKind, Ty};
use girih_ir::types::{BinaryOp, DType};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// What the attribute knows of a function.
pub struct Header {
    /// Its name.
    pub name: &'static str,
    /// `crate::module` of it.
    pub module: &'static str,
    /// Its place.
    pub loc: SourceLoc,
    /// Its text.
    pub source: &'static str,
    /// Its parameters.
    pub params: Vec<Param>,
}

/// What a kernel's attribute says.
pub struct Attribute {
    /// The space of schedules.
    pub knobs: Vec<Knob>,
    /// Results must not depend on the order in which blocks come.
    pub deterministic: bool,
}

/// Builds a kernel's tile IR by running its body once.
pub fn kernel(
    header: Header,
    instance: &[(&'static str, &'static str)],
    attribute: Attribute,
    body: impl FnOnce(),
) -> Result<Kernel, CompileError> {
    let build = session::next_build();
    let Header { name, module, loc, source, params } = header;
    let kernel = Kernel {
        name: name.to_string(),
        path: format!("{module}::{name}"),
        instance: instance.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect(),
        loc,
        source: source.to_string(),
        params,
        knobs: attribute.knobs,
        deterministic: attribute.deterministic,
        values: Vec::new(),
        views: Vec::new(),
        shared: Vec::new(),
        requirements: Vec::new(),
        body: Vec::new(),
    };
    let mut builder = KernelBuilder::new(kernel, build);
    for (index, param) in builder.kernel.params.clone().into_iter().enumerate() {
        let view = match param.kind {
            ParamKind::Tensor { dtype, rank, .. } => Some(builder.whole(index, dtype, rank, loc)),
            ParamKind::Scalar(_) => None,
        };
        builder.param_views.push(view);
    }
    let Session::Kernel(builder) = session::run(Session::Kernel(Box::new(builder)), body) else {
        panic!("language: the build of {name} was exchanged")
    };
    let kernel = builder.finish().map_err(|d| CompileError::Kernel(with_source(d, source, loc)))?;
    girih_ir::tile::verify::verify(&kernel, "language");
    Ok(kernel)
}

/// Records a program by running its body once. Called while another program is being recorded, it runs the body in that one.
pub fn program(header: Header, instance: &'static [(&'static str, &'static str)], body: impl FnOnce()) -> Result<Program, CompileError> {
    let Header { name, module, loc, source, params } = header;
    let empty = Program {
        name: name.to_string(),
        path: instance_path(module, name, instance),
        loc,
        source: source.to_string(),
        params,
        temps: Vec::new(),
        scalars: Vec::new(),
        variants: Vec::new(),
        requirements: Vec::new(),
        body: Vec::new(),
    };
    if session::in_program() && session::with(|s| matches!(s, Session::Program(p) if p.inline.is_some())) {
        body();
        session::with(|s| {
            if let Session::Program(p) = s {
                p.inline = None;
            }
        });
        return Ok(empty);
    }
    let mut builder = ProgramBuilder::new(empty, session::next_build());
    for index in 0..builder.program.params.len() {
        let whole = whole_tensor(&builder.program.params[index], index);
        let handle = match whole {
            Some(tensor) => builder.tensor(tensor),
            None => {
                let ParamKind::Scalar(dtype) = builder.program.params[index].kind else { panic!("language: a parameter of no kind") };
                builder.expr(Expr::Param(index), dtype, loc)
            }
        };
        builder.params.push(handle);
    }
    let Session::Program(builder) = session::run(Session::Program(Box::new(builder)), body) else {
        panic!("language: the recording of {name} was exchanged")
    };
    builder.finish().map_err(|d| CompileError::Kernel(with_source(d, source, loc)))
}

fn whole_tensor(param: &Param, index: usize) -> Option<ProgramTensor> {
    let ParamKind::Tensor { dtype, rank, mutable } = param.kind else { return None };
    let lens: Vec<Expr> = (0..rank).map(|k| Expr::Dim(index, k)).collect();
    let view = packed(Base::Param(index), dtype, lens);
    Some(ProgramTensor { view, mutable, text: param.name.clone() })
}

/// A row-major window without gaps at the start of its base.
pub(crate) fn packed(base: Base, dtype: DType, lens: Vec<Expr>) -> TensorView {
    let mut strides = vec![recorder::index(1); lens.len()];
    for k in (0..lens.len().saturating_sub(1)).rev() {
        strides[k] = recorder::binary(BinaryOp::Mul, strides[k + 1].clone(), lens[k + 1].clone());
    }
    TensorView { base, dtype, offset: recorder::index(0), lens, strides, packed: true }
}

fn with_source(diagnostics: Vec<Diagnostic>, source: &str, start: SourceLoc) -> Vec<Diagnostic> {
    let mut all: Vec<Diagnostic> = diagnostics.into_iter().map(|d| d.with_source(source, start)).collect();
    all.sort_by_key(|d| (d.loc.line, d.loc.column));
    all
}

/// The handle of a tensor parameter of the build in progress.
pub(crate) fn tensor_param(index: usize) -> Handle {
    session::with(|s| match s {
        Session::Kernel(k) => Handle::new(k.param_views[index].expect("language: a scalar taken as a tensor").0, k.build),
        Session::Program(p) => p.argument(index),
    })
}

/// The handle of a scalar parameter of the build in progress.
pub(crate) fn scalar_param(index: usize, dtype: DType) -> Handle {
    session::with(|s| match s {
        Session::Kernel(k) => {
            let (loc, name) = (k.kernel.loc, k.kernel.params[index].name.clone());
            let v = k.emit(Op::Param(index), Ty::Scalar(dtype), loc);
            let handle = k.handle(v);
            k.name(handle, &name);
            handle
        }
        Session::Program(p) => p.argument(index),
    })
}

/// The types of an instance with a static lifetime: `("T", type_name::<T>())`, each type name without its path.
pub fn instance(types: &[(&'static str, &'static str)]) -> &'static [(&'static str, &'static str)] {
    type Types = Vec<(&'static str, &'static str)>;
    static KNOWN: Mutex<BTreeMap<Types, &'static [(&'static str, &'static str)]>> = Mutex::new(BTreeMap::new());
    if types.is_empty() {
        return &[];
    }
    let mut known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
    // One small allocation per instance of a kernel, kept for the life of the process.
    known.entry(types.to_vec()).or_insert_with(|| {
        let short = types.iter().map(|(name, path)| (*name, &*Box::leak(short_name(path).into_boxed_str())));
        Box::leak(short.collect::<Vec<_>>().into_boxed_slice())
    })
}

/// A type's name without the paths in it.
fn short_name(path: &str) -> String {
    let mut short = String::new();
    for piece in path.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_' && c != ':') {
        short.push_str(piece.rsplit("::").next().unwrap_or(piece));
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_lose_their_paths() {
        assert_eq!(instance(&[("T", "half::binary16::f16"), ("E", "a::Pair<b::X, f32>")]), &[("T", "f16"), ("E", "Pair<X, f32>")]);
    }
}
