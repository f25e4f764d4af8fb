//! From tile IR to a loadable kernel: lower, emit, and for a GPU the cubin through the disk cache.

pub(crate) mod cache;
mod in_flight;
pub mod nvrtc;
pub mod resources;
#[cfg(feature = "tune")]
pub mod sass;

use crate::compile::resources::Resources;
use crate::error::Error;
use cache::{Entry, Key};
use girih_core::bug::{self, Bug};
use girih_core::error::CompileError;
use girih_core::facts::Facts;
use girih_core::lower::lower;
use girih_core::schedule::Schedule;
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile;
use in_flight::InFlight;
use std::sync::{Arc, Once};
#[cfg(feature = "tune")]
use std::time::Instant;

/// A kernel compiled for some facts, under one schedule, for one target.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// What the simulator runs and the emitter printed.
    pub simt: Arc<simt::Kernel>,
    /// The CUDA C.
    pub source: String,
    /// The architecture: `sm_90a`.
    pub arch: String,
    /// The machine code, if asked for.
    pub cubin: Option<Arc<Vec<u8>>>,
    /// What ptxas said of it, if there is a cubin.
    pub resources: Option<Resources>,
    /// What NVRTC warned of when it made the cubin; empty for most.
    pub warnings: String,
}

/// How far to compile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// SIMT IR and CUDA C: pure, needs no NVRTC. Enough for the simulator.
    Source,
    /// Also the cubin, from the disk cache or NVRTC.
    Cubin,
}

/// Compiles a kernel. [`Error::Compile`] for an illegal schedule, [`Error::NoNvrtc`] and [`Error::Nvrtc`] for the cubin.
pub fn compile(kernel: &tile::Kernel, facts: &Facts, schedule: &Schedule, target: &Target, output: Output) -> Result<Compiled, Error> {
    let simt = lower(kernel, facts, schedule, target)?;
    let compiled = bug::contained(|| Compiled::of(simt, target)).map_err(|message| {
        let again =
            |facts: &Facts| bug::contained(|| lower(kernel, facts, schedule, target).map(|simt| Compiled::of(simt, target))).is_err();
        CompileError::Bug(Box::new(Bug::found("emitting", (kernel, facts, schedule, target), message, &again)))
    })?;
    match output {
        Output::Source => Ok(compiled),
        Output::Cubin => compiled.with_cubin(),
    }
}

/// The entry of a text in the disk cache, which needs no NVRTC, or the new one that `translate` makes for an architecture that this NVRTC knows.
fn cached(
    source: &str,
    arch: &str,
    own: &[String],
    translate: impl FnOnce(&str) -> Result<Entry, Error>,
) -> Result<(String, Entry), Error> {
    let identity = nvrtc::identity()?;
    let arch = nvrtc::clamp(arch, &identity.archs)?;
    let flags: Vec<String> = nvrtc::flags(identity.version).into_iter().chain(own.iter().cloned()).collect();
    let key = Key { source, flags: &flags, nvrtc: identity.version, arch: &arch };
    let folder = cache::folder();
    static IN_FLIGHT: InFlight<(u64, u64)> = InFlight::new();
    let make = || {
        let _making = cache::making(&folder, &key);
        if let Some(entry) = cache::read(&folder, &key) {
            return Ok(entry);
        }
        let entry = translate(&arch)?;
        // A cache that cannot be written costs time, not results.
        cache::write(&folder, &key, &entry).unwrap_or_else(|e| tell_once(&e));
        Ok::<Entry, Error>(entry)
    };
    let entry = IN_FLIGHT.found_or_made(key.hashes(), || cache::read(&folder, &key), make)?;
    Ok((arch, entry))
}

/// Tells of a disk cache that cannot be written, the first time that it is found out.
fn tell_once(error: &Error) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        eprintln!("note: what is compiled is not kept: {error}\n  help: set GIRIH_CACHE to a folder that can be written");
    });
}

/// The machine code of a text that is no kernel of girih's language.
///
/// # Errors
/// [`Error::NoNvrtc`], [`Error::Nvrtc`].
#[cfg(feature = "tune")]
pub fn cubin_of_text(text: &crate::device::cuda::Text, arch: &str) -> Result<Vec<u8>, Error> {
    let flags: Vec<String> = text.flags.iter().map(|f| f.to_string()).collect();
    let (_, entry) = cached(text.source, arch, &flags, |arch| {
        let cubin = nvrtc::compile(text.source, arch, &flags, text.function, "girih itself")?;
        Ok(Entry { resources: Resources::default(), warnings: String::new(), cubin: cubin.code })
    })?;
    Ok(entry.cubin)
}

impl Compiled {
    /// CUDA C of a SIMT kernel.
    pub fn of(simt: simt::Kernel, target: &Target) -> Compiled {
        let source = girih_core::cuda::emit(&simt);
        Compiled { simt: Arc::new(simt), source, arch: target.arch.to_string(), cubin: None, resources: None, warnings: String::new() }
    }

    /// The same with its cubin and resources: from the disk cache, which needs no NVRTC, or compiled and cached.
    pub fn with_cubin(mut self) -> Result<Compiled, Error> {
        let (arch, entry) = cached(&self.source, &self.arch, &self.flags(), |arch| self.translate(arch))?;
        self.arch = arch;
        // ptxas knows nothing of what a launch asks for.
        let shared_bytes = self.simt.launches().map(|k| k.shared_bytes()).fold(entry.resources.shared_bytes, u32::max);
        self.resources = Some(Resources { shared_bytes, ..entry.resources });
        self.warnings = entry.warnings;
        self.cubin = Some(Arc::new(entry.cubin));
        Ok(self)
    }

    /// What the compiler is given besides [`nvrtc::flags`].
    pub fn flags(&self) -> Vec<String> {
        girih_core::cuda::ptxas_flag(self.simt.launch.opt_level).into_iter().collect()
    }

    fn translate(&self, arch: &str) -> Result<Entry, Error> {
        let name = girih_core::cuda::function_name(&self.simt);
        let place = self.simt.provenance.loc.to_string();
        let cubin = nvrtc::compile(&self.source, arch, &self.flags(), &name, &place)?;
        let mut resources = Resources::default();
        for function in self.simt.launches().map(girih_core::cuda::function_name) {
            let Some((_, own)) = cubin.resources.iter().find(|(n, _)| *n == function) else {
                let why = format!("ptxas did not report the registers of `{function}`, so nobody can tell whether it spills");
                return Err(Error::Nvrtc { kernel: name, place, arch: arch.into(), log: format!("{why}. Its log:\n{}", cubin.log) });
            };
            resources = resources.most(*own);
        }
        let warnings: Vec<&str> = cubin.log.lines().filter(|l| l.contains("warning")).collect();
        Ok(Entry { resources, warnings: warnings.join("\n"), cubin: cubin.code })
    }

    /// The machine code with what ptxas said of it, for reading: through NVIDIA's disassembler.
    ///
    /// # Errors
    /// As [`Compiled::with_cubin`] and `sass::disassemble`.
    #[cfg(feature = "tune")]
    pub fn sass(&self) -> Result<sass::Listing, Error> {
        self.sass_until(None)
    }

    /// The same if it is there before `end`.
    #[cfg(feature = "tune")]
    pub(crate) fn sass_until(&self, end: Option<Instant>) -> Result<sass::Listing, Error> {
        match &self.cubin {
            Some(cubin) => sass::disassemble_until(cubin, end),
            None => self.clone().with_cubin()?.sass_until(end),
        }
    }

    /// The PTX, for reading: compiled anew with NVRTC, not cached.
    pub fn ptx(&self) -> Result<String, Error> {
        let arch = nvrtc::clamp(&self.arch, &nvrtc::identity()?.archs)?;
        let name = girih_core::cuda::function_name(&self.simt);
        Ok(nvrtc::compile(&self.source, &arch, &self.flags(), &name, &self.simt.provenance.loc.to_string())?.ptx)
    }
}
