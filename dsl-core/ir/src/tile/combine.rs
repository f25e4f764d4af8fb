//! Combinations of elements: operators, and the statement that reduces, scans, or joins what all blocks have.

use super::{Block, ValueId};
use crate::loc::SourceLoc;
use crate::types::{BinaryOp, DType, Literal};

/// Operators of reductions and scans: associative, order kept unless `commutative`. `B` are the statements of an author's operator.
#[derive(Clone, Debug)]
pub enum Operator<B = Block> {
    /// Sum, identity 0.
    Sum,
    /// Product, identity 1.
    Product,
    /// Minimum, identity +∞ or the type's largest.
    Min,
    /// Maximum, identity −∞ or the type's smallest.
    Max,
    /// Logical and, identity true.
    All,
    /// Logical or, identity false.
    Any,
    /// Defined by the author: combines two tuples of scalars.
    User {
        /// Identity of each component.
        identity: Vec<Literal>,
        /// Scalars standing for the left operand's components, then the right's.
        arguments: Vec<ValueId>,
        /// Computes the results.
        body: B,
        /// The combined components.
        results: Vec<ValueId>,
        /// Declared by the author: operands may be exchanged.
        commutative: bool,
    },
}

impl<B> Operator<B> {
    /// It in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Operator::Sum => "sum",
            Operator::Product => "product",
            Operator::Min => "min",
            Operator::Max => "max",
            Operator::All => "all",
            Operator::Any => "any",
            Operator::User { .. } => "user",
        }
    }

    /// Operands may be exchanged.
    pub fn commutative(&self) -> bool {
        match self {
            Operator::User { commutative, .. } => *commutative,
            _ => true,
        }
    }

    /// The operation and the identity of an operator that is not the author's, on elements of this type.
    pub fn standard(&self, dtype: DType) -> Option<(BinaryOp, Literal)> {
        Some(match self {
            Operator::Sum => (BinaryOp::Add, Literal::from_i64(dtype, 0)),
            Operator::Product => (BinaryOp::Mul, Literal::from_i64(dtype, 1)),
            Operator::Min => (BinaryOp::Min, Literal::extreme(dtype, true)),
            Operator::Max => (BinaryOp::Max, Literal::extreme(dtype, false)),
            Operator::All => (BinaryOp::And, Literal::bool(true)),
            Operator::Any => (BinaryOp::Or, Literal::bool(false)),
            Operator::User { .. } => return None,
        })
    }

    /// The identity of each component, where the elements' components have these types.
    pub fn identity(&self, dtypes: &[DType]) -> Vec<Literal> {
        match self {
            Operator::User { identity, .. } => identity.clone(),
            other => dtypes.iter().filter_map(|d| other.standard(*d).map(|(_, identity)| identity)).collect(),
        }
    }
}

/// What is combined with what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Form {
    /// The elements along these axes, in row-major order; the axes vanish. Results are tiles, or scalars when no axis is left.
    /// Absent elements count as the identity; the results are present.
    Reduce {
        /// The axes that vanish.
        axes: Vec<usize>,
    },
    /// Each element along the axis with all before it; results have the inputs' shape and mask. Absent elements count as the identity.
    Scan {
        /// The axis.
        axis: usize,
        /// Without the element itself: the first result is the identity.
        exclusive: bool,
        /// From the last element to the first.
        reversed: bool,
        /// On top of what the tiles before it come to, as [`Form::Before`] says: the tile has one element along every other axis.
        over_grid: bool,
    },
    /// What the tiles before a block's own come to, along the last axis of the grid's loop and in their order: an exclusive scan over tiles.
    /// Inputs are what each tile comes to, scalars, as are the results; the first tile gets the identity. Stands at the top level of the body
    /// of a grid loop whose tiles are taken in order.
    Before,
    /// What all blocks of the launch have, in the blocks' order. Stands at the top level of the body after the grid loop; what follows it
    /// runs once, in the block that finishes last. Inputs and results are scalars, or tiles of one shape.
    Grid,
}

/// Combines elements, whose components lie in `inputs` (tiles of one shape), with an operator.
#[derive(Clone, Debug)]
pub struct Combine<B = Block> {
    /// The operator. All but [`Operator::User`] have one component.
    pub operator: Operator<B>,
    /// What is combined with what.
    pub form: Form,
    /// One value per component.
    pub inputs: Vec<ValueId>,
    /// One value per component.
    pub results: Vec<ValueId>,
    /// The author's line.
    pub loc: SourceLoc,
}

impl<B> Combine<B> {
    /// Whether tiles look back at those before them for it.
    pub fn looks_back(&self) -> bool {
        matches!(self.form, Form::Before | Form::Scan { over_grid: true, .. })
    }
}
