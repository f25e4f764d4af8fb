//! What a candidate of a launch site is to NVRTC and to the GPU: its code, its registers, and what is amiss with them.

use super::site::Site;
use super::{code, digest};
use crate::compile::Compiled;
use crate::measure::acceptance::Acceptance;
use crate::store::Trial;
use girih_core::lower::lower;
use girih_core::scalar::fnv1a64;
use girih_core::schedule::Schedule;
use girih_core::simt;

impl Site<'_> {
    /// What the code of a candidate is under the tuned launch's facts.
    pub(super) fn code(&self, candidate: &Schedule) -> Option<u64> {
        code(self.kernel, &self.launch.facts, candidate, self.target)
    }

    /// Adds to a candidate's trial what its code is under the tuned launch's facts; where it was timed also its registers, and what is amiss
    /// as far as ptxas says: that is known without a look at the machine code. Predictions can do without NVRTC and its cubin.
    pub(super) fn describe(&self, candidate: &Schedule, trial: &mut Trial) {
        let Ok(simt) = lower(self.kernel, &self.launch.facts, candidate, self.target) else { return };
        trial.code = Some(digest(&simt));
        if trial.median_us.is_none() {
            return;
        }
        let Ok(compiled) = Compiled::of(simt, self.target).with_cubin() else { return };
        let Some(resources) = compiled.resources else { return };
        let flaws = Acceptance::of_resources(&compiled.simt, resources).flaws();
        (trial.registers, trial.flaw) = (Some(resources.registers), (!flaws.is_empty()).then(|| flaws.join(", ")));
    }

    /// What a candidate's launches are to a multiprocessor: its machine code, and how it is launched. `None` where it has none.
    pub(super) fn machine_code(&self, candidate: &Schedule) -> Option<u64> {
        let simt = lower(self.kernel, &self.launch.facts, candidate, self.target).ok()?;
        let compiled = Compiled::of(simt, self.target).with_cubin().ok()?;
        let launch =
            |k: &simt::Kernel| format!("{:?}", (&k.launch, k.params.iter().map(|p| &p.kind).collect::<Vec<_>>(), k.shared_bytes()));
        let launches: String = compiled.simt.launches().map(launch).collect();
        Some(fnv1a64(launches.as_bytes()) ^ fnv1a64(compiled.cubin.as_ref()?).rotate_left(1))
    }
}
