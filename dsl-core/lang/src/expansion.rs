//! What the attributes expand to refers to: not for authors.

pub use super::branch::{Join, branch};
pub use super::build::{Attribute, Header, instance, kernel, program};
pub use super::carry::{Carry, NameIt, NameNothing, Named, Soft, SoftCarry, SoftIgnore};
pub use super::compare::{eq, ge, gt, le, logic, lt, ne, needs};
pub use super::components::{Components, TileLike};
pub use super::control::{range, range_inclusive, start, while_loop};
pub use super::elementwise::Elementwise;
pub use super::operand::Integer;
pub use super::plan::Plan;
pub use super::schedule::{
    CacheHint, ConstantPath, CopyPath, DotUnit, FinishPath, GroupTurns, HaloPath, KernelSchedule, KnobValue, OperandPath, RowPath,
    TileOrder, deserialize, display, field, serialize,
};
pub use super::session::Handle;
pub use super::size::{Shape, Size};
pub use super::tile_type::TileType;
pub use super::world::{ByReference, ByValue, On, Param, World};
pub use girih_ir::error::CompileError;
pub use girih_ir::linkme;
pub use girih_ir::loc::SourceLoc;
pub use girih_ir::program::{Program, ProgramDef};
pub use girih_ir::registry::{KERNELS, KernelDef, PROGRAMS};
pub use girih_ir::schedule::{Choice, Knob, KnobKind, Of, Schedule};
pub use girih_ir::tile::{Kernel, KnobId, Param as IrParam};
pub use girih_ir::types::{DType, Literal};
pub use serde;

/// A numeric choice.
pub fn int(value: i64) -> Choice {
    Choice::Int(value)
}

/// A word as a choice.
pub fn word(value: &str) -> Choice {
    Choice::Word(value.to_string())
}

/// A knob.
pub fn knob(name: &str, kind: KnobKind, choices: Vec<Choice>, loc: SourceLoc) -> Knob {
    Knob { name: name.to_string(), kind, of: None, choices, loc }
}

/// A knob for the loops over tiles with a variable of this name.
pub fn of_loop(name: &str, knob: Knob) -> Knob {
    Knob { of: Some(Of::Loop(name.to_string())), ..knob }
}

/// A knob for the tensor parameter of this name.
pub fn of_tensor(name: &str, knob: Knob) -> Knob {
    Knob { of: Some(Of::Tensor(name.to_string())), ..knob }
}

/// A parameter.
pub fn param(name: &str, kind: girih_ir::tile::ParamKind) -> IrParam {
    IrParam { name: name.to_string(), kind }
}
