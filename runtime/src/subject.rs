//! What checks, tuning and benchmarks work on: a challenge's program, or a bare kernel as a program of one launch.
//!
//! A [`Subject`] makes [`Call`]s: arguments on the host for given sizes and a seed. [`crate::placed`] brings them to a device.

use crate::challenge::{Case, Challenge, Sizes, near};
use crate::inputs::{Distribution, HostTensor, Rng};
use girih_core::loc::SourceLoc;
use girih_core::program::signature::{Signature, SignatureParam};
use girih_core::program::{Arg, Base, Expr, Program, Stmt, TensorView};
use girih_core::registry::KernelDef;
use girih_core::tile::access::shape_requirements;
use girih_core::tile::host::{HostArg, HostExpr};
use girih_core::tile::{Kernel, ParamKind, Requirement, RequirementKind};
use girih_core::types::{BinaryOp, DType, Literal};
use std::sync::Arc;

/// A program that can be checked, tuned and timed.
#[derive(Clone)]
pub struct Subject {
    /// The challenge's slug, or the kernel's path.
    pub name: String,
    /// What is run.
    pub program: Arc<Program>,
    /// Inputs, references and sizes, if a challenge gives them.
    pub challenge: Option<Challenge>,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Challenge { signature: Signature, bound: Vec<usize> },
    Kernel(Arc<Kernel>),
}

/// The arguments of one call, on the host.
#[derive(Clone, Debug)]
pub struct Call {
    /// The sizes it was made for.
    pub sizes: Sizes,
    /// One per parameter of the program.
    pub args: Vec<CallArg>,
}

/// One argument.
#[derive(Clone, Debug)]
pub enum CallArg {
    /// A packed tensor.
    Tensor {
        /// Its name in the signature (or the kernel).
        name: String,
        /// Its elements before the call; poison where nothing is read.
        data: HostTensor,
        /// The program's element type: the size is the same as the data's.
        dtype: DType,
        /// The program may store to it.
        mutable: bool,
        /// It holds data before the call, not poison.
        read: bool,
        /// Elements of the program's type by which the pointer may be off alignment: whole pixels, where a shape ends in a constant.
        unit: usize,
    },
    /// A scalar of the program's type.
    Scalar(Literal),
}

impl Subject {
    /// A challenge's program.
    ///
    /// # Errors
    /// What is wrong with the program, the signature or how they fit, as text.
    pub fn of_challenge(challenge: &Challenge) -> Result<Subject, String> {
        let program = (challenge.program.build)().map_err(|e| e.to_string())?;
        let signature = Signature::parse(challenge.signature)?;
        let bound = signature.bind(&program)?;
        let named = challenge.inputs.iter().map(|(n, _)| n).chain(challenge.outputs.iter().map(|(n, _)| n));
        for name in named {
            if signature.position(name).is_none_or(|i| signature.params[i].shape.is_none()) {
                return Err(format!("challenge {}: `{name}` is no pointer of `{signature}`", challenge.slug));
            }
        }
        let kind = Kind::Challenge { signature, bound };
        Ok(Subject { name: challenge.slug.into(), program: Arc::new(program), challenge: Some(challenge.clone()), kind })
    }

    /// A kernel by itself, as a program that launches it once with all its parameters.
    ///
    /// # Errors
    /// What is wrong with the kernel, as text.
    pub fn of_kernel(def: &KernelDef) -> Result<Subject, String> {
        let kernel = (def.build)().map_err(|e| e.to_string())?;
        let program = single_launch(def, &kernel);
        Ok(Subject { name: def.path(), program: Arc::new(program), challenge: None, kind: Kind::Kernel(Arc::new(kernel)) })
    }

    /// The judge's signature, of a challenge.
    pub fn signature(&self) -> Option<&Signature> {
        match &self.kind {
            Kind::Challenge { signature, .. } => Some(signature),
            Kind::Kernel(_) => None,
        }
    }

    /// The size to tune and time at: the challenge's, with `asked` in place of what it says. A bare kernel has none of its own.
    ///
    /// # Errors
    /// A size that the subject does not have, or none at all, with those it has.
    pub fn perf_sizes(&self, asked: &Sizes) -> Result<Sizes, String> {
        let known = self.size_names();
        if let Some(unknown) = asked.0.keys().find(|n| !known.contains(n)) {
            return Err(format!("{} has no size `{unknown}`; it has {}", self.name, known.join(", ")));
        }
        match &self.challenge {
            Some(c) => Ok(asked.or(&c.perf)),
            None if asked.0.is_empty() => {
                Err(format!("{} is no challenge, so it has no size of its own: give one, as in --size N=1000000 (every axis)", self.name))
            }
            None => Ok(asked.clone()),
        }
    }

    /// Names that sizes may give: the scalars of a challenge's signature; for a kernel `N` (every axis), a parameter (each of its axes,
    /// or the scalar), or `x.0` (one axis).
    pub fn size_names(&self) -> Vec<String> {
        match &self.kind {
            Kind::Challenge { signature, .. } => signature.params.iter().filter(|p| p.shape.is_none()).map(|p| p.name.clone()).collect(),
            Kind::Kernel(kernel) => {
                let mut names = vec!["N".to_string()];
                for p in &kernel.params {
                    names.push(p.name.clone());
                    if let ParamKind::Tensor { rank, .. } = p.kind {
                        names.extend((0..rank).map(|k| format!("{}.{k}", p.name)));
                    }
                }
                names
            }
        }
    }

    /// Sizes to check at: the challenge's, or random ones that meet the kernel's requirements.
    pub fn check_sizes(&self, seed: u64) -> Vec<Sizes> {
        match (&self.challenge, &self.kind) {
            (Some(c), _) => c.checks.iter().map(|s| s.or(&c.perf)).collect(),
            (None, Kind::Kernel(kernel)) => random_sizes(kernel, seed),
            (None, Kind::Challenge { .. }) => Vec::new(),
        }
    }

    /// The sizes that lengths depend on.
    pub fn extents(&self) -> Vec<String> {
        match &self.kind {
            Kind::Challenge { signature, .. } => {
                (0..signature.params.len()).filter(|i| signature.is_extent(*i)).map(|i| signature.params[i].name.clone()).collect()
            }
            Kind::Kernel(_) => self.size_names(),
        }
    }

    /// Bytes of the largest tensor at sizes, without making it.
    ///
    /// # Errors
    /// As [`Subject::call`].
    pub fn largest_bytes(&self, sizes: &Sizes) -> Result<f64, String> {
        let largest = match &self.kind {
            Kind::Challenge { signature, .. } => {
                let values = signature_values(&self.name, signature, sizes)?;
                let bytes = |i| {
                    let lens: Vec<i64> = signature.shape(i, &values)?;
                    Some(lens.iter().map(|l| *l as f64).product::<f64>() * signature.params[i].dtype.size() as f64)
                };
                (0..signature.params.len()).filter_map(bytes).fold(0.0, f64::max)
            }
            Kind::Kernel(kernel) => kernel.params.iter().map(|p| numel(p, sizes) as f64 * 4.0).fold(0.0, f64::max),
        };
        Ok(largest)
    }

    /// Arguments for sizes, with data drawn by `seed`.
    ///
    /// # Errors
    /// A size that is missing or negative.
    pub fn call(&self, sizes: &Sizes, seed: u64) -> Result<Call, String> {
        match &self.kind {
            Kind::Challenge { signature, bound } => self.challenge_call(signature, bound, sizes, seed),
            Kind::Kernel(kernel) => kernel_call(kernel, sizes, seed),
        }
    }

    fn challenge_call(&self, signature: &Signature, bound: &[usize], sizes: &Sizes, seed: u64) -> Result<Call, String> {
        let challenge = self.challenge.as_ref().expect("a challenge's subject has its challenge");
        let values = signature_values(&self.name, signature, sizes)?;
        let arg = |(param, at): (&girih_core::tile::Param, &usize)| {
            let there = &signature.params[*at];
            match param.kind {
                ParamKind::Scalar(dtype) => Ok(CallArg::Scalar(Literal::from_f64(dtype, sizes.size(&there.name)))),
                ParamKind::Tensor { dtype, mutable, .. } => {
                    let lens = signature.shape(*at, &values).expect("bound to a pointer");
                    if let Some(len) = lens.iter().find(|l| **l < 0) {
                        return Err(format!("{}: {sizes} gives `{}` the length {len}", self.name, there.name));
                    }
                    let input = challenge.inputs.iter().find(|(n, _)| *n == there.name);
                    let data = match input {
                        Some((_, d)) => HostTensor::random(there.dtype, &lens, d, seed.wrapping_add(*at as u64)),
                        None => HostTensor::poisoned(there.dtype, &lens),
                    };
                    Ok(CallArg::Tensor {
                        name: there.name.clone(),
                        data,
                        dtype,
                        mutable,
                        read: input.is_some(),
                        unit: unit(there.shape.as_deref().unwrap_or_default()),
                    })
                }
            }
        };
        let args = self.program.params.iter().zip(bound).map(arg).collect::<Result<_, String>>()?;
        Ok(Call { sizes: sizes.clone(), args })
    }

    /// Compares the tensors after a call with the references at every element, or at `samples` random ones of each
    /// output; tensors that are no output must be as before. `after` has one entry per parameter, `None` for scalars.
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn verify(&self, call: &Call, after: &[Option<HostTensor>], samples: Option<usize>) -> Result<(), String> {
        let Some(challenge) = &self.challenge else { return Ok(()) };
        let case = call.case();
        for (arg, after) in call.args.iter().zip(after) {
            let (CallArg::Tensor { name, data, .. }, Some(after)) = (arg, after) else { continue };
            match challenge.outputs.iter().find(|(n, _)| n == name) {
                None if after.bytes != data.bytes => return Err(format!("the input `{name}` was changed")),
                None => {}
                Some((_, reference)) => {
                    let check = |i: usize| {
                        let (got, expected) = (after.get(i), reference(&case, i));
                        // The reference says what the exact result is; the output can only hold its own type's values.
                        let rounded = Literal::from_f64(data.dtype, expected).to_f64();
                        let fine = challenge.accepts(got, expected) || got == rounded;
                        if fine { Ok(()) } else { Err(difference(name, data, i, got, expected, &call.sizes)) }
                    };
                    each_or_sampled(data.numel(), samples, check)?;
                }
            }
        }
        Ok(())
    }

    /// Compares the tensors after a call with those after another way of running it, at every element.
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn compare(&self, call: &Call, after: &[Option<HostTensor>], expected: &[Option<HostTensor>]) -> Result<(), String> {
        // A bare kernel's values are as large as its inputs make them: compared as single precision allows.
        let (atol, rtol) = self.challenge.as_ref().map_or((1e-5, 1e-5), |c| (c.atol, c.rtol));
        for (arg, (after, expected)) in call.args.iter().zip(after.iter().zip(expected)) {
            let (CallArg::Tensor { name, data, .. }, Some(after), Some(expected)) = (arg, after, expected) else { continue };
            if after.bytes == expected.bytes {
                continue;
            }
            let check = |i: usize| {
                let (got, want) = (after.get(i), expected.get(i));
                let exact = !data.dtype.is_float();
                let fine = if exact { after.bits(i) == expected.bits(i) } else { near(got, want, atol, rtol) };
                if fine { Ok(()) } else { Err(difference(name, data, i, got, want, &call.sizes)) }
            };
            each_or_sampled(data.numel(), None, check)?;
        }
        Ok(())
    }

    /// Bytes that must move: every input once, every output once, by the arguments' sizes.
    pub fn compulsory_bytes(&self, call: &Call) -> f64 {
        let of = |arg: &CallArg| match arg {
            CallArg::Scalar(_) => 0,
            CallArg::Tensor { name, data, mutable, .. } => {
                let in_out = match &self.challenge {
                    Some(c) => c.inputs.iter().any(|(n, _)| n == name) as usize + c.outputs.iter().any(|(n, _)| n == name) as usize,
                    None => 1 + *mutable as usize,
                };
                data.bytes.len() * in_out
            }
        };
        call.args.iter().map(of).sum::<usize>() as f64
    }
}

impl Call {
    /// The call as references read it.
    pub fn case(&self) -> Case {
        let tensors = self.args.iter().filter_map(|a| match a {
            CallArg::Tensor { name, data, .. } => Some((name.clone(), data.clone())),
            CallArg::Scalar(_) => None,
        });
        Case { sizes: self.sizes.clone(), tensors: tensors.collect() }
    }
}

/// Values for a signature's parameters, as shapes read them: any number for pointers.
fn signature_values(name: &str, signature: &Signature, sizes: &Sizes) -> Result<Vec<HostArg>, String> {
    let value = |p: &SignatureParam| match (&p.shape, sizes.0.get(&p.name)) {
        (Some(_), _) => Ok(HostArg::Scalar(Literal::index(0))),
        (None, Some(v)) => Ok(HostArg::Scalar(Literal::from_f64(p.dtype, *v))),
        (None, None) => Err(format!("{name}: the size `{}` is missing", p.name)),
    };
    signature.params.iter().map(value).collect()
}

/// The product of a shape's constant last extents: four bytes of a pixel are never torn apart.
fn unit(shape: &[HostExpr]) -> usize {
    let constant = |e: &HostExpr| match e {
        HostExpr::Const(c) => Some(*c as usize),
        _ => None,
    };
    shape.iter().rev().map_while(constant).product()
}

fn each_or_sampled(numel: usize, samples: Option<usize>, check: impl Fn(usize) -> Result<(), String>) -> Result<(), String> {
    match samples {
        Some(samples) if samples < numel => {
            let mut rng = Rng::new(numel as u64);
            // The ends are where tails go wrong.
            (0..64).chain(numel - 64..numel).try_for_each(&check)?;
            (0..samples).try_for_each(|_| check(rng.below(numel)))
        }
        _ => (0..numel).try_for_each(check),
    }
}

fn difference(name: &str, data: &HostTensor, i: usize, got: f64, expected: f64, sizes: &Sizes) -> String {
    let mut at = Vec::new();
    let mut rest = i as i64;
    for len in data.lens.iter().rev() {
        at.push((rest % len).to_string());
        rest /= len;
    }
    at.reverse();
    format!("`{name}[{}]` is {got:?}, expected {expected:?}, at {sizes}", at.join(", "))
}

fn single_launch(def: &KernelDef, kernel: &Kernel) -> Program {
    let dim = |p, k| Expr::Dim(p, k);
    let arg = |(i, p): (usize, &girih_core::tile::Param)| match p.kind {
        ParamKind::Scalar(_) => Arg::Scalar(Expr::Param(i)),
        ParamKind::Tensor { dtype, rank, .. } => {
            let product = |from: usize| {
                let one = Expr::Literal(Literal::index(1));
                (from..rank).fold(one, |e, k| Expr::Binary(BinaryOp::Mul, Box::new(e), Box::new(dim(i, k))))
            };
            Arg::Tensor(TensorView {
                base: Base::Param(i),
                dtype,
                offset: Expr::Literal(Literal::index(0)),
                lens: (0..rank).map(|k| dim(i, k)).collect(),
                strides: (0..rank).map(|k| product(k + 1)).collect(),
                packed: true,
            })
        }
    };
    let args = kernel.params.iter().enumerate().map(arg).collect();
    Program {
        name: kernel.name.clone(),
        path: kernel.path.clone(),
        loc: kernel.loc,
        source: String::new(),
        params: kernel.params.clone(),
        temps: Vec::new(),
        scalars: Vec::new(),
        requirements: Vec::new(),
        body: vec![Stmt::Launch { site: 0, kernel: *def, args, loc: SourceLoc::NONE }],
    }
}

/// The length of axis `k` of parameter `name`, by the most specific size that is given.
fn axis_size(sizes: &Sizes, name: &str, k: usize) -> Option<i64> {
    let given = sizes.0.get(&format!("{name}.{k}")).or_else(|| sizes.0.get(name)).or_else(|| sizes.0.get("N"));
    given.map(|v| *v as i64)
}

fn kernel_call(kernel: &Kernel, sizes: &Sizes, seed: u64) -> Result<Call, String> {
    let mut args = Vec::new();
    for (i, p) in kernel.params.iter().enumerate() {
        args.push(match p.kind {
            ParamKind::Scalar(dtype) => {
                let bits = Distribution::Integers(1, 3).draw(dtype, &mut Rng::new(seed.wrapping_add(i as u64)));
                CallArg::Scalar(sizes.0.get(&p.name).map_or(Literal { dtype, bits }, |v| Literal::from_f64(dtype, *v)))
            }
            ParamKind::Tensor { dtype, rank, mutable } => {
                let len = |k| axis_size(sizes, &p.name, k).filter(|l| *l >= 0);
                let lens: Option<Vec<i64>> = (0..rank).map(len).collect();
                let lens =
                    lens.ok_or_else(|| format!("`{}` of kernel `{}` has no length at {sizes}: give N, {0} or {0}.0", p.name, kernel.name))?;
                // Mutable tensors may be read, too, so they hold data and not poison.
                let data = HostTensor::random(dtype, &lens, &Distribution::default_of(dtype), seed.wrapping_add(i as u64));
                CallArg::Tensor { name: p.name.clone(), data, dtype, mutable, read: true, unit: 1 }
            }
        });
    }
    Ok(Call { sizes: sizes.clone(), args })
}

/// Random sizes of every axis that meet the kernel's requirements.
fn random_sizes(kernel: &Kernel, seed: u64) -> Vec<Sizes> {
    const LENGTHS: [i64; 10] = [0, 1, 2, 7, 31, 64, 97, 256, 517, 1031];
    let mut rng = Rng::new(seed);
    let mut found: Vec<Sizes> = Vec::new();
    for attempt in 0..400 {
        let shared: Vec<i64> = (0..8).map(|_| LENGTHS[rng.below(LENGTHS.len())]).collect();
        let mut sizes = Sizes::default();
        for p in &kernel.params {
            let ParamKind::Tensor { rank, .. } = p.kind else { continue };
            for k in 0..rank {
                // Mostly tensors of one shape, sometimes all axes alike, sometimes all different.
                let len = match attempt % 4 {
                    0 | 1 => shared[k],
                    2 => shared[0],
                    _ => LENGTHS[rng.below(LENGTHS.len())],
                };
                sizes.0.insert(format!("{}.{k}", p.name), len as f64);
            }
        }
        meet_requirements(kernel, &mut sizes);
        let small = kernel.params.iter().all(|p| numel(p, &sizes) <= 1 << 17);
        if small && requirements_hold(kernel, &sizes) && !found.contains(&sizes) {
            found.push(sizes);
        }
        if found.len() == 8 {
            break;
        }
    }
    found
}

fn numel(p: &girih_core::tile::Param, sizes: &Sizes) -> i64 {
    match p.kind {
        ParamKind::Tensor { rank, .. } => (0..rank).map(|k| axis_size(sizes, &p.name, k).unwrap_or(0)).product(),
        ParamKind::Scalar(_) => 0,
    }
}

fn host_args(kernel: &Kernel, sizes: &Sizes) -> Vec<HostArg> {
    let arg = |p: &girih_core::tile::Param| match p.kind {
        ParamKind::Tensor { rank, .. } => {
            let lens: Vec<i64> = (0..rank).map(|k| axis_size(sizes, &p.name, k).unwrap_or(0)).collect();
            HostArg::Tensor(girih_core::facts::TensorArg::packed(0, &lens))
        }
        ParamKind::Scalar(d) => HostArg::Scalar(Literal::from_i64(d, 2)),
    };
    kernel.params.iter().map(arg).collect()
}

/// What a launch must satisfy: what the author asked for, and that tensors which are walked together have one shape.
fn requirements(kernel: &Kernel) -> Vec<Requirement> {
    kernel.requirements.iter().cloned().chain(shape_requirements(kernel)).collect()
}

/// Sets lengths that an equality asks for; twice, for equalities that build on each other.
fn meet_requirements(kernel: &Kernel, sizes: &mut Sizes) {
    for _ in 0..2 {
        for r in &requirements(kernel) {
            let RequirementKind::Equal(a, b) = r.kind else { continue };
            let (Some(a), Some(b)) = (HostExpr::of_value(kernel, a), HostExpr::of_value(kernel, b)) else { continue };
            let args = host_args(kernel, sizes);
            for (to, from) in [(&a, &b), (&b, &a)] {
                if let HostExpr::Dim(p, k) = to {
                    let value = from.eval(&args, 1);
                    sizes.0.insert(format!("{}.{k}", kernel.params[*p].name), value as f64);
                    break;
                }
            }
        }
    }
}

fn requirements_hold(kernel: &Kernel, sizes: &Sizes) -> bool {
    let args = host_args(kernel, sizes);
    let value = |v| HostExpr::of_value(kernel, v).map(|e| e.eval(&args, 1));
    requirements(kernel).iter().all(|r| match r.kind {
        RequirementKind::Packed(_) => true,
        RequirementKind::AtMost(a, b) => value(a) <= value(b),
        RequirementKind::Equal(a, b) => value(a) == value(b),
        RequirementKind::Divisible(a, by) => value(a).is_none_or(|a| a % by == 0),
    })
}
