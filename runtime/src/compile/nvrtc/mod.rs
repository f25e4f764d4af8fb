//! NVRTC: found, loaded on first need, asked for cubins.
//!
//! Everything that a cache key needs (version, architectures) is remembered in a small file beside the cache, so that a hit
//! neither searches for the library nor loads it.

mod apart;
mod find;
mod library;

pub use apart::{COMPILER, compile_apart, compile_until, serve};
pub use find::{WHEEL, fetch, find};

use crate::compile::cache;
use crate::compile::resources::{self, Resources};
use crate::error::Error;
use apart::Job;
use library::Nvrtc;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What is known of an NVRTC without loading it.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    /// The library.
    pub path: PathBuf,
    /// `(13, 0)`.
    pub version: (u32, u32),
    /// Architectures that it compiles for: `[75, 80, ..]`, sorted.
    pub archs: Vec<u32>,
    /// Size and time of change of the library, to notice that it was replaced.
    stamp: (u64, u64),
    /// The environment that the search depended on.
    environment: Vec<Option<String>>,
}

/// A compiled source.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Cubin {
    /// The machine code (ELF).
    pub code: Vec<u8>,
    /// The PTX it was made from.
    pub ptx: String,
    /// Per entry function.
    pub resources: Vec<(String, Resources)>,
    /// NVRTC's log: warnings and ptxas's report.
    pub log: String,
}

/// Flags of every compilation by an NVRTC of this version. Contraction of `a * b + c` is NVRTC's default; nothing else is relaxed.
/// From 12.4 on it can leave out textures and the runtime's own types, which cost a small kernel a sixth of its compilation.
/// From 12.9 on it keeps cubins through the driver, by their PTX, and says nothing of the registers of one that it finds there: it is
/// told not to, since girih keeps cubins itself.
pub fn flags(version: (u32, u32)) -> Vec<String> {
    let since = [((12, 4), "--minimal"), ((12, 9), "--no-cache")];
    let newer = since.into_iter().filter(|(first, _)| version >= *first).map(|(_, flag)| flag);
    ["--std=c++17", "--ptxas-options=-v"].into_iter().chain(newer).map(str::to_string).collect()
}

/// The NVRTC that compilations use. Reads the remembered identity if it still holds, else searches and loads.
pub fn identity() -> Result<Identity, Error> {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    if let Some(identity) = IDENTITY.get() {
        return Ok(identity.clone());
    }
    let identity = match remembered() {
        Some(identity) => identity,
        None => {
            let path = find().map_err(|searched| find::missing(&searched))?;
            let nvrtc = loaded(&path)?;
            let identity =
                Identity { stamp: stamp(&path), path, version: nvrtc.version, archs: nvrtc.archs.clone(), environment: environment() };
            remember(&identity);
            identity
        }
    };
    Ok(IDENTITY.get_or_init(|| identity).clone())
}

/// The architecture to compile for where `arch` (`sm_90a`) is wanted: itself if this NVRTC knows it, else the newest that it knows
/// of the same generation, whose cubins run there, too.
pub fn clamp(arch: &str, archs: &[u32]) -> Result<String, Error> {
    let digits = arch.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
    let wanted: u32 =
        digits.parse().map_err(|_| Error::NoNvrtc(format!("`{arch}` is no architecture; they look like sm_80 and sm_90a")))?;
    if archs.contains(&wanted) {
        return Ok(arch.to_string());
    }
    let older = archs.iter().rev().find(|a| **a < wanted && **a / 10 == wanted / 10);
    match older {
        Some(a) => Ok(format!("sm_{a}")),
        None => {
            let known: Vec<String> = archs.iter().map(|a| format!("sm_{a}")).collect();
            Err(Error::NoNvrtc(format!(
                "this NVRTC cannot compile for {arch}; it knows {}. Install another one ({WHEEL}).",
                known.join(", ")
            )))
        }
    }
}

/// Compiles CUDA C for exactly `arch`: in this process, or where [`compile_apart`] says. `name` and `place` say in errors which kernel it is.
pub fn compile(source: &str, arch: &str, flags: &[String], name: &str, place: &str) -> Result<Cubin, Error> {
    let [source, arch, name, place] = [source, arch, name, place].map(str::to_string);
    let job = Job { source, arch, flags: flags.to_vec(), name, place };
    match apart::compilers() {
        Some(compilers) => compilers.compile(job),
        None => compile_here(&job),
    }
}

fn compile_here(job: &Job) -> Result<Cubin, Error> {
    let identity = identity()?;
    let nvrtc = loaded(&identity.path)?;
    let mut options = flags(identity.version);
    options.push(format!("--gpu-architecture={}", job.arch));
    options.extend_from_slice(&job.flags);
    let file = format!("{}.cu", job.name);
    match nvrtc.compile(&job.source, &file, &options) {
        Ok(output) => {
            let resources = resources::parse(&output.log);
            Ok(Cubin { code: output.cubin, ptx: output.ptx, resources, log: output.log })
        }
        Err(log) => {
            let log = with_lines(&log, &file, &job.source);
            Err(Error::Nvrtc { kernel: job.name.clone(), place: job.place.clone(), arch: job.arch.clone(), log })
        }
    }
}

static NVRTC: OnceLock<Result<Nvrtc, String>> = OnceLock::new();

/// Whether this process has loaded the library.
pub fn is_loaded() -> bool {
    matches!(NVRTC.get(), Some(Ok(_)))
}

/// Loads it before anybody compiles. Where there is none, whoever compiles is told.
#[cfg(feature = "tune")]
pub fn load() {
    let _ = identity().and_then(|identity| loaded(&identity.path));
}

/// The one NVRTC of this process.
fn loaded(path: &Path) -> Result<&'static Nvrtc, Error> {
    let nvrtc = NVRTC.get_or_init(|| Nvrtc::open(path).map_err(|e| e.to_string()));
    nvrtc.as_ref().map_err(|text| Error::NoNvrtc(text.clone()))
}

/// The log with the line of CUDA C below each message that names one: `add.cu(12): error: ..`.
fn with_lines(log: &str, file: &str, source: &str) -> String {
    let mut out = String::new();
    for line in log.lines() {
        out.push_str(line);
        out.push('\n');
        let number = line.strip_prefix(file).and_then(|l| l.strip_prefix('(')).and_then(|l| l.split(')').next());
        let text = number.and_then(|n| n.parse::<usize>().ok()).and_then(|n| source.lines().nth(n.wrapping_sub(1)));
        if let Some(text) = text {
            out.push_str(&format!("    | {}\n", text.trim()));
        }
    }
    out
}

fn environment() -> Vec<Option<String>> {
    ["GIRIH_NVRTC", "CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH"].map(|v| std::env::var(v).ok()).to_vec()
}

fn stamp(path: &Path) -> (u64, u64) {
    let Ok(meta) = std::fs::metadata(path) else { return (0, 0) };
    let changed = meta.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    (meta.len(), changed.map_or(0, |t| t.as_secs()))
}

fn memory() -> PathBuf {
    cache::folder().join("nvrtc.json")
}

/// The identity of the last search, if the same search would find the same library. A library that has gone still names its
/// cached cubins; only a miss needs it.
fn remembered() -> Option<Identity> {
    let identity: Identity = serde_json::from_slice(&std::fs::read(memory()).ok()?).ok()?;
    let gone = !identity.path.exists() && find().is_err();
    let holds = identity.environment == environment() && (stamp(&identity.path) == identity.stamp || gone);
    holds.then_some(identity)
}

fn remember(identity: &Identity) {
    if let Ok(text) = serde_json::to_vec_pretty(identity) {
        // Only a convenience: without it the next process searches again.
        let _ = cache::write_atomically(&memory(), &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_clamped_within_their_generation() {
        let known = [75, 80, 86, 90, 100];
        assert_eq!(clamp("sm_90a", &known).unwrap(), "sm_90a");
        assert_eq!(clamp("sm_89", &known).unwrap(), "sm_86");
        assert_eq!(clamp("sm_103a", &known).unwrap(), "sm_100");
        let error = clamp("sm_120", &known).unwrap_err().to_string();
        assert!(error.contains("cannot compile for sm_120; it knows sm_75"), "{error}");
    }

    #[test]
    fn a_library_that_keeps_cubins_itself_is_told_not_to() {
        assert_eq!(flags((12, 3)), ["--std=c++17", "--ptxas-options=-v"]);
        assert_eq!(flags((12, 8)), ["--std=c++17", "--ptxas-options=-v", "--minimal"]);
        assert_eq!(flags((12, 9)), ["--std=c++17", "--ptxas-options=-v", "--minimal", "--no-cache"]);
        assert_eq!(flags((13, 0)), flags((12, 9)));
    }

    #[test]
    fn messages_are_followed_by_their_line() {
        let log = "k.cu(2): error: identifier \"y\" is undefined\n1 error detected";
        assert_eq!(
            with_lines(log, "k.cu", "int x;\n  int z = y;\n"),
            "k.cu(2): error: identifier \"y\" is undefined\n    | int z = y;\n1 error detected\n"
        );
    }
}
