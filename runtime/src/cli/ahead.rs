//! What would only fail at the end of a command's work, or end it without a word, checked before: files to write, memory to simulate in.

use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use std::fs::{self, OpenOptions};
use std::path::Path;

/// Whether a file can be written; it is left as it was.
///
/// # Errors
/// Why it cannot.
pub fn writable(path: &Path) -> Result<(), String> {
    let there = path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|e| format!("{} cannot be written: {e}; name a file in a folder that is there", path.display()))?;
    if !there {
        // Nothing was written to it yet.
        drop(fs::remove_file(path));
    }
    Ok(())
}

/// Bytes that the simulator takes for a byte of a tensor: the data, the device's copy, and what is remembered of every access.
const PER_BYTE: f64 = 6.0;

/// Whether a call can be simulated in the memory of this machine, as far as that is known.
///
/// # Errors
/// Sizes that do not fit, with about how much they need; or what [`Subject::call`] says.
pub fn simulated(subject: &Subject, sizes: &Sizes) -> Result<(), String> {
    let needed = PER_BYTE * subject.tensor_bytes(sizes)?.iter().sum::<f64>();
    match free_memory() {
        Some(free) => fits(needed, free).map_err(|e| format!("{} at {sizes} {e}", subject.name)),
        None => Ok(()),
    }
}

fn fits(needed: f64, free: f64) -> Result<(), String> {
    let shown = |bytes: f64| format!("{:.1} GiB", bytes / (1u64 << 30) as f64);
    if needed <= free {
        return Ok(());
    }
    let help = "give smaller sizes, or run on a GPU (--device cuda)";
    Err(format!("needs about {} of memory on the simulator, and {} are free: {help}", shown(needed), shown(free)))
}

/// Bytes that Linux says are to be had.
fn free_memory() -> Option<f64> {
    available(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn available(meminfo: &str) -> Option<f64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_tried_and_left_as_they_were() {
        let folder = std::env::temp_dir().join(format!("girih-ahead-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("picture.png");
        writable(&file).expect("it can be written");
        assert!(!file.exists());
        fs::write(&file, "kept").expect("written");
        writable(&file).expect("it can be written");
        assert_eq!(fs::read_to_string(&file).expect("read"), "kept");
        let error = writable(&folder.join("nowhere").join("picture.png")).unwrap_err();
        assert!(error.contains("nowhere") && error.contains("cannot be written"), "{error}");
        assert!(writable(&folder).unwrap_err().contains("cannot be written"));
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let gib = (1u64 << 30) as f64;
        assert_eq!(fits(gib, gib), Ok(()));
        let error = fits(288.0 * gib, 21.5 * gib).unwrap_err();
        assert!(error.starts_with("needs about 288.0 GiB of memory on the simulator, and 21.5 GiB are free: "), "{error}");
        let meminfo = "MemTotal:       24683520 kB\nMemFree:        1 kB\nMemAvailable:   22921216 kB\nBuffers: 7 kB\n";
        assert_eq!(available(meminfo), Some(22921216.0 * 1024.0));
    }
}
