//! Gives each tile a value of its own for what says which of its elements exist, where that may have to be computed: of what is gathered, left
//! by atomics, stacked, chosen by a branch, or made of several tiles.

use girih_ir::tile::{Kernel, Op, SharedKind, Stmt, Ty, Value, ValueId};
use girih_ir::types::DType;
use std::borrow::Cow;
use std::collections::HashMap;

/// The kernel with a bool tile for each tile that is gathered, left by atomics, stacked, chosen by a branch or an element at a time, or made
/// of several tiles, and which one it is.
pub(crate) fn record_presence(kernel: &Kernel) -> (Cow<'_, Kernel>, HashMap<ValueId, ValueId>) {
    let mut gathered = Vec::new();
    girih_ir::tile::access::visit(&kernel.body, &mut |stmt| match stmt {
        Stmt::Let(v, Op::Gather(..) | Op::Select(..) | Op::Binary(..) | Op::Ternary(..) | Op::Compare(..)) => gathered.push(*v),
        Stmt::Let(v, Op::Stack(parts)) if parts.len() > 1 => gathered.push(*v),
        Stmt::Shared(access) => match &access.kind {
            SharedKind::Gather { result, inside: false, .. } => gathered.push(*result),
            SharedKind::Atomic(update) => gathered.extend(update.result),
            _ => {}
        },
        Stmt::Atomic { update, .. } => gathered.extend(update.result),
        Stmt::If { results, .. } => gathered.extend(results.iter().map(|r| r.result)),
        Stmt::Let(..) | Stmt::Store { .. } | Stmt::Scatter { .. } | Stmt::Combine(_) | Stmt::Barrier { .. } | Stmt::Copies { .. } => {}
        Stmt::Tiles(_) | Stmt::Range { .. } | Stmt::While { .. } | Stmt::Where { .. } => {}
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
