//! What a launch stores to shares no byte with its other arguments: a launch of the runtime checks that, and so does the text, where
//! views of one tensor meet and the text does not show that they lie apart.

use super::ExportError;
use super::body::Body;
use super::helpers::Helper;
use super::text::Text;
use girih_ir::aliasing::{Sharing, Strided};
use girih_ir::loc::SourceLoc;
use girih_ir::program::{Arg, TensorView};
use girih_ir::tile::{self, ParamKind};
use girih_ir::types::BinaryOp;

impl Body<'_> {
    /// A launch whose arguments share memory does nothing, and neither does what follows.
    pub(super) fn memory_of_its_own(&mut self, kernel: &tile::Kernel, args: &[Arg], loc: SourceLoc) -> Result<(), ExportError> {
        for (i, j) in pairs(kernel, args) {
            let (Arg::Tensor(a), Arg::Tensor(b)) = (&args[i], &args[j]) else { continue };
            if self.lie_apart(a, b) {
                continue;
            }
            if a.lens.len().max(b.lens.len()) > Helper::MOST_AXES {
                let what = format!("a launch with views of one tensor of more than {} axes", Helper::MOST_AXES);
                return Err(ExportError::Unsupported { what, loc });
            }
            self.helpers.insert(Helper::MayShare);
            let (a, b) = (self.strided_view(a), self.strided_view(b));
            let names = [i, j].map(|p| kernel.params[p].name.as_str());
            self.line(format!("// {}, which is stored to, and {} must not share memory    {}", names[0], names[1], loc.short()));
            self.line(format!("if (may_share({a}, {b})) return;"));
        }
        Ok(())
    }

    /// Whether the text shows that two views of one tensor have no byte in common.
    fn lie_apart(&self, a: &TensorView, b: &TensorView) -> bool {
        let behind = |first: &TensorView, second: &TensorView| {
            let end = Text::combine(BinaryOp::Add, &self.names.index(&first.offset), &self.numel(&first.lens));
            first.packed && first.dtype == second.dtype && end.text == self.names.index(&second.offset).text
        };
        let known = |v: &TensorView| {
            let number = |e| self.names.index(e).constant;
            let lens: Option<Vec<i64>> = v.lens.iter().map(number).collect();
            let strides: Option<Vec<i64>> = v.strides.iter().map(number).collect();
            let start = i128::from(number(&v.offset)?) * v.dtype.size() as i128;
            Some(Strided::of_elements(start, v.dtype.size(), &lens?, &strides?))
        };
        let constant = || known(a).zip(known(b)).is_some_and(|(a, b)| a.sharing(&b) == Sharing::Nothing);
        behind(a, b) || behind(b, a) || constant()
    }

    /// A view as the helper takes it.
    fn strided_view(&self, view: &TensorView) -> String {
        let list = |numbers: &[girih_ir::program::Expr]| numbers.iter().map(|e| self.names.index(e).text).collect::<Vec<_>>().join(", ");
        let start = self.names.pointer(view, view.dtype, true);
        format!("{{{start}, {}, {}, {{{}}}, {{{}}}}}", view.dtype.size(), view.lens.len(), list(&view.lens), list(&view.strides))
    }
}

/// Arguments that are views of one tensor, the first of them stored to; each pair once.
fn pairs(kernel: &tile::Kernel, args: &[Arg]) -> Vec<(usize, usize)> {
    let base = |p: usize| if let Arg::Tensor(view) = &args[p] { Some(view.base) } else { None };
    let stored = |p: usize| matches!(kernel.params[p].kind, ParamKind::Tensor { mutable: true, .. });
    let all = (0..args.len()).flat_map(|i| (0..args.len()).map(move |j| (i, j)));
    all.filter(|(i, j)| i != j && stored(*i) && !(stored(*j) && j < i) && base(*i).is_some() && base(*i) == base(*j)).collect()
}
