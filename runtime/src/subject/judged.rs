//! What a call leaves, beside the references and beside another way to run it.

use super::{Call, CallArg, Subject};
use crate::subject::challenge::{Challenge, Reference, judged, near};
use crate::subject::deviation::{Deviation, Tally};
use crate::subject::differ_on_gpu::Tolerance;
use crate::subject::differences::{Difference, Mismatch, each_or_sampled};
use crate::subject::inputs::{HostTensor, Values};
use girih_core::types::{DType, Literal};

impl Subject {
    /// Compares the tensors after a call with the references at every element, or at `samples` random ones of each
    /// output; tensors that are no output must be as before. `after` has one entry per parameter, `None` for scalars.
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn verify<V: Values + Sync>(&self, call: &Call, after: &[Option<V>], samples: Option<usize>) -> Result<(), String> {
        self.judge(call, after, samples, true).map(|_| ())
    }

    /// As [`Subject::verify`], and how far the elements are from the references; without a limit to that, and without a look at tensors
    /// that are no output, unless `strict`.
    ///
    /// # Errors
    /// As [`Subject::verify`], where `strict`.
    pub fn judge<V: Values + Sync>(
        &self,
        call: &Call,
        after: &[Option<V>],
        samples: Option<usize>,
        strict: bool,
    ) -> Result<Deviation, String> {
        self.judged_elements(call, after, samples, strict).map_err(|e| e.sentence(&call.sizes))
    }

    /// As [`Subject::judge`], with the first few elements that differ.
    pub(crate) fn judged_elements<V: Values + Sync>(
        &self,
        call: &Call,
        after: &[Option<V>],
        samples: Option<usize>,
        strict: bool,
    ) -> Result<Deviation, Mismatch> {
        let tally = Tally::default();
        let Some(challenge) = &self.challenge else { return Ok(tally.total()) };
        let compared = judged(|| self.compare_with_references(challenge, call, after, samples, strict, &tally));
        compared.map_err(|e| match e {
            Mismatch::Other(e) if e.starts_with("a reference names") => Mismatch::Other(format!("challenge {}: {e}", self.name)),
            other => other,
        })?;
        Ok(tally.total())
    }

    fn compare_with_references<V: Values + Sync>(
        &self,
        challenge: &Challenge,
        call: &Call,
        after: &[Option<V>],
        samples: Option<usize>,
        strict: bool,
        tally: &Tally,
    ) -> Result<(), Mismatch> {
        let case = call.case();
        for (arg, after) in call.args.iter().zip(after) {
            let (CallArg::Tensor { name, data, .. }, Some(after)) = (arg, after) else { continue };
            match challenge.outputs.iter().find(|(n, _)| n == name) {
                None if strict && after.tensor().bytes != data.host().bytes => {
                    return Err(Mismatch::Other(format!("the input `{name}` was changed")));
                }
                None => {}
                Some((_, reference)) => {
                    let besides = (challenge.rounding)(&call.sizes);
                    let check_within = |i: usize, expected: f64, besides: f64, found: &mut Vec<Difference>| {
                        let got = after.value(i);
                        tally.add(got, expected);
                        // The reference says what the exact result is; the output can only hold its own type's values.
                        let rounded = Literal::from_f64(data.dtype, expected).to_f64();
                        let absolute = challenge.atol + besides;
                        let fine = !strict || near(got, expected, absolute, challenge.rtol) || got == rounded;
                        if !fine {
                            let allowed = absolute + challenge.rtol * expected.abs();
                            found.push(Difference::new(name, &data.lens, i, (got, expected), allowed));
                        }
                    };
                    let check = |i: usize, expected: f64, found: &mut Vec<Difference>| check_within(i, expected, besides, found);
                    let row_len = data.lens.last().map_or(1, |l| *l as usize).max(1);
                    let rows = (data.numel() / row_len, samples.map(|s| s / row_len));
                    match reference {
                        Reference::Each(each) => each_or_sampled(data.numel(), samples, |i, found| check(i, each(&case, i), found))?,
                        Reference::All(whole) => {
                            let all = whole(&case);
                            each_or_sampled(data.numel(), samples, |i, found| check(i, all[i], found))?;
                        }
                        Reference::Rows(row) => {
                            let check = |r: usize, found: &mut Vec<Difference>| {
                                row(&case, r).into_iter().enumerate().for_each(|(k, e)| check(r * row_len + k, e, found));
                            };
                            each_or_sampled(rows.0, rows.1, check)?;
                        }
                        Reference::Within(row) => {
                            let check = |r: usize, found: &mut Vec<Difference>| {
                                row(&case, r).into_iter().enumerate().for_each(|(k, (e, w))| check_within(r * row_len + k, e, w, found));
                            };
                            each_or_sampled(rows.0, rows.1, check)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a kernel of the program multiplies tiles: what makes errors worth a report.
    pub fn multiplies(&self) -> bool {
        self.program.sites().iter().any(|d| (d.build)().is_ok_and(|k| k.has_dots()))
    }

    /// What elements of a type may differ by after a call, from those after another way of running it.
    pub(crate) fn tolerance(&self, call: &Call, dtype: DType) -> Tolerance {
        // A bare kernel may add up whatever it reads, of size 1 at most, in any order: a rounding per element.
        let elements = |a: &CallArg| if let CallArg::Tensor { data, .. } = a { data.numel() } else { 0 };
        let most = call.args.iter().map(elements).max().unwrap_or(0) as f64;
        let single = (1e-5 + most * f32::EPSILON as f64, 1e-5);
        let (absolute, relative) = self.challenge.as_ref().map_or(single, |c| (c.absolute(&call.sizes), c.rtol));
        Tolerance { absolute, relative: relative + last_place(dtype) }
    }

    /// Compares the tensors after a call with those after another way of running it, at every element.
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn compare(&self, call: &Call, after: &[Option<HostTensor>], expected: &[Option<HostTensor>]) -> Result<(), String> {
        self.compared_elements(call, after, expected).map_err(|e| e.sentence(&call.sizes))
    }

    /// As [`Subject::compare`], with the first few elements that differ.
    pub(crate) fn compared_elements(
        &self,
        call: &Call,
        after: &[Option<HostTensor>],
        expected: &[Option<HostTensor>],
    ) -> Result<(), Mismatch> {
        for (arg, (after, expected)) in call.args.iter().zip(after.iter().zip(expected)) {
            let (CallArg::Tensor { name, data, .. }, Some(after), Some(expected)) = (arg, after, expected) else { continue };
            if after.bytes == expected.bytes {
                continue;
            }
            let (exact, Tolerance { absolute: atol, relative: rtol }) = (!data.dtype.is_float(), self.tolerance(call, data.dtype));
            let check = |i: usize, found: &mut Vec<Difference>| {
                let (got, want) = (after.get(i), expected.get(i));
                let fine = if exact { after.bits(i) == expected.bits(i) } else { near(got, want, atol, rtol) };
                if !fine {
                    let allowed = if exact { 0.0 } else { atol + rtol * want.abs() };
                    found.push(Difference::new(name, &data.lens, i, (got, want), allowed));
                }
            };
            each_or_sampled(data.numel(), None, check)?;
        }
        Ok(())
    }
}

/// Sums that differ in their last bits may round to neighbours of a narrow type.
fn last_place(dtype: DType) -> f64 {
    match dtype {
        DType::F8E4M3 => 2f64.powi(-3),
        DType::F8E5M2 => 2f64.powi(-2),
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => 0.0,
    }
}
