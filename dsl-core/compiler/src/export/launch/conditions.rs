//! What a launch tests before a version may run: what its facts promise, and the program's text does not show.

use crate::export::Version;
use crate::export::body::Body;
use crate::export::text::{Prec, Text};
use girih_ir::facts::{INDEX32_LIMIT, TensorFacts};
use girih_ir::program::{Arg, Base, Expr, TensorView};
use girih_ir::types::BinaryOp;

/// A fact as the host sees it.
pub(super) enum Condition {
    Always,
    Never,
    Test(String),
}

impl Body<'_> {
    /// What must be tested before a version may run: range of the indices, alignment, divisibility. `None` if its facts can't hold.
    pub(super) fn conditions(&self, version: &Version, args: &[Arg]) -> Option<Vec<String>> {
        let mut conditions: Vec<String> = Vec::new();
        let tensors = || {
            version.facts.tensors.iter().zip(args).filter_map(|(facts, arg)| match (facts, arg) {
                (Some(facts), Arg::Tensor(view)) => Some((facts, view)),
                _ => None,
            })
        };
        let unit = |view: &TensorView| view.packed || view.strides.last().is_none_or(|s| self.names.index(s).constant == Some(1));
        if tensors().any(|(facts, view)| facts.packed && !view.packed || facts.rows && !unit(view)) {
            return None;
        }
        let range = self.range_conditions(tensors().filter(|_| version.facts.index32).map(|(_, view)| view));
        let alignment = tensors().map(|(facts, view)| self.alignment_condition(view, view.dtype.size(), facts.align as usize));
        let divisors: Vec<(&Expr, u32)> = tensors().flat_map(|(facts, view)| divisors(facts, view)).collect();
        if !self.names.may_be_multiples(&divisors) {
            return None;
        }
        let divisibility = divisors.iter().map(|(number, divisor)| self.divisor_condition(number, *divisor));
        let lengths = tensors()
            .flat_map(|(facts, view)| view.lens.iter().zip(&facts.most))
            .flat_map(|(len, most)| self.length_conditions(len, i64::from(*most)));
        for condition in range.into_iter().chain(alignment).chain(divisibility).chain(lengths) {
            match condition {
                Condition::Never => return None,
                Condition::Always => {}
                Condition::Test(text) if conditions.contains(&text) => {}
                Condition::Test(text) => conditions.push(text),
            }
        }
        Some(conditions)
    }

    /// Whether a view is aligned to `align` bytes, where it is certainly aligned to `known`.
    pub(super) fn alignment_condition(&self, view: &TensorView, known: usize, align: usize) -> Condition {
        let offset = self.names.index(&view.offset).constant;
        let from_malloc = matches!(view.base, Base::Temp(_)) && offset.is_some_and(|o| o * view.dtype.size() as i64 % align as i64 == 0);
        if align <= known || from_malloc {
            return Condition::Always;
        }
        let pointer = match self.names.stand_in(view) {
            Some(name) => name.to_string(),
            None if offset == Some(0) => self.names.base(view.base).to_string(),
            None => self.names.pointer(view, view.dtype, true),
        };
        Condition::Test(format!("is_aligned({pointer}, {align})"))
    }

    fn divisor_condition(&self, number: &Expr, divisor: u32) -> Condition {
        let rest = Text::combine(BinaryOp::Rem, &self.names.index(number), &Text::integer(i64::from(divisor)));
        match rest.constant {
            _ if divisor == 1 => Condition::Always,
            Some(0) => Condition::Always,
            Some(_) => Condition::Never,
            None => Condition::Test(format!("{} == 0", rest.text)),
        }
    }

    /// A length from 1 to `most`, 0 for any.
    fn length_conditions(&self, len: &Expr, most: i64) -> Vec<Condition> {
        let len = self.names.index(len);
        match len.constant {
            _ if most == 0 => vec![],
            Some(n) if (1..=most).contains(&n) => vec![],
            Some(_) => vec![Condition::Never],
            None => vec![Condition::Test(format!("{} > 0", len.text)), Condition::Test(format!("{} <= {most}", len.text))],
        }
    }

    /// Elements that each view spans lie below the limit of 32-bit indices; of multiples of one product the largest is tested.
    fn range_conditions<'v>(&self, views: impl Iterator<Item = &'v TensorView>) -> Vec<Condition> {
        let mut spans: Vec<(Text, i64)> = Vec::new();
        let mut conditions = Vec::new();
        for span in views.map(|view| self.span(view)) {
            match span.constant {
                Some(n) if n < INDEX32_LIMIT => continue,
                Some(_) => conditions.push(Condition::Never),
                None => {}
            }
            let (base, factor) = span.factors();
            match spans.iter_mut().find(|(b, _)| b.text == base.text) {
                Some((_, largest)) => *largest = factor.max(*largest),
                None => spans.push((base, factor)),
            }
        }
        let test = |(base, factor): (Text, i64)| {
            let span = Text::combine(BinaryOp::Mul, &base, &Text::integer(factor));
            Condition::Test(format!("{} < {INDEX32_LIMIT}", span.at_least(Prec::Shift)))
        };
        conditions.extend(spans.into_iter().map(test));
        conditions
    }

    /// No less than the offset of a view's last element, and than every length.
    fn span(&self, view: &TensorView) -> Text {
        let mut lens: Vec<Text> = view.lens.iter().map(|e| self.names.index(e)).collect();
        if view.packed {
            // One order for all views, constants last, so that equal products have equal text.
            lens.sort_by(|a, b| (a.constant.is_some(), &a.text).cmp(&(b.constant.is_some(), &b.text)));
            return lens.iter().fold(Text::integer(1), |n, l| Text::combine(BinaryOp::Mul, &n, l));
        }
        lens.iter().zip(&view.strides).fold(Text::integer(0), |sum, (l, s)| {
            let stride = self.names.index(s);
            let minus = Text::combine(BinaryOp::Sub, &Text::integer(0), &stride);
            let size = Text::combine(BinaryOp::Max, &Text::combine(BinaryOp::Max, &stride, &minus), &Text::integer(1));
            Text::combine(BinaryOp::Add, &sum, &Text::combine(BinaryOp::Mul, l, &size))
        })
    }
}

/// What must be a multiple of what: a view's lengths, and its strides where these do not follow from them.
fn divisors<'v>(facts: &TensorFacts, view: &'v TensorView) -> Vec<(&'v Expr, u32)> {
    let strides = view.strides.iter().zip(facts.strides.iter().copied()).filter(|_| !facts.packed);
    view.lens.iter().zip(facts.lens.iter().copied()).chain(strides).filter(|(_, divisor)| *divisor > 1).collect()
}

/// Conditions joined by `&&`, on more lines where one is too long.
pub(super) fn wrapped(conditions: &[String], indent: usize) -> String {
    let mut out = String::new();
    let mut width = indent;
    for (i, condition) in conditions.iter().enumerate() {
        if i > 0 && width + condition.len() > 110 {
            out.push_str(&format!("\n{}    && ", " ".repeat(indent)));
            width = indent;
        } else if i > 0 {
            out.push_str(" && ");
        }
        out.push_str(condition);
        width += condition.len() + 4;
    }
    out
}
