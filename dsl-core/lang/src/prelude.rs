//! What kernels and programs are written with.

pub use super::arg::{ArgPair, Position, WithoutNan};
pub use super::chain::{Chain, chain};
pub use super::components::{Components, TileLike};
pub use super::control::Tiles;
pub use super::demand::require;
pub use super::dot::{dot, dot_with, mixed_dot};
pub use super::elem::{Bits, Elem, Factor, Float, Int, Num};
pub use super::elementwise::Elementwise;
pub use super::grid::{PrefixGrid, ReduceGrid};
pub use super::operand::{Operand, ScalarOperand};
pub use super::plan::{Plan, temp, temp_filled, variant};
pub use super::reduce::Reduce;
pub use super::runs::{await_copies, close_copies};
pub use super::scalar::{Scalar, scalar};
pub use super::scan::{Scan, along};
pub use super::shared::{Shared, iota, shared, shared_uninit};
pub use super::size::Size;
pub use super::tensor::Tensor;
pub use super::tile::{Tile, TileIdx, full, select, stack, zeros};
pub use super::tile_type::TileType;
pub use super::warp::{barrier, grid_barrier, lanes, threads, warp_barrier, warps};
pub use super::window::{Boundary, Window};
pub use super::world::{On, World};
pub use girih_ir::types::{MemoryOrder, Scope};
pub use girih_ir::types::{f8e4m3, f8e5m2};
pub use half::{bf16, f16};
