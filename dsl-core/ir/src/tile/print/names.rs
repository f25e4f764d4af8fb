//! Names of values, shared arrays and views: the author's, numbered where they are not unique.

use super::{Printer, definitions};
use crate::tile::{Op, SharedArray, SharedId, ValueId, ViewId};
use crate::types::DType;

impl Printer<'_> {
    pub(super) fn name_all(&mut self) {
        for p in &self.kernel.params {
            self.taken.insert(p.name.clone(), 1);
        }
        let mut defined = Vec::new();
        definitions(&self.kernel.body, &mut defined);
        for (value, op) in defined {
            let name = match op {
                Some(Op::Literal(l)) if l.dtype == DType::I64 || l.dtype == DType::Bool => l.to_string(),
                Some(Op::Literal(l)) => format!("{l}{}", l.dtype),
                Some(Op::Param(p)) => self.kernel.params[*p].name.clone(),
                Some(Op::Dim(p, k)) => format!("{}.len({k})", self.kernel.params[*p].name),
                Some(Op::Stride(p, k)) => format!("{}.stride({k})", self.kernel.params[*p].name),
                _ => self.fresh(value),
            };
            self.names.insert(value, name);
        }
    }
    fn fresh(&mut self, value: ValueId) -> String {
        let Some(name) = self.kernel.value(value).name.clone() else {
            self.unnamed += 1;
            return format!("%{}", self.unnamed - 1);
        };
        let count = self.taken.entry(name.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { name } else { format!("{name}_{count}") }
    }

    /// The author's name of a shared array; numbered where it is not unique.
    pub(super) fn array(&self, id: SharedId) -> String {
        let name = |a: &SharedArray| a.name.clone().unwrap_or_else(|| "shared".into());
        let own = name(self.kernel.shared_array(id));
        let same = self.kernel.shared[..id.0 as usize].iter().filter(|a| name(a) == own).count();
        if same == 0 { own } else { format!("{own}#{}", same + 1) }
    }

    pub(super) fn v(&self, value: ValueId) -> String {
        self.names.get(&value).cloned().unwrap_or_else(|| format!("?{}", value.0))
    }

    /// The author's text of a view; numbered where two views have the same text.
    pub(super) fn view(&self, id: ViewId) -> String {
        let text = &self.kernel.view(id).text;
        let same = self.kernel.views[..id.0 as usize].iter().filter(|v| v.text == *text).count();
        if same == 0 { text.clone() } else { format!("{text}#{}", same + 1) }
    }
}
