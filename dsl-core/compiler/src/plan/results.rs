//! The results of a kernel's dots on matrix units: their shapes, and how the warps of a block share each.

use super::legality::{Broken, Rule};
use super::matrix_units::{WRITTEN_OUT, Warps};
use crate::analyses::chained::links;
use crate::analyses::converted::Converted;
use girih_ir::fragments::{Atom, Form, GroupAtom, Operand, Order};
use girih_ir::tile::access::operations;
use girih_ir::tile::{Kernel, Op, Size, ValueId};
use std::collections::HashMap;

/// Rows and columns.
pub(crate) type Extents = [i64; 2];

/// A shape that results of dots have.
pub(crate) struct Shape {
    /// The first dot of that shape.
    pub first: ValueId,
    pub extents: Extents,
    /// Some of these dots go on with the result of another dot, or another one goes on with theirs.
    pub linked: bool,
}

/// The shapes of the results of a kernel's dots, by their first dots.
pub(crate) fn shapes(kernel: &Kernel, ops: &HashMap<ValueId, &Op>, size: &dyn Fn(&Size) -> i64) -> Vec<Shape> {
    let extents = |v: ValueId| -> Option<Extents> {
        let shape = kernel.ty(v).shape()?;
        shape.iter().map(size).collect::<Vec<i64>>().try_into().ok()
    };
    let links = links(kernel);
    let linked: Vec<Extents> = links.iter().flat_map(|link| [link.operand, link.acc]).filter_map(extents).collect();
    let mut dots: Vec<ValueId> = ops.iter().filter(|(_, op)| matches!(op, Op::Dot { .. })).map(|(v, _)| *v).collect();
    dots.sort_unstable();
    let mut shapes: Vec<Shape> = Vec::new();
    for (first, extents) in dots.into_iter().filter_map(|v| Some((v, extents(v)?))) {
        if shapes.iter().all(|s| s.extents != extents) {
            shapes.push(Shape { first, extents, linked: linked.contains(&extents) });
        }
    }
    shapes
}

/// The shapes of results as the author wrote them, each once, and of left operands that are computed in registers: these lie there as results do.
pub(crate) fn sizes(kernel: &Kernel, converted: &[Converted]) -> Vec<Vec<Size>> {
    let ops = operations(kernel);
    let mut dots: Vec<ValueId> = ops.iter().filter(|(_, op)| matches!(op, Op::Dot { .. })).map(|(v, _)| *v).collect();
    dots.sort_unstable();
    let mut sizes: Vec<Vec<Size>> = Vec::new();
    for shape in dots.into_iter().chain(converted.iter().map(|c| c.link.operand)).filter_map(|v| kernel.ty(v).shape()) {
        if !sizes.iter().any(|s| s == shape) {
            sizes.push(shape.to_vec());
        }
    }
    sizes
}

/// How an instruction is used and `count` warps share results of these shapes, by shape: `Err` with the shape that they cannot share.
///
/// A warp has the fewest elements of both operands that it can. Where dots go on with the results of others it has whole rows, if lengths
/// allow: what is computed of a row, and the next product, then need no other warp.
pub(crate) fn share(atom: Atom, dealt: bool, count: i64, shapes: &[Shape]) -> Result<(Form, Vec<Extents>), Extents> {
    let fits = |[rows, columns]: Extents, along: &Extents, [m, n]: Extents| rows % (along[0] * m) == 0 && columns % (along[1] * n) == 0;
    let splits = (0..=10).map(|e| 1i64 << e).filter(|r| count % r == 0).map(|r| [r, count / r]);
    let fewest = |form: &Form, shape: &Shape| {
        let [rows, columns] = shape.extents;
        splits.clone().filter(|a| fits(shape.extents, a, form.tile())).min_by_key(|a| (rows / a[0] + columns / a[1], a[0]))
    };
    let whole_rows = |form: &Form, shape: &Shape| {
        let along = [count, 1];
        (shape.linked && atom.fed(Operand::A).is_some() && fits(shape.extents, &along, form.tile())).then_some(along)
    };
    // Skinny results, of fewer rows than the instruction has, are had the other way round.
    let orders = dealt.then_some(Order::Dealt).into_iter().chain([Order::Plain, Order::Swapped]);
    let mut refused = None;
    for form in orders.map(|order| Form { atom, order }) {
        let plain = form.order == Order::Plain;
        let linked = |s: &&Shape| s.linked;
        let all_whole = plain && shapes.iter().filter(linked).all(|s| whole_rows(&form, s).is_some());
        let of = |s: &Shape| if all_whole && s.linked { whole_rows(&form, s) } else { fewest(&form, s) }.ok_or(s.extents);
        match shapes.iter().map(of).collect::<Result<Vec<_>, _>>() {
            Ok(along) => return Ok((form, along)),
            Err(extents) => drop(refused.get_or_insert(extents)),
        }
    }
    Err(refused.unwrap_or_default())
}

/// How so many warp groups share results of these shapes, by shape, where a result of so many columns of a group has an instruction: `Err`
/// with the shape that they cannot share.
///
/// A group has the fewest elements of the operands of all its instructions that it can. Where dots go on with the results of others it has
/// whole rows, as warps have.
pub(crate) fn share_by_groups(widest: impl Fn(i64) -> Option<GroupAtom>, groups: i64, shapes: &[Shape]) -> Result<Vec<Extents>, Extents> {
    let cost = |[rows, columns]: Extents, [down, right]: Extents| {
        let m = i64::from(GroupAtom::M);
        let whole = down * right == groups && rows % (down * m) == 0 && columns % right == 0;
        let atom = widest(columns / right).filter(|_| whole)?;
        let instructions = rows / down / m * (columns / right / i64::from(atom.n));
        Some(instructions * (m + i64::from(atom.n)))
    };
    let ways = || (0..=3).map(|e| 1 << e).filter(|down| *down <= groups).map(|down| [down, groups / down]);
    let fewest = |shape: &Shape| {
        let found = ways().filter_map(|along| Some((cost(shape.extents, along)?, along))).min();
        found.map(|(_, along)| along).ok_or(shape.extents)
    };
    let feeds = widest(8).is_some_and(|atom| atom.part().fed(Operand::A).is_some());
    let whole_rows = |shape: &&Shape| cost(shape.extents, [groups, 1]).is_some();
    let all_whole = feeds && shapes.iter().filter(|s| s.linked).all(|s| whole_rows(&s));
    shapes.iter().map(|s| if all_whole && s.linked { Ok([groups, 1]) } else { fewest(s) }).collect()
}

/// The rule that the result of a dot breaks by not being the block's tile.
pub(crate) fn other_result(rule: Rule, kernel: &Kernel, dot: ValueId, anchor: &[i64]) -> Broken {
    let shape: Vec<String> = kernel.ty(dot).shape().unwrap_or_default().iter().map(|s| s.display(&kernel.knobs)).collect();
    let name = kernel.value(dot).name.as_deref().map_or(String::new(), |n| format!(" `{n}`"));
    let tile: Vec<String> = anchor.iter().map(i64::to_string).collect();
    rule.with(&[&tile.join(" x "), &name, &kernel.value(dot).loc.line, &shape.join(", ")])
}

/// How the anchor is shared, and results of other shapes with theirs.
pub(crate) fn of_anchor(anchor: Extents, shapes: &[Shape], along: Vec<Extents>) -> (Extents, Vec<(Extents, Extents)>) {
    let all: Vec<(Extents, Extents)> = shapes.iter().map(|s| s.extents).zip(along).collect();
    let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(extents, _)| *extents == anchor);
    let (_, own) = *own.first().unwrap_or_else(|| panic!("results: no dot has the anchor's shape"));
    (own, others)
}

impl Warps {
    /// Warps, or groups of them, along the rows and the columns of a result.
    pub fn along_of(&self, extents: Extents) -> [i64; 2] {
        self.others.iter().find(|(shape, _)| *shape == extents).map_or(self.along, |(_, along)| *along)
    }

    /// Whether dots with this result can take left operands of these extents from registers: every warp has whole rows of both, those of its
    /// part of the result; and all of it is written out, as registers have no addresses.
    pub fn feeds(&self, [rows, inner]: Extents, [_, columns]: Extents) -> bool {
        let (atom, [down, right]) = (self.form.atom, self.atoms(rows, columns));
        let whole = self.has_whole_rows([rows, inner]) && self.has_whole_rows([rows, columns]);
        // Instructions of groups take their right operand in no other order than the one in which it lies.
        let in_order = self.group.is_none() || atom.per_word(Operand::A) == 2;
        let plain = self.form.order == Order::Plain && in_order && atom.fed(Operand::A).is_some();
        plain && whole && inner / i64::from(atom.k) * down * right <= WRITTEN_OUT
    }

    /// Whether every warp has whole rows of a result.
    pub fn has_whole_rows(&self, extents: Extents) -> bool {
        self.along_of(extents)[1] == 1
    }
}
