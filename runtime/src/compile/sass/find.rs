//! Where NVIDIA's disassembler may be, and how to get it.

use crate::error::Error;
use crate::wheel;
use std::path::{Path, PathBuf};

/// The release of NVIDIA's PyPI wheel that [`fetch`] installs. It reads the cubins of older compilers, too.
pub const WHEEL: &str = "nvidia-cuda-nvdisasm==13.5.37";

/// Where the wheel puts it, inside of its folder.
const IN_WHEEL: &str = "nvidia/cu13/bin";

/// The disassembler, or every place that was looked at.
///
/// `GIRIH_NVDISASM` (a file or folder) decides alone if it is set. Otherwise: `CUDA_HOME` and `CUDA_PATH`, `/usr/local/cuda*`, `PATH`, our
/// cache, Python's site-packages.
///
/// # Errors
/// The places that were looked at, in words.
pub fn find() -> Result<PathBuf, Vec<String>> {
    if let Some(path) = std::env::var_os("GIRIH_NVDISASM") {
        let path = PathBuf::from(path);
        let named = if path.is_dir() { path.join("nvdisasm") } else { path.clone() };
        return if named.is_file() { Ok(named) } else { Err(vec![format!("GIRIH_NVDISASM={}", path.display())]) };
    }
    let fetched = wheel::folder(WHEEL).join(IN_WHEEL);
    let mut places = wheel::toolkit_folders(&["bin"]);
    places.extend(wheel::listed_folders("PATH"));
    places.push((fetched.display().to_string(), fetched));
    let found = |(_, folder): &(String, PathBuf)| in_folder(folder);
    if let Some(found) = places.iter().find_map(found) {
        return Ok(found);
    }
    let sites = wheel::site_packages().iter().map(|s| s.join(IN_WHEEL)).map(|f| (f.display().to_string(), f));
    let sites: Vec<(String, PathBuf)> = sites.collect();
    sites.iter().find_map(found).ok_or_else(|| places.into_iter().chain(sites).map(|(name, _)| name).collect())
}

fn in_folder(folder: &Path) -> Option<PathBuf> {
    Some(folder.join("nvdisasm")).filter(|p| p.is_file())
}

/// The sentence for a machine without the disassembler.
pub(super) fn missing(searched: &[String]) -> Error {
    let places: Vec<String> = searched.iter().map(|s| format!("  {s}")).collect();
    Error::NoDisassembler(format!(
        "NVIDIA's disassembler (nvdisasm) was not found. Looked in:\n{}\nFetch it into girih's cache with `autotune doctor --fetch`, \
         or run `python3 -m pip install {WHEEL}`, or set GIRIH_NVDISASM to the program or its folder. `--ir ptx` needs none.",
        places.join("\n")
    ))
}

/// Installs NVIDIA's wheel into the cache with pip; gives the program. Needs python3 with pip and the network.
///
/// # Errors
/// [`Error::NoDisassembler`] with what pip said.
pub fn fetch() -> Result<PathBuf, Error> {
    let folder = wheel::install(WHEEL).map_err(|e| Error::NoDisassembler(format!("cannot fetch nvdisasm: {e}")))?;
    let found = in_folder(&folder.join(IN_WHEEL));
    found.ok_or_else(|| Error::NoDisassembler(format!("pip installed {WHEEL}, but {} holds no nvdisasm", folder.display())))
}
