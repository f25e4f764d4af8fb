//! What checks, tuning and benchmarks work on: a challenge's program, or a bare kernel as a program of one launch.
//!
//! A [`Subject`] makes [`Call`]s: arguments on the host for given sizes and a seed. [`crate::subject::guarded_args`] brings them to a device.

mod bare_kernel;
mod call;
pub mod challenge;
pub mod compulsory;
mod cost_estimate;
pub(crate) mod deviation;
pub mod differ_on_gpu;
pub(crate) mod differences;
pub mod guarded_args;
pub mod inputs;
mod judged;
pub mod names;
pub(crate) mod random_sizes;
mod requirements;
pub mod schedules;
pub mod set;
pub(crate) mod sites;

pub use call::{Call, CallArg};

use crate::subject::bare_kernel::{kernel_call, numel, single_launch};
use crate::subject::challenge::{Challenge, Sizes};
use crate::subject::random_sizes::{Drawn, random_sizes};
use crate::subject::requirements::{launchable, met};
use girih_core::program::Program;
use girih_core::program::signature::{Signature, SignatureParam};
use girih_core::program::walk::ProgramArg;
use girih_core::registry::KernelDef;
use girih_core::tile::host::HostArg;
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

impl Subject {
    /// A challenge's program.
    ///
    /// # Errors
    /// What is wrong with the program, the signature or how they fit, or the first choices of a kernel's knobs, as text.
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
        sites::check_first_choices(&program)?;
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
        let mut ways: Vec<Subject> = Vec::new();
        for way in choices.iter().map(|c| self.with_variants(c)) {
            // Of a variant inside of a side that is not taken both choices are the same.
            if !ways.iter().any(|known| known.runs_as(&way)) {
                ways.push(way);
            }
        }
        ways
    }

    /// Of [`Subject::ways`] those that differ where the program is called with these arguments, in the order of its parameters.
    pub(crate) fn ways_for(&self, args: &[ProgramArg]) -> Vec<Subject> {
        let mut left: Vec<(String, Subject)> = Vec::new();
        for way in self.ways() {
            let does = format!("{:?}", way.program.called_with(args).body);
            if !left.iter().any(|(known, _)| *known == does) {
                left.push((does, way));
            }
        }
        left.into_iter().map(|(_, way)| way).collect()
    }

    /// Whether another choice of variants leaves the same program.
    pub(crate) fn runs_as(&self, other: &Subject) -> bool {
        let text = |p: &Program| format!("{:?} {:?} {:?}", p.body, p.temps, p.requirements);
        self.variants == other.variants || text(&self.program) == text(&other.program)
    }

    /// A kernel by itself, as a program that launches it once with all its parameters.
    ///
    /// # Errors
    /// What is wrong with the kernel or the first choices of its knobs, as text.
    pub fn of_kernel(def: &KernelDef) -> Result<Subject, String> {
        let kernel = (def.build)().map_err(|e| e.to_string())?;
        let program = single_launch(def, &kernel);
        sites::check_first_choices(&program)?;
        Ok(Subject::new(def.path(), program, None, Kind::Kernel(Arc::new(kernel))))
    }

    /// Of a challenge: the judge's signature, and which of its parameters those of the program are.
    fn bound(&self) -> Option<(&Signature, &[usize])> {
        match &self.kind {
            Kind::Challenge { signature, bound } => Some((signature, bound)),
            Kind::Kernel(_) => None,
        }
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

    /// Arguments for sizes, with data of `seed` that is drawn where it is needed: a call whose elements nobody looks at costs nothing.
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
