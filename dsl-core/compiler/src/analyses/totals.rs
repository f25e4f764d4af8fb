//! Totals: which operators have one in memory, to which blocks add by atomics, and how it is kept.

use girih_ir::tile::Operator;
use girih_ir::types::DType;

/// How the total of values of a type is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Total {
    /// The values in registers.
    pub value: DType,
    /// The total in memory.
    pub kept: DType,
    pub kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Sum,
    Least,
    Most,
}

impl Total {
    /// The total of an operator, where memory has an atomic for it.
    pub fn of<B>(operator: &Operator<B>, value: DType) -> Option<Total> {
        let kind = match operator {
            Operator::Sum if value != DType::Bool => Kind::Sum,
            Operator::Min if value != DType::Bool => Kind::Least,
            Operator::Max if value != DType::Bool => Kind::Most,
            _ => return None,
        };
        let wide = value.size() == 8;
        let kept = match (kind, value) {
            (Kind::Sum, DType::F32) => DType::F32,
            _ if wide => DType::U64,
            _ => DType::U32,
        };
        Some(Total { value, kept, kind })
    }
}
