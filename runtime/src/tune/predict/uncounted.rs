//! What stands in where a launch cannot be counted at its true size: a call at a reduced size, scaled, or bytes and operations alone.

use super::super::SEED;
use super::super::counted::{constant_copies, counted, repeats};
use super::super::floor::Basis;
use super::super::launches::{Launch, launches_reading};
use super::super::reduced::one_tile_each;
use super::registers::guessed;
use super::{Prediction, arguments, summed};
use crate::device::Device;
use crate::device::sim::LaunchReport;
use crate::launch::{Argument, host_args, prepare};
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use girih_core::model;
use girih_core::program::walk::LaunchArg;
use girih_core::schedule::{KnobKind, Schedule, Site};
use girih_core::sim::counting::Fuel;
use girih_core::sim::{Class, Counters, Program};
use girih_core::simt;
use girih_core::tile::{Kernel, ParamKind};

/// A site's launch at a reduced size.
pub(super) struct Small {
    launch: Launch,
    /// What it finds in memory, by argument; zeros where that is not known.
    pub(super) before: Vec<Option<Vec<u8>>>,
    /// What it leaves in those that it may change.
    pub(super) left: Vec<Option<Vec<u8>>>,
    /// How much more work the whole launch is.
    scale: f64,
    /// Warp instructions after which a candidate is given up.
    fuel: u64,
}

impl Prediction<'_> {
    /// The reduced launch.
    pub(super) fn small(&self) -> Result<&Small, String> {
        if !self.rehearses {
            return Err("there is no time for a reduced call".into());
        }
        self.small.get_or_init(|| self.find_small()).as_ref().map_err(Clone::clone)
    }

    fn find_small(&self) -> Result<Small, String> {
        let (subject, site) = (self.subject, self.launch.site);
        let dry_run = self.dry_runs.of_site(subject, self.sizes, (site, self.kernel), self.target)?;
        let call = subject.call(&dry_run.sizes, SEED)?;
        let found = launches_reading(&subject.program, &call, &dry_run.read)?;
        let launch = found.into_iter().find(|l| l.site == site).unwrap_or_else(|| self.launch.clone());
        let scale = scale(subject, self.kernel, (self.launch, self.sizes), (&launch, &dry_run.sizes));
        let site_run = dry_run.site(site);
        let before = site_run.map_or(vec![None; launch.args.len()], |r| r.before.clone());
        let left = site_run.map_or(Vec::new(), |r| r.left.clone());
        Ok(Small { launch, before, left, scale, fuel: self.dry_runs.fuel(site_run.and_then(|r| r.steps)) })
    }

    /// What stands in where a launch cannot be counted at its true size.
    pub(super) fn predict_uncounted(
        &self,
        simt: &simt::Kernel,
        schedule: &Schedule,
        registers: Option<model::Resources>,
        fuel: Fuel,
    ) -> (model::Prediction, Basis) {
        if let Ok(predicted) = self.predict_reduced(simt, schedule, registers) {
            return (predicted, Basis::Scaled);
        }
        let plain = self.predict_static(simt, registers);
        match self.predict_made_up(simt, registers, fuel) {
            Some((made_up, _)) if made_up.seconds > plain.seconds => (made_up, Basis::Estimated),
            _ => (plain, Basis::Static),
        }
    }

    /// From what the launch does at its true size by data that are made up: a loop that they control may have no turn then, but a product behind a
    /// flag is a product.
    fn predict_made_up(&self, simt: &simt::Kernel, registers: Option<model::Resources>, fuel: Fuel) -> Option<(model::Prediction, Basis)> {
        let resources = registers.unwrap_or_else(|| guessed(simt));
        let found = counted(simt, &self.launch.args, &self.inputs().made_up(), self.target, fuel).ok()?;
        summed(self.modelled(found, &resources))
    }

    /// From bytes and operations alone: what a schedule does cannot be counted.
    fn predict_static(&self, simt: &simt::Kernel, registers: Option<model::Resources>) -> model::Prediction {
        let grid = simt.launch.grid.eval(&arguments(self.launch), self.target.multiprocessors as i64).max(1);
        let bytes = tensor_bytes(&self.launch.args);
        let constant_copies = constant_copies(simt);
        let work = model::Work { load_sectors: bytes / 32.0, memory_bytes: bytes, rounds: 1.0, constant_copies, ..model::Work::default() };
        let launch = model::Launch { grid: grid as u64, block: simt.launch.block, stages: 1 };
        model::predict(&work, &launch, &registers.unwrap_or_else(|| guessed(simt)), self.target)
    }

    /// From a call at a reduced size, scaled.
    fn predict_reduced(
        &self,
        simt: &simt::Kernel,
        schedule: &Schedule,
        registers: Option<model::Resources>,
    ) -> Result<model::Prediction, String> {
        let small = self.small()?;
        let reports = self.count((&small.launch.args, &small.before), schedule, small.fuel)?;
        let counters = &reports[0].report.counters;
        let multiprocessors = self.target.multiprocessors as i64;
        let grid = simt.launch.grid.eval(&arguments(self.launch), multiprocessors).max(1);
        let dealt = schedule.int_of_kind(self.kernel, KnobKind::Grid, 0) > 0;
        let tiles = if dealt { self.tiles(schedule).unwrap_or(grid) } else { grid };
        let mut work = scaled(counters, small.scale, (tiles as f64 / grid as f64).ceil().max(1.0));
        let site = self.kernel.grid_loop().map(Site::of_loop).unwrap_or_default();
        let stages = schedule.int_at(self.kernel, KnobKind::Stages, &site, 1).max(1) as u32;
        let launch = model::Launch { grid: grid as u64, block: simt.launch.block, stages: if dealt { stages } else { 1 } };
        work.constant_copies = constant_copies(simt);
        work.repeats = repeats(work.instructions, &launch, &Program::decode(simt));
        let resources = registers.unwrap_or_else(|| guessed(simt));
        let mut predicted = model::predict(&work, &launch, &resources, self.target);
        for (next, small) in simt.launches().zip(&reports).skip(1) {
            // A launch behind it takes the parts that blocks have left, one for each of its threads at a time.
            let turns = |parts: i64| (parts as f64 / f64::from(next.launch.block)).ceil();
            let (now, then) = (turns(grid), turns(reports[0].grid.into()));
            let launch = model::Launch { grid: small.grid.into(), block: next.launch.block, stages: 1 };
            predicted.seconds += model::predict(&scaled(&small.report.counters, now / then, now), &launch, &resources, self.target).seconds;
        }
        Ok(predicted)
    }

    /// Tiles of the whole launch: the blocks there would be with one tile each.
    fn tiles(&self, schedule: &Schedule) -> Option<i64> {
        let simt = girih_core::lower::lower(self.kernel, &self.launch.facts, &one_tile_each(self.kernel, schedule), self.target).ok()?;
        Some(simt.launch.grid.eval(&arguments(self.launch), self.target.multiprocessors as i64))
    }

    /// What a reduced launch with these arguments does, and the launches behind it; at least one. Memory of which nothing is known is zero.
    fn count(
        &self,
        (reduced, before): (&[LaunchArg], &[Option<Vec<u8>>]),
        schedule: &Schedule,
        fuel: u64,
    ) -> Result<Vec<LaunchReport>, String> {
        let device = Device::sim_within(self.target, fuel, true);
        let text = |e: crate::Error| e.to_string();
        let mut buffers = Vec::new();
        let mut args = Vec::new();
        for (i, (arg, param)) in reduced.iter().zip(&self.kernel.params).enumerate() {
            args.push(match (arg, param.kind) {
                (LaunchArg::Tensor(region), ParamKind::Tensor { mutable, .. }) => {
                    let (start, end) = region.span();
                    let buffer = device.alloc((end - start) as usize).map_err(text)?;
                    match before.get(i).and_then(Option::as_ref) {
                        Some(bytes) => device.upload(&buffer, 0, bytes).map_err(text)?,
                        None => device.fill(&buffer, 0, buffer.bytes(), &[0]).map_err(text)?,
                    }
                    let mut tensor = region.tensor_arg(0);
                    tensor.address = buffer.address().wrapping_add_signed(region.offset - start);
                    buffers.push(buffer);
                    Argument::Tensor { dtype: region.dtype, tensor, mutable }
                }
                (LaunchArg::Scalar(l), _) => Argument::Scalar(*l),
                (LaunchArg::Tensor(_), ParamKind::Scalar(_)) => return Err(format!("`{}` is a scalar", param.name)),
            });
        }
        let prepared = prepare(&device, &self.launch.kernel, Some(schedule), &args).map_err(text)?;
        let Device::Sim(sim) = &device else { unreachable!("made above") };
        sim.record();
        device.launch(&prepared.loaded, &host_args(&args)).map_err(text)?;
        let reports = sim.recorded();
        if reports.is_empty() { Err("nothing was launched".into()) } else { Ok(reports) }
    }
}

/// How much more work a launch is than one at a reduced size. Elements say that, but for products of matrices: these grow faster than their
/// tensors, by as much as the challenge's operations.
fn scale(subject: &Subject, kernel: &Kernel, large: (&Launch, &Sizes), small: (&Launch, &Sizes)) -> f64 {
    let elements = elements(&large.0.args) / elements(&small.0.args).max(1.0);
    let Some(challenge) = subject.challenge.as_ref().filter(|_| kernel.has_dots()) else { return elements };
    let flops = |of: (&Launch, &Sizes)| (challenge.flops)(of.1) / of.0.count.max(1) as f64;
    let operations = flops(large) / flops(small);
    if operations.is_finite() && operations > 0.0 { operations } else { elements }
}

/// Elements of all tensors of a launch.
fn elements(args: &[LaunchArg]) -> f64 {
    let of = |a: &LaunchArg| match a {
        LaunchArg::Tensor(r) => r.numel() as f64,
        LaunchArg::Scalar(_) => 0.0,
    };
    args.iter().map(of).sum()
}

/// Bytes of all tensors of a launch.
fn tensor_bytes(args: &[LaunchArg]) -> f64 {
    let of = |a: &LaunchArg| match a {
        LaunchArg::Tensor(r) => r.bytes() as f64,
        LaunchArg::Scalar(_) => 0.0,
    };
    args.iter().map(of).sum()
}

fn scaled(c: &Counters, scale: f64, rounds: f64) -> model::Work {
    let times = |n: u64| n as f64 * scale;
    let shared = c.shared_load.wavefronts + c.shared_store.wavefronts + c.shared_atomic.wavefronts;
    let floats = c.threads(Class::Fma) + c.threads(Class::FloatAdd) + c.threads(Class::FloatMul);
    model::Work {
        load_sectors: times(c.global_load.sectors + c.global_async.sectors),
        store_sectors: times(c.global_store.sectors + c.global_atomic.sectors),
        memory_bytes: times(c.unique_read_bytes + c.unique_written_bytes),
        shared_wavefronts: times(shared),
        instructions: times(c.instructions() - c.warps(Class::Move)),
        float_operations: times(floats),
        special_functions: times(c.threads(Class::SpecialFunction)),
        matrix_groups: times(c.matrix.groups),
        matrix_half: times(c.matrix.half),
        matrix_tf32: times(c.matrix.tf32),
        matrix_int8: times(c.matrix.int8),
        matrix_float8: times(c.matrix.float8),
        atomics: times(c.threads(Class::Atomic)),
        rounds,
        ..model::Work::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::by_shell::copying;
    use crate::tune::launches;
    use girih::prelude::*;
    use girih_core::target::Target;

    #[kernel(tile(T = 256))]
    pub fn places(x: &Tensor<f32, 1>, at: &mut Tensor<i32, 1>) {
        for t in at.tiles([T]) {
            at.store(t, (x.load(t) * 8.0).cast::<i32>());
        }
    }

    /// Where it reads is what the other launch left.
    #[kernel(tile(T = 256))]
    pub fn picked(x: &Tensor<f32, 1>, at: &Tensor<i32, 1>, y: &mut Tensor<f32, 1>) {
        for t in y.tiles([T]) {
            y.store(t, x.gather(at.load(t).cast::<i64>()).or(0.0));
        }
    }

    #[program]
    pub fn picks(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
        let mut at = temp([x.len(0)]);
        places(x, &mut at);
        picked(x, &at, y);
    }

    /// A reduced call may take longer than a short search has.
    #[test]
    fn where_time_is_short_no_reduced_call_is_run() {
        let (subject, sizes) = (copying(picks::Program::def), Sizes::parse("N=100000").expect("a size"));
        let all = launches::at(&subject, &sizes).unwrap_or_else(|e| panic!("{e}"));
        let kernels: Vec<Kernel> = all.iter().map(|l| (l.kernel.build)().expect("it is right")).collect();
        let first: Vec<Schedule> = kernels.iter().map(Schedule::default_of).collect();
        let basis = |rehearses: bool| {
            let prediction = Prediction::new(&subject, &sizes, (&kernels[1], &all[1]), Target::h200(), first.clone());
            prediction.rehearsing(rehearses).site_us(&first[1]).unwrap_or_else(|e| panic!("{e}")).1
        };
        assert_eq!([true, false].map(basis), [Basis::Estimated, Basis::Static]);
    }
}
