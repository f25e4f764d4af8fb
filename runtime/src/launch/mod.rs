//! Launches: arguments checked, facts computed, a schedule chosen, the kernel compiled once and launched.

pub mod event;
pub(crate) mod order;
#[cfg(feature = "tune")]
pub(crate) mod other_kernels;
pub mod program;
pub mod program_schedule;
mod runners;
pub mod schedule_lookup;
pub mod shared_memory;
pub(crate) mod steps;
pub mod stream;
pub mod tensor;

use crate::compile::{self, Compiled, Output};
use crate::device::buffer::Buffer;
use crate::device::{Device, Loaded};
use crate::error::{Error, headline};
use girih_core::aliasing::{Sharing, Strided};
use girih_core::error::CompileError;
use girih_core::facts::{Facts, TensorArg};
use girih_core::lengths::Lengths;
use girih_core::loc::SourceLoc;
use girih_core::registry::KernelDef;
use girih_core::schedule::{Schedule, illegal_first_choices};
use girih_core::tile::access::bounded_axes;
use girih_core::tile::host::{HostArg, HostExpr};
use girih_core::tile::{self, ParamKind, RequirementKind};
use girih_core::types::{DType, Literal};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, Once, RwLock};

/// An argument of a launch.
#[derive(Clone, PartialEq, Debug)]
pub enum Argument {
    /// A tensor. Its memory must lie on the launching device.
    Tensor {
        /// Element type.
        dtype: DType,
        /// Address, lengths, strides.
        tensor: TensorArg,
        /// The caller gave it by `&mut`.
        mutable: bool,
    },
    /// A scalar of the parameter's type.
    Scalar(Literal),
    /// A tensor whose memory is no longer borrowed; launches refuse it.
    Dead,
}

impl Argument {
    /// A packed tensor at byte `offset` of a buffer.
    pub fn packed(buffer: &Buffer, offset: usize, dtype: DType, lens: &[i64], mutable: bool) -> Argument {
        Argument::Tensor { dtype, tensor: TensorArg::packed(buffer.address() + offset as u64, lens), mutable }
    }
    fn into_host(self) -> HostArg {
        match self {
            Argument::Tensor { tensor, .. } => HostArg::Tensor(tensor),
            Argument::Scalar(l) => HostArg::Scalar(l),
            Argument::Dead => HostArg::Scalar(Literal::bool(false)),
        }
    }
}

/// A kernel with everything that a launch needs of it, ready for some arguments.
#[derive(Clone)]
pub struct Prepared {
    /// The tile kernel.
    pub kernel: Arc<tile::Kernel>,
    /// The facts it was compiled for.
    pub facts: Facts,
    /// The schedule it was compiled under.
    pub schedule: Schedule,
    /// What was compiled.
    pub compiled: Arc<Compiled>,
    /// What is launched.
    pub loaded: Loaded,
}

/// Kernels that a device has built, compiled and loaded, by definition.
#[derive(Default)]
pub(crate) struct Kernels {
    known: Mutex<HashMap<Identity, Arc<Known>>>,
}

/// One instance of one kernel: its builder alone may be shared by identical functions.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Identity {
    build: usize,
    name: (usize, usize),
    module: usize,
    instance: usize,
}

impl Identity {
    fn of(def: &KernelDef) -> Identity {
        Identity {
            build: def.build as usize,
            name: (def.name.as_ptr() as usize, def.name.len()),
            module: def.module.as_ptr() as usize,
            instance: def.instance.as_ptr() as usize,
        }
    }
}

struct Known {
    kernel: Arc<tile::Kernel>,
    requirements: Vec<Check>,
    /// Axes whose lengths the facts bound.
    walked: Vec<(usize, usize)>,
    variants: Mutex<Variants>,
}

#[derive(Default)]
struct Variants {
    prepared: Vec<(Wanted, Arc<Prepared>)>,
    /// Arguments that were checked, with what they lead to: programs launch a kernel with the same few sets of arguments again and again.
    recent: VecDeque<(Option<Schedule>, Vec<Argument>, Arc<Prepared>)>,
}

/// What, besides its facts, leads a launch to a variant of its kernel.
#[derive(Clone, PartialEq)]
enum Wanted {
    /// The schedule that it names.
    Explicit(Schedule),
    /// What was chosen for the first launch of its lengths' class ([`Lengths::class`]).
    Class(Lengths),
}

/// Sets of arguments that are remembered per kernel.
const RECENT: usize = 8;

/// A requirement as the host checks it.
struct Check {
    kind: CheckKind,
    loc: SourceLoc,
}

enum CheckKind {
    Packed(usize),
    AtMost(HostExpr, HostExpr),
    Equal(HostExpr, HostExpr),
    Divisible(HostExpr, i64),
    Aligned(usize, usize),
    /// What lies in memory is the caller's word; but elements of which none is allowed are none.
    Values(usize, HostExpr, HostExpr),
}

/// Checks the arguments, chooses a schedule (the explicit one, else the store's, a committed winner, the default), compiles and
/// loads what is not in memory yet, and queues the launch.
pub fn launch(device: &Device, def: &KernelDef, schedule: Option<&Schedule>, args: Vec<Argument>) -> Result<(), Error> {
    let prepared = prepare(device, def, schedule, &args)?;
    let host: Vec<HostArg> = args.into_iter().map(Argument::into_host).collect();
    device.launch(&prepared.loaded, &host)
}

/// As [`launch`] without launching: [`Device::launch`] of the result's `loaded` with [`host_args`] does the rest, as often as wanted.
pub fn prepare(device: &Device, def: &KernelDef, schedule: Option<&Schedule>, args: &[Argument]) -> Result<Arc<Prepared>, Error> {
    let known = known(device, def)?;
    let mut variants = known.variants.lock().unwrap_or_else(|e| e.into_inner());
    if let Some((_, _, prepared)) = variants.recent.iter().find(|(s, a, _)| a == args && s.as_ref() == schedule) {
        return Ok(prepared.clone());
    }
    let facts = check(&known.kernel, &known.requirements, &known.walked, args, device.multiprocessors())?;
    let lengths = lengths(args);
    let wanted = schedule.map_or_else(|| Wanted::Class(lengths.class()), |s| Wanted::Explicit(s.clone()));
    let found = variants.prepared.iter().find(|(w, p)| *w == wanted && p.facts == facts).map(|(_, p)| p.clone());
    let prepared = match found {
        Some(prepared) => prepared,
        None => {
            let chosen = match &wanted {
                Wanted::Explicit(schedule) => schedule.clone(),
                Wanted::Class(_) => choose(device, &known.kernel, &facts, &lengths)?,
            };
            // Several classes, and explicit schedules, may lead to the same code.
            let same = variants.prepared.iter().find(|(_, p)| p.schedule == chosen && p.facts == facts).map(|(_, p)| p.clone());
            let prepared = same.map_or_else(|| build(device, &known.kernel, facts, chosen).map(Arc::new), Ok)?;
            variants.prepared.push((wanted, prepared.clone()));
            prepared
        }
    };
    variants.recent.truncate(RECENT - 1);
    variants.recent.push_front((schedule.cloned(), args.to_vec(), prepared.clone()));
    Ok(prepared)
}

/// The arguments as [`Device::launch`] takes them.
pub fn host_args(args: &[Argument]) -> Vec<HostArg> {
    args.iter().cloned().map(Argument::into_host).collect()
}

/// How long the arguments are.
pub fn lengths(args: &[Argument]) -> Lengths {
    let lens = |arg: &Argument| match arg {
        Argument::Tensor { tensor, .. } => Some(tensor.lens.clone()),
        Argument::Scalar(_) | Argument::Dead => None,
    };
    Lengths(args.iter().map(lens).collect())
}

fn build(device: &Device, kernel: &Arc<tile::Kernel>, facts: Facts, schedule: Schedule) -> Result<Prepared, Error> {
    let output = if device.needs_cubin() { Output::Cubin } else { Output::Source };
    let compiled = Arc::new(compile::compile(kernel, &facts, &schedule, device.target(), output)?);
    let loaded = device.load(&compiled)?;
    Ok(Prepared { kernel: kernel.clone(), facts, schedule, compiled, loaded })
}

/// Where launches without an explicit schedule get theirs; [`crate::launch::schedule_lookup`] implements it for the tuner's store and the committed winners.
pub trait ScheduleSource: Send + Sync {
    /// The best known schedule for a kernel on a device (its name and target) under these facts and for these lengths. It need not be
    /// legal: the launch proves that again and goes on to the next source if it is not.
    fn schedule(&self, kernel: &tile::Kernel, facts: &Facts, lengths: &Lengths, device: &Device) -> Option<Schedule>;
}

static SOURCES: RwLock<Vec<Arc<dyn ScheduleSource>>> = RwLock::new(Vec::new());

/// Adds a source that launches ask, in the order of addition, before they fall back to the default schedule. Where none was
/// added, the first launch adds the tuner's store and the committed winners.
pub fn add_schedule_source(source: Arc<dyn ScheduleSource>) {
    SOURCES.write().unwrap_or_else(|e| e.into_inner()).push(source);
}

/// The schedule of a launch that names none: the first legal one of the sources, else the default.
pub fn choose(device: &Device, kernel: &tile::Kernel, facts: &Facts, lengths: &Lengths) -> Result<Schedule, Error> {
    static STANDARD: Once = Once::new();
    STANDARD.call_once(|| {
        if SOURCES.read().unwrap_or_else(|e| e.into_inner()).is_empty() {
            schedule_lookup::add_sources();
        }
    });
    let check = |s: &Schedule| girih_core::lower::check(kernel, facts, s, device.target());
    let sources = SOURCES.read().unwrap_or_else(|e| e.into_inner());
    let known = sources.iter().filter_map(|s| s.schedule(kernel, facts, lengths, device)).find(|s| check(s).is_ok());
    if let Some(schedule) = known {
        return Ok(schedule);
    }
    let default = Schedule::default_of(kernel);
    let Err(error) = check(&default) else { return Ok(default) };
    // First choices that are none anywhere are a mistake, not what this GPU or launch lacks.
    if let Some(wrong) = illegal_first_choices(kernel) {
        return Err(CompileError::Kernel(vec![wrong]).into());
    }
    let Some(stands_in) = schedule_lookup::instead(kernel, facts, device.target()) else { return Err(error.into()) };
    crate::notes::once(format!(
        "{}: what its author lists first is illegal on {}, so {} is taken: {}",
        kernel.full_name(),
        device.name(),
        stands_in.short(kernel),
        headline(&error.to_string())
    ));
    Ok(stands_in)
}

fn known(device: &Device, def: &KernelDef) -> Result<Arc<Known>, Error> {
    let identity = Identity::of(def);
    let mut all = device.kernels().known.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(known) = all.get(&identity) {
        return Ok(known.clone());
    }
    let kernel = Arc::new((def.build)()?);
    let known = Arc::new(Known { requirements: checks(&kernel), walked: bounded_axes(&kernel), kernel, variants: Mutex::default() });
    all.insert(identity, known.clone());
    Ok(known)
}

/// The requirements with their values as host expressions.
fn checks(kernel: &tile::Kernel) -> Vec<Check> {
    let value = |v| HostExpr::of_value(kernel, v).expect("launch: a requirement's values are computable on the host, the verifier says");
    let kind = |kind: &RequirementKind| match kind {
        RequirementKind::Packed(p) => CheckKind::Packed(*p),
        RequirementKind::AtMost(a, b) => CheckKind::AtMost(value(*a), value(*b)),
        RequirementKind::Equal(a, b) => CheckKind::Equal(value(*a), value(*b)),
        RequirementKind::Divisible(a, by) => CheckKind::Divisible(value(*a), *by),
        RequirementKind::Aligned(p, bytes) => CheckKind::Aligned(*p, *bytes),
        RequirementKind::Values(p, a, b) => CheckKind::Values(*p, value(*a), value(*b)),
    };
    let shapes = girih_core::tile::access::shape_requirements(kernel);
    kernel.requirements.iter().chain(&shapes).map(|r| Check { kind: kind(&r.kind), loc: r.loc }).collect()
}

/// The facts of a launch, or what is wrong with its arguments.
pub fn check_arguments(kernel: &tile::Kernel, args: &[Argument], multiprocessors: i64) -> Result<Facts, Error> {
    check(kernel, &checks(kernel), &bounded_axes(kernel), args, multiprocessors)
}

fn check(
    kernel: &tile::Kernel,
    requirements: &[Check],
    walked: &[(usize, usize)],
    args: &[Argument],
    multiprocessors: i64,
) -> Result<Facts, Error> {
    let wrong = |message: String, loc: SourceLoc| Error::Launch { kernel: kernel.full_name(), message, loc };
    if args.len() != kernel.params.len() {
        let names: Vec<&str> = kernel.params.iter().map(|p| p.name.as_str()).collect();
        return Err(wrong(format!("{} arguments for the parameters ({})", args.len(), names.join(", ")), kernel.loc));
    }
    for (param, arg) in kernel.params.iter().zip(args) {
        fits(param, arg).map_err(|message| wrong(message, kernel.loc))?;
    }
    overlap(kernel, args).map_err(|message| wrong(message, kernel.loc))?;
    let host = host_args(args);
    for requirement in requirements {
        requirement.holds(kernel, &host, multiprocessors).map_err(|message| wrong(message, requirement.loc))?;
    }
    let tensors: Vec<Option<TensorArg>> = host
        .into_iter()
        .map(|a| match a {
            HostArg::Tensor(t) => Some(t),
            HostArg::Scalar(_) => None,
        })
        .collect();
    Ok(Facts::of_launch(&tensors, true).bounded(walked, &tensors))
}

/// Whether an argument is of its parameter's kind, type and rank.
fn fits(param: &tile::Param, arg: &Argument) -> Result<(), String> {
    let name = &param.name;
    match (&param.kind, arg) {
        (ParamKind::Tensor { dtype, rank, mutable }, Argument::Tensor { dtype: found, tensor, mutable: given }) => {
            if found != dtype {
                return Err(format!("`{name}` is a tensor of {dtype}, the argument one of {found}"));
            }
            if tensor.lens.len() != *rank || tensor.strides.len() != *rank {
                return Err(format!("`{name}` has {rank} axes, the argument {}", tensor.lens.len()));
            }
            if *mutable && !given {
                return Err(format!("`{name}` is stored to: it needs a mutable argument"));
            }
            if tensor.address % dtype.size() as u64 != 0 {
                return Err(format!(
                    "`{name}` starts at {:#x}, which is not aligned to its elements' {} bytes",
                    tensor.address,
                    dtype.size()
                ));
            }
            if let Some(len) = tensor.lens.iter().find(|l| **l < 0) {
                return Err(format!("`{name}` has the length {len}"));
            }
            if let Some(k) = (0..*rank).find(|k| tensor.strides[*k] < 0 && tensor.lens[*k] > 1) {
                let stride = tensor.strides[k];
                return Err(format!(
                    "`{name}` has the stride {stride} along axis {k}; pass it forwards and say `.reversed({k})` in the kernel"
                ));
            }
            Ok(())
        }
        (ParamKind::Scalar(dtype), Argument::Scalar(l)) if l.dtype == *dtype => Ok(()),
        (ParamKind::Scalar(dtype), Argument::Scalar(l)) => {
            Err(format!("`{name}` is a scalar of type {dtype}, the argument one of {}", l.dtype))
        }
        (ParamKind::Scalar(dtype), Argument::Tensor { .. }) => Err(format!("`{name}` is a scalar of type {dtype}, the argument a tensor")),
        (ParamKind::Tensor { .. }, Argument::Scalar(_)) => Err(format!("`{name}` is a tensor, the argument a scalar")),
        (_, Argument::Dead) => Err(format!("`{name}` was taken out of its cudarc slice, whose borrow has ended")),
    }
}

/// A tensor that is stored to shares no byte with another argument.
fn overlap(kernel: &tile::Kernel, args: &[Argument]) -> Result<(), String> {
    let view = |arg: &Argument| match arg {
        Argument::Tensor { dtype, tensor, .. } => {
            Some(Strided::of_elements(tensor.address.into(), dtype.size(), &tensor.lens, &tensor.strides))
        }
        Argument::Scalar(_) | Argument::Dead => None,
    };
    for (i, param) in kernel.params.iter().enumerate() {
        let ParamKind::Tensor { mutable: true, .. } = param.kind else { continue };
        let Some(stored) = view(&args[i]) else { continue };
        for (j, other) in kernel.params.iter().enumerate() {
            let Some(beside) = view(&args[j]).filter(|_| i != j) else { continue };
            let shared = match stored.sharing(&beside) {
                Sharing::Nothing => continue,
                Sharing::Bytes if stored.is_contiguous() && beside.is_contiguous() => {
                    let ((first, end), (other_first, other_end)) = (stored.range(), beside.range());
                    format!("share {} bytes", end.min(other_end) - first.max(other_first))
                }
                Sharing::Bytes => "share elements".to_string(),
                Sharing::Unknown => "may share elements: their strides are too many and too uneven to tell".to_string(),
            };
            return Err(format!(
                "`{}`, which is stored to, and `{}` {shared}; write a kernel with one `&mut` parameter to work in place",
                param.name, other.name
            ));
        }
    }
    Ok(())
}

impl Check {
    fn holds(&self, kernel: &tile::Kernel, args: &[HostArg], multiprocessors: i64) -> Result<(), String> {
        let value = |e: &HostExpr| e.eval(args, multiprocessors);
        let text = |e: &HostExpr| e.named(kernel);
        match &self.kind {
            CheckKind::Packed(p) => match &args[*p] {
                HostArg::Tensor(t) if !t.is_packed() => Err(format!(
                    "`{}` must be row-major without gaps; its shape is {:?} and its strides are {:?}",
                    kernel.params[*p].name, t.lens, t.strides
                )),
                _ => Ok(()),
            },
            CheckKind::AtMost(a, b) if value(a) > value(b) => {
                Err(format!("{} = {} must be at most {} = {}", text(a), value(a), text(b), value(b)))
            }
            CheckKind::Equal(a, b) if value(a) != value(b) => {
                Err(format!("{} = {} must equal {} = {}", text(a), value(a), text(b), value(b)))
            }
            CheckKind::Divisible(a, by) if value(a) % by != 0 => Err(format!("{} = {} must be a multiple of {by}", text(a), value(a))),
            CheckKind::Aligned(p, bytes) => match &args[*p] {
                HostArg::Tensor(t) if t.address % *bytes as u64 != 0 => Err(format!(
                    "`{}` starts at {:#x}, and is viewed here as elements of {bytes} bytes: pass memory that starts at a multiple of {bytes}",
                    kernel.params[*p].name, t.address
                )),
                _ => Ok(()),
            },
            CheckKind::Values(p, first, end) if value(first) >= value(end) => match &args[*p] {
                HostArg::Tensor(t) if t.numel() > 0 => Err(format!(
                    "`{}` has {} elements, and each of them lies in {}..{}, which is {}..{}",
                    kernel.params[*p].name,
                    t.numel(),
                    text(first),
                    text(end),
                    value(first),
                    value(end)
                )),
                _ => Ok(()),
            },
            CheckKind::AtMost(..) | CheckKind::Equal(..) | CheckKind::Divisible(..) | CheckKind::Values(..) => Ok(()),
        }
    }
}
