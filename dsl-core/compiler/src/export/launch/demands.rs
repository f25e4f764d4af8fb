//! What a kernel asks of its launches: shown to hold by the text, left to the caller, or impossible in every call of the signature.

use crate::export::ExportError;
use crate::export::body::Body;
use crate::export::text::Text;
use girih_ir::loc::SourceLoc;
use girih_ir::program::Arg;
use girih_ir::tile::host::HostExpr;
use girih_ir::tile::{self, RequirementKind};
use girih_ir::types::BinaryOp;

/// A demand as the text says it: two sides and the sign between them.
struct Demand {
    left: Text,
    sign: &'static str,
    right: Text,
    loc: SourceLoc,
}

impl Demand {
    /// It holds whatever the caller passes.
    fn is_obvious(&self) -> bool {
        let compared = |a: i64, b: i64| if self.sign == "<=" { a <= b } else { a == b };
        self.left.text == self.right.text || self.left.constant.zip(self.right.constant).is_some_and(|(a, b)| compared(a, b))
    }

    /// It holds for no caller: all that the sides can be lies on the wrong side, or apart.
    fn is_impossible(&self) -> bool {
        let (a, b) = (self.left.known, self.right.known);
        a.least > b.most || (self.sign == "==" && a.most < b.least)
    }
}

impl Body<'_> {
    /// What a launch of the kernel must satisfy, unless the text shows that it does.
    ///
    /// # Errors
    /// What no call of the signature satisfies: launches that no call comes to are not written.
    pub(super) fn requirements(&mut self, kernel: &tile::Kernel, args: &[Arg]) -> Result<(), ExportError> {
        let host = |v| HostExpr::of_value(kernel, v);
        let value = |v| host(v).map(|e| self.names.launch(&e, args));
        let mut demands = Vec::new();
        let mut impossible = None;
        for requirement in &kernel.requirements {
            if let RequirementKind::AtMost(a, b) = &requirement.kind
                && host(*a).zip(host(*b)).is_some_and(|(a, b)| at_most(&a, &b))
            {
                continue;
            }
            let sides = match &requirement.kind {
                // Alignment is tested, by `stand_ins`; values are the caller's word.
                RequirementKind::Packed(_) | RequirementKind::Aligned(..) | RequirementKind::Values(..) => continue,
                RequirementKind::AtMost(a, b) => (value(*a), "<=", value(*b)),
                RequirementKind::Equal(a, b) => (value(*a), "==", value(*b)),
                RequirementKind::Divisible(a, n) => {
                    let rest = value(*a).map(|a| Text::combine(BinaryOp::Rem, &a, &Text::integer(*n)));
                    (rest, "==", Some(Text::integer(0)))
                }
            };
            let (Some(left), sign, Some(right)) = sides else { continue };
            let demand = Demand { left, sign, right, loc: requirement.loc };
            if demand.is_impossible() {
                let said = |v: &tile::ValueId| host(*v).map_or_else(String::new, |e| e.named(kernel));
                let asked = match &requirement.kind {
                    RequirementKind::Divisible(a, n) => format!("{} to be a multiple of {n}", said(a)),
                    RequirementKind::Equal(a, b) => format!("{} = {}", said(a), said(b)),
                    RequirementKind::AtMost(a, b) => format!("{} of at most {}", said(a), said(b)),
                    RequirementKind::Packed(_) | RequirementKind::Aligned(..) | RequirementKind::Values(..) => continue,
                };
                let found = format!("{} {sign} {}", demand.left.text, demand.right.text);
                impossible = impossible.or(Some((asked, found, requirement.loc)));
            }
            if !demand.is_obvious() {
                demands.push(demand);
            }
        }
        if let Some((asked, found, loc)) = impossible {
            let signature = self.names.signature.to_string();
            return Err(ExportError::Demand { kernel: kernel.full_name(), asked, found, signature, loc });
        }
        for Demand { left, sign, right, loc } in demands {
            self.line(format!("// requires {}: {} {sign} {}", loc.short(), left.text, right.text));
        }
        Ok(())
    }
}

/// `a <= b` whatever the lengths are; says no where it isn't sure.
fn at_most(a: &HostExpr, b: &HostExpr) -> bool {
    match (a, b) {
        _ if a == b => true,
        (HostExpr::Const(c), _) if *c <= 0 && never_negative(b) => true,
        (HostExpr::Binary(BinaryOp::Div, x, by), _) => matches!(**by, HostExpr::Const(c) if c > 0) && never_negative(x) && at_most(x, b),
        (HostExpr::Binary(BinaryOp::Sub, x, y), _) => never_negative(y) && at_most(x, b),
        _ => false,
    }
}

fn never_negative(e: &HostExpr) -> bool {
    match e {
        HostExpr::Const(c) => *c >= 0,
        HostExpr::Dim(..) | HostExpr::Multiprocessors => true,
        HostExpr::Stride(..) | HostExpr::Scalar(_) | HostExpr::Wrap(..) => false,
        // Half of something from the whole of it: `n - n / 2`.
        HostExpr::Binary(BinaryOp::Sub, a, b) => at_most(b, a),
        HostExpr::Binary(_, a, b) => never_negative(a) && never_negative(b),
    }
}
