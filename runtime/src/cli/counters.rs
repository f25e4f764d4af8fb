//! What `run --counters` tells of every launch: the simulator's counters, in the words of `ncu`.

use crate::device::Device;
use crate::device::sim::LaunchReport;
use girih_core::sim::{Class, Counters, GlobalTraffic, SharedTraffic};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Makes a simulator keep its launches.
///
/// # Errors
/// The device is a GPU, which counts with NVIDIA's profiler.
pub fn record(device: &Device) -> Result<(), String> {
    match device {
        Device::Sim(sim) => {
            sim.record();
            Ok(())
        }
        Device::Cuda(_) => Err(format!(
            "--counters counts on the simulator, not on {}: say --device sim, or profile this command with NVIDIA's `ncu` \
             (docs/performance/ncu_counters.py compares the two)",
            device.name()
        )),
    }
}

/// The launches since [`record`]; none on a GPU.
pub fn recorded(device: &Device) -> Vec<LaunchReport> {
    match device {
        Device::Sim(sim) => sim.recorded(),
        Device::Cuda(_) => Vec::new(),
    }
}

/// The kinds of global access, by name.
fn global(c: &Counters) -> [(&'static str, &GlobalTraffic); 4] {
    [("load", &c.global_load), ("store", &c.global_store), ("atomic", &c.global_atomic), ("async", &c.global_async)]
}

/// The kinds of shared access, by name.
fn shared(c: &Counters) -> [(&'static str, &SharedTraffic); 3] {
    [("load", &c.shared_load), ("store", &c.shared_store), ("atomic", &c.shared_atomic)]
}

/// A class as a key.
pub(super) fn class_name(class: Class) -> &'static str {
    match class {
        Class::Fma => "fma",
        Class::FloatAdd => "float_add",
        Class::FloatMul => "float_mul",
        Class::SpecialFunction => "special_function",
        Class::Integer => "integer",
        Class::Convert => "convert",
        Class::Memory => "memory",
        Class::Atomic => "atomic",
        Class::Control => "control",
        Class::Barrier => "barrier",
        Class::Shuffle => "shuffle",
        Class::Matrix => "matrix",
        Class::Move => "move",
    }
}

fn per_request(sectors: u64, requests: u64) -> f64 {
    sectors as f64 / requests.max(1) as f64
}

/// A launch for a program to read.
pub fn as_json(launch: &LaunchReport) -> Value {
    let c = &launch.report.counters;
    let traffic = |t: &GlobalTraffic| {
        let per = per_request(t.sectors, t.requests);
        json!({ "requests": t.requests, "sectors": t.sectors, "sectors_per_request": per, "bytes": t.bytes })
    };
    let on_chip = |t: &SharedTraffic| json!({ "requests": t.requests, "wavefronts": t.wavefronts, "bank_conflicts": t.conflicts });
    let counts = |class: Class| json!({ "warp": c.warps(class), "thread": c.threads(class) });
    let global: Map<String, Value> = global(c).into_iter().map(|(name, t)| (name.into(), traffic(t))).collect();
    let shared: Map<String, Value> = shared(c).into_iter().map(|(name, t)| (name.into(), on_chip(t))).collect();
    let instructions: Map<String, Value> = Class::ALL.into_iter().map(|k| (class_name(k).into(), counts(k))).collect();
    json!({
        "kernel": launch.function, "grid": launch.grid, "block": launch.block, "schedule": launch.schedule,
        "global": global, "shared": shared,
        "constant": { "load": { "requests": c.constant_load.requests, "addresses": c.constant_load.addresses } }, "instructions": instructions, "block_barriers": c.block_barriers,
        "matrix_multiply_adds": { "half": c.matrix.half, "tf32": c.matrix.tf32, "int8": c.matrix.int8, "float8": c.matrix.float8 },
        "unique_read_bytes": c.unique_read_bytes, "unique_written_bytes": c.unique_written_bytes,
    })
}

/// A launch for a person to read; kinds of access that it does not make are left out.
pub fn text(launch: &LaunchReport) -> String {
    let c = &launch.report.counters;
    let mut out = format!("{}: {} blocks of {} threads, {}\n", launch.function, launch.grid, launch.block, launch.schedule);
    let mut line = |text: std::fmt::Arguments| writeln!(out, "  {text}").expect("a String takes all text");
    for (name, t) in global(c).into_iter().filter(|(_, t)| t.requests > 0) {
        let per = per_request(t.sectors, t.requests);
        line(format_args!("global {name}: {} requests, {} sectors, {per:.2} per request, {} bytes", t.requests, t.sectors, t.bytes));
    }
    for (name, t) in shared(c).into_iter().filter(|(_, t)| t.requests > 0) {
        line(format_args!("shared {name}: {} requests, {} wavefronts, {} bank conflicts", t.requests, t.wavefronts, t.conflicts));
    }
    if c.constant_load.requests > 0 {
        line(format_args!("constant load: {} requests, {} addresses", c.constant_load.requests, c.constant_load.addresses));
    }
    line(format_args!("distinct sectors: {} bytes read, {} bytes written", c.unique_read_bytes, c.unique_written_bytes));
    let matrix = [("f16 and bf16", c.matrix.half), ("tf32", c.matrix.tf32), ("int8", c.matrix.int8), ("8-bit floats", c.matrix.float8)];
    for (name, products) in matrix.into_iter().filter(|(_, products)| *products > 0) {
        line(format_args!("matrix instructions, {name}: {products} multiply-adds"));
    }
    line(format_args!("{:<16} {:>12} {:>14}", "instructions", "warp", "thread"));
    for class in Class::ALL.into_iter().filter(|k| c.warps(*k) > 0) {
        line(format_args!("{:<16} {:>12} {:>14}", class_name(class), c.warps(class), c.threads(class)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use girih_core::sim::Report;

    fn launch() -> LaunchReport {
        let mut counters = Counters {
            global_load: GlobalTraffic { requests: 4, sectors: 18, bytes: 512 },
            shared_store: SharedTraffic { requests: 2, wavefronts: 6, conflicts: 4 },
            ..Counters::default()
        };
        counters.warp[Class::FloatAdd as usize] = 4;
        counters.thread[Class::FloatAdd as usize] = 100;
        LaunchReport {
            function: "scale".into(),
            grid: 2,
            block: 64,
            schedule: "#[kernel(tile(T = 64))]".into(),
            report: Report { counters, steps: 0 },
        }
    }

    #[test]
    fn programs_read_counts_by_kind_and_class() {
        let value = as_json(&launch());
        assert_eq!(value["kernel"], "scale");
        assert_eq!((&value["grid"], &value["block"]), (&json!(2), &json!(64)));
        assert_eq!(value["global"]["load"], json!({ "requests": 4, "sectors": 18, "sectors_per_request": 4.5, "bytes": 512 }));
        assert_eq!(value["global"]["store"]["sectors_per_request"], 0.0);
        assert_eq!(value["shared"]["store"], json!({ "requests": 2, "wavefronts": 6, "bank_conflicts": 4 }));
        assert_eq!(value["instructions"]["float_add"], json!({ "warp": 4, "thread": 100 }));
        assert_eq!(value["instructions"].as_object().map(Map::len), Some(Class::COUNT));
    }

    #[test]
    fn people_read_what_happened_only() {
        let text = text(&launch());
        assert!(text.starts_with("scale: 2 blocks of 64 threads, #[kernel(tile(T = 64))]\n"), "{text}");
        assert!(text.contains("global load: 4 requests, 18 sectors, 4.50 per request, 512 bytes"), "{text}");
        assert!(text.contains("shared store: 2 requests, 6 wavefronts, 4 bank conflicts"), "{text}");
        assert!(!text.contains("atomic") && !text.contains("shuffle"), "{text}");
    }
}
