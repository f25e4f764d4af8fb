//! NVIDIA's tools as wheels of PyPI: installed into girih's cache by python3 and pip, or found where Python keeps its packages.

use crate::compile::cache;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The folder of girih's cache that holds a wheel (`nvidia-cuda-nvrtc==13.0.88`), whether or not it is there.
pub(crate) fn folder(wheel: &str) -> PathBuf {
    cache::folder().join(wheel.replace("==", "-"))
}

/// Installs a wheel into the cache; gives its folder. Needs python3 with pip and the network.
///
/// # Errors
/// Why there is no wheel: python3 did not start, or what pip said.
pub(crate) fn install(wheel: &str) -> Result<PathBuf, String> {
    let folder = folder(wheel);
    let temporary = folder.with_extension(format!("tmp{}", std::process::id()));
    let run = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile", "--target"])
        .arg(&temporary)
        .arg(wheel)
        .output();
    let output = run.map_err(|e| format!("`python3` did not start ({e})"))?;
    if !output.status.success() {
        let _ = std::fs::remove_dir_all(&temporary);
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`python3 -m pip install {wheel}` failed:\n{}", text.trim()));
    }
    if std::fs::rename(&temporary, &folder).is_err() {
        // Another process may have been faster; what lies there is as good.
        let _ = std::fs::remove_dir_all(&temporary);
    }
    Ok(folder)
}

/// The folders `inner` (`lib`, `bin`) of CUDA toolkits, each with how it was found.
pub(crate) fn toolkit_folders(inner: &[&str]) -> Vec<(String, PathBuf)> {
    let mut folders = Vec::new();
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        if let Some(root) = std::env::var_os(variable) {
            for inner in inner {
                let folder = PathBuf::from(&root).join(inner);
                folders.push((format!("{variable}: {}", folder.display()), folder));
            }
        }
    }
    let mut toolkits: Vec<PathBuf> = std::fs::read_dir("/usr/local").into_iter().flatten().flatten().map(|e| e.path()).collect();
    toolkits.retain(|p| p.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with("cuda")));
    toolkits.sort();
    for toolkit in toolkits.iter().rev() {
        for inner in inner {
            let folder = toolkit.join(inner);
            folders.push((folder.display().to_string(), folder));
        }
    }
    if toolkits.is_empty() {
        folders.push(("/usr/local/cuda*".into(), PathBuf::from("/usr/local/cuda").join(inner[0])));
    }
    folders
}

/// The folders of an environment variable with a list of them, each with how it was found.
pub(crate) fn listed_folders(variable: &str) -> Vec<(String, PathBuf)> {
    let folders = std::env::var_os(variable).unwrap_or_default();
    let folders = std::env::split_paths(&folders).filter(|f| !f.as_os_str().is_empty());
    folders.map(|f| (format!("{variable}: {}", f.display()), f)).collect()
}

/// Python's folders for packages, as `python3` itself says when it is first asked: it takes a while to start.
pub(crate) fn site_packages() -> &'static [PathBuf] {
    static FOLDERS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    FOLDERS.get_or_init(asked_site_packages)
}

fn asked_site_packages() -> Vec<PathBuf> {
    let ask = "import site, sys\nprint('\\n'.join(dict.fromkeys(sys.path + site.getsitepackages() + [site.getusersitepackages()])))";
    let Ok(output) = Command::new("python3").args(["-c", ask]).output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(str::trim).filter(|l| l.ends_with("-packages")).map(PathBuf::from).collect()
}
