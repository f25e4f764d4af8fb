//! What the evaluator leaves of a call, and what a device leaves of it.

use crate::error::Error;
use crate::launch::program::Runner;
use crate::subject::guarded_args::Placed;
use crate::subject::inputs::HostTensor;
use crate::subject::{Call, CallArg, Subject};
use girih_core::facts::TensorArg;
use girih_core::program::eval::{ProgramEvalError, eval_program_under};
use girih_core::schedule::Schedule;
use girih_core::tile::eval::{EvalArg, EvalOptions};

/// Restores the arguments, runs a program once and reads all tensors back.
pub fn run(runner: &mut Runner, placed: &Placed, arguments: &[crate::launch::Argument]) -> Result<Vec<Option<HostTensor>>, Error> {
    placed.restore()?;
    runner.run(arguments)?;
    placed.download()
}

/// The tensors after a call, by the evaluator.
///
/// # Errors
/// Why the program could not be evaluated.
pub fn evaluate(subject: &Subject, call: &Call) -> Result<Vec<Option<HostTensor>>, String> {
    evaluate_under(subject, call, &[])
}

/// As [`evaluate`], with the tiles of a schedule for each launch site; of none, with the smallest.
pub(crate) fn evaluate_under(subject: &Subject, call: &Call, schedules: &[Schedule]) -> Result<Vec<Option<HostTensor>>, String> {
    evaluated(subject, call, schedules, &EvalOptions::default()).map_err(|e| e.to_string())
}

pub(super) fn evaluated(
    subject: &Subject,
    call: &Call,
    schedules: &[Schedule],
    options: &EvalOptions,
) -> Result<Vec<Option<HostTensor>>, ProgramEvalError> {
    let mut after: Vec<Option<HostTensor>> = call
        .args
        .iter()
        .map(|a| match a {
            CallArg::Tensor { data, .. } => Some(data.host().clone()),
            CallArg::Scalar(_) => None,
        })
        .collect();
    let mut args: Vec<EvalArg> = call
        .args
        .iter()
        .zip(&mut after)
        .map(|(arg, after)| match (arg, after) {
            (CallArg::Scalar(l), _) => EvalArg::Scalar(*l),
            (CallArg::Tensor { data, .. }, Some(t)) => EvalArg::Tensor { bytes: &mut t.bytes, shape: TensorArg::packed(0, &data.lens) },
            (CallArg::Tensor { .. }, None) => unreachable!("every tensor was cloned above"),
        })
        .collect();
    eval_program_under(&subject.program, schedules, &mut args, options)?;
    Ok(after)
}
