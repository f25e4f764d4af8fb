//! The least time of a call, which no prediction goes below; and how a predicted time came to be.

use crate::measure::floor::floor;
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use girih_core::target::Target;

/// How a predicted time came to be, the most trustworthy first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Basis {
    /// What the launch does was counted.
    Counted,
    /// It was counted at the true size, where something stands for the true data.
    Estimated,
    /// A call at a reduced size was counted and multiplied by how much more work the true one is.
    Scaled,
    /// Bytes and operations of the whole call, whatever the schedule: nothing could be counted.
    Static,
}

impl Basis {
    /// A word for tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Counted => "counted",
            Basis::Estimated => "estimate",
            Basis::Scaled => "scaled estimate",
            Basis::Static => "static estimate",
        }
    }
}

/// A predicted time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Predicted {
    /// Microseconds, never less than the floor.
    pub us: f64,
    /// How it came to be.
    pub basis: Basis,
    /// The model said less than the floor, in microseconds: it missed, and the floor stands for its word.
    pub below_floor: Option<f64>,
}

impl Predicted {
    /// A time as the model gives it, raised to the floor.
    pub fn at_least(us: f64, basis: Basis, floor_us: f64) -> Predicted {
        // A floor of the same bytes may differ in the last bits.
        let below_floor = (us < floor_us * (1.0 - 1e-9)).then_some(us);
        Predicted { us: us.max(floor_us), basis, below_floor }
    }

    /// What is to be known of the time beside its number; nothing of one that was counted and lies above the floor.
    pub fn remark(&self) -> Option<String> {
        let basis = (self.basis != Basis::Counted).then(|| self.basis.name().to_string());
        let raised = self.below_floor.map(|us| format!("a miss: the model said {us:.2} us, less than memory and arithmetic allow"));
        let all: Vec<String> = basis.into_iter().chain(raised).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// The least microseconds of a call that the target's bandwidth and peak rates allow: see [`crate::measure::floor`].
///
/// # Errors
/// Sizes that the subject does not have.
pub fn floor_us(subject: &Subject, sizes: &Sizes, target: &Target) -> Result<f64, String> {
    let bytes = subject.compulsory_bytes(&subject.call(sizes, super::SEED)?);
    Ok(floor(subject, sizes, bytes, target).seconds * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_the_floor_is_raised_and_called_a_miss() {
        let low = Predicted::at_least(4.2, Basis::Counted, 12.0);
        assert_eq!((low.us, low.below_floor), (12.0, Some(4.2)));
        assert!(low.remark().is_some_and(|r| r.contains("a miss") && r.contains("4.20")), "{low:?}");
        let fine = Predicted::at_least(12.0, Basis::Counted, 12.0);
        assert_eq!((fine.us, fine.below_floor, fine.remark()), (12.0, None, None));
        let stands = Predicted::at_least(12.0, Basis::Static, 1.0);
        assert_eq!(stands.remark().as_deref(), Some("static estimate"));
    }
}
