//! How loops that are recorded begin: over tiles, and up to a scalar.

use super::{Kind, RecordedFor, ScalarRange, Start, Tiles};
use crate::elem::Elem;
use crate::elementwise::uniform;
use crate::recorder::Reached;
use crate::scalar::Scalar;
use crate::session::{self, Handle, Session};
use crate::span;
use crate::tensor::LoopVars;
use girih_ir::error::Diagnostic;
use girih_ir::loc::SourceLoc;
use girih_ir::program;
use girih_ir::tile::{TileLoop, Ty, ValueId, ViewId};
use girih_ir::types::{CompareOp, DType, Literal};

impl<A: LoopVars> Start for Tiles<A> {
    type Loop = RecordedFor<A::Var>;
    fn start(self, names: &[&str], loc: SourceLoc) -> Self::Loop {
        let opened = session::with(|s| {
            let k = s.kernel("a loop over tiles", loc)?;
            let view = ViewId(self.tensor.get(k.build)?);
            let grid = k.depth() == 0;
            if grid && k.has_grid {
                let message = "a second loop over tiles at the top of the kernel: a kernel has one grid";
                let help = "nest it in the first loop, or write a second kernel and launch both from a `#[program]`";
                k.error(Diagnostic::new(loc, message).help(help));
            }
            let some = !self.spans.is_empty() || self.drawn.is_some();
            if grid && some {
                let message = "the grid's loop walks all tiles: only a loop inside of it can keep to some positions";
                let help = "walk a part of the tensor, `x.slice(axis, first, len)`, whose bounds a launch knows";
                k.error(Diagnostic::new(loc, message).help(help));
            }
            if self.in_order && (!grid || self.strided) {
                let message = "blocks begin in the order of the tiles where the grid's loop gives each a tile of its own";
                k.error(Diagnostic::new(loc, message).help("leave `.in_order()` out: turns of any other loop follow each other anyway"));
            }
            k.has_grid |= grid;
            if grid {
                k.takes_in_order = self.in_order;
            }
            let span = match grid || !some {
                true => None,
                false => Some(span::common(k, &self.spans, (self.drawn, &self.sizes[0]), (view, self.axes[0]), loc)?),
            };
            k.open(false);
            let vars: Vec<ValueId> = self
                .sizes
                .iter()
                .enumerate()
                .map(|(i, size)| {
                    let name = names.get(i).filter(|n| !n.is_empty()).map(|n| n.to_string());
                    k.new_value(Ty::TileIdx(size.clone()), name, loc, 0)
                })
                .collect();
            for (var, axis) in vars.iter().zip(&self.axes) {
                let len = k.kernel.view(view).axes[*axis].len;
                k.walked.insert(*var, len);
            }
            let handles = vars.iter().map(|v| k.handle(*v)).collect();
            let (axes, strided, in_order) = (self.axes.clone(), self.strided, self.in_order);
            let head = TileLoop { view, axes, vars, span, strided, in_order, carries: Vec::new(), body: Vec::new(), loc };
            Some((Kind::Tiles { head, grid }, handles))
        });
        let wrong = || (Kind::Wrong, vec![Handle::POISON; self.sizes.len()]);
        RecordedFor::new(opened.unwrap_or_else(wrong), A::of, loc)
    }
}

impl<T: Elem> Start for ScalarRange<T> {
    type Loop = RecordedFor<Scalar<T>>;
    fn start(self, names: &[&str], loc: SourceLoc) -> Self::Loop {
        let name = names.first().filter(|n| !n.is_empty()).map(|n| n.to_string());
        let opened = session::with(|s| match s {
            Session::Kernel(k) => {
                let (start, end) = (uniform(k, self.start, "a loop's start", loc)?, uniform(k, self.end, "a loop's end", loc)?);
                k.open(false);
                let var = k.new_value(Ty::Scalar(T::DTYPE), name, loc, 0);
                Some((Kind::Range { start, end, var }, vec![k.handle(var)]))
            }
            Session::Program(p) => {
                let ((start, _), (end, _)) = (p.read(self.start, loc)?, p.read(self.end, loc)?);
                let some = program::Expr::Compare(CompareOp::Lt, Box::new(start.clone()), Box::new(end.clone()));
                p.open(Reached::when(some));
                let var = p.var(DType::I64, name.as_deref().unwrap_or("i"));
                let counter = p.expr(program::Expr::Var(var), DType::I64, loc);
                let wide = |e| recast(e, T::DTYPE, DType::I64);
                let handle = p.cast(T::DTYPE, counter, loc);
                Some((Kind::Counted { start: wide(start), end: wide(end), var }, vec![handle]))
            }
        });
        RecordedFor::new(opened.unwrap_or((Kind::Wrong, vec![Handle::POISON])), |h| Scalar::of(h[0]), loc)
    }
}

fn recast(expr: program::Expr, from: DType, to: DType) -> program::Expr {
    match expr {
        e if from == to => e,
        program::Expr::Literal(l) => program::Expr::Literal(Literal::from_i64(to, l.to_i64())),
        e => program::Expr::Cast(to, Box::new(e)),
    }
}
