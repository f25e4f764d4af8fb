//! The cubin cache on disk: a cubin is compiled once per source, flags, NVRTC version and architecture.
//!
//! Several processes may share it: entries appear by renaming a finished file. An entry that is truncated or damaged is a miss,
//! and is written again.

use crate::compile::resources::Resources;
use crate::error::Error;
use girih_core::scalar::fnv1a64;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: &[u8; 8] = b"GIRIHC03";
/// Magic, check of the key, length of the cubin, checksum of all that follows it.
const HEADER: usize = 8 + 8 + 8 + 8;
/// What ptxas said, and the length of the warnings, in words of four bytes.
const NUMBERS: usize = 6 * 4;

/// Everything that a cubin depends on.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The CUDA C.
    pub source: &'a str,
    /// All flags but the architecture.
    pub flags: &'a [String],
    /// NVRTC's version.
    pub nvrtc: (u32, u32),
    /// The exact architecture: `sm_90a`.
    pub arch: &'a str,
}

/// A cached cubin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// What ptxas said of the kernel.
    pub resources: Resources,
    /// What NVRTC warned of; empty for most.
    pub warnings: String,
    /// The machine code.
    pub cubin: Vec<u8>,
}

/// girih's folder for files that can be made again.
pub fn folder() -> PathBuf {
    crate::store::default_folder()
}

impl Key<'_> {
    fn text(&self) -> String {
        format!("{}\0{}\0{}.{}\0{}", self.arch, self.flags.join("\0"), self.nvrtc.0, self.nvrtc.1, self.source)
    }
    /// Two hashes, by which it is known.
    pub fn hashes(&self) -> (u64, u64) {
        (fnv1a64(self.text().as_bytes()), self.check())
    }
    /// The entry's file in a cache folder.
    pub fn file(&self, folder: &Path) -> PathBuf {
        let name = format!("{:016x}.cubin", self.hashes().0);
        folder.join("cubin").join(&name[..2]).join(name)
    }
    /// A second hash, so that two keys that share a file are told apart.
    fn check(&self) -> u64 {
        fnv1a64(format!("check\0{}", self.text()).as_bytes())
    }
}

/// The entry of a key, if it is there and whole.
pub fn read(folder: &Path, key: &Key) -> Option<Entry> {
    decode(&std::fs::read(key.file(folder)).ok()?, key.check())
}

/// That this process makes an entry, until it goes out of scope. Where the process ends before, the system gives it up.
pub struct Making {
    _locked: File,
    path: PathBuf,
}

impl Drop for Making {
    fn drop(&mut self) {
        // Who waits for it holds the file open, and who comes later finds the entry.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Waits for the process that makes the entry of a key, if one does, and makes it this one's to make: it may be there by now. Nothing where the folder
/// cannot be written or its file system knows no locks: then several may make it.
pub fn making(folder: &Path, key: &Key) -> Option<Making> {
    let path = key.file(folder).with_extension("making");
    std::fs::create_dir_all(path.parent()?).ok()?;
    let locked = File::create(&path).ok()?;
    locked.lock().ok()?;
    Some(Making { _locked: locked, path })
}

/// Writes the entry of a key.
pub fn write(folder: &Path, key: &Key, entry: &Entry) -> Result<(), Error> {
    write_atomically(&key.file(folder), &encode(entry, key.check()))
}

fn encode(entry: &Entry, check: u64) -> Vec<u8> {
    let r = &entry.resources;
    let mut payload = Vec::with_capacity(NUMBERS + entry.warnings.len() + entry.cubin.len());
    for number in [r.registers, r.spill_store_bytes, r.spill_load_bytes, r.shared_bytes, r.stack, entry.warnings.len() as u32] {
        payload.extend(number.to_le_bytes());
    }
    payload.extend(entry.warnings.as_bytes());
    payload.extend(&entry.cubin);
    let mut data = MAGIC.to_vec();
    for number in [check, payload.len() as u64, fnv1a64(&payload)] {
        data.extend(number.to_le_bytes());
    }
    data.extend(payload);
    data
}

fn decode(data: &[u8], check: u64) -> Option<Entry> {
    let number = |at: usize| Some(u64::from_le_bytes(data.get(at..at + 8)?.try_into().ok()?));
    let payload = data.get(HEADER..)?;
    let whole = data.starts_with(MAGIC)
        && number(8)? == check
        && number(16)? == payload.len() as u64
        && payload.len() > NUMBERS
        && number(24)? == fnv1a64(payload);
    if !whole {
        return None;
    }
    let word = |i: usize| u32::from_le_bytes(payload[i * 4..i * 4 + 4].try_into().expect("four bytes"));
    let resources =
        Resources { registers: word(0), spill_store_bytes: word(1), spill_load_bytes: word(2), shared_bytes: word(3), stack: word(4) };
    let (warnings, cubin) = payload[NUMBERS..].split_at_checked(word(5) as usize)?;
    Some(Entry { resources, warnings: String::from_utf8(warnings.to_vec()).ok()?, cubin: cubin.to_vec() })
}

/// Writes a file so that other processes see it whole or not at all.
pub fn write_atomically(path: &Path, data: &[u8]) -> Result<(), Error> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let parent = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(Error::io(parent))?;
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("tmp{}-{serial}", std::process::id()));
    std::fs::write(&temporary, data).map_err(Error::io(&temporary))?;
    std::fs::rename(&temporary, path).map_err(|e| {
        let _ = std::fs::remove_file(&temporary);
        Error::io(path)(e)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary_folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("girih-test-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    fn entry() -> Entry {
        Entry { resources: Resources { registers: 32, ..Resources::default() }, warnings: "unused".into(), cubin: (0..=255).collect() }
    }

    #[test]
    fn an_entry_comes_back_for_its_key_only() {
        let folder = temporary_folder("cache-key");
        let flags = ["--std=c++17".to_string()];
        let key = Key { source: "x", flags: &flags, nvrtc: (13, 0), arch: "sm_90a" };
        assert_eq!(read(&folder, &key), None);
        write(&folder, &key, &entry()).unwrap();
        assert_eq!(read(&folder, &key), Some(entry()));
        assert_eq!(read(&folder, &Key { source: "y", ..key }), None);
        assert_eq!(read(&folder, &Key { arch: "sm_80", ..key }), None);
        assert_eq!(read(&folder, &Key { nvrtc: (12, 9), ..key }), None);
        assert_eq!(read(&folder, &Key { flags: &[], ..key }), None);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn one_makes_an_entry_and_others_wait_for_it() {
        let folder = temporary_folder("cache-making");
        let key = Key { source: "x", flags: &[], nvrtc: (13, 0), arch: "sm_90a" };
        let first = making(&folder, &key).expect("a folder that can be written");
        let other = making(&folder, &Key { source: "y", ..key });
        assert!(other.is_some(), "another entry is another's");
        let order = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let second = making(&folder, &key);
                order.lock().unwrap().push("second");
                (second.is_some(), read(&folder, &key))
            });
            std::thread::sleep(std::time::Duration::from_millis(100));
            write(&folder, &key, &entry()).unwrap();
            order.lock().unwrap().push("first");
            drop(first);
            assert_eq!(waiting.join().unwrap(), (true, Some(entry())));
        });
        assert_eq!(order.into_inner().unwrap(), ["first", "second"]);
        drop(other);
        let left: Vec<PathBuf> = std::fs::read_dir(key.file(&folder).parent().unwrap()).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(left, [key.file(&folder)], "no lock stays behind");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn damaged_entries_are_misses() {
        let check = 7;
        let whole = encode(&entry(), check);
        assert_eq!(decode(&whole, check), Some(entry()));
        assert_eq!(decode(&whole, check + 1), None);
        for len in 0..whole.len() {
            assert_eq!(decode(&whole[..len], check), None, "cut to {len} bytes");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged, check), None, "byte {at} changed");
        }
    }
}
