//! Launches of one lowered kernel on the simulator, compared with the evaluator: shapes that meet the kernel's requirements, tensors
//! placed with guard zones and gaps, outputs that hold nothing before.

use girih::inputs::{Distribution, POISON, Rng};
use girih_core::facts::{Facts, MAX_DIVISOR, TensorArg, TensorFacts, packed_strides};
use girih_core::lower::check;
use girih_core::schedule::KnobKind;
use girih_core::schedule::Schedule;
use girih_core::sim;
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::access::{bounded_axes, visit};
use girih_core::tile::eval::{EvalOptions, EvalRef, eval_in};
use girih_core::tile::host::{HostArg, demanded_values};
use girih_core::tile::{Kernel, Op, ParamKind, RequirementKind, Stmt};
use girih_core::types::{DType, Literal};
use nearness::{literal, near};
pub use shapes::{Shape, shapes, shapes_within};
use shapes::{host_args, requirements};

pub mod gpu;
mod nearness;
mod shapes;

/// Bytes before and after each tensor that no launch may touch.
const GUARD: usize = 256;

/// How tensors lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// Packed and aligned.
    Aligned,
    /// Packed, aligned to 8 bytes and no more.
    Even,
    /// Packed, one element off.
    Shifted,
    /// One element off, with gaps between rows and between elements, where the kernel allows it.
    Strided,
    /// Aligned, rows with gaps of 16 elements and more, where the kernel allows it: what a window of a matrix is.
    Rows,
}

/// One argument.
#[derive(Clone, Debug)]
enum Argument {
    Tensor {
        dtype: DType,
        /// The address is the byte offset in the tensor's own buffer.
        shape: TensorArg,
        len: usize,
        read: bool,
        written: bool,
    },
    Scalar(Literal),
}

/// Memory of a kernel's own, by its parameter.
type Owned = Vec<(usize, sim::BufferId)>;

/// The arguments of one launch with their contents.
#[derive(Clone, Debug)]
pub struct Launch {
    args: Vec<Argument>,
    /// Buffers in which whatever is not an element of a tensor that is read holds [`POISON`].
    buffers: Vec<Vec<u8>>,
    /// By how much sums of the inputs may differ: terms · eps · the largest term.
    pub slack: f64,
}

/// The largest product of two random floats.
const LARGEST_PRODUCT: f64 = 64.0;

/// Which tensor parameters the kernel reads, and which it writes.
fn uses(kernel: &Kernel) -> (Vec<bool>, Vec<bool>) {
    let (mut read, mut written) = (vec![false; kernel.params.len()], vec![false; kernel.params.len()]);
    visit(&kernel.body, &mut |stmt| match stmt {
        Stmt::Let(_, Op::Load(view, _) | Op::Gather(view, _) | Op::GatherInside(view, _) | Op::Window { view, .. }) => {
            read[kernel.view(*view).param] = true
        }
        Stmt::Shared(access) => access.kind.view().iter().for_each(|view| read[kernel.view(*view).param] = true),
        Stmt::Store { view, .. } | Stmt::Scatter { view, .. } => written[kernel.view(*view).param] = true,
        Stmt::Atomic { view, .. } => {
            read[kernel.view(*view).param] = true;
            written[kernel.view(*view).param] = true;
        }
        _ => {}
    });
    (read, written)
}

/// The most that a launch can promise: packed, aligned tensors with axes of 48 elements where the kernel leaves that open, or fewer where
/// a tensor of four axes would be too large. Nothing is launched at these lengths, so it does not matter how much work that were.
pub fn best_facts(kernel: &Kernel) -> Facts {
    facts_placed(kernel, Placement::Aligned)
}

/// The most that a launch can promise for which a schedule is legal on the H200: any, or one whose rows fit a tile.
pub fn facts_for(kernel: &Kernel, schedule: &Schedule) -> Facts {
    let best = best_facts(kernel);
    match check(kernel, &best, schedule, Target::h200()) {
        Ok(()) => best,
        Err(_) => best.fitting(kernel, schedule),
    }
}

/// The same of tensors whose rows have gaps.
pub fn row_facts(kernel: &Kernel) -> Facts {
    facts_placed(kernel, Placement::Rows)
}

fn facts_placed(kernel: &Kernel, placement: Placement) -> Facts {
    let shape = shapes_within(i64::MAX, kernel, &[48, 32, 16], 1, 0)
        .pop()
        .unwrap_or_else(|| panic!("{}: no shapes meet its requirements", kernel.name));
    let facts = Launch::new(kernel, &shape, placement, 0).facts(kernel);
    let tensors = facts.tensors.into_iter().map(|t| t.map(|t| TensorFacts { most: vec![], ..t })).collect();
    Facts { tensors, ..facts }
}

/// As [`best_facts`], but lengths are multiples of 2 at most, and pointers of 8 bytes.
pub fn even_facts(kernel: &Kernel) -> Facts {
    let mut facts = best_facts(kernel);
    for tensor in facts.tensors.iter_mut().flatten() {
        tensor.align = tensor.align.min(8);
        let mut stride = 1;
        for (own, len) in tensor.strides.iter_mut().zip(&mut tensor.lens).rev() {
            *len = (*len).min(2);
            *own = stride;
            stride = (stride * *len).min(MAX_DIVISOR);
        }
    }
    facts
}

impl Launch {
    /// Places tensors of a shape and fills those that are read with random elements.
    pub fn new(kernel: &Kernel, shape: &Shape, placement: Placement, seed: u64) -> Launch {
        let requirements = requirements(kernel);
        let packed = |p: usize| requirements.iter().any(|r| matches!(r, RequirementKind::Packed(of) if *of == p));
        let wider = |p: usize| requirements.iter().any(|r| matches!(r, RequirementKind::Aligned(of, _) if *of == p));
        let (read, written) = uses(kernel);
        // A sum of n terms of size 1 in any order: n - 1 roundings of at most eps times the sum of sizes.
        let terms = shape.lens.iter().map(|l| l.iter().product::<i64>()).max().unwrap_or(1) as f64;
        // Matrix instructions add up the products of one element in blocks, whose bits below the largest one's last are cut off; and
        // blocks that share a sum add up its parts.
        let longest = shape.lens.iter().flatten().copied().max().unwrap_or(1) as f64;
        let slack = match &kernel.path {
            p if p.contains("cooperating") || p.contains("clusters") => terms * f32::EPSILON as f64,
            // Rows of products are added up in another order; a weight of 16 bits may be rounded the other way.
            p if p.contains("dots::chained") => {
                let weights = if kernel.path.contains("f16") { 2f64.powi(-10) } else { 0.0 };
                (4.0 * terms * f32::EPSILON as f64 + weights) * LARGEST_PRODUCT
            }
            p if ["dots::sliced", "dots::named", "dots::groups", "dots::neighbours"].iter().any(|d| p.contains(d)) => {
                4.0 * longest * f32::EPSILON as f64 * LARGEST_PRODUCT
            }
            p if p.contains("dots::kernels") && kernel.knobs.iter().any(|k| matches!(k.kind, KnobKind::Unit | KnobKind::Split)) => {
                2.0 * longest * f32::EPSILON as f64 * LARGEST_PRODUCT
            }
            _ => 0.0,
        };
        let mut launch = Launch { args: Vec::new(), buffers: Vec::new(), slack };
        let host: Vec<HostArg> = host_args(shape);
        for (p, param) in kernel.params.iter().enumerate() {
            let ParamKind::Tensor { dtype, .. } = param.kind else {
                launch.args.push(Argument::Scalar(shape.scalars[p].expect("a scalar has a value")));
                continue;
            };
            let strides = match placement {
                Placement::Strided if !packed(p) => gapped_strides(&shape.lens[p]),
                Placement::Rows if !packed(p) => row_strides(&shape.lens[p]),
                _ => packed_strides(&shape.lens[p]),
            };
            let start = match placement {
                Placement::Aligned | Placement::Rows => GUARD,
                _ if wider(p) => GUARD,
                Placement::Even => GUARD + 8,
                Placement::Shifted | Placement::Strided => GUARD + dtype.size(),
            };
            let shape = TensorArg { address: start as u64, lens: shape.lens[p].clone(), strides };
            let reach: i64 = shape.lens.iter().zip(&shape.strides).map(|(l, s)| (l - 1).max(0) * s).sum();
            let len = (start + (reach as usize + 1) * dtype.size() + GUARD).next_multiple_of(16);
            let mut bytes = vec![POISON; len];
            if read[p] {
                let (mut rng, size) = (Rng::new(seed.wrapping_add(p as u64)), dtype.size());
                // Sums of products of small integers are exact, also with the 14 bits that matrix units keep of those of 8-bit floats.
                let usual = if dtype.is_float8() { Distribution::Integers(-4, 4) } else { Distribution::default_of(dtype) };
                let values = demanded_values(kernel, p, &host).map_or(usual, |(first, end)| Distribution::Integers(first, end - 1));
                for at in elements(&shape, size) {
                    let bits = values.draw(dtype, &mut rng);
                    bytes[at..at + size].copy_from_slice(&bits.to_le_bytes()[..size]);
                }
            }
            launch.args.push(Argument::Tensor { dtype, shape, len, read: read[p], written: written[p] });
            launch.buffers.push(bytes);
        }
        launch
    }

    /// Sets all elements of a tensor to zero.
    pub fn zero(&mut self, kernel: &Kernel, name: &str) {
        self.set(kernel, name, &|_| 0);
    }

    /// Sets the elements of a tensor to these bit patterns, by their row-major number.
    pub fn set(&mut self, kernel: &Kernel, name: &str, bits: &dyn Fn(usize) -> u64) {
        let param = kernel.params.iter().position(|p| p.name == name).unwrap_or_else(|| panic!("no parameter {name}"));
        let Argument::Tensor { dtype, shape, .. } = &self.args[param] else { panic!("{name} is no tensor") };
        let (buffer, size) = (self.args[..param].iter().filter(|a| matches!(a, Argument::Tensor { .. })).count(), dtype.size());
        for (i, at) in elements(shape, size).enumerate() {
            self.buffers[buffer][at..at + size].copy_from_slice(&bits(i).to_le_bytes()[..size]);
        }
    }

    /// The bytes of a tensor's elements before the launch; all parameters before it are tensors.
    pub fn elements_of(&self, param: usize) -> Vec<u8> {
        self.elements_in(&self.buffers, param)
    }

    /// The same in buffers after a launch.
    pub fn elements_in(&self, buffers: &[Vec<u8>], param: usize) -> Vec<u8> {
        let Argument::Tensor { dtype, shape, .. } = &self.args[param] else { panic!("parameter {param} is no tensor") };
        elements(shape, dtype.size()).flat_map(|at| buffers[param][at..at + dtype.size()].to_vec()).collect()
    }

    /// The same with these words as the elements of the 32-bit tensors that are read, in the order of the parameters.
    pub fn holding(mut self, contents: &[Vec<u32>]) -> Launch {
        let tensors = self.args.iter().filter_map(|a| match a {
            Argument::Tensor { shape, read, .. } => Some((shape, *read)),
            Argument::Scalar(_) => None,
        });
        let read = tensors.zip(&mut self.buffers).filter(|((_, read), _)| *read);
        for (((shape, _), buffer), words) in read.zip(contents) {
            elements(shape, 4).zip(words).for_each(|(at, word)| buffer[at..at + 4].copy_from_slice(&word.to_le_bytes()));
        }
        self
    }

    /// The words of the tensors that are not read, after a launch. Every one of them must have been written.
    pub fn results(&self, after: &After) -> Vec<Vec<u32>> {
        let tensors = self.args.iter().zip(&after.ids).filter_map(|(a, id)| match a {
            Argument::Tensor { shape, read: false, .. } => Some((shape, id.expect("a tensor has memory"))),
            _ => None,
        });
        let word = |id, at| {
            assert_eq!(after.memory.first_uninitialised(id, at, 4), None, "an element of a result was not written");
            u32::from_le_bytes(after.memory.read(id, at, 4).try_into().expect("four bytes"))
        };
        tensors.map(|(shape, id)| elements(shape, 4).map(|at| word(id, at)).collect()).collect()
    }

    /// The launch, without slack for sums in another order.
    pub fn exact(self) -> Launch {
        Launch { slack: 0.0, ..self }
    }

    /// Everything that holds for these arguments.
    pub fn facts(&self, kernel: &Kernel) -> Facts {
        let arg = |a: &Argument| match a {
            Argument::Tensor { shape, .. } => Some(shape.clone()),
            Argument::Scalar(_) => None,
        };
        let args: Vec<_> = self.args.iter().map(arg).collect();
        Facts::of_launch(&args, true).bounded(&bounded_axes(kernel), &args)
    }

    /// The buffers after the launch, by the evaluator.
    pub fn evaluate(&self, kernel: &Kernel) -> Result<Vec<Vec<u8>>, String> {
        self.evaluate_under(kernel, None)
    }

    /// As [`Launch::evaluate`], with the tiles of a schedule: for kernels that show what lies in one tile.
    pub fn evaluate_under(&self, kernel: &Kernel, schedule: Option<Schedule>) -> Result<Vec<Vec<u8>>, String> {
        let mut buffers = self.buffers.clone();
        let mut refs = Vec::new();
        let mut buffer = 0;
        for arg in &self.args {
            refs.push(match arg {
                Argument::Scalar(l) => EvalRef::Scalar(*l),
                Argument::Tensor { shape, .. } => {
                    buffer += 1;
                    EvalRef::Tensor { buffer: buffer - 1, offset: shape.address as usize, shape: shape.clone() }
                }
            });
        }
        let mut slices: Vec<&mut [u8]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
        eval_in(kernel, &mut slices, &refs, &EvalOptions { schedule, ..EvalOptions::default() }).map_err(|e| e.to_string())?;
        Ok(buffers)
    }

    /// Runs a lowered kernel on the simulator, on a GPU of one multiprocessor, so that dealt grids take several turns.
    pub fn simulate(&self, kernel: &simt::Kernel, fuel: u64) -> Result<After, Box<sim::Trap>> {
        self.run(kernel, &sim::Options { fuel, count: false, ..sim::Options::default() }).map(|(simulated, _)| simulated)
    }

    /// The same with threads stepped in another order.
    pub fn simulate_in_order(&self, kernel: &simt::Kernel, seed: u64) -> Result<After, Box<sim::Trap>> {
        self.run(kernel, &sim::Options { seed, count: false, ..sim::Options::default() }).map(|(simulated, _)| simulated)
    }

    /// The same within so many warp instructions, and what the launch did.
    pub fn simulate_as(&self, kernel: &simt::Kernel, seed: u64, fuel: u64) -> Result<(After, sim::Report), Box<sim::Trap>> {
        self.run(kernel, &sim::Options { seed, fuel, count: false, ..sim::Options::default() })
    }

    /// What a lowered kernel does, counted on the simulator.
    pub fn counters(&self, kernel: &simt::Kernel) -> Result<sim::Counters, Box<sim::Trap>> {
        self.run(kernel, &sim::Options::default()).map(|(_, report)| report.counters)
    }

    /// A kernel with memory of its own runs twice: the second launch finds there what the first one left.
    fn run(&self, kernel: &simt::Kernel, options: &sim::Options) -> Result<(After, sim::Report), Box<sim::Trap>> {
        let (after, report, owned) = self.run_on(kernel, options, None)?;
        if owned.is_empty() {
            return Ok((after, report));
        }
        let (again, report, _) = self.run_on(kernel, options, Some((&after.memory, &owned)))?;
        Ok((After { first: Some(Box::new(after)), ..again }, report))
    }

    fn run_on(
        &self,
        kernel: &simt::Kernel,
        options: &sim::Options,
        before: Option<(&sim::Memory, &Owned)>,
    ) -> Result<(After, sim::Report, Owned), Box<sim::Trap>> {
        let mut memory = sim::Memory::new();
        let mut buffers = self.buffers.iter();
        let mut ids = Vec::new();
        for arg in &self.args {
            let Argument::Tensor { dtype, shape, len, read, .. } = arg else {
                ids.push(None);
                continue;
            };
            let id = memory.alloc(*len);
            let bytes = buffers.next().expect("a buffer per tensor");
            if *read {
                elements(shape, dtype.size()).for_each(|at| memory.write(id, at, &bytes[at..at + dtype.size()]));
            }
            ids.push(Some(id));
        }
        let host: Vec<HostArg> = self.args.iter().map(Argument::host).collect();
        let owned: Owned = kernel
            .workspaces(&host, 1)
            .into_iter()
            .map(|(p, bytes)| {
                let id = memory.alloc(bytes);
                match before.and_then(|(memory, owned)| owned.iter().find(|(q, _)| *q == p).map(|(_, id)| memory.read(*id, 0, bytes))) {
                    Some(left) => memory.write(id, 0, left),
                    None => memory.fill(id, 0, bytes, 0),
                }
                (p, id)
            })
            .collect();
        let arg = |p: &simt::Param| match &p.kind {
            simt::ParamKind::Pointer { tensor, .. } => pointer(&host, &ids, *tensor),
            simt::ParamKind::Workspace { .. } => {
                let at = kernel.workspace_named(&p.name).expect("a launch takes the workspaces of the first one");
                let (_, buffer) = *owned.iter().find(|(p, _)| *p == at).expect("a workspace has memory");
                sim::Arg::Buffer { buffer, offset: 0 }
            }
            simt::ParamKind::Constant { tensor, dtype, .. } => {
                let (sim::Arg::Buffer { buffer, offset }, HostArg::Tensor(t)) = (pointer(&host, &ids, *tensor), &host[*tensor]) else {
                    panic!("a tensor has a buffer")
                };
                sim::Arg::Constant { buffer, offset, bytes: t.numel() as usize * dtype.size() }
            }
            simt::ParamKind::TensorMap { map } => {
                let sim::Arg::Buffer { buffer, offset } = pointer(&host, &ids, map.tensor) else { panic!("a tensor has a buffer") };
                let (lens, strides) = map.extents(&host, 1);
                sim::Arg::Map { buffer, offset, lens, strides }
            }
            simt::ParamKind::Scalar { scalar, .. } => match &host[*scalar] {
                HostArg::Scalar(l) => sim::Arg::Scalar(*l),
                HostArg::Tensor(_) => panic!("parameter {scalar} is no scalar"),
            },
            simt::ParamKind::Host { dtype, value } => sim::Arg::Scalar(Literal::from_i64(*dtype, value.eval(&host, 1))),
        };
        let mut reports = Vec::new();
        for launch in kernel.launches() {
            let args: Vec<sim::Arg> = launch.params.iter().map(arg).collect();
            let grid = launch.launch.grid.eval(&host, 1) as u32;
            reports.push(sim::simulate(&sim::Program::decode(launch), grid, &args, &mut memory, options)?);
        }
        Ok((After { memory, ids, first: None }, reports.swap_remove(0), owned))
    }

    /// How a simulated or launched kernel disagrees with the evaluator, on any device; `None` where it agrees on all.
    pub fn disagreement(&self, kernel: &Kernel, simt: &simt::Kernel, fuel: u64) -> Option<String> {
        match (self.evaluate(kernel), self.everywhere(simt, fuel)) {
            (Err(e), _) => Some(format!("eval: {e}")),
            (_, Err(trap)) => Some(trap),
            (Ok(expected), Ok(after)) => after.iter().find_map(|after| self.difference(kernel, after, &expected)),
        }
    }

    /// The first difference between the simulator's memory and the evaluator's, in words. Elements that the evaluator leaves alone
    /// must hold nothing (or what they held before), and so must everything around the elements.
    pub fn difference(&self, kernel: &Kernel, after: &After, expected: &[Vec<u8>]) -> Option<String> {
        if let Some(first) = &after.first
            && let Some(found) = self.difference(kernel, first, expected)
        {
            return Some(format!("after the first of two launches, {found}"));
        }
        let tensors = self.args.iter().zip(&kernel.params).filter(|(a, _)| matches!(a, Argument::Tensor { .. }));
        for (((arg, param), expected), id) in tensors.zip(expected).zip(after.ids.iter().flatten()) {
            let Argument::Tensor { dtype, shape, len, read, written } = arg else { unreachable!("filtered above") };
            let size = dtype.size();
            let mut element = vec![false; *len];
            for (i, at) in elements(shape, size).enumerate() {
                element[at..at + size].fill(true);
                let unknown = after.memory.first_uninitialised(*id, at, size).is_some();
                let untouched = expected[at..at + size].iter().all(|b| *b == POISON);
                let (got, want) = (after.memory.read(*id, at, size), &expected[at..at + size]);
                // Nothing at all is near to what was there before: 0 is, as a float.
                let fine = match (unknown, untouched) {
                    (true, _) => !*read && untouched,
                    (false, true) => got == want,
                    (false, false) => near(*dtype, got, want, self.slack),
                };
                if !fine {
                    let got = if unknown { "nothing".to_string() } else { literal(*dtype, got).to_string() };
                    let want = literal(*dtype, want);
                    return Some(format!("element {i} of {} {:?} holds {got}, not {want}", param.name, shape.lens));
                }
            }
            let outside = (0..*len).find(|at| !element[*at] && after.memory.first_uninitialised(*id, *at, 1).is_none());
            if let Some(at) = outside.filter(|_| *written) {
                return Some(format!("byte {} beside {} {:?} was written", at as i64 - shape.address as i64, param.name, shape.lens));
            }
        }
        None
    }
}

/// Memory after a launch, by the simulator or on a GPU.
pub struct After {
    memory: sim::Memory,
    ids: Vec<Option<sim::BufferId>>,
    /// The same after the first of two launches, whose words the second one found.
    first: Option<Box<After>>,
}

impl After {
    /// The bytes of each tensor's buffer after the launch, poison where nothing was ever written.
    pub fn buffers(&self, launch: &Launch) -> Vec<Vec<u8>> {
        let lens = launch.args.iter().filter_map(|a| if let Argument::Tensor { len, .. } = a { Some(*len) } else { None });
        let byte = |id, at| match self.memory.first_uninitialised(id, at, 1) {
            Some(_) => POISON,
            None => self.memory.read(id, at, 1)[0],
        };
        self.ids.iter().flatten().zip(lens).map(|(id, len)| (0..len).map(|at| byte(*id, at)).collect()).collect()
    }

    /// The bytes of a tensor's elements after the launch; zero where nothing was ever written.
    pub fn elements_of(&self, launch: &Launch, param: usize) -> Vec<u8> {
        let (Argument::Tensor { dtype, shape, .. }, Some(id)) = (&launch.args[param], self.ids[param]) else {
            panic!("parameter {param} is no tensor")
        };
        let element = |at| match self.memory.first_uninitialised(id, at, dtype.size()) {
            Some(_) => vec![0; dtype.size()],
            None => self.memory.read(id, at, dtype.size()).to_vec(),
        };
        elements(shape, dtype.size()).flat_map(element).collect()
    }
}

impl Argument {
    fn host(&self) -> HostArg {
        match self {
            Argument::Tensor { shape, .. } => HostArg::Tensor(shape.clone()),
            Argument::Scalar(l) => HostArg::Scalar(*l),
        }
    }
}

fn pointer(host: &[HostArg], ids: &[Option<sim::BufferId>], tensor: usize) -> sim::Arg {
    let (HostArg::Tensor(t), Some(buffer)) = (&host[tensor], ids[tensor]) else { panic!("parameter {tensor} is no tensor") };
    sim::Arg::Buffer { buffer, offset: t.address }
}

/// Rows three elements longer than they need be, every second element of the last axis.
fn gapped_strides(lens: &[i64]) -> Vec<i64> {
    let mut strides = vec![2; lens.len()];
    for k in (0..lens.len().saturating_sub(1)).rev() {
        strides[k] = strides[k + 1] * lens[k + 1] + 3;
    }
    strides
}

/// Rows that begin at multiples of 16 elements, and end before the next one.
fn row_strides(lens: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; lens.len()];
    for k in (0..lens.len().saturating_sub(1)).rev() {
        strides[k] = ((strides[k + 1] * lens[k + 1]).max(1) + 15) / 16 * 16 + 16;
    }
    strides
}

/// Byte offsets of a tensor's elements, in row-major order.
fn elements(shape: &TensorArg, size: usize) -> impl Iterator<Item = usize> + '_ {
    (0..shape.numel()).map(move |i| {
        let (mut rest, mut at) = (i, 0);
        for (len, stride) in shape.lens.iter().zip(&shape.strides).rev() {
            at += rest % len * stride;
            rest /= len;
        }
        shape.address as usize + at as usize * size
    })
}
