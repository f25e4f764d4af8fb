//! What gathers found: an element at a position out of range is absent, and whoever consumes the tile has to know which ones are. And what
//! a branch on a scalar chose: an element of its result exists where the taken side's does. And what lies side by side in a stack.
//!
//! Lowering keeps that as a bool tile beside the tile itself. It is a value like the author's own, so that it takes part in changes of
//! layout; such values are numbered behind the kernel's.

use crate::tile::{Kernel, Op, SharedKind, Stmt, Ty, Value, ValueId};
use crate::types::DType;
use std::borrow::Cow;
use std::collections::HashMap;

/// The kernel with a bool tile for each tile that is gathered, stacked or chosen by a branch, and which one it is.
pub(crate) fn with_values(kernel: &Kernel) -> (Cow<'_, Kernel>, HashMap<ValueId, ValueId>) {
    let mut gathered = Vec::new();
    crate::tile::access::visit(&kernel.body, &mut |stmt| match stmt {
        Stmt::Let(v, Op::Gather(..)) => gathered.push(*v),
        Stmt::Let(v, Op::Stack(parts)) if parts.len() > 1 => gathered.push(*v),
        Stmt::Shared(access) => match &access.kind {
            SharedKind::Gather { result, .. } => gathered.push(*result),
            SharedKind::Fill(_) | SharedKind::Scatter { .. } | SharedKind::Atomic(_) => {}
        },
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
