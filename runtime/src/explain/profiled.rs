//! What NVIDIA's profiler counts of a page's launches, beside what was counted for it.

use super::Page;
use super::numbers::{Counts, Numbers};
use super::stalls;
use super::text::Lines;
use super::units::{amount, bytes, percent, plain, us};
use crate::measure::ncu::{LIMIT, Launched, Ncu};
use std::ffi::{OsStr, OsString};

/// Something that both count.
pub struct Quantity {
    /// What it is.
    pub what: &'static str,
    /// The metrics of `ncu` whose sum it is.
    metrics: &'static [&'static str],
    /// What one of the metric's units is.
    scale: f64,
    /// What was counted for the page.
    of: fn(&Numbers) -> Option<f64>,
    text: fn(f64) -> String,
}

fn count(n: &Numbers, of: fn(&Counts) -> f64) -> Option<f64> {
    n.counts.as_ref().map(of)
}

/// All that is asked for.
pub const QUANTITIES: [Quantity; 16] = [
    Quantity {
        what: "time",
        metrics: &["gpu__time_duration.sum"],
        scale: 1e-3,
        of: |n| Some((n.predicted.seconds - n.predicted.front) * 1e6),
        text: us,
    },
    Quantity {
        what: "bytes read from memory",
        metrics: &["dram__bytes_read.sum"],
        scale: 1.0,
        of: |n| count(n, |c| c.unique[0]),
        text: bytes,
    },
    Quantity {
        what: "bytes written to memory",
        metrics: &["dram__bytes_write.sum"],
        scale: 1.0,
        of: |n| count(n, |c| c.unique[1]),
        text: bytes,
    },
    Quantity {
        what: "sectors asked of the L2",
        metrics: &["lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum", "lts__t_sectors_op_atom.sum", "lts__t_sectors_op_red.sum"],
        scale: 1.0,
        of: |n| count(n, |c| c.l2_sectors),
        text: amount,
    },
    Quantity {
        what: "sectors of global loads",
        metrics: &["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"],
        scale: 1.0,
        of: |n| count(n, |c| c.loads.sectors),
        text: amount,
    },
    Quantity {
        what: "sectors of global stores",
        metrics: &["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"],
        scale: 1.0,
        of: |n| count(n, |c| c.stores.sectors),
        text: amount,
    },
    Quantity {
        what: "wavefronts of shared memory",
        metrics: &["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"],
        scale: 1.0,
        of: |n| count(n, |c| c.shared[..2].iter().map(|s| s.wavefronts).sum()),
        text: amount,
    },
    Quantity {
        what: "bank conflicts",
        metrics: &["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"],
        scale: 1.0,
        of: |n| count(n, |c| c.shared[..2].iter().map(|s| s.conflicts).sum()),
        text: amount,
    },
    Quantity { what: "sectors found in the L1", metrics: &["l1tex__t_sector_hit_rate.pct"], scale: 0.01, of: |_| None, text: percent },
    Quantity { what: "sectors found in the L2", metrics: &["lts__t_sector_hit_rate.pct"], scale: 0.01, of: |_| None, text: percent },
    Quantity {
        what: "throughput of memory",
        metrics: &["gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"],
        scale: 0.01,
        of: |_| None,
        text: percent,
    },
    Quantity {
        what: "throughput of arithmetic",
        metrics: &["sm__throughput.avg.pct_of_peak_sustained_elapsed"],
        scale: 0.01,
        of: |_| None,
        text: percent,
    },
    Quantity {
        what: "instructions of warps",
        metrics: &["smsp__inst_executed.sum"],
        scale: 1.0,
        of: |n| count(n, Counts::instructions),
        text: amount,
    },
    Quantity {
        what: "threads that may be there",
        metrics: &["sm__maximum_warps_per_active_cycle_pct"],
        scale: 0.01,
        of: |n| Some(n.predicted.occupancy.fraction),
        text: percent,
    },
    Quantity {
        what: "threads that were there",
        metrics: &["sm__warps_active.avg.pct_of_peak_sustained_active"],
        scale: 0.01,
        of: |_| None,
        text: percent,
    },
    Quantity {
        what: "registers per thread",
        metrics: &["launch__registers_per_thread"],
        scale: 1.0,
        of: |n| Some(f64::from(n.resources.registers)),
        text: plain,
    },
];

impl Quantity {
    /// What the profiler counted; nothing where none of its metrics is there.
    fn measured(&self, launched: &Launched) -> Option<f64> {
        let parts = self.metrics.iter().filter_map(|metric| launched.values.get(*metric).copied());
        parts.reduce(|sum, part| sum + part).map(|sum| sum * self.scale)
    }

    /// A line for people.
    fn line(&self, n: &Numbers, launched: &Launched) -> Option<String> {
        let (own, measured) = ((self.of)(n), self.measured(launched));
        if own.unwrap_or(0.0) == 0.0 && measured.unwrap_or(0.0) == 0.0 {
            return None;
        }
        let cell = |x: Option<f64>| x.map_or("-".to_string(), self.text);
        Some(format!("{:<28} {:>12} {:>12}", self.what, cell(own), cell(measured)))
    }
}

/// Profiles a command that launches what a page explains, and notes what was counted there; metrics that are not known.
///
/// # Errors
/// As [`Ncu::profile`].
pub fn profile(page: &mut Page, ncu: &Ncu, command: (&OsStr, &[OsString])) -> Result<Vec<String>, String> {
    let launches = || page.sites.iter().flat_map(|site| site.launches.iter().map(move |launch| (site.count, launch)));
    let functions: Vec<String> = launches().map(|(_, launch)| launch.function.clone()).collect();
    let most: usize = launches().map(|(count, _)| count).sum();
    let stalls = stalls::metrics();
    let metrics: Vec<&str> = QUANTITIES.iter().flat_map(|q| q.metrics).copied().chain(stalls.iter().map(String::as_str)).collect();
    let mut distinct = functions.clone();
    distinct.sort();
    distinct.dedup();
    let found = ncu.profile(command, &distinct, most, &metrics, LIMIT)?;
    let of = found.of(&functions.iter().map(String::as_str).collect::<Vec<_>>());
    let all = page.sites.iter_mut().flat_map(|site| &mut site.launches);
    all.zip(of).for_each(|(launch, profiled)| launch.profiled = profiled);
    Ok(found.unknown)
}

/// The part of a launch's page that the profiler has filled.
pub(super) fn profiled(out: &mut Lines, n: &Numbers) {
    let Some(launched) = &n.profiled else { return };
    let of = if launched.launches > 1 { format!(", of {} launches on average", launched.launches) } else { String::new() };
    out.item("by ncu", format!("{:<28} {:>12} {:>12}{of}", "", "counted", "measured"));
    QUANTITIES.iter().filter_map(|quantity| quantity.line(n, launched)).for_each(|line| out.item("", line));
    if let Some(stalls) = stalls::told(launched) {
        out.item("", format!("warps waited for {stalls}"));
    }
}
