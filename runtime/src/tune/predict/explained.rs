//! All that the prediction of one schedule rests on: its launches one by one, what each does, and what the compiler makes of them.

use super::super::counted::{Counted, FUEL};
use super::super::floor::Basis;
use super::registers::guessed;
use super::{Prediction, arguments};
use crate::compile::{Compiled, Output, compile};
use girih_core::cuda::function_name;
use girih_core::model;
use girih_core::schedule::Schedule;

/// One launch under a schedule.
#[derive(Clone, Debug)]
pub struct Predicted {
    /// The `__global__` function.
    pub function: String,
    /// Blocks and threads.
    pub launch: model::Launch,
    /// What it does at its true size; nothing where that could not be counted.
    pub counted: Option<Counted>,
    /// The model's word on it.
    pub model: model::Prediction,
}

/// The launches of a site under a schedule.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The launches of one call of the kernel, which are several where a second one combines what blocks have left, and none where there is
    /// nothing to do.
    pub launches: Vec<Predicted>,
    /// Microseconds of all launches of the site.
    pub us: f64,
    /// Those of them that a call's first launch takes longer than others; 0 where another site begins the call.
    pub first_us: f64,
    /// How they came to be.
    pub basis: Basis,
    /// Why the launches could not be counted.
    pub uncounted: Option<String>,
    /// What a thread and a block occupy.
    pub resources: model::Resources,
    /// The cubin; without it resources are a guess.
    pub compiled: Option<Compiled>,
}

impl Prediction<'_> {
    /// The prediction of a schedule with all that it rests on; with the registers of its cubin, where that is asked for and there is an NVRTC.
    ///
    /// # Errors
    /// A schedule that is illegal for this launch, or whose cubin NVRTC was given up on.
    pub fn explain(&self, schedule: &Schedule, with_cubin: bool) -> Result<Explained, String> {
        let simt = girih_core::lower::lower(self.kernel, &self.launch.facts, schedule, self.target).map_err(|e| e.to_string())?;
        let compiled = if with_cubin { self.compiled(schedule)? } else { None };
        let known = compiled.as_ref().and_then(Prediction::resources_of);
        let resources = known.unwrap_or_else(|| guessed(&simt));
        let explained = |launches: Vec<Predicted>, basis, uncounted| {
            let us = whole(&launches).map_or(0.0, |one| self.us(&one));
            let first_us = if launches.is_empty() { 0.0 } else { self.start() * 1e6 };
            Explained { us, first_us, launches, basis, uncounted, resources, compiled: compiled.clone() }
        };
        match self.counted_launches(&simt, known, FUEL) {
            Ok(found) => {
                let basis = found.iter().map(|(counted, _)| counted.basis).max().unwrap_or(Basis::Counted);
                let launches = found.into_iter().map(|(counted, model)| Predicted {
                    function: counted.function.clone(),
                    launch: counted.launch,
                    counted: Some(counted),
                    model,
                });
                Ok(explained(launches.collect(), basis, None))
            }
            Err(None) => Ok(explained(Vec::new(), Basis::Counted, None)),
            Err(Some(why)) => {
                let (model, basis) = self.predict_uncounted(&simt, schedule, known, FUEL);
                let grid = simt.launch.grid.eval(&arguments(self.launch), self.target.multiprocessors as i64).max(0) as u64;
                let launch = model::Launch { grid, block: simt.launch.block, stages: 1 };
                let only = Predicted { function: function_name(&simt), launch, counted: None, model };
                Ok(explained(vec![only], basis, Some(why.to_string())))
            }
        }
    }

    /// The cubin of a schedule: nothing where there is no NVRTC. An error where it was given up: nobody could launch that.
    pub(super) fn compiled(&self, schedule: &Schedule) -> Result<Option<Compiled>, String> {
        match compile(self.kernel, &self.launch.facts, schedule, self.target, Output::Cubin) {
            Ok(compiled) => Ok(Some(compiled)),
            Err(e @ crate::Error::GivenUp { .. }) => Err(e.to_string()),
            Err(_) => Ok(None),
        }
    }

    /// What NVRTC says of a cubin, for the model.
    pub(super) fn resources_of(compiled: &Compiled) -> Option<model::Resources> {
        compiled.resources.map(|r| model::Resources {
            registers: r.registers,
            shared: compiled.simt.shared_bytes(),
            spills: r.spill_store_bytes + r.spill_load_bytes,
        })
    }
}

/// Launches one behind the other as one: what bounds the first stands for all. Nothing of no launch.
fn whole(launches: &[Predicted]) -> Option<model::Prediction> {
    launches.iter().map(|launch| launch.model).reduce(|mut first, next| {
        first.seconds += next.seconds;
        first.beside += next.beside;
        first
    })
}
