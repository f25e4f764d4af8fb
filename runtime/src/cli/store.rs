//! `store`: what the tuner knows, listed, shown, carried to other machines and removed.

use super::{ahead, print_json, winners};
use crate::store::Store;
use crate::store::rows::{Shown, Summary, Which};
use crate::subject::challenge::challenges;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List what there is of each kernel and program on each device: trials, those measured, launches with an elected schedule.
    List {
        #[command(flatten)]
        of: Of,
        /// One JSON object per line of the table.
        #[arg(long)]
        json: bool,
    },
    /// Show the elected schedules, with their launches, times, and when they were elected by which girih.
    Show {
        #[command(flatten)]
        of: Of,
        /// One JSON object per schedule.
        #[arg(long)]
        json: bool,
    },
    /// Write rows as JSON, one a line, for `import` on another machine.
    Export {
        #[command(flatten)]
        of: Of,
        /// The file to write.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Take up rows of exported files: those that are new here, or newer than what is here.
    Import {
        /// Files of `export`.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Take up the rows of other stores (tune.sqlite), as `import` does.
    Merge {
        /// Other machines' stores.
        #[arg(required = true)]
        stores: Vec<PathBuf>,
    },
    /// Remove rows.
    Prune {
        #[command(flatten)]
        of: Of,
        /// Those of kernels and programs of this binary as they once were: their text or their knobs have changed since.
        #[arg(long)]
        former: bool,
        /// Those written more than so many days ago.
        #[arg(long, value_name = "DAYS")]
        older_than: Option<u32>,
        /// Say how many there are, and leave them.
        #[arg(long)]
        dry_run: bool,
    },
}

/// Which rows.
#[derive(clap::Args)]
struct Of {
    /// Kernels and programs: a path or the end of one, a challenge's slug for all that it launches. All without.
    names: Vec<String>,
    /// On this device: its name as `list` has it.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
}

impl Of {
    /// The rows that are meant. A name that the store does not know is an error.
    fn which(&self, store: &Store) -> Result<Which, String> {
        let all = store.summaries(&Which::default()).map_err(|e| e.to_string())?;
        let paths: BTreeSet<&str> = all.iter().map(|s| s.kernel.as_str()).collect();
        let mut kernels = Vec::new();
        for name in &self.names {
            let found: Vec<String> = paths.iter().filter(|p| is_named(p, name)).map(|p| p.to_string()).collect();
            if found.is_empty() {
                return Err(format!("{} has nothing of `{name}`: `autotune store list` has what there is", store.path().display()));
            }
            kernels.extend(found);
        }
        if let Some(device) = self.device.as_ref().filter(|d| !all.iter().any(|s| s.device == **d)) {
            let devices: BTreeSet<&str> = all.iter().map(|s| s.device.as_str()).collect();
            let known = if devices.is_empty() { "it has none".to_string() } else { devices.into_iter().collect::<Vec<_>>().join(", ") };
            return Err(format!("{} has no device `{device}`: {known}", store.path().display()));
        }
        Ok(Which { kernels, device: self.device.clone(), ..Which::default() })
    }
}

/// Whether a name means what lies at a path: the path's end, or a challenge whose program or one of whose kernels it is.
fn is_named(path: &str, name: &str) -> bool {
    let end = path == name || path.strip_suffix(name).is_some_and(|before| before.ends_with("::"));
    let of_challenge = || {
        let challenge = challenges().into_iter().find(|c| c.slug == name)?;
        let program = (challenge.program.build)().ok()?;
        Some(program.path == path || program.sites().iter().any(|site| site.path() == path))
    };
    end || of_challenge().unwrap_or(false)
}

pub fn run(args: &Args) -> Result<(), String> {
    let mut store = Store::open_default().map_err(|e| e.to_string())?;
    match &args.command {
        Command::List { of, json } => list(&store, &of.which(&store)?, *json),
        Command::Show { of, json } => show(&store, &of.which(&store)?, *json),
        Command::Export { of, out } => export(&store, &of.which(&store)?, out),
        Command::Import { files } => files.iter().try_for_each(|path| {
            let file = File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
            let (taken, all) = store.import(&mut BufReader::new(file)).map_err(|e| format!("{}: {e}", path.display()))?;
            println!("{}: {taken} of {all} rows are new", path.display());
            Ok(())
        }),
        Command::Merge { stores } => stores.iter().try_for_each(|path| merge(&mut store, path)),
        Command::Prune { of, former, older_than, dry_run } => {
            if of.names.is_empty() && of.device.is_none() && !former && older_than.is_none() {
                return Err("name what is to go: kernels, --device, --former or --older-than".into());
            }
            let mut which = of.which(&store)?;
            if *former {
                let linked = winners::linked();
                which.identity_not_in = Some(linked.values().copied().collect());
                if which.kernels.is_empty() {
                    which.kernels = linked.into_keys().collect();
                }
            }
            which.before_ms = older_than.map(|days| now_ms() - i64::from(days) * 24 * 3600 * 1000);
            let count = store.prune(&which, *dry_run).map_err(|e| e.to_string())?;
            println!("{count} rows {}", if *dry_run { "would go" } else { "are gone" });
            Ok(())
        }
    }
}

fn list(store: &Store, which: &Which, as_json: bool) -> Result<(), String> {
    let all = store.summaries(which).map_err(|e| e.to_string())?;
    if all.is_empty() && !as_json {
        println!("{} is empty: `autotune tune NAME` fills it", store.path().display());
        return Ok(());
    }
    if !as_json {
        listed(&all).iter().for_each(|line| println!("{line}"));
        return Ok(());
    }
    for s in all {
        let counts = json!({ "trials": s.trials, "measured": s.measured, "elected": s.elected });
        print_json(&json!({ "kernel": s.kernel, "device": s.device, "arch": s.arch, "counts": counts, "latest": s.latest }));
    }
    Ok(())
}

/// A line for each kernel on each device, below a head.
fn listed(all: &[Summary]) -> Vec<String> {
    let head = format!("{:>7} {:>8} {:>7}  {:<10}  device, kernel or program", "trials", "measured", "elected", "latest");
    let line = |s: &Summary| {
        let Summary { kernel, device, trials, measured, elected, latest, .. } = s;
        format!("{trials:>7} {measured:>8} {elected:>7}  {latest:<10}  {device}, {kernel}")
    };
    std::iter::once(head).chain(all.iter().map(line)).collect()
}

fn show(store: &Store, which: &Which, as_json: bool) -> Result<(), String> {
    let all = store.shown(which).map_err(|e| e.to_string())?;
    if !as_json {
        shown(&all).iter().for_each(|line| println!("{line}"));
        return Ok(());
    }
    for s in all {
        print_json(&json!({
            "kernel": s.kernel, "device": s.device, "sizes": s.sizes, "lengths": s.lengths, "facts": s.facts, "schedule": s.schedule,
            "median_us": s.median_us, "versions": s.versions, "made": s.made, "day": s.day,
        }));
    }
    Ok(())
}

/// Elected schedules, those of a kernel on a device below their names.
fn shown(all: &[Shown]) -> Vec<String> {
    let (mut lines, mut last) = (Vec::new(), String::new());
    for s in all {
        let of = format!("{} on {}", s.kernel, s.device);
        if of != last {
            lines.push(of.clone());
            last = of;
        }
        let made = if s.made.is_empty() { String::new() } else { format!(", {}", s.made) };
        lines.push(format!("  {:>10.2} us  {}  [{}; {}{made}, {}]", s.median_us, s.schedule, s.sizes, s.versions, s.day));
    }
    lines
}

fn export(store: &Store, which: &Which, out: &Path) -> Result<(), String> {
    ahead::writable(out)?;
    let of_file = |e: std::io::Error| format!("{}: {e}", out.display());
    let mut file = BufWriter::new(File::create(out).map_err(of_file)?);
    let count = store.export(which, &mut file)?;
    file.flush().map_err(of_file)?;
    println!("wrote {count} rows to {}", out.display());
    Ok(())
}

fn merge(store: &mut Store, path: &Path) -> Result<(), String> {
    if !path.is_file() {
        return Err(format!("{} is no store: name another machine's tune.sqlite", path.display()));
    }
    let other = Store::open(path).map_err(|e| e.to_string())?;
    let mut rows = Vec::new();
    other.export(&Which::default(), &mut rows)?;
    let (taken, all) = store.import(&mut rows.as_slice())?;
    println!("{}: {taken} of {all} rows are new", path.display());
    Ok(())
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Elected, TrialKey};

    fn stores(name: &str) -> (PathBuf, [Store; 2]) {
        let folder = std::env::temp_dir().join(format!("girih-cli-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir_all(&folder).expect("a temporary folder is writable");
        let open = |file: &str| Store::open(&folder.join(file)).unwrap_or_else(|e| panic!("{e}"));
        let stores = [open("here.sqlite"), open("there.sqlite")];
        (folder, stores)
    }

    fn elect(store: &Store, kernel: &str, device: &str) {
        let key = TrialKey {
            kernel: kernel.into(),
            identity: girih_core::scalar::fnv1a64(kernel.as_bytes()),
            facts: "16p/16".into(),
            lengths: None,
            sizes: "N=8".into(),
            device: device.into(),
            arch: "sm_90a".into(),
        };
        store.elect(&Elected { key, schedule: "T=1".into(), median_us: 1.0 }).unwrap_or_else(|e| panic!("{e}"));
    }

    #[test]
    fn names_mean_ends_of_paths_and_devices_are_known_ones() {
        let (folder, [store, _]) = stores("names");
        ["a::f", "b::f", "b::of"].into_iter().for_each(|kernel| elect(&store, kernel, "GPU"));
        let of = |names: &[&str], device: Option<&str>| Of {
            names: names.iter().map(|n| n.to_string()).collect(),
            device: device.map(str::to_string),
        };
        assert_eq!(of(&["f"], None).which(&store).expect("two are called so").kernels, ["a::f", "b::f"]);
        assert_eq!(of(&["b::f"], Some("GPU")).which(&store).expect("one is").kernels, ["b::f"]);
        let unknown = of(&["g"], None).which(&store).expect_err("none is");
        assert!(unknown.ends_with("has nothing of `g`: `autotune store list` has what there is"), "{unknown}");
        let elsewhere = of(&[], Some("another")).which(&store).expect_err("there is one device");
        assert!(elsewhere.ends_with("has no device `another`: GPU"), "{elsewhere}");
        std::fs::remove_dir_all(folder).expect("its own folder");
    }

    #[test]
    fn stores_are_merged_once() {
        let (folder, [mut here, there]) = stores("merge");
        elect(&here, "a::f", "GPU");
        elect(&there, "a::f", "another GPU");
        let elected = |store: &Store| store.elected().unwrap_or_else(|e| panic!("{e}")).len();
        for _ in 0..2 {
            merge(&mut here, &folder.join("there.sqlite")).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(elected(&here), 2);
        }
        let gone = merge(&mut here, &folder.join("nowhere.sqlite")).expect_err("there is no such file");
        assert!(gone.ends_with("nowhere.sqlite is no store: name another machine's tune.sqlite"), "{gone}");
        assert!(!folder.join("nowhere.sqlite").exists(), "no store is made of a name that was mistyped");
        std::fs::remove_dir_all(folder).expect("its own folder");
    }

    #[test]
    fn what_a_store_has_reads_like_this() {
        let row = |kernel: &str, us: f64, made: &str| Shown {
            kernel: kernel.into(),
            device: "NVIDIA H200".into(),
            sizes: "N=1000".into(),
            lengths: "1000".into(),
            facts: "16p/16".into(),
            schedule: "T=1024 C=4".into(),
            median_us: us,
            versions: "girih 0.1.0".into(),
            made: made.into(),
            day: "2026-01-31".into(),
        };
        let told = shown(&[row("m::f", 12.345, "driver 570.86, NVRTC 13.0"), row("m::f", 9.0, ""), row("m::g", 1234.5, "")]);
        let expected = [
            "m::f on NVIDIA H200",
            "       12.35 us  T=1024 C=4  [N=1000; girih 0.1.0, driver 570.86, NVRTC 13.0, 2026-01-31]",
            "        9.00 us  T=1024 C=4  [N=1000; girih 0.1.0, 2026-01-31]",
            "m::g on NVIDIA H200",
            "     1234.50 us  T=1024 C=4  [N=1000; girih 0.1.0, 2026-01-31]",
        ];
        assert_eq!(told, expected);
        let summary = Summary {
            kernel: "m::f".into(),
            device: "NVIDIA H200".into(),
            arch: "sm_90a".into(),
            trials: 120,
            measured: 99,
            elected: 2,
            latest: "2026-01-31".into(),
        };
        assert_eq!(
            listed(&[summary]),
            [" trials measured elected  latest      device, kernel or program", "    120       99       2  2026-01-31  NVIDIA H200, m::f"]
        );
    }
}
