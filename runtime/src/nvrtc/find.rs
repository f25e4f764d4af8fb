//! Where NVRTC may be, and how to get it.

use crate::cache;
use crate::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    let fetched = fetched_folder();
    for inner in IN_SITE_PACKAGES {
        let folder = fetched.join(inner);
        if let Some(found) = look(folder.display().to_string(), &folder, &mut searched) {
            return Ok(found);
        }
    }
    for site in site_packages() {
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
    let folder = fetched_folder();
    let temporary = folder.with_extension(format!("tmp{}", std::process::id()));
    let run = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile", "--target"])
        .arg(&temporary)
        .arg(WHEEL)
        .output();
    let output = run.map_err(|e| Error::NoNvrtc(format!("cannot fetch NVRTC: `python3` did not start ({e})")))?;
    if !output.status.success() {
        let _ = std::fs::remove_dir_all(&temporary);
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(Error::NoNvrtc(format!("cannot fetch NVRTC: `python3 -m pip install {WHEEL}` failed:\n{}", text.trim())));
    }
    if std::fs::rename(&temporary, &folder).is_err() {
        // Another process may have been faster; what lies there is as good.
        let _ = std::fs::remove_dir_all(&temporary);
    }
    let found = IN_SITE_PACKAGES.iter().find_map(|inner| in_folder(&folder.join(inner)));
    found.ok_or_else(|| Error::NoNvrtc(format!("pip installed {WHEEL}, but {} holds no libnvrtc.so", folder.display())))
}

fn fetched_folder() -> PathBuf {
    cache::folder().join(WHEEL.replace("==", "-"))
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
    let mut folders = Vec::new();
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        if let Some(root) = std::env::var_os(variable) {
            for inner in ["lib64", "lib", "targets/x86_64-linux/lib"] {
                let folder = Path::new(&root).join(inner);
                folders.push((format!("{variable}: {}", folder.display()), folder));
            }
        }
    }
    let mut toolkits: Vec<PathBuf> = std::fs::read_dir("/usr/local").into_iter().flatten().flatten().map(|e| e.path()).collect();
    toolkits.retain(|p| p.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with("cuda")));
    toolkits.sort();
    for toolkit in toolkits.iter().rev() {
        for inner in ["lib64", "targets/x86_64-linux/lib"] {
            let folder = toolkit.join(inner);
            folders.push((folder.display().to_string(), folder));
        }
    }
    if toolkits.is_empty() {
        folders.push(("/usr/local/cuda*".into(), PathBuf::from("/usr/local/cuda/lib64")));
    }
    for folder in std::env::split_paths(&std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default()) {
        if !folder.as_os_str().is_empty() {
            folders.push((format!("LD_LIBRARY_PATH: {}", folder.display()), folder));
        }
    }
    for folder in ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"] {
        folders.push((folder.into(), PathBuf::from(folder)));
    }
    folders
}

/// Python's folders for packages, as `python3` itself says.
fn site_packages() -> Vec<PathBuf> {
    let ask = "import site, sys\nprint('\\n'.join(dict.fromkeys(sys.path + site.getsitepackages() + [site.getusersitepackages()])))";
    let Ok(output) = Command::new("python3").args(["-c", ask]).output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(str::trim).filter(|l| l.ends_with("-packages")).map(PathBuf::from).collect()
}
