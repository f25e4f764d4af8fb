//! What gathers and atomics found: an element at a position out of range is absent, and whoever consumes the tile has to know which ones are.
//! And what a branch on a scalar chose: an element of its result exists where the taken side's does. And what lies side by side in a stack.
//!
//! Lowering keeps that as a bool tile beside the tile itself. It is a value like the author's own, so that it takes part in changes of
//! layout; such values are numbered behind the kernel's.

use super::context::{Data, Lowering, Rep, TileRep};
use super::mask::{Mask, Test};
use super::values::At;
use crate::layout::Layout;
use crate::simt::{self, Expr, VarId};
use crate::tile::{Kernel, Op, SharedKind, Stmt, Ty, Value, ValueId};
use crate::types::DType;
use std::borrow::Cow;
use std::collections::HashMap;

/// The kernel with a bool tile for each tile that is gathered, left by atomics, stacked or chosen by a branch, and which one it is.
pub(crate) fn with_values(kernel: &Kernel) -> (Cow<'_, Kernel>, HashMap<ValueId, ValueId>) {
    let mut gathered = Vec::new();
    crate::tile::access::visit(&kernel.body, &mut |stmt| match stmt {
        Stmt::Let(v, Op::Gather(..)) => gathered.push(*v),
        Stmt::Let(v, Op::Stack(parts)) if parts.len() > 1 => gathered.push(*v),
        Stmt::Shared(access) => match &access.kind {
            SharedKind::Gather { result, .. } => gathered.push(*result),
            SharedKind::Atomic(update) => gathered.extend(update.result),
            _ => {}
        },
        Stmt::Atomic { update, .. } => gathered.extend(update.result),
        Stmt::If { results, .. } => gathered.extend(results.iter().map(|r| r.result)),
        _ => {}
    });
    gathered.retain(|v| matches!(kernel.ty(*v), Ty::Tile(..)));
    if gathered.is_empty() {
        return (Cow::Borrowed(kernel), HashMap::new());
    }
    let mut kernel = kernel.clone();
    let mut found = HashMap::new();
    for v in gathered {
        let Value { ty: Ty::Tile(_, shape), loc, .. } = kernel.value(v).clone() else { continue };
        found.insert(v, ValueId(kernel.values.len() as u32));
        kernel.values.push(Value { ty: Ty::Tile(DType::Bool, shape), name: Some("found".into()), loc });
    }
    (Cow::Owned(kernel), found)
}

/// Which elements of a tile were at positions in range, while it is read.
pub(super) struct Found {
    /// For each register; a tile of one register has no array.
    array: Option<VarId>,
    single: Option<Expr>,
    /// Some position was checked.
    checked: bool,
}

impl Found {
    /// Of a tile in a layout.
    pub fn new(cx: &mut Lowering, name: &str, layout: &Layout) -> Found {
        let array = (layout.registers > 1).then(|| cx.new_var(&format!("{name}_found"), DType::Bool, Some(layout.registers as u32)));
        if let Some(var) = array {
            cx.emit(simt::Stmt::Declare { var, init: None });
        }
        Found { array, single: None, checked: false }
    }

    /// Keeps an element's check, and reads it back.
    pub fn keep(&mut self, cx: &mut Lowering, at: &At, guard: Option<Expr>) -> Option<Expr> {
        self.checked = guard.is_some();
        let guard = guard?;
        if let Some(var) = self.array {
            cx.emit(simt::Stmt::Assign { var, index: Some(at.flat.clone()), value: guard });
            return Some(Expr::Element(var, Box::new(at.flat.clone())));
        }
        self.single = Some(cx.declare_let("found", DType::Bool, guard));
        self.single.clone()
    }

    /// Says so of the tile: elements that were not found are absent, and zeros in the array of the tile's elements.
    pub fn end(self, cx: &mut Lowering, value: ValueId, layout: &Layout, mask: &mut Mask, elements: Option<VarId>) {
        let (true, Some(condition)) = (self.checked, cx.found.get(&value).copied()) else { return };
        let bits = self.array.map(Data::Array).or(self.single.map(Data::One));
        let data = bits.unwrap_or_else(|| panic!("found: nothing says which elements were"));
        cx.set(condition, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(layout.clone()), mask: Mask::default(), data }));
        if mask.bounds.is_empty() {
            cx.zero_filled.extend(elements);
        }
        mask.sides.push(vec![Test::of(condition, true, layout.axes.len())]);
    }
}
