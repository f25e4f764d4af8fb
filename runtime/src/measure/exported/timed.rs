//! An exported `solve` and the program it was exported from, in turn.

use super::{Arguments, Exported};
use crate::check::run;
use crate::launch::program::Runner;
use crate::measure::bench::{Options, SAMPLED, chosen};
use crate::measure::timing::{L2, Timer};
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use crate::subject::guarded_args::Placed;
use crate::tune::search::median;

/// Medians in microseconds, of launches one after the other on the default stream, with a cold L2.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timed {
    /// As this process launches, which compiled each launch for its facts.
    pub ours_us: f64,
    /// As exported, whose versions were compiled by nvcc for whoever calls.
    pub exported_us: f64,
}

impl Timed {
    /// What an export may take: 3 % and three tenths of a microsecond more than the program.
    pub fn allowed_us(&self) -> f64 {
        1.03 * self.ours_us + 0.3
    }

    /// It takes no longer than it may.
    pub fn is_within(&self) -> bool {
        self.exported_us <= self.allowed_us()
    }
}

/// The first rounds warm up and are not counted.
const WARM_ROUNDS: usize = 3;

/// Times both at a size, after both were compared with samples of the references. The device must queue on the default stream, as
/// [`Device::cuda_on_default_stream`](crate::Device::cuda_on_default_stream) does: an exported `solve` knows no other.
///
/// # Errors
/// A result that is wrong, sizes that do not fit, what the device reports, or a GPU that is throttled for good.
pub fn timed(subject: &Subject, sizes: &Sizes, options: &Options, exported: &Exported) -> Result<Timed, String> {
    let device = options.device;
    let preparing = options.quiet.beside_others();
    let signature = subject.signature().ok_or("is no challenge, so it has no signature to be called with")?;
    let call = subject.call(sizes, 1)?;
    let (subject, schedules) = chosen(subject, &call, options)?;
    let mut runner = Runner::new(device, subject.program.clone());
    runner.graphs = false;
    runner.schedules = schedules.iter().map(|(s, _, _)| Some(s.clone())).collect();
    let placed = Placed::new(device, &call, 0).map_err(|e| e.to_string())?;
    let after = run(&mut runner, &placed, &placed.arguments()).map_err(|e| e.to_string())?;
    subject.verify(&call, &after, Some(SAMPLED))?;
    drop(after);
    let arguments = Arguments::new(signature, &call, &placed)?;
    placed.restore().map_err(|e| e.to_string())?;
    exported.call(&arguments)?;
    let after = placed.download().map_err(|e| e.to_string())?;
    subject.verify(&call, &after, Some(SAMPLED)).map_err(|e| format!("exported: {e}"))?;
    if !placed.guards_intact().map_err(|e| e.to_string())? {
        return Err("exported: it wrote outside of its tensors".into());
    }
    drop(after);

    let timer = Timer::new(device, L2::Cold).map_err(|e| e.to_string())?;
    let bound = placed.arguments();
    drop(preparing);
    let _alone = options.quiet.alone();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..options.rounds + WARM_ROUNDS {
        let turn = timer.turn(ours.last().copied(), &placed, &mut || runner.run(&bound)).map_err(|e| e.to_string())?;
        let other = timer.turn(theirs.last().copied(), &placed, &mut || exported.call(&arguments).map_err(crate::Error::Buffer));
        let other = other.map_err(|e| e.to_string())?;
        if round + 1 == WARM_ROUNDS {
            (ours, theirs) = (Vec::new(), Vec::new());
        }
        ours.extend(turn.clean()?);
        theirs.extend(other.clean()?);
    }
    let of = |samples: &[f64]| median(samples).unwrap_or(f64::NAN);
    Ok(Timed { ours_us: of(&ours), exported_us: of(&theirs) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_may_take_three_percent_and_three_tenths_of_a_microsecond_more() {
        assert!(Timed { ours_us: 5.0, exported_us: 5.44 }.is_within());
        assert!(!Timed { ours_us: 5.0, exported_us: 5.46 }.is_within());
        assert!(Timed { ours_us: 100.0, exported_us: 103.2 }.is_within());
        assert!(!Timed { ours_us: 34.2, exported_us: 59.5 }.is_within());
    }
}
