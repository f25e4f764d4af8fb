//! Which reads of windows are made together: those of one block whose offsets differ by constants.

use girih_ir::tile::access::operations;
use girih_ir::tile::{Block, Kernel, Op, Stmt as TileStmt, Ty, ValueId};
use girih_ir::types::BinaryOp;
use std::collections::{HashMap, HashSet};

/// Reads of one window in one block at constant distances from each other.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Number of the block.
    block: u32,
    pub window: ValueId,
    /// Part of the offset that is not constant, per axis.
    pub bases: Vec<Option<ValueId>>,
    /// Single elements instead of tiles.
    pub scalar: bool,
    /// The reads, and the constant part of their offsets.
    pub members: Vec<(ValueId, Vec<i64>)>,
    /// Elements per access to global memory, once widths are assigned.
    pub width: i64,
}

/// All reads of windows of a kernel.
#[derive(Clone, Default, Debug)]
pub(crate) struct WindowGroups {
    pub groups: Vec<Group>,
    /// The group of each read.
    pub of: HashMap<ValueId, usize>,
    /// Scalars that are surely not negative: starts of tiles, constants, and sums and products of these.
    pub forward: HashSet<ValueId>,
}

impl WindowGroups {
    /// Finds all reads.
    pub fn of(kernel: &Kernel) -> WindowGroups {
        let mut finder = Finder { ops: operations(kernel), found: WindowGroups::default(), blocks: 0 };
        finder.block(kernel, &kernel.body);
        if !finder.found.groups.is_empty() {
            let forward = finder.ops.keys().copied().filter(|v| finder.is_forward(*v)).collect();
            finder.found.forward = forward;
        }
        finder.found
    }

    /// Whether moved tiles of a window are read.
    pub fn reads_tiles(&self, window: ValueId) -> bool {
        self.groups.iter().any(|g| g.window == window && !g.scalar)
    }
}

struct Finder<'k> {
    ops: HashMap<ValueId, &'k Op>,
    found: WindowGroups,
    blocks: u32,
}

impl<'k> Finder<'k> {
    fn op(&self, value: ValueId) -> Option<&'k Op> {
        self.ops.get(&value).copied()
    }

    fn is_forward(&self, value: ValueId) -> bool {
        match self.op(value) {
            Some(Op::Start(_) | Op::End(_)) => true,
            Some(Op::Literal(l)) => l.to_i64() >= 0,
            Some(Op::Binary(BinaryOp::Add | BinaryOp::Mul, a, b)) => self.is_forward(*a) && self.is_forward(*b),
            Some(Op::Cast(a)) => self.is_forward(*a),
            _ => false,
        }
    }

    fn block(&mut self, kernel: &Kernel, block: &'k Block) {
        self.blocks += 1;
        self.statements(kernel, block, self.blocks);
    }

    /// The sides of per-element choices belong to the block around them.
    fn statements(&mut self, kernel: &Kernel, block: &'k Block, number: u32) {
        for stmt in block {
            match stmt {
                TileStmt::Let(v, Op::Near(window, offsets)) => self.read(kernel, number, *v, *window, offsets),
                TileStmt::Where { body, .. } => self.statements(kernel, body, number),
                TileStmt::Tiles(l) => self.block(kernel, &l.body),
                TileStmt::Range { body, .. } => self.block(kernel, body),
                TileStmt::While { header, body, .. } => {
                    self.block(kernel, header);
                    self.block(kernel, body);
                }
                TileStmt::If { then, otherwise, .. } => {
                    self.block(kernel, then);
                    self.block(kernel, otherwise);
                }
                _ => {}
            }
        }
    }

    fn read(&mut self, kernel: &Kernel, block: u32, value: ValueId, window: ValueId, offsets: &[ValueId]) {
        let scalar = matches!(kernel.ty(value), Ty::Scalar(_));
        let (bases, constants): (Vec<_>, Vec<_>) = offsets.iter().map(|o| self.parts(*o)).unzip();
        let same = |g: &Group| g.block == block && g.window == window && g.bases == bases && g.scalar == scalar;
        let at = self.found.groups.iter().position(same).unwrap_or(self.found.groups.len());
        if at == self.found.groups.len() {
            self.found.groups.push(Group { block, window, bases, scalar, members: Vec::new(), width: 1 });
        }
        self.found.groups[at].members.push((value, constants));
        self.found.of.insert(value, at);
    }

    /// An offset as a value that is not constant and a constant.
    fn parts(&self, offset: ValueId) -> (Option<ValueId>, i64) {
        let whole = (Some(offset), 0);
        match self.op(offset) {
            Some(Op::Literal(l)) => (None, l.to_i64()),
            Some(Op::Cast(inner)) => self.parts(*inner),
            Some(Op::Binary(BinaryOp::Add, a, b)) => match (self.parts(*a), self.parts(*b)) {
                ((base, x), (None, y)) | ((None, x), (base, y)) => (base, x + y),
                _ => whole,
            },
            Some(Op::Binary(BinaryOp::Sub, a, b)) => match (self.parts(*a), self.parts(*b)) {
                ((base, x), (None, y)) => (base, x - y),
                _ => whole,
            },
            _ => whole,
        }
    }
}
