//! Whether the body of a tile is written once or twice: for full tiles without bounds to check, and for the tail with them.
//!
//! The second text saves a full tile its predicates, and costs compile time. Where threads exchange elements through shared memory, or
//! loop over what they hold, the predicates of the loads and stores around are lost in the rest, and one text does.

use girih_ir::simt::visit::{blocks, children, each_expr};
use girih_ir::simt::{Expr, Place, Space, Stmt};

/// The checked body serves full tiles, too, without narrower accesses: what it does between loads and stores outweighs their predicates.
pub(crate) fn tail_suffices(full: &mut [Stmt], tail: &mut [Stmt]) -> bool {
    let (mut full_shape, mut tail_shape) = (Shape::default(), Shape::default());
    full_shape.block(full, false);
    tail_shape.block(tail, false);
    let busy = full_shape.meets || full_shape.loops;
    busy && !full_shape.looped_access && full_shape.lanes == tail_shape.lanes
}

/// What a body does, as far as it matters here.
#[derive(Default)]
struct Shape {
    /// Elements of each vector access, in order.
    lanes: Vec<u32>,
    /// Threads meet at a barrier.
    meets: bool,
    /// There is a loop that is not unrolled.
    loops: bool,
    /// Global memory is accessed inside of one.
    looped_access: bool,
}

impl Shape {
    fn block(&mut self, block: &mut [Stmt], looped: bool) {
        for stmt in block {
            self.stmt(stmt, looped);
        }
    }

    fn stmt(&mut self, stmt: &mut Stmt, looped: bool) {
        let global = |place: &Place| matches!(place.space, Space::Global(_));
        let access = match stmt {
            Stmt::LoadVector { lanes, place, .. } | Stmt::StoreVector { lanes, place, .. } => {
                self.lanes.push(*lanes);
                global(place)
            }
            Stmt::Store { place, .. } | Stmt::Atomic { place, .. } => global(place),
            Stmt::AsyncCopy { .. }
            | Stmt::BulkCopy { .. }
            | Stmt::TensorCopy { .. }
            | Stmt::StoreRelaxed { .. }
            | Stmt::LoadRelaxed { .. } => true,
            Stmt::Barrier(_) => {
                self.meets = true;
                false
            }
            Stmt::Let { .. } | Stmt::Declare { .. } | Stmt::Assign { .. } | Stmt::Comment(_) | Stmt::LoadMatrix { .. } => false,
            Stmt::If { .. } | Stmt::For { .. } | Stmt::While { .. } | Stmt::Fence { .. } | Stmt::AsyncCommit => false,
            Stmt::AsyncWait { .. } | Stmt::AsyncArrive { .. } | Stmt::MbarrierInit { .. } | Stmt::MbarrierArrive { .. } => false,
            Stmt::MbarrierWait { .. } | Stmt::Shuffle { .. } | Stmt::Vote { .. } | Stmt::Mma { .. } | Stmt::Wgmma { .. } => false,
            Stmt::WgmmaFence | Stmt::WgmmaCommit | Stmt::WgmmaWait { .. } | Stmt::ProxyFence => false,
        };
        let runs = matches!(stmt, Stmt::While { .. } | Stmt::For { unroll: false, .. });
        self.loops |= runs;
        let mut loads = access;
        each_expr(stmt, &mut |e| loads |= reads_global(e));
        self.looped_access |= loads && (looped || matches!(stmt, Stmt::While { .. }));
        for inner in blocks(stmt) {
            self.block(inner, looped || runs);
        }
    }
}

fn reads_global(e: &mut Expr) -> bool {
    let mut found = matches!(e, Expr::Load { place, .. } if matches!(place.space, Space::Global(_)));
    children(e, &mut |c| found |= reads_global(c));
    found
}
