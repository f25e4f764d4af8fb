//! Schedules and spaces as text: `T=1024,V=4,P=Async` names one choice per knob, `T=256|512|1024,V=1..4` several.
//!
//! Settings are separated by commas or blanks, so what [`Schedule::short`] prints can be read back. A knob is named as in the
//! attribute; the only knob of its group answers to the group's name too (`vector=4`). Numbers need not be among those that
//! the author listed (lowering decides whether they are legal); a range `a..b`, both ends included, means the listed numbers
//! from `a` to `b`.

use super::{Choice, Knob, Schedule};
use crate::tile::{Kernel, KnobId};
use nom::branch::alt;
use nom::bytes::complete::{tag, take_while1};
use nom::character::complete::{char, digit1, multispace0, satisfy};
use nom::combinator::{map, map_res, opt, recognize};
use nom::multi::{many0_count, separated_list1};
use nom::sequence::{delimited, pair, preceded};
use nom::{IResult, Parser};
use std::fmt;

/// Why a text is no schedule or space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// Line of the text, counted from 1.
    pub line: usize,
    /// Column of the line, in characters, counted from 1.
    pub column: usize,
    /// The line.
    pub text: String,
    /// What was found there.
    pub message: String,
    /// What is allowed there.
    pub allowed: Vec<String>,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "line {}, column {}: {}", self.line, self.column, self.message)?;
        write!(f, "  | {}\n  | {}^", self.text, " ".repeat(self.column - 1))?;
        if !self.allowed.is_empty() {
            write!(f, "\nallowed: {}", self.allowed.join(", "))?;
        }
        Ok(())
    }
}

impl std::error::Error for ParseError {}

/// The choices that a space expression leaves for some knobs, in the order of the text.
pub type Choices = Vec<(KnobId, Vec<Choice>)>;

/// Reads `T=1024,V=4` onto the first choice of every other knob.
///
/// # Errors
/// Points at the first column that can't be read, with what is allowed there.
pub fn parse_schedule(kernel: &Kernel, text: &str) -> Result<Schedule, ParseError> {
    parse_settings(kernel, text, &Schedule::default_of(kernel))
}

/// Reads `T=1024,V=4` onto another schedule, whose other knobs stay.
///
/// # Errors
/// As [`parse_schedule`].
pub fn parse_settings(kernel: &Kernel, text: &str, base: &Schedule) -> Result<Schedule, ParseError> {
    settings_at(kernel, text, base, 1)
}

/// Reads `T=256|512,V=1..4`.
///
/// # Errors
/// As [`parse_schedule`].
pub fn parse_space(kernel: &Kernel, text: &str) -> Result<Choices, ParseError> {
    let source = Source { text, line: 1 };
    Ok(source.resolve(kernel)?.into_iter().map(|(knob, _, choices)| (knob, choices)).collect())
}

/// Reads a file with one schedule per line; `#` starts a comment and blank lines are skipped.
///
/// # Errors
/// As [`parse_schedule`], with the line.
pub fn parse_schedules(kernel: &Kernel, text: &str) -> Result<Vec<Schedule>, ParseError> {
    let base = Schedule::default_of(kernel);
    let mut schedules = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim_end();
        if !line.trim().is_empty() {
            schedules.push(settings_at(kernel, line, &base, i + 1)?);
        }
    }
    Ok(schedules)
}

fn settings_at(kernel: &Kernel, text: &str, base: &Schedule, line: usize) -> Result<Schedule, ParseError> {
    let source = Source { text, line };
    let mut schedule = base.clone();
    for (knob, at, mut choices) in source.resolve(kernel)? {
        if choices.len() != 1 {
            let message = format!("a schedule has one value for {}, found {}", kernel.knob(knob).name, choices.len());
            return Err(source.error(at, message, listed(kernel.knob(knob))));
        }
        schedule.choices[knob.0 as usize] = choices.remove(0);
    }
    Ok(schedule)
}

/// One value as written: a number, a word, or a range of listed numbers. With the byte where it starts.
#[derive(Clone, PartialEq, Debug)]
enum Item<'a> {
    Int(i64),
    Word(&'a str),
    Range(i64, i64),
}

struct Setting<'a> {
    name: &'a str,
    at: usize,
    items: Vec<(usize, Item<'a>)>,
}

/// A line of text with its number, for errors.
struct Source<'a> {
    text: &'a str,
    line: usize,
}

impl<'a> Source<'a> {
    fn error(&self, at: usize, message: impl Into<String>, allowed: Vec<String>) -> ParseError {
        let column = self.text[..at].chars().count() + 1;
        ParseError { line: self.line, column, text: self.text.to_string(), message: message.into(), allowed }
    }

    fn offset(&self, rest: &str) -> usize {
        self.text.len() - rest.len()
    }

    fn settings(&self, kernel: &Kernel) -> Result<Vec<Setting<'a>>, ParseError> {
        let mut settings = Vec::new();
        let mut rest = self.text.trim_start();
        while !rest.is_empty() {
            let at = self.offset(rest);
            let (after, name) = name(rest).map_err(|_| self.error(at, found(rest, "expected a knob"), knob_names(kernel)))?;
            let (after, _) = equals(after)
                .map_err(|_| self.error(self.offset(after.trim_start()), found(after.trim_start(), "expected `=`"), vec!["=".into()]))?;
            let known = find_knob(kernel, name).map(|k| listed(kernel.knob(k))).unwrap_or_default();
            let values = self.offset(after);
            let (after, items) = items(self.text, after).map_err(|_| self.error(values, found(after, "expected a value"), known))?;
            settings.push(Setting { name, at, items });
            let (next, separator) = separator(after).unwrap_or((after, false));
            if !separator && !next.is_empty() {
                return Err(self.error(self.offset(next), found(next, "expected the next setting"), vec![",".into(), "|".into()]));
            }
            rest = next;
        }
        Ok(settings)
    }

    fn resolve(&self, kernel: &Kernel) -> Result<Vec<(KnobId, usize, Vec<Choice>)>, ParseError> {
        let mut resolved: Vec<(KnobId, usize, Vec<Choice>)> = Vec::new();
        for setting in self.settings(kernel)? {
            let knob = find_knob(kernel, setting.name)
                .ok_or_else(|| self.error(setting.at, format!("{} has no knob {}", kernel.name, setting.name), knob_names(kernel)))?;
            if resolved.iter().any(|(k, ..)| *k == knob) {
                return Err(self.error(setting.at, format!("{} is set twice", setting.name), vec![]));
            }
            let mut choices = Vec::new();
            for (at, item) in setting.items {
                let more = select(kernel.knob(knob), &item).map_err(|message| self.error(at, message, listed(kernel.knob(knob))))?;
                choices.extend(more.into_iter().filter(|c| !choices.contains(c)).collect::<Vec<_>>());
            }
            resolved.push((knob, setting.at, choices));
        }
        Ok(resolved)
    }
}

/// The choices that an item stands for.
fn select(knob: &Knob, item: &Item) -> Result<Vec<Choice>, String> {
    let words = knob.kind.words();
    match item {
        Item::Word(w) => match words.iter().find(|x| x.eq_ignore_ascii_case(w)) {
            Some(w) => Ok(vec![Choice::Word(w.to_string())]),
            None if words.is_empty() => Err(format!("{} takes numbers, found {w}", knob.name)),
            None => Err(format!("{} has no value {w}", knob.name)),
        },
        Item::Int(_) | Item::Range(..) if !words.is_empty() => Err(format!("{} takes words, found a number", knob.name)),
        Item::Int(i) => Ok(vec![Choice::Int(*i)]),
        Item::Range(a, b) => {
            let inside = |c: &&Choice| matches!(c, Choice::Int(i) if a <= i && i <= b);
            let choices: Vec<Choice> = knob.choices.iter().filter(inside).cloned().collect();
            if choices.is_empty() { Err(format!("{} has no listed value from {a} to {b}", knob.name)) } else { Ok(choices) }
        }
    }
}

fn find_knob(kernel: &Kernel, name: &str) -> Option<KnobId> {
    let id = |i: usize| KnobId(i as u32);
    if let Some(i) = kernel.knobs.iter().position(|k| k.name == name) {
        return Some(id(i));
    }
    let mut group = kernel.knobs.iter().enumerate().filter(|(_, k)| k.kind.group() == name);
    match (group.next(), group.next()) {
        (Some((i, _)), None) => Some(id(i)),
        _ => None,
    }
}

fn knob_names(kernel: &Kernel) -> Vec<String> {
    kernel.knobs.iter().map(|k| k.name.clone()).collect()
}

fn listed(knob: &Knob) -> Vec<String> {
    knob.choices.iter().map(Choice::to_string).collect()
}

fn found(rest: &str, expected: &str) -> String {
    let token: String = rest.chars().take_while(|c| !c.is_whitespace() && *c != ',').collect();
    match (token.is_empty(), rest.chars().next()) {
        (true, None) => format!("{expected}, found the end"),
        (true, Some(c)) => format!("{expected}, found {c:?}"),
        (false, _) => format!("{expected}, found `{token}`"),
    }
}

fn name(input: &str) -> IResult<&str, &str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    recognize(pair(satisfy(|c| c.is_ascii_alphabetic() || c == '_'), many0_count(satisfy(word)))).parse(input)
}

fn equals(input: &str) -> IResult<&str, char> {
    delimited(multispace0, char('='), multispace0).parse(input)
}

fn number(input: &str) -> IResult<&str, i64> {
    map_res(recognize(pair(opt(char('-')), digit1)), str::parse).parse(input)
}

fn item(input: &str) -> IResult<&str, Item<'_>> {
    let range_end = preceded(pair(tag(".."), opt(char('='))), number);
    let numbers = map(pair(number, opt(range_end)), |(a, b)| match b {
        Some(b) => Item::Range(a, b),
        None => Item::Int(a),
    });
    alt((numbers, map(take_while1(|c: char| c.is_ascii_alphanumeric() || c == '_'), Item::Word))).parse(input)
}

fn items<'a>(text: &'a str, input: &'a str) -> IResult<&'a str, Vec<(usize, Item<'a>)>> {
    let located = |input: &'a str| item(input).map(|(rest, item)| (rest, (text.len() - input.len(), item)));
    separated_list1(delimited(multispace0, char('|'), multispace0), located).parse(input)
}

/// Skips blanks and at most one comma; tells whether there was anything to skip.
fn separator(input: &str) -> IResult<&str, bool> {
    let (rest, (a, comma, b)) = (multispace0, opt(char(',')), multispace0).parse(input)?;
    Ok((rest, comma.is_some() || !a.is_empty() || !b.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Choice;
    use crate::tile::by_hand::four_knobs as kernel;

    fn error(text: &str) -> String {
        parse_schedule(&kernel(), text).unwrap_err().to_string()
    }

    #[test]
    fn reads_settings_in_any_order_and_what_short_prints() {
        let kernel = kernel();
        let schedule = parse_schedule(&kernel, "V=4, T = 512,P=async").unwrap();
        assert_eq!(schedule.short(&kernel), "T=512 C=1 V=4 P=Async");
        assert_eq!(parse_schedule(&kernel, &schedule.short(&kernel)).unwrap(), schedule);
        assert_eq!(parse_schedule(&kernel, "vector=2").unwrap().short(&kernel), "T=256 C=1 V=2 P=Registers");
        assert_eq!(parse_schedule(&kernel, " ").unwrap(), Schedule::default_of(&kernel));
    }

    #[test]
    fn reads_spaces() {
        let kernel = kernel();
        let space = parse_space(&kernel, "T=256|1024,V=1..4").unwrap();
        let ints = |v: &[i64]| v.iter().map(|i| Choice::Int(*i)).collect::<Vec<_>>();
        assert_eq!(space, vec![(KnobId(0), ints(&[256, 1024])), (KnobId(2), ints(&[1, 2, 4]))]);
    }

    #[test]
    fn reads_files_with_comments() {
        let schedules = parse_schedules(&kernel(), "# winners\nT=512 # best\n\n  V=2\n").unwrap();
        assert_eq!(schedules.len(), 2);
        let wrong = parse_schedules(&kernel(), "T=512\n  W=2").unwrap_err();
        assert_eq!((wrong.line, wrong.column), (2, 3));
    }

    #[test]
    fn errors_point_at_the_column_and_list_what_is_allowed() {
        assert_eq!(error("T=512, W=2"), "line 1, column 8: k has no knob W\n  | T=512, W=2\n  |        ^\nallowed: T, C, V, P");
        assert_eq!(error("P=Magic"), "line 1, column 3: P has no value Magic\n  | P=Magic\n  |   ^\nallowed: Registers, Async");
        assert_eq!(error("T"), "line 1, column 2: expected `=`, found the end\n  | T\n  |  ^\nallowed: =");
        assert_eq!(error("T="), "line 1, column 3: expected a value, found the end\n  | T=\n  |   ^\nallowed: 256, 512, 1024");
        assert!(error("T=256|512").contains("one value for T, found 2"));
        assert!(error("T=256,T=512").contains("T is set twice"));
        assert!(error("T=Fast").contains("T takes numbers, found Fast"));
        assert!(error("T=256;V=2").contains("column 6: expected the next setting, found `;V=2`"));
        assert!(parse_space(&kernel(), "T=1..9").unwrap_err().message.contains("no listed value from 1 to 9"));
    }
}
