//! Challenges: a program together with what is needed to check, run and time it: the judge's signature, input
//! distributions, a plain-Rust reference, a tolerance and sizes.
//!
//! A challenge is one [`challenge!`](crate::challenge!) block beside its kernels; it registers itself, so the command
//! line, the tests and the exporter find every linked challenge without a table.
//!
//! ```text
//! girih::challenge! {
//!     Challenge::new("vector_add", solve::Program::def, "void solve(const float* A[N], const float* B[N], float* C[N], int N)")
//!         .input("A", uniform(-1000.0, 1000.0))
//!         .input("B", uniform(-1000.0, 1000.0))
//!         .output("C", |x, i| x.at("A", i) + x.at("B", i))
//!         .tolerance(1e-5, 1e-5)
//!         .check_at(["N=0", "N=1", "N=257", "N=4099"])
//!         .perf_at("N=25_000_000")
//!         .flops(|x| x.size("N"))
//! }
//! ```

use crate::subject::inputs::{Distribution, Elements, HostTensor};
use girih_core::linkme::distributed_slice;
use girih_core::program::ProgramDef;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Every linked challenge. Filled by [`challenge!`](crate::challenge!).
#[distributed_slice]
#[linkme(crate = girih_core::linkme)]
pub static CHALLENGES: [fn() -> Challenge];

/// All linked challenges, sorted by slug.
pub fn challenges() -> Vec<Challenge> {
    let mut all: Vec<Challenge> = CHALLENGES.iter().map(|make| make()).collect();
    all.sort_by_key(|c| c.slug);
    all
}

/// Registers a [`Challenge`]: `challenge! { Challenge::new(..).. }`. One per module.
#[macro_export]
macro_rules! challenge {
    ($make:expr) => {
        /// This module's challenge.
        pub fn challenge() -> $crate::challenge::Challenge {
            use $crate::challenge::Challenge;
            #[allow(unused_imports)]
            use $crate::inputs::{Distribution, below, formula, integers, normal, sparse, uniform};
            $make
        }

        #[$crate::linkme::distributed_slice($crate::challenge::CHALLENGES)]
        #[linkme(crate = $crate::linkme)]
        static GIRIH_CHALLENGE: fn() -> $crate::challenge::Challenge = challenge;
    };
}

/// The reference of one output, in plain Rust and double precision.
#[derive(Clone, Copy, Debug)]
pub enum Reference {
    /// The expected value of element `i` (row-major).
    Each(fn(&Case, usize) -> f64),
    /// All elements in row-major order, where one follows from its neighbours: scans, recurrences, solutions of systems.
    All(fn(&Case) -> Vec<f64>),
    /// Row `r`, all elements along the last axis: where these need the whole row.
    Rows(fn(&Case, usize) -> Vec<f64>),
    /// As `Rows`, each element with what it may be off by besides the tolerance.
    Within(fn(&Case, usize) -> Vec<(f64, f64)>),
}

/// A program with its judge's signature, inputs, reference, tolerance and sizes.
#[derive(Clone, Debug)]
pub struct Challenge {
    /// `vector_add`.
    pub slug: &'static str,
    /// The program that `solve` is exported from.
    pub program: ProgramDef,
    /// The judge's signature with each pointer's shape behind its name; read by [`girih_core::program::signature`].
    pub signature: &'static str,
    /// What each input (or in-out) tensor holds, by its name in the signature.
    pub inputs: Vec<(&'static str, Distribution)>,
    /// The reference of each output (or in-out) tensor, by its name in the signature.
    pub outputs: Vec<(&'static str, Reference)>,
    /// Allowed absolute difference.
    pub atol: f64,
    /// Allowed relative difference.
    pub rtol: f64,
    /// Absolute difference that is allowed besides at a size: what the arithmetic itself may lose.
    pub rounding: fn(&Sizes) -> f64,
    /// Sizes that correctness is checked at: 0, 1, primes, one below and above a tile.
    pub checks: Vec<Sizes>,
    /// The size that is tuned and timed.
    pub perf: Sizes,
    /// Floating-point operations at a size (a fused multiply-add is two), for the floor.
    pub flops: fn(&Sizes) -> f64,
    /// 32-bit integer operations at a size, for the floor.
    pub int_ops: fn(&Sizes) -> f64,
    /// Bytes that must move at a size, for the floor; `None`: every input and output once.
    pub bytes: Option<fn(&Sizes) -> f64>,
}

impl Challenge {
    /// A challenge without inputs, outputs or sizes; exact comparison.
    pub fn new(slug: &'static str, program: fn() -> ProgramDef, signature: &'static str) -> Challenge {
        Challenge {
            slug,
            program: program(),
            signature,
            inputs: Vec::new(),
            outputs: Vec::new(),
            atol: 0.0,
            rtol: 0.0,
            rounding: |_| 0.0,
            checks: Vec::new(),
            perf: Sizes::default(),
            flops: |_| 0.0,
            int_ops: |_| 0.0,
            bytes: None,
        }
    }

    /// Says what the tensor `name` holds before the call.
    pub fn input(mut self, name: &'static str, distribution: Distribution) -> Challenge {
        self.inputs.push((name, distribution));
        self
    }

    /// Says what element `i` of the tensor `name` must hold after the call.
    pub fn output(mut self, name: &'static str, reference: fn(&Case, usize) -> f64) -> Challenge {
        self.outputs.push((name, Reference::Each(reference)));
        self
    }

    /// Says what all elements of the tensor `name` must hold after the call.
    pub fn output_all(mut self, name: &'static str, reference: fn(&Case) -> Vec<f64>) -> Challenge {
        self.outputs.push((name, Reference::All(reference)));
        self
    }

    /// Says what row `r` of the tensor `name` must hold after the call: all elements along its last axis, at the other axes' `r`-th place.
    /// For large outputs whose elements need their whole row: only some rows of these are computed.
    pub fn output_rows(mut self, name: &'static str, reference: fn(&Case, usize) -> Vec<f64>) -> Challenge {
        self.outputs.push((name, Reference::Rows(reference)));
        self
    }

    /// As [`Challenge::output_rows`], each element with the absolute difference that it is allowed besides the tolerance: what f32 may lose
    /// with these inputs, where some elements are ill-conditioned. [`Challenge::rounding`] then holds between two ways to run it alone.
    pub fn output_rows_within(mut self, name: &'static str, reference: fn(&Case, usize) -> Vec<(f64, f64)>) -> Challenge {
        self.outputs.push((name, Reference::Within(reference)));
        self
    }

    /// Allowed difference: `atol + rtol · |expected|`.
    pub fn tolerance(mut self, atol: f64, rtol: f64) -> Challenge {
        (self.atol, self.rtol) = (atol, rtol);
        self
    }

    /// Absolute difference that is allowed besides at a size, where long sums lose more than the judge's tolerance by the order of their
    /// terms alone: see [`sum_rounding`].
    pub fn rounding(mut self, rounding: fn(&Sizes) -> f64) -> Challenge {
        self.rounding = rounding;
        self
    }

    /// Sizes to check at, as `N=257, R=3`. What a text leaves out is as at the perf size.
    pub fn check_at<const N: usize>(mut self, sizes: [&str; N]) -> Challenge {
        self.checks = sizes.iter().map(|s| self.parse_sizes(s)).collect();
        self
    }

    /// The size to tune and time at.
    pub fn perf_at(mut self, sizes: &str) -> Challenge {
        self.perf = self.parse_sizes(sizes);
        self
    }

    /// Floating-point operations at a size.
    pub fn flops(mut self, flops: fn(&Sizes) -> f64) -> Challenge {
        self.flops = flops;
        self
    }

    /// 32-bit integer operations at a size.
    pub fn int_ops(mut self, int_ops: fn(&Sizes) -> f64) -> Challenge {
        self.int_ops = int_ops;
        self
    }

    /// Bytes that must move at a size, where only a part of a tensor is asked for.
    pub fn bytes(mut self, bytes: fn(&Sizes) -> f64) -> Challenge {
        self.bytes = Some(bytes);
        self
    }

    fn parse_sizes(&self, text: &str) -> Sizes {
        Sizes::parse(text).unwrap_or_else(|e| panic!("challenge {}: {e}", self.slug))
    }

    /// Allowed absolute difference at a size.
    pub fn absolute(&self, sizes: &Sizes) -> f64 {
        self.atol + (self.rounding)(sizes)
    }
}

/// What a sum of `terms` products of random signs may be off by in fp32, in whatever order, for products of size `rms` (the root of the mean
/// of their squares; a third of the largest one's for factors that are uniform around 0).
///
/// An addition rounds by at most `u = 2⁻²⁴` of the sum so far, which is of size `rms √i` behind `i` terms. These errors are independent and
/// of mean 0 (Higham, Mary: A new approach to probabilistic rounding error analysis, 2019), so together they are of size
/// `u rms √(1 + 2 + .. + terms) = u rms terms / √2` at most; seven times that leaves one sum in 10 milliards. Factors that were rounded to
/// tf32 make each product's error `2⁻¹¹` instead: for sums of up to a million terms the result is then off by more than this.
pub fn sum_rounding(terms: f64, rms: f64) -> f64 {
    7.0 * 2f64.powi(-24) * rms * terms / 2f64.sqrt()
}

/// What a sum of `terms` products of at most `largest` may be off by on a matrix unit: it adds blocks of at least four products and the sum
/// so far, and drops what lies below the 24th bit of the largest of these five (see [`girih_core::fragments::Atom::error_bound`]). The sums
/// on the way are those of random products, of a third of the largest one's size on average of squares, at seven standard deviations.
pub fn matrix_rounding(terms: f64, largest: f64) -> f64 {
    let sum = largest * (1.0 + 7.0 * terms.sqrt() / 3.0);
    (terms / 4.0).ceil() * 5.0 * 2f64.powi(-23) * sum
}

/// The same for products of 8-bit floats, of which it keeps 13 bits of fraction: 32 products at a time are aligned to the largest of them and of
/// the sum so far, and what lies below is dropped, up to `u = 2⁻¹³` of it. Of random signs, these 33 errors have a mean of 0 and are of size
/// `u √(33 / 3)`. The sum on the way lies within three standard deviations; seven of those of the errors are left to the result.
pub fn float8_rounding(terms: f64, largest: f64) -> f64 {
    let sum = largest * (1.0 + 3.0 * terms.sqrt() / 3.0);
    7.0 * (11.0 * (terms / 32.0).ceil()).sqrt() * 2f64.powi(-13) * sum
}

/// `|got − expected| ≤ atol + rtol · |expected|`; NaN equals NaN, an infinity only itself.
pub fn near(got: f64, expected: f64, atol: f64, rtol: f64) -> bool {
    got == expected
        || (got.is_nan() && expected.is_nan())
        || (expected.is_finite() && (got - expected).abs() <= atol + rtol * expected.abs())
}

/// Values of the signature's scalars: `N=1000, R=3, lo=-0.5`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sizes(pub BTreeMap<String, f64>);

impl Sizes {
    /// Reads `N=1_000, lo=-0.5`: names and numbers, separated by commas or blanks; underscores are ignored.
    ///
    /// # Errors
    /// A sentence naming the part that is no `NAME=NUMBER`.
    pub fn parse(text: &str) -> Result<Sizes, String> {
        let mut sizes = BTreeMap::new();
        for part in text.split([',', ' ']).filter(|p| !p.is_empty()) {
            let wrong = || format!("`{part}` is no size: write NAME=NUMBER, as in N=1000");
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let value: f64 = value.replace('_', "").parse().map_err(|_| wrong())?;
            sizes.insert(name.trim().to_string(), value);
        }
        Ok(Sizes(sizes))
    }

    /// The value of a scalar. Panics if there is none: formulas and references name scalars of the signature.
    pub fn size(&self, name: &str) -> f64 {
        *self.0.get(name).unwrap_or_else(|| panic!("no scalar `{name}` in {self}"))
    }

    /// These sizes, and `other`'s where these say nothing.
    pub fn or(&self, other: &Sizes) -> Sizes {
        let mut all = other.0.clone();
        all.extend(self.0.clone());
        Sizes(all)
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(n, v)| format!("{n}={v}")).collect();
        f.write_str(&parts.join(" "))
    }
}

/// One call of a challenge as its references read it: sizes and the tensors as they were before the call.
#[derive(Clone, Debug)]
pub struct Case {
    /// Values of the scalars.
    pub sizes: Sizes,
    /// The tensors before the call, by name in the signature.
    pub tensors: Vec<(String, Elements)>,
}

impl Case {
    /// Element `i` (row-major) of a tensor before the call; exact but for 64-bit integers.
    pub fn at(&self, name: &str, i: usize) -> f64 {
        self.elements(name).get(i)
    }

    /// A tensor before the call. A name that the signature does not have ends the reference with an error of the check.
    pub fn tensor(&self, name: &str) -> &HostTensor {
        self.elements(name).host()
    }

    fn elements(&self, name: &str) -> &Elements {
        let found = self.tensors.iter().find(|(n, _)| n == name);
        &found.unwrap_or_else(|| unknown("tensor", name, self.tensors.iter().map(|(n, _)| n))).1
    }

    /// The value of a scalar that is a length, as an index.
    pub fn len(&self, name: &str) -> usize {
        self.scalar(name) as usize
    }

    /// The value of a scalar; as [`Case::tensor`].
    pub fn scalar(&self, name: &str) -> f64 {
        *self.sizes.0.get(name).unwrap_or_else(|| unknown("scalar", name, self.sizes.0.keys()))
    }
}

/// A reference asked for what the signature does not have.
struct Unknown(String);

/// Unwinds without a word: whoever asked the reference tells it.
fn unknown<'a>(kind: &str, name: &str, names: impl Iterator<Item = &'a String>) -> ! {
    let names = names.map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    let there = if names.is_empty() { "none".into() } else { names };
    resume_unwind(Box::new(Unknown(format!("a reference names the {kind} `{name}`, which the signature does not have; there is {there}"))))
}

/// What comes of asking references.
///
/// # Errors
/// A name that the signature does not have.
pub(crate) fn judged<T, E: From<String>>(ask: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(ask)).unwrap_or_else(|panic| match panic.downcast::<Unknown>() {
        Ok(unknown) => Err(unknown.0.into()),
        Err(other) => resume_unwind(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_printed() {
        let s = Sizes::parse("N=1_000, lo=-0.5 R=3").unwrap();
        assert_eq!(s.to_string(), "N=1000 R=3 lo=-0.5");
        assert_eq!(Sizes::parse("N=7").unwrap().or(&s).to_string(), "N=7 R=3 lo=-0.5");
        assert_eq!(Sizes::parse("N").unwrap_err(), "`N` is no size: write NAME=NUMBER, as in N=1000");
    }

    #[test]
    fn tolerance_knows_nan_and_infinity() {
        assert!(near(1.0, 1.0 + 1e-7, 0.0, 1e-6));
        assert!(!near(1.0, 1.1, 1e-3, 1e-3));
        assert!(near(f64::NAN, f64::NAN, 0.0, 0.0));
        assert!(!near(0.0, f64::INFINITY, 1.0, 1.0));
        assert!(!near(f64::NAN, 0.0, 1.0, 1.0));
    }
}
