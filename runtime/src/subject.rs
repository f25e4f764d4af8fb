//! What checks, tuning and benchmarks work on: a challenge's program, or a bare kernel as a program of one launch.
//!
//! A [`Subject`] makes [`Call`]s: arguments on the host for given sizes and a seed. [`crate::placed`] brings them to a device.

use crate::bare_kernel::{kernel_call, numel, single_launch};
use crate::challenge::{Case, Challenge, Reference, Sizes, judged, near};
use crate::deviation::{Deviation, Tally};
use crate::differences::{Difference, Mismatch, each_or_sampled};
use crate::inputs::HostTensor;
use crate::random_sizes::{Drawn, random_sizes};
use crate::requirements::{launchable, met};
use girih_core::lengths::Lengths;
use girih_core::program::Program;
use girih_core::program::signature::{Signature, SignatureParam};
use girih_core::program::walk::ProgramArg;
use girih_core::registry::KernelDef;
use girih_core::tile::host::{HostArg, HostExpr};
use girih_core::tile::{Kernel, ParamKind};
use girih_core::types::{DType, Literal};
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
    /// The program as its author wrote it, with variants open.
    pub source: Arc<Program>,
    /// The variants that [`Subject::program`] takes.
    pub variants: Vec<bool>,
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

impl Call {
    /// How long the program's arguments are.
    pub fn lengths(&self) -> Lengths {
        ProgramArg::lengths(&self.arguments())
    }

    /// Lengths and scalars, without the data.
    pub fn arguments(&self) -> Vec<ProgramArg> {
        let arg = |a: &CallArg| match a {
            CallArg::Tensor { data, .. } => ProgramArg::Tensor(data.lens.clone()),
            CallArg::Scalar(l) => ProgramArg::Scalar(*l),
        };
        self.args.iter().map(arg).collect()
    }
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
        /// Elements of the program's type by which the pointer may be off alignment: whole pixels, where a shape ends in a constant, and whole words,
        /// where a kernel sees words in it.
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
        signature.check_constness(&program, &bound)?;
        let named = challenge.inputs.iter().map(|(n, _)| n).chain(challenge.outputs.iter().map(|(n, _)| n));
        for name in named {
            if signature.position(name).is_none_or(|i| signature.params[i].shape.is_none()) {
                return Err(format!("challenge {}: `{name}` is no pointer of `{signature}`", challenge.slug));
            }
        }
        are_scalars(challenge, &signature)?;
        Ok(Subject::new(challenge.slug.into(), program, Some(challenge.clone()), Kind::Challenge { signature, bound }))
    }

    fn new(name: String, program: Program, challenge: Option<Challenge>, kind: Kind) -> Subject {
        let (variants, source) = (program.default_variants(), Arc::new(program));
        let program = Arc::new(source.with_variants(&variants));
        Subject { name, program, challenge, source, variants, kind }
    }

    /// The subject with its program's variants chosen; ones of another number leave it as it is.
    pub fn with_variants(&self, variants: &[bool]) -> Subject {
        if variants.len() != self.variants.len() {
            return self.clone();
        }
        let program = Arc::new(self.source.with_variants(variants));
        Subject { program, variants: variants.to_vec(), ..self.clone() }
    }

    /// The subject with each choice of its program's variants, the author's first sides first; with many variants, only with one of them
    /// at a time taken the other way.
    pub fn ways(&self) -> Vec<Subject> {
        let n = self.variants.len();
        let choices: Vec<Vec<bool>> = if n <= 3 {
            (0..1usize << n).map(|bits| (0..n).map(|v| bits >> v & 1 == 0).collect()).collect()
        } else {
            (0..=n).map(|other| (0..n).map(|v| v + 1 != other).collect()).collect()
        };
        choices.iter().map(|c| self.with_variants(c)).collect()
    }

    /// A kernel by itself, as a program that launches it once with all its parameters.
    ///
    /// # Errors
    /// What is wrong with the kernel, as text.
    pub fn of_kernel(def: &KernelDef) -> Result<Subject, String> {
        let kernel = (def.build)().map_err(|e| e.to_string())?;
        let program = single_launch(def, &kernel);
        Ok(Subject::new(def.path(), program, None, Kind::Kernel(Arc::new(kernel))))
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
    /// A size that the subject does not have, or none at all, with those it has; lengths that a kernel's requirements exclude.
    pub fn perf_sizes(&self, asked: &Sizes) -> Result<Sizes, String> {
        let known = self.size_names();
        if let Some(unknown) = asked.0.keys().find(|n| !known.contains(n)) {
            return Err(format!("{} has no size `{unknown}`; it has {}", self.name, known.join(", ")));
        }
        self.are_values(asked)?;
        match &self.challenge {
            Some(c) => {
                let sizes = asked.or(&c.perf);
                match known.iter().find(|n| !sizes.0.contains_key(*n)) {
                    None => Ok(sizes),
                    Some(name) => {
                        let help = format!("give the challenge one (`.perf_at(\"{name}=1000000\")`) or this command --size {name}=1000000");
                        Err(format!("{} has no perf size that says `{name}`: {help}", self.name))
                    }
                }
            }
            None if asked.0.is_empty() => {
                Err(format!("{} is no challenge, so it has no size of its own: give one, as in --size N=1000000 (every axis)", self.name))
            }
            None => match &self.kind {
                Kind::Kernel(kernel) => launchable(kernel, asked).map(|()| asked.clone()),
                Kind::Challenge { .. } => Ok(asked.clone()),
            },
        }
    }

    /// Whether numbers are values of what they are given for: lengths and other integers are whole.
    fn are_values(&self, sizes: &Sizes) -> Result<(), String> {
        let dtype = |name: &str| match &self.kind {
            Kind::Challenge { signature, .. } => signature.position(name).map(|i| signature.params[i].dtype),
            Kind::Kernel(kernel) => kernel.params.iter().find_map(|p| match p.kind {
                ParamKind::Scalar(dtype) if p.name == name => Some(dtype),
                _ => None,
            }),
        };
        for (name, value) in &sizes.0 {
            let dtype = dtype(name).unwrap_or(DType::I64);
            if !dtype.is_float() && Literal::from_f64(dtype, *value).to_f64() != *value {
                let help = "give a whole number that it can hold, as in";
                return Err(format!("{}: {name}={value} is no value of type {dtype}: {help} --size {name}=1000", self.name));
            }
        }
        Ok(())
    }

    /// These sizes, with a kernel's lengths changed so that its requirements hold where that is possible.
    pub fn meeting_requirements(&self, sizes: Sizes) -> Sizes {
        match &self.kind {
            Kind::Kernel(kernel) => met(kernel, sizes),
            Kind::Challenge { .. } => sizes,
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
        self.drawn_sizes(seed).sizes
    }

    /// As [`Subject::check_sizes`], and what could not be drawn.
    pub(crate) fn drawn_sizes(&self, seed: u64) -> Drawn {
        let of_challenge = || self.challenge.iter().flat_map(|c| c.checks.iter().map(|s| s.or(&c.perf))).collect();
        match &self.kind {
            Kind::Kernel(kernel) if self.challenge.is_none() => random_sizes(kernel, seed),
            _ => Drawn { sizes: of_challenge(), left_out: 0, reason: None },
        }
    }

    /// The sizes that lengths depend on.
    pub fn extents(&self) -> Vec<String> {
        match &self.kind {
            Kind::Challenge { signature, .. } => {
                (0..signature.params.len()).filter(|i| signature.is_extent(*i)).map(|i| signature.params[i].name.clone()).collect()
            }
            // Scalars may be given like sizes; no length of a kernel's own launch follows from them.
            Kind::Kernel(kernel) => {
                let scalar = |name: &String| kernel.params.iter().any(|p| p.name == *name && matches!(p.kind, ParamKind::Scalar(_)));
                self.size_names().into_iter().filter(|n| !scalar(n)).collect()
            }
        }
    }

    /// Bytes of the largest tensor at sizes, without making it.
    ///
    /// # Errors
    /// As [`Subject::call`].
    pub fn largest_bytes(&self, sizes: &Sizes) -> Result<f64, String> {
        Ok(self.tensor_bytes(sizes)?.into_iter().fold(0.0, f64::max))
    }

    /// Bytes of every tensor at sizes, without making them.
    ///
    /// # Errors
    /// As [`Subject::call`].
    pub fn tensor_bytes(&self, sizes: &Sizes) -> Result<Vec<f64>, String> {
        match &self.kind {
            Kind::Challenge { signature, .. } => {
                let values = signature_values(&self.name, signature, sizes)?;
                let bytes = |i| {
                    let lens: Vec<i64> = signature.shape(i, &values)?;
                    Some(lens.iter().map(|l| *l as f64).product::<f64>() * signature.params[i].dtype.size() as f64)
                };
                Ok((0..signature.params.len()).filter_map(bytes).collect())
            }
            Kind::Kernel(kernel) => {
                let bytes = |p: &girih_core::tile::Param| match p.kind {
                    ParamKind::Tensor { dtype, .. } => Some(numel(p, sizes) as f64 * dtype.size() as f64),
                    ParamKind::Scalar(_) => None,
                };
                Ok(kernel.params.iter().filter_map(bytes).collect())
            }
        }
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

    /// What a call at these sizes passes to the program: lengths and scalars, without data.
    ///
    /// # Errors
    /// As [`Subject::call`].
    pub fn arguments(&self, sizes: &Sizes) -> Result<Vec<ProgramArg>, String> {
        let Kind::Challenge { signature, bound } = &self.kind else { return Ok(self.call(sizes, 0)?.arguments()) };
        let values = signature_values(&self.name, signature, sizes)?;
        let arg = |(param, at): (&girih_core::tile::Param, &usize)| match param.kind {
            ParamKind::Scalar(dtype) => Ok(ProgramArg::Scalar(Literal::from_f64(dtype, sizes.size(&signature.params[*at].name)))),
            ParamKind::Tensor { .. } => self.lens(signature, *at, &values, sizes).map(ProgramArg::Tensor),
        };
        self.program.params.iter().zip(bound).map(arg).collect()
    }

    /// The lengths of a pointer's tensor.
    fn lens(&self, signature: &Signature, at: usize, values: &[HostArg], sizes: &Sizes) -> Result<Vec<i64>, String> {
        let lens = signature.shape(at, values).expect("bound to a pointer");
        match lens.iter().find(|l| **l < 0) {
            Some(len) => Err(format!("{}: {sizes} gives `{}` the length {len}", self.name, signature.params[at].name)),
            None => Ok(lens),
        }
    }

    fn challenge_call(&self, signature: &Signature, bound: &[usize], sizes: &Sizes, seed: u64) -> Result<Call, String> {
        let challenge = self.challenge.as_ref().expect("a challenge's subject has its challenge");
        let values = signature_values(&self.name, signature, sizes)?;
        let arg = |(number, (param, at)): (usize, (&girih_core::tile::Param, &usize))| {
            let there = &signature.params[*at];
            match param.kind {
                ParamKind::Scalar(dtype) => Ok(CallArg::Scalar(Literal::from_f64(dtype, sizes.size(&there.name)))),
                ParamKind::Tensor { dtype, mutable, .. } => {
                    let lens = self.lens(signature, *at, &values, sizes)?;
                    let input = challenge.inputs.iter().find(|(n, _)| *n == there.name);
                    let alignment = self.program.alignment(number).map_err(|e| e.to_string())?;
                    let data = match input {
                        Some((_, d)) => {
                            let distribution = d.at(|scalar| sizes.size(scalar));
                            HostTensor::random(there.dtype, &lens, &distribution, seed.wrapping_add(*at as u64))
                        }
                        None => HostTensor::poisoned(there.dtype, &lens),
                    };
                    Ok(CallArg::Tensor {
                        name: there.name.clone(),
                        data,
                        dtype,
                        mutable,
                        read: input.is_some(),
                        unit: unit(there.shape.as_deref().unwrap_or_default(), dtype.size(), alignment),
                    })
                }
            }
        };
        let args = self.program.params.iter().zip(bound).enumerate().map(arg).collect::<Result<_, String>>()?;
        Ok(Call { sizes: sizes.clone(), args })
    }

    /// Compares the tensors after a call with the references at every element, or at `samples` random ones of each
    /// output; tensors that are no output must be as before. `after` has one entry per parameter, `None` for scalars.
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn verify(&self, call: &Call, after: &[Option<HostTensor>], samples: Option<usize>) -> Result<(), String> {
        self.judge(call, after, samples, true).map(|_| ())
    }

    /// As [`Subject::verify`], and how far the elements are from the references; without a limit to that, and without a look at tensors
    /// that are no output, unless `strict`.
    ///
    /// # Errors
    /// As [`Subject::verify`], where `strict`.
    pub fn judge(&self, call: &Call, after: &[Option<HostTensor>], samples: Option<usize>, strict: bool) -> Result<Deviation, String> {
        self.judged_elements(call, after, samples, strict).map_err(|e| e.sentence(&call.sizes))
    }

    /// As [`Subject::judge`], with the first few elements that differ.
    pub(crate) fn judged_elements(
        &self,
        call: &Call,
        after: &[Option<HostTensor>],
        samples: Option<usize>,
        strict: bool,
    ) -> Result<Deviation, Mismatch> {
        let tally = Tally::default();
        let Some(challenge) = &self.challenge else { return Ok(tally.total()) };
        let compared = judged(|| self.compare_with_references(challenge, call, after, samples, strict, &tally));
        compared.map_err(|e| match e {
            Mismatch::Other(e) if e.starts_with("a reference names") => Mismatch::Other(format!("challenge {}: {e}", self.name)),
            other => other,
        })?;
        Ok(tally.total())
    }

    fn compare_with_references(
        &self,
        challenge: &Challenge,
        call: &Call,
        after: &[Option<HostTensor>],
        samples: Option<usize>,
        strict: bool,
        tally: &Tally,
    ) -> Result<(), Mismatch> {
        let case = call.case();
        for (arg, after) in call.args.iter().zip(after) {
            let (CallArg::Tensor { name, data, .. }, Some(after)) = (arg, after) else { continue };
            match challenge.outputs.iter().find(|(n, _)| n == name) {
                None if strict && after.bytes != data.bytes => return Err(Mismatch::Other(format!("the input `{name}` was changed"))),
                None => {}
                Some((_, reference)) => {
                    let check = |i: usize, expected: f64, found: &mut Vec<Difference>| {
                        let got = after.get(i);
                        tally.add(got, expected);
                        // The reference says what the exact result is; the output can only hold its own type's values.
                        let rounded = Literal::from_f64(data.dtype, expected).to_f64();
                        let fine = !strict || challenge.accepts(&call.sizes, got, expected) || got == rounded;
                        if !fine {
                            let allowed = challenge.absolute(&call.sizes) + challenge.rtol * expected.abs();
                            found.push(Difference::new(name, data, i, (got, expected), allowed));
                        }
                    };
                    match reference {
                        Reference::Each(each) => each_or_sampled(data.numel(), samples, |i, found| check(i, each(&case, i), found))?,
                        Reference::All(whole) => {
                            let all = whole(&case);
                            each_or_sampled(data.numel(), samples, |i, found| check(i, all[i], found))?;
                        }
                        Reference::Rows(row) => {
                            let len = data.lens.last().map_or(1, |l| *l as usize).max(1);
                            let check = |r: usize, found: &mut Vec<Difference>| {
                                row(&case, r).into_iter().enumerate().for_each(|(k, e)| check(r * len + k, e, found));
                            };
                            each_or_sampled(data.numel() / len, samples.map(|s| s / len), check)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a kernel of the program multiplies tiles: what makes errors worth a report.
    pub fn multiplies(&self) -> bool {
        self.program.sites().iter().any(|d| (d.build)().is_ok_and(|k| k.has_dots()))
    }

    /// Compares the tensors after a call with those after another way of running it, at every element.
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn compare(&self, call: &Call, after: &[Option<HostTensor>], expected: &[Option<HostTensor>]) -> Result<(), String> {
        self.compared_elements(call, after, expected).map_err(|e| e.sentence(&call.sizes))
    }

    /// As [`Subject::compare`], with the first few elements that differ.
    pub(crate) fn compared_elements(
        &self,
        call: &Call,
        after: &[Option<HostTensor>],
        expected: &[Option<HostTensor>],
    ) -> Result<(), Mismatch> {
        // A bare kernel may add up whatever it reads, of size 1 at most, in any order: a rounding per element.
        let elements = |a: &CallArg| if let CallArg::Tensor { data, .. } = a { data.numel() } else { 0 };
        let most = call.args.iter().map(elements).max().unwrap_or(0) as f64;
        let single = (1e-5 + most * f32::EPSILON as f64, 1e-5);
        let (atol, rtol) = self.challenge.as_ref().map_or(single, |c| (c.absolute(&call.sizes), c.rtol));
        for (arg, (after, expected)) in call.args.iter().zip(after.iter().zip(expected)) {
            let (CallArg::Tensor { name, data, .. }, Some(after), Some(expected)) = (arg, after, expected) else { continue };
            if after.bytes == expected.bytes {
                continue;
            }
            let (exact, rtol) = (!data.dtype.is_float(), rtol + last_place(data.dtype));
            let check = |i: usize, found: &mut Vec<Difference>| {
                let (got, want) = (after.get(i), expected.get(i));
                let fine = if exact { after.bits(i) == expected.bits(i) } else { near(got, want, atol, rtol) };
                if !fine {
                    let allowed = if exact { 0.0 } else { atol + rtol * want.abs() };
                    found.push(Difference::new(name, data, i, (got, want), allowed));
                }
            };
            each_or_sampled(data.numel(), None, check)?;
        }
        Ok(())
    }

    /// Bytes that must move: as the challenge says, else every input once, every output once, by the arguments' sizes.
    pub fn compulsory_bytes(&self, call: &Call) -> f64 {
        if let Some(bytes) = self.challenge.as_ref().and_then(|c| c.bytes) {
            return bytes(&call.sizes);
        }
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

/// Whether the sizes of a challenge name scalars of its signature.
fn are_scalars(challenge: &Challenge, signature: &Signature) -> Result<(), String> {
    let scalars: Vec<&str> = signature.params.iter().filter(|p| p.shape.is_none()).map(|p| p.name.as_str()).collect();
    let sizes = challenge.checks.iter().map(|s| ("check_at", s)).chain([("perf_at", &challenge.perf)]);
    for (method, sizes) in sizes {
        if let Some(name) = sizes.0.keys().find(|n| !scalars.contains(&n.as_str())) {
            let there = if scalars.is_empty() { "none".into() } else { scalars.join(", ") };
            let slug = challenge.slug;
            return Err(format!("challenge {slug}: `.{method}` gives `{name}`, which is no scalar of `{signature}`; it has {there}"));
        }
    }
    Ok(())
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

/// By how many elements of `size` bytes a tensor may start off alignment: the product of its shape's constant last extents (four bytes of a
/// pixel are never torn apart), so often that its address is a multiple of what the program's kernels see in it.
fn unit(shape: &[HostExpr], size: usize, alignment: usize) -> usize {
    let constant = |e: &HostExpr| match e {
        HostExpr::Const(c) => Some(*c as usize),
        _ => None,
    };
    let whole: usize = shape.iter().rev().map_while(constant).product();
    (1..=alignment).map(|k| k * whole).find(|n| (n * size).is_multiple_of(alignment)).unwrap_or(whole)
}

/// Sums that differ in their last bits may round to neighbours of a narrow type.
fn last_place(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => 0.0,
    }
}
