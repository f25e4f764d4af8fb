//! What schedules must obey. The table (`table.rs`) has each rule once: refusals name a rule of it, the texts of errors and what
//! docs/SCHEDULE.md says of each knob are made of it.

mod table;

pub use table::Rule;

use std::fmt::Display;

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Legality {
    /// The rule's name, as [`girih_ir::schedule::ScheduleError`] has it.
    pub id: &'static str,
    /// Groups of the knobs that it is about, where its sentence stands first; none where it is about all.
    pub knobs: &'static [&'static str],
    /// What is legal: a sentence.
    pub legal: &'static str,
    /// What an error says behind the knob and its choice: what was found, what is allowed, what to do. `{..}` stands for a number or name.
    pub broken: &'static str,
}

/// A rule that a schedule breaks, and what is said of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Broken {
    pub rule: Rule,
    pub text: String,
}

impl Rule {
    /// The rule of a name.
    pub fn of(id: &str) -> Option<Rule> {
        Rule::ALL.iter().copied().find(|r| r.row().id == id)
    }

    /// The rule is broken: `found` stands for the names in braces, in their order.
    pub(crate) fn with(self, found: &[&dyn Display]) -> Broken {
        let mut parts = self.row().broken.split('{');
        let mut text = parts.next().unwrap_or_default().to_string();
        let mut found = found.iter();
        for part in parts {
            let (name, rest) = part.split_once('}').unwrap_or_else(|| panic!("legality: {self:?} has a brace that does not end"));
            let value = found.next().unwrap_or_else(|| panic!("legality: {self:?} wants {name}"));
            text += &format!("{value}{rest}");
        }
        assert!(found.next().is_none(), "legality: {self:?} names less than was found");
        Broken { rule: self, text }
    }
}

impl From<Rule> for Broken {
    fn from(rule: Rule) -> Broken {
        rule.with(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_rule_stands_twice() {
        let (mut legal, mut broken) = (HashSet::new(), HashSet::new());
        for rule in Rule::ALL {
            let row = rule.row();
            assert!(legal.insert(row.legal) && broken.insert(row.broken), "{rule:?}");
            assert!(row.legal.ends_with('.') && !row.broken.ends_with('.'), "{rule:?}");
            assert_eq!(Rule::of(row.id), Some(*rule));
        }
    }

    #[test]
    fn what_was_found_stands_in_its_place() {
        let error = Rule::CoarsenDivides.with(&[&"T", &256]);
        assert_eq!((error.rule, error.text.as_str()), (Rule::CoarsenDivides, "must divide T = 256"));
    }
}
