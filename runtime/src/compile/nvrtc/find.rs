//! Where NVRTC may be, and how to get it.

use crate::error::Error;
use crate::wheel;
use std::path::{Path, PathBuf};

/// The release of NVIDIA's PyPI wheel that [`fetch`] installs.
pub const WHEEL: &str = "nvidia-cuda-nvrtc==13.0.88";

/// Folders inside Python's site-packages where NVIDIA's wheels put it.
const IN_SITE_PACKAGES: [&str; 2] = ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"];

/// The libraries found, best first, or every place that was looked at.
///
/// `GIRIH_NVRTC` (a file or folder) decides alone if it is set. Otherwise: `CUDA_HOME` and `CUDA_PATH`, `/usr/local/cuda*`,
/// `LD_LIBRARY_PATH` and the system's folders, our cache, Python's site-packages.
pub fn find() -> Result<PathBuf, Vec<String>> {
    let mut searched = Vec::new();
    if let Some(path) = std::env::var_os("GIRIH_NVRTC") {
        let path = PathBuf::from(path);
        searched.push(format!("GIRIH_NVRTC={}", path.display()));
        return if path.is_file() { Ok(path) } else { in_folder(&path).ok_or(searched) };
    }
    let look = |name: String, folder: &Path, searched: &mut Vec<String>| {
        searched.push(name);
        in_folder(folder)
    };
    for (name, folder) in system_folders() {
        if let Some(found) = look(name, &folder, &mut searched) {
            return Ok(found);
        }
    }
    let fetched = wheel::folder(WHEEL);
    for inner in IN_SITE_PACKAGES {
        let folder = fetched.join(inner);
        if let Some(found) = look(folder.display().to_string(), &folder, &mut searched) {
            return Ok(found);
        }
    }
    for site in wheel::site_packages() {
        for inner in IN_SITE_PACKAGES {
            let folder = site.join(inner);
            if let Some(found) = look(folder.display().to_string(), &folder, &mut searched) {
                return Ok(found);
            }
        }
    }
    Err(searched)
}

/// The sentence for a machine without NVRTC.
pub fn missing(searched: &[String]) -> Error {
    let places: Vec<String> = searched.iter().map(|s| format!("  {s}")).collect();
    Error::NoNvrtc(format!(
        "NVRTC (libnvrtc.so) was not found. Looked in:\n{}\nFetch it into girih's cache with `autotune doctor --fetch`, or run `python3 -m pip install {WHEEL}`, \
         or set GIRIH_NVRTC to the library or its folder.",
        places.join("\n")
    ))
}

/// Installs NVIDIA's wheel into the cache with pip; gives the library. Needs python3 with pip and the network.
pub fn fetch() -> Result<PathBuf, Error> {
    let folder = wheel::install(WHEEL).map_err(|e| Error::NoNvrtc(format!("cannot fetch NVRTC: {e}")))?;
    let found = IN_SITE_PACKAGES.iter().find_map(|inner| in_folder(&folder.join(inner)));
    found.ok_or_else(|| Error::NoNvrtc(format!("pip installed {WHEEL}, but {} holds no libnvrtc.so", folder.display())))
}

/// The newest `libnvrtc.so*` of a folder: `libnvrtc.so.13` before `libnvrtc.so.12`.
fn in_folder(folder: &Path) -> Option<PathBuf> {
    newest(folder, "libnvrtc.so")
}

/// The `libnvrtc-builtins.so*` beside a library.
pub(super) fn builtins_of(library: &Path) -> Option<PathBuf> {
    // A symbolic link may lie elsewhere than what it means.
    let real = library.canonicalize().unwrap_or_else(|_| library.to_path_buf());
    [library, &real].into_iter().find_map(|l| newest(l.parent()?, "libnvrtc-builtins.so"))
}

fn newest(folder: &Path, stem: &str) -> Option<PathBuf> {
    let version = |path: &Path| -> Vec<u32> {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
        name[stem.len()..].split('.').filter_map(|part| part.parse().ok()).collect()
    };
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|e| e.path());
    let libraries = entries.filter(|p| p.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(stem)));
    libraries.max_by_key(|p| version(p))
}

fn system_folders() -> Vec<(String, PathBuf)> {
    let mut folders = wheel::toolkit_folders(&["lib64", "lib", "targets/x86_64-linux/lib"]);
    folders.extend(wheel::listed_folders("LD_LIBRARY_PATH"));
    for folder in ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"] {
        folders.push((folder.into(), PathBuf::from(folder)));
    }
    folders
}
