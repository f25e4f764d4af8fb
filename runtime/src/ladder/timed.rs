//! Rungs on a GPU: one round runs every rung once, so that a drift of the clock touches neighbours alike.

use super::At;
use crate::check::run;
use crate::device::Device;
use crate::launch::program::Runner;
use crate::measure::throttle::Taken;
use crate::measure::timing::{L2, Timer};
use crate::subject::CallArg;
use crate::subject::guarded_args::Placed;
use crate::tune::search::median;

/// A rung's time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// The median of the rounds in microseconds, L2 flushed before every sample.
    pub us: f64,
    /// Median of how many times faster it was in a round than the rung before; nothing of the lowest.
    pub faster: Option<f64>,
}

/// Elements of each output that are compared with the reference.
const SAMPLED: usize = 20_000;
/// Rounds that warm up clocks and caches and are not counted.
const WARM_UP: usize = 3;

/// The times of rungs with the same arguments; nothing of those that are none. A rung whose result is wrong, or that fails, says so.
///
/// # Errors
/// The GPU cannot hold the arguments; rungs whose programs take them in another order.
pub fn timed(device: &Device, rungs: &[Option<&At>], rounds: usize, l2: L2) -> Result<Vec<Option<Result<Measured, String>>>, String> {
    let Some(first) = rungs.iter().flatten().next() else { return Ok(rungs.iter().map(|_| None).collect()) };
    let text = |e: crate::Error| e.to_string();
    let call = first.subject.call(&first.sizes, 1)?;
    let names = argument_names(&call.args);
    for at in rungs.iter().flatten() {
        let own_call = at.subject.call(&at.sizes, 1)?;
        let own = argument_names(&own_call.args);
        if own != names {
            return Err(format!(
                "{}: a rung takes {own:?}, the lowest one {names:?}: give the programs of a ladder one order",
                at.subject.name
            ));
        }
    }
    let placed = Placed::new(device, &call, 0).map_err(text)?;
    let (arguments, timer) = (placed.arguments(), Timer::new(device, l2).map_err(text)?);
    let prepare = |at: &At| -> Result<Runner, String> {
        let mut runner = Runner::new(device, at.subject.program.clone());
        runner.schedules = at.way.iter().map(|(schedule, _)| Some(schedule.clone())).collect();
        placed.restore().map_err(text)?;
        let after = run(&mut runner, &placed, &arguments).map_err(|e| e.to_string())?;
        at.subject.verify(&call, &after, Some(SAMPLED))?;
        Ok(runner)
    };
    let mut runners: Vec<Option<Result<Runner, String>>> = rungs.iter().map(|at| at.map(prepare)).collect();
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); rungs.len()];
    for round in 0..rounds.max(1) + WARM_UP {
        for (rung, samples) in runners.iter_mut().zip(&mut samples) {
            let Some(Ok(runner)) = rung else { continue };
            match timer.sample(&placed, &mut || runner.run(&arguments)).map_err(text).and_then(Taken::clean) {
                Ok(us) if round >= WARM_UP => samples.push(us),
                Ok(_) => {}
                Err(e) => *rung = Some(Err(e)),
            }
        }
    }
    let mut before: Option<usize> = None;
    let mut all = Vec::new();
    for (i, rung) in runners.into_iter().enumerate() {
        all.push(rung.map(|runner| {
            runner?;
            let us = median(&samples[i]).ok_or("no samples")?;
            let faster = before.and_then(|b| median(&ratios(&samples[b], &samples[i])));
            before = Some(i);
            Ok(Measured { us, faster })
        }));
    }
    Ok(all)
}

/// Round by round, how many times faster the second was.
fn ratios(before: &[f64], now: &[f64]) -> Vec<f64> {
    before.iter().zip(now).map(|(b, n)| b / n).collect()
}

fn argument_names(args: &[CallArg]) -> Vec<&str> {
    let mut names = Vec::new();
    for arg in args {
        names.push(match arg {
            CallArg::Tensor { name, .. } => name.as_str(),
            CallArg::Scalar(_) => "a scalar",
        });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_of_the_clock_is_none_of_the_ratio() {
        // Both become slower round by round; the second is always twice as fast.
        assert_eq!(median(&ratios(&[2.0, 4.0, 8.0], &[1.0, 2.0, 4.0])), Some(2.0));
    }
}
