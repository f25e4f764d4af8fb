//! How far results are from their reference in double precision: the measure by which products of matrices are compared with cuBLAS's.

use std::fmt;
use std::sync::Mutex;

/// Errors of a result's elements, in parts of the reference. Elements whose reference is infinite or NaN are left out.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Deviation {
    /// The largest error of an element.
    largest_error: f64,
    /// The largest element of the reference.
    largest: f64,
    /// The sum of the errors' squares.
    error_squares: f64,
    /// The sum of the reference's squares.
    squares: f64,
}

impl Deviation {
    /// One more element.
    pub fn add(&mut self, got: f64, expected: f64) {
        if !expected.is_finite() {
            return;
        }
        let error = (got - expected).abs();
        // NaN in place of a number is as wrong as can be.
        let error = if error.is_nan() { f64::INFINITY } else { error };
        self.largest_error = self.largest_error.max(error);
        self.largest = self.largest.max(expected.abs());
        self.error_squares += error * error;
        self.squares += expected * expected;
    }

    /// The largest error of an element, in parts of the largest element; 0 where all are right.
    pub fn maximal(&self) -> f64 {
        if self.largest_error == 0.0 { 0.0 } else { self.largest_error / self.largest }
    }

    /// The Frobenius norm of the errors, in parts of the reference's; 0 where all are right.
    pub fn frobenius(&self) -> f64 {
        if self.error_squares == 0.0 { 0.0 } else { (self.error_squares / self.squares).sqrt() }
    }

    /// The larger of each measure's.
    pub fn or_worse(self, other: Deviation) -> Deviation {
        if other.maximal().max(other.frobenius()) > self.maximal().max(self.frobenius()) { other } else { self }
    }
}

/// `error 2.1e-6 at most, 3.0e-7 in norm`
impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "error {:.2e} at most, {:.2e} in norm", self.maximal(), self.frobenius())
    }
}

/// Collects elements from several threads.
#[derive(Default)]
pub struct Tally(Mutex<Deviation>);

impl Tally {
    /// One more element.
    pub fn add(&self, got: f64, expected: f64) {
        self.0.lock().expect("adding does not panic").add(got, expected);
    }
    /// What was collected.
    pub fn total(self) -> Deviation {
        self.0.into_inner().expect("adding does not panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(f64, f64)]) -> Deviation {
        let tally = Tally::default();
        pairs.iter().for_each(|(got, expected)| tally.add(*got, *expected));
        tally.total()
    }

    #[test]
    fn errors_are_parts_of_the_reference() {
        let d = of(&[(3.0, 3.0), (4.5, 4.0), (f64::NAN, f64::NAN), (1.0, f64::INFINITY)]);
        assert_eq!((d.maximal(), d.frobenius()), (0.125, 0.1));
        assert_eq!(d.to_string(), "error 1.25e-1 at most, 1.00e-1 in norm");
        assert_eq!(of(&[(0.0, 0.0)]).maximal(), 0.0);
        assert_eq!(of(&[(1.0, 0.0)]).frobenius(), f64::INFINITY);
        assert_eq!(of(&[(f64::NAN, 2.0)]).maximal(), f64::INFINITY);
        let (small, large) = (of(&[(1.0, 1.5)]), of(&[(1.0, 3.0)]));
        assert_eq!((small.or_worse(large), large.or_worse(small)), (large, large));
    }
}
