//! Typed schedules: the trait behind each kernel's own `Schedule` struct, and the types of its fields.

use girih_ir::schedule::words::Words;
pub use girih_ir::schedule::words::{
    CacheHint, ConstantPath, CopyPath, DotUnit, FinishPath, GroupTurns, HaloPath, OperandPath, RowPath, TileOrder,
};
use girih_ir::schedule::{Choice, Knob, Schedule};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// A kernel's `Schedule` struct: one field per knob, named like the knob in lower case, in the order of the attribute.
pub trait KernelSchedule: Sized + Clone + Default + fmt::Debug {
    /// `crate::module::name` of the kernel, without the types of an instance.
    const KERNEL: &'static str;
    /// The kernel's knobs, in the order of the fields.
    fn knobs() -> Vec<Knob>;
    /// The fields' values, in order.
    fn choices(&self) -> Vec<Choice>;
    /// The struct with these values; one per knob, of the knob's kind.
    fn from_choices(choices: &[Choice]) -> Result<Self, String>;

    /// As the tuner and the compiler see it.
    fn to_schedule(&self) -> Schedule {
        Schedule { choices: self.choices() }
    }
    /// From what the tuner found. An error says which knob does not fit.
    fn from_schedule(schedule: &Schedule) -> Result<Self, String> {
        let knobs = Self::knobs();
        if knobs.len() != schedule.choices.len() {
            return Err(format!("{} has {} knobs, the schedule has {} values", Self::KERNEL, knobs.len(), schedule.choices.len()));
        }
        Self::from_choices(&schedule.choices)
    }
}

/// A type that a field of a `Schedule` struct may have.
pub trait KnobValue: Sized {
    /// As the IR has it.
    fn choice(&self) -> Choice;
    /// From the IR; `None` if it is not of this type.
    fn from_choice(choice: &Choice) -> Option<Self>;
}

impl KnobValue for i64 {
    fn choice(&self) -> Choice {
        Choice::Int(*self)
    }
    fn from_choice(choice: &Choice) -> Option<Self> {
        match choice {
            Choice::Int(i) => Some(*i),
            Choice::Word(_) => None,
        }
    }
}

macro_rules! knob_values {
    ($($name:ident)*) => {$(
        impl KnobValue for $name {
            fn choice(&self) -> Choice {
                Choice::Word(self.to_string())
            }
            fn from_choice(choice: &Choice) -> Option<Self> {
                match choice {
                    Choice::Word(word) => $name::read(word),
                    Choice::Int(_) => None,
                }
            }
        }
    )*};
}

knob_values! { ConstantPath CopyPath DotUnit RowPath HaloPath OperandPath FinishPath TileOrder GroupTurns CacheHint }

/// The field's value out of `choices[index]`, or what does not fit.
pub fn field<V: KnobValue>(choices: &[Choice], index: usize, knob: &str) -> Result<V, String> {
    let choice = choices.get(index).ok_or_else(|| format!("knob `{knob}` is missing"))?;
    V::from_choice(choice).ok_or_else(|| format!("knob `{knob}` cannot be {choice}"))
}

/// Writes the schedule as a map from knob to value.
pub fn serialize<S: KernelSchedule, Z: Serializer>(schedule: &S, serializer: Z) -> Result<Z::Ok, Z::Error> {
    let names = S::knobs().into_iter().map(|k| k.name);
    names.zip(schedule.choices()).collect::<BTreeMap<_, _>>().serialize(serializer)
}

/// Reads what [`serialize`] wrote. A knob that is missing has its default; an unknown one is an error.
pub fn deserialize<'de, S: KernelSchedule, D: Deserializer<'de>>(deserializer: D) -> Result<S, D::Error> {
    let mut found = BTreeMap::<String, Choice>::deserialize(deserializer)?;
    let choices: Vec<Choice> =
        S::knobs().iter().zip(S::default().choices()).map(|(knob, default)| found.remove(&knob.name).unwrap_or(default)).collect();
    if let Some(name) = found.keys().next() {
        return Err(D::Error::custom(format!("{} has no knob `{name}`", S::KERNEL)));
    }
    S::from_choices(&choices).map_err(D::Error::custom)
}

/// Writes the attribute that pins the schedule, with what it says beside the knobs.
pub fn display<S: KernelSchedule>(schedule: &S, beside: &str, f: &mut fmt::Formatter) -> fmt::Result {
    let text = girih_ir::schedule::attribute_of(&S::knobs(), &schedule.choices());
    match text.strip_suffix(")]") {
        Some(open) if !beside.is_empty() => {
            let comma = if open.ends_with('(') { "" } else { ", " };
            write!(f, "{open}{comma}{beside})]")
        }
        _ => f.write_str(&text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use girih_ir::schedule::KnobKind;

    /// Words that are no value of the type, which a stored schedule could not be read with.
    fn lost<V: KnobValue>(kind: KnobKind) -> Vec<&'static str> {
        let back = |w: &str| V::from_choice(&Choice::Word(w.into())).map(|v| v.choice());
        kind.words().iter().copied().filter(|w| back(w) != Some(Choice::Word((*w).into()))).collect()
    }

    #[test]
    fn each_word_of_a_knob_is_a_value_of_its_type() {
        assert_eq!(lost::<ConstantPath>(KnobKind::Constant), [""; 0]);
        assert_eq!(lost::<CopyPath>(KnobKind::Copy), [""; 0]);
        assert_eq!(lost::<DotUnit>(KnobKind::Unit), [""; 0]);
        assert_eq!(lost::<RowPath>(KnobKind::Rows), [""; 0]);
        assert_eq!(lost::<HaloPath>(KnobKind::Halo), [""; 0]);
        assert_eq!(lost::<OperandPath>(KnobKind::Operands), [""; 0]);
        assert_eq!(lost::<FinishPath>(KnobKind::Finish), [""; 0]);
        assert_eq!(lost::<TileOrder>(KnobKind::Order), [""; 0]);
        assert_eq!(lost::<GroupTurns>(KnobKind::Turns), [""; 0]);
        assert_eq!(lost::<CacheHint>(KnobKind::Cache), [""; 0]);
    }
}
