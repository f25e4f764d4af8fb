//! The work of a launch at its true size, counted from some of its blocks.

use super::contents::{ByParam, Inputs};
use super::floor::Basis;
use super::launches::host_arguments;
use girih_core::cuda::function_name;
use girih_core::model::{self, Work};
use girih_core::program::walk::LaunchArg;
use girih_core::sim::counting::{Count, CountArg, Fuel, Slice, Uncounted, count};
use girih_core::sim::{Class, Program};
use girih_core::simt::{self, ParamKind};
use girih_core::target::Target;
use girih_core::tile::host::HostArg;
use girih_core::types::{DType, Literal};

/// What is looked at for a prediction, at most: some seconds where a block alone does much.
pub const FUEL: Fuel<'static> = Fuel { operations: 16_000_000, is_late: None };

/// Why a launch could not be counted.
#[derive(Clone, Debug)]
pub enum NotCounted {
    /// It takes more operations than may be looked at.
    TooMuch,
    /// What this parameter holds decides where its threads go, and is not known.
    Unknown(String),
}

impl std::fmt::Display for NotCounted {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            NotCounted::TooMuch => f.write_str("it takes too many operations"),
            NotCounted::Unknown(param) => write!(f, "what `{param}` holds decides where threads go, and is not known"),
        }
    }
}

/// A launch of a kernel that may be several.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The `__global__` function.
    pub function: String,
    /// Its numbers.
    pub count: Count,
    /// The same for the model.
    pub work: Work,
    /// Blocks and threads.
    pub launch: model::Launch,
    /// Whether anything had to be guessed.
    pub basis: Basis,
}

/// Counts a kernel's launches on these arguments, by so much `fuel` for each.
///
/// # Errors
/// As [`NotCounted`] says.
pub fn counted(simt: &simt::Kernel, args: &[LaunchArg], inputs: &Inputs, target: &Target, fuel: Fuel) -> Result<Vec<Counted>, NotCounted> {
    let host = host_arguments(args);
    simt.launches().filter_map(|launch| one(launch, (args, &host), inputs, target, fuel).transpose()).collect()
}

fn one(
    simt: &simt::Kernel,
    (args, host): (&[LaunchArg], &[HostArg]),
    inputs: &Inputs,
    target: &Target,
    fuel: Fuel,
) -> Result<Option<Counted>, NotCounted> {
    let multiprocessors = i64::from(target.multiprocessors);
    let grid = simt.launch.grid.eval(host, multiprocessors);
    let Some(grid) = u32::try_from(grid).ok().filter(|g| *g > 0) else { return Ok(None) };
    let program = Program::decode(simt);
    let tensors: Vec<Option<usize>> = simt.params.iter().map(|p| tensor(&p.kind)).collect();
    let slice = Slice::of(&program);
    // What blocks leave each other is taken for zeros: whether sums are finite, say.
    let own = |p: usize| matches!(simt.params[p].kind, ParamKind::Workspace { .. });
    let known = |p: usize| tensors[p].is_some_and(|t| inputs.knows(t) && (!slice.words().contains(&p) || inputs.knows_left(t)));
    let unknown = slice.contents().iter().copied().find(|p| !own(*p) && !known(*p));
    if let Some(p) = unknown {
        return Err(NotCounted::Unknown(simt.params[p].name.clone()));
    }
    let given: Vec<CountArg> = simt.params.iter().map(|p| argument(&p.kind, args, host, multiprocessors)).collect();
    let contents = ByParam { inputs, tensors, dtypes: simt.params.iter().map(|p| element(&p.kind)).collect() };
    let count = count((&program, &slice), grid, &given, &contents, fuel).map_err(|Uncounted::TooMuch| NotCounted::TooMuch)?;
    let launch = model::Launch { grid: u64::from(grid), block: simt.launch.block, stages: 1 };
    let basis = if count.guessed { Basis::Estimated } else { Basis::Counted };
    let work = work(&count, &program, &launch, &given, target);
    Ok(Some(Counted { function: function_name(simt), count, work, launch, basis }))
}

fn tensor(kind: &ParamKind) -> Option<usize> {
    match kind {
        ParamKind::Pointer { tensor, .. } | ParamKind::Constant { tensor, .. } => Some(*tensor),
        ParamKind::TensorMap { map } => Some(map.tensor),
        _ => None,
    }
}

fn element(kind: &ParamKind) -> DType {
    match kind {
        ParamKind::Pointer { dtype, .. }
        | ParamKind::Constant { dtype, .. }
        | ParamKind::Scalar { dtype, .. }
        | ParamKind::Host { dtype, .. }
        | ParamKind::Workspace { dtype, .. } => *dtype,
        ParamKind::TensorMap { map } => map.dtype,
    }
}

fn argument(kind: &ParamKind, args: &[LaunchArg], host: &[HostArg], multiprocessors: i64) -> CountArg {
    if let Some(LaunchArg::Tensor(region)) = tensor(kind).and_then(|t| args.get(t)) {
        let (_, end) = region.span();
        let (offset, bytes) = (region.offset.rem_euclid(256) as u64, (end - region.offset).max(0) as u64);
        return match kind {
            ParamKind::TensorMap { map } => {
                let (lens, strides) = map.extents(host, multiprocessors);
                CountArg::Map { offset, bytes, lens, strides }
            }
            _ => CountArg::Pointer { offset, bytes },
        };
    }
    match kind {
        ParamKind::Workspace { dtype, len } => {
            CountArg::Pointer { offset: 0, bytes: len.eval(host, multiprocessors).max(0) as u64 * dtype.size() as u64 }
        }
        ParamKind::Host { dtype, value } => CountArg::Scalar(Literal::from_i64(*dtype, value.eval(host, multiprocessors))),
        ParamKind::Scalar { scalar, dtype, .. } => match host.get(*scalar) {
            Some(HostArg::Scalar(l)) => CountArg::Scalar(*l),
            _ => CountArg::Scalar(Literal::from_i64(*dtype, 0)),
        },
        ParamKind::Pointer { .. } | ParamKind::Constant { .. } | ParamKind::TensorMap { .. } => CountArg::Pointer { offset: 0, bytes: 0 },
    }
}

fn work(c: &Count, program: &Program, launch: &model::Launch, args: &[CountArg], target: &Target) -> Work {
    let grid = launch.grid as f64;
    let instructions = c.instructions() - c.warps(Class::Move);
    let [half, tf32, int8, float8] = c.matrix();
    let [l2_lines, l2_sectors] = c.passed_on();
    Work {
        load_sectors: c.global_load().sectors + c.global_async().sectors,
        store_sectors: c.global_store().sectors + c.global_atomic().sectors,
        partial_stores: c.partial_stores(),
        lines: c.lines(),
        l2_lines,
        l2_sectors,
        memory_bytes: memory_bytes(c, program, args, target),
        shared_wavefronts: c.shared_wavefronts().iter().sum(),
        instructions,
        float_operations: c.threads(Class::Fma) + c.threads(Class::FloatAdd) + c.threads(Class::FloatMul),
        special_functions: c.threads(Class::SpecialFunction),
        matrix_groups: c.matrix_groups(),
        matrix_half: half,
        matrix_tf32: tf32,
        matrix_int8: int8,
        matrix_float8: float8,
        atomics: c.threads(Class::Atomic),
        rounds: 1.0,
        chain: c.chain() / grid,
        longest_chain: c.longest,
        behind: c.behind,
        constant_copies: constant_copies(program.kernel()),
        repeats: repeats(instructions, launch, program),
    }
}

/// Copies in front of a launch: of each tensor in constant memory.
pub(super) fn constant_copies(simt: &simt::Kernel) -> f64 {
    simt::constant_offsets(&simt.params).0.len() as f64
}

/// How often a warp runs an instruction of its code on average.
pub(super) fn repeats(instructions: f64, launch: &model::Launch, program: &Program) -> f64 {
    let warps = launch.grid as f64 * f64::from(launch.block.div_ceil(32));
    (instructions / warps / program.length().max(1.0)).max(1.0)
}

/// Bytes from and to memory. What blocks leave each other stays in the cache where it fits.
fn memory_bytes(c: &Count, program: &Program, args: &[CountArg], target: &Target) -> f64 {
    let of = |(p, (param, arg)): (usize, (&simt::Param, &CountArg))| {
        let [read, written] = c.unique(p);
        let CountArg::Pointer { bytes, .. } = arg else { return 0.0 };
        let kept = matches!(param.kind, ParamKind::Workspace { .. }) && *bytes as f64 <= 0.5 * target.l2 as f64;
        if kept { 0.0 } else { read + written }
    };
    program.kernel().params.iter().zip(args).enumerate().map(of).sum()
}
