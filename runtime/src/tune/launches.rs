//! The launches of a program at given sizes, found by walking it without a device: kernel, facts and lengths of each site.

use crate::subject::challenge::Sizes;
use crate::subject::{Call, CallArg, Subject};
use girih_core::facts::{Facts, TensorArg};
use girih_core::lengths::Lengths;
use girih_core::loc::SourceLoc;
use girih_core::program::walk::{Executor, LaunchArg, ProgramArg, Region, walk};
use girih_core::program::{Base, Program, Temp};
use girih_core::registry::KernelDef;
use girih_core::tile::Kernel;
use girih_core::tile::access::bounded_axes;
use girih_core::tile::host::HostArg;
use girih_core::types::{DType, Literal};

/// The first launch of a site.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The site.
    pub site: usize,
    /// Its kernel.
    pub kernel: KernelDef,
    /// Shapes, strides and scalars. Addresses are multiples of 256 plus offsets, different for different memory.
    pub args: Vec<LaunchArg>,
    /// What holds of them.
    pub facts: Facts,
    /// How long they are.
    pub lengths: Lengths,
    /// How often a call launches the site.
    pub count: usize,
}

/// The first launch of every site that a call reaches, by site. A site that depends on a value read back from the device is reached
/// only as far as that value does not matter: reading back gives 0.
///
/// # Errors
/// Arguments that do not fit the program, in words.
pub fn launches(program: &Program, call: &Call, misalign: usize) -> Result<Vec<Launch>, String> {
    found(program, &call.arguments(), misaligned(call, misalign), &[])
}

/// Bytes that each argument's first element lies behind an aligned address.
fn misaligned(call: &Call, by: usize) -> Vec<u64> {
    let of = |arg: &CallArg| match arg {
        CallArg::Tensor { dtype, unit, .. } => (by * unit * dtype.size()) as u64,
        CallArg::Scalar(_) => 0,
    };
    call.args.iter().map(of).collect()
}

/// As [`launches`], with those that a program makes which reads one back before it reads zeros: that there is more to do.
///
/// # Errors
/// As [`launches`].
pub(super) fn possible(program: &Program, call: &Call, misalign: usize) -> Result<Vec<Launch>, String> {
    let mut all = launches(program, call, misalign)?;
    if program.reads_back() {
        let once_more = [Literal::from_i64(DType::I32, 1)];
        // A loop that this does not end tells nothing.
        let more = found(program, &call.arguments(), misaligned(call, misalign), &once_more).unwrap_or_default();
        all.extend(more);
        all.sort_by_key(|l| l.site);
    }
    Ok(all)
}

/// As [`launches`] of an aligned call, in which the program reads these values back, and 0 behind them.
///
/// # Errors
/// As [`launches`]; a loop that these values do not end.
pub fn launches_reading(program: &Program, call: &Call, values: &[Literal]) -> Result<Vec<Launch>, String> {
    found(program, &call.arguments(), vec![0; call.args.len()], values)
}

/// How long tensors are at a challenge's own size, for which schedules are chosen where no other is asked for; found without making data. A
/// bare kernel has no such size, and some launches are not reached by such a call: there a schedule for the longest tensors is chosen.
#[derive(Default)]
pub struct AtPerf {
    /// Of the program's arguments.
    pub program: Option<Lengths>,
    /// The first launch of every site.
    pub launches: Vec<Launch>,
}

impl AtPerf {
    /// Of a challenge; nothing for a bare kernel.
    pub fn of(subject: &Subject) -> AtPerf {
        AtPerf::at(subject, &Sizes::default())
    }

    /// The same where some sizes are asked for: those of a bare kernel, too.
    pub fn at(subject: &Subject, asked: &Sizes) -> AtPerf {
        let Ok(args) = subject.perf_sizes(asked).and_then(|sizes| subject.arguments(&sizes)) else {
            return AtPerf::default();
        };
        let launches = found(&subject.program, &args, vec![0; args.len()], &[]).unwrap_or_default();
        AtPerf { program: Some(ProgramArg::lengths(&args)), launches }
    }

    /// Those of a launch site's tensors.
    pub fn of_site(&self, site: usize) -> Option<&Lengths> {
        self.launches.iter().find(|l| l.site == site).map(|l| &l.lengths)
    }

    /// What a launch site's arguments promise.
    pub fn facts_of_site(&self, site: usize) -> Option<&Facts> {
        self.launches.iter().find(|l| l.site == site).map(|l| &l.facts)
    }
}

/// As [`launches`] of an aligned call at sizes, without data.
///
/// # Errors
/// As [`launches`]; sizes that the subject cannot have.
pub fn at(subject: &Subject, sizes: &Sizes) -> Result<Vec<Launch>, String> {
    let args = subject.arguments(sizes)?;
    found(&subject.program, &args, vec![0; args.len()], &[])
}

fn found(program: &Program, args: &[ProgramArg], misaligned: Vec<u64>, values: &[Literal]) -> Result<Vec<Launch>, String> {
    let mut recorder = Recorder { found: Vec::new(), misaligned, values, read: 0 };
    walk(program, args, &mut recorder).map_err(|e| e.to_string())?;
    recorder.found.sort_by_key(|l| l.site);
    Ok(recorder.found)
}

/// What a site's launch promises, and its lengths; of a site that is not launched what packed tensors of any length promise.
pub fn promised(launches: &[Launch], site: usize, kernel: &Kernel) -> (Facts, Option<Lengths>) {
    let launch = launches.iter().find(|l| l.site == site);
    launch.map_or_else(|| (Facts::packed(kernel, false), None), |l| (l.facts.clone(), Some(l.lengths.clone())))
}

/// What the host knows of a launch's arguments.
pub(super) fn host_arguments(args: &[LaunchArg]) -> Vec<HostArg> {
    let of = |a: &LaunchArg| match a {
        LaunchArg::Tensor(r) => HostArg::Tensor(r.tensor_arg(0)),
        LaunchArg::Scalar(l) => HostArg::Scalar(*l),
    };
    args.iter().map(of).collect()
}

/// Values that may be read back behind those that are given, before a loop is taken for endless.
const MORE_VALUES: usize = 10_000;

struct Recorder<'a> {
    found: Vec<Launch>,
    /// Bytes that each parameter's first element lies behind an aligned address.
    misaligned: Vec<u64>,
    /// What is read back, in order.
    values: &'a [Literal],
    read: usize,
}

impl Executor for Recorder<'_> {
    type Error = String;

    fn temp(&mut self, _index: usize, _temp: &Temp, _bytes: usize) -> Result<(), String> {
        Ok(())
    }

    fn launch(&mut self, site: usize, kernel: &KernelDef, args: &[LaunchArg], _loc: SourceLoc) -> Result<(), String> {
        if let Some(found) = self.found.iter_mut().find(|l| l.site == site) {
            found.count += 1;
            return Ok(());
        }
        let tensors: Vec<Option<TensorArg>> = args
            .iter()
            .map(|a| match a {
                LaunchArg::Tensor(region) => Some(region.tensor_arg(self.base_address(region.base))),
                LaunchArg::Scalar(_) => None,
            })
            .collect();
        // A launch whose stored tensors overlap another argument is refused, so nothing is aliased.
        let built = (kernel.build)().map_err(|e| e.to_string())?;
        let facts = Facts::of_launch(&tensors, true).bounded(&bounded_axes(&built), &tensors);
        let lengths = Lengths::of(&tensors);
        self.found.push(Launch { site, kernel: *kernel, args: args.to_vec(), facts, lengths, count: 1 });
        Ok(())
    }

    fn memset(&mut self, _region: &Region, _value: Literal) -> Result<(), String> {
        Ok(())
    }

    fn copy(&mut self, _to: &Region, _from: &Region) -> Result<(), String> {
        Ok(())
    }

    fn read_back(&mut self, from: &Region) -> Result<Literal, String> {
        let value = self.values.get(self.read).copied().filter(|v| v.dtype == from.dtype);
        self.read += 1;
        if self.read > self.values.len() + MORE_VALUES {
            return Err(format!("no end after {} values were read back", self.read));
        }
        Ok(value.unwrap_or_else(|| Literal::from_i64(from.dtype, 0)))
    }
}

impl Recorder<'_> {
    fn base_address(&self, base: Base) -> u64 {
        match base {
            Base::Param(p) => (1 << 40) + ((p as u64) << 36) + self.misaligned[p],
            Base::Temp(t) => (1 << 50) + ((t as u64) << 36),
        }
    }
}
