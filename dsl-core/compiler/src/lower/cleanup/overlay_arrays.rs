//! Lays shared arrays that are never needed at the same time on the same bytes, where more blocks then find room on a multiprocessor, or a
//! block finds room at all.
//!
//! Before: `loop { a_smem .. } loop { c_smem .. }`, each array in bytes of its own
//! After:  `loop { a_smem .. } barrier; loop { c_smem .. }`, both from the same byte on
//!
//! The statements of a block fall into phases, each of them or its neighbour with a loop in which threads meet: no array is used in two. An array that the compiler made holds nothing from one turn
//! of the block that has all its accesses to the next, as its first turn finds nothing there. The author's arrays keep what they hold and
//! stay where they are. Between two phases all threads meet, and copies of the phase before have landed.
//! Runs behind `remove_barriers`, which knows arrays by their names.

mod meetings;

use girih_ir::simt::visit::{blocks, each_place, inner_blocks};
use girih_ir::simt::{Barrier, Kernel, SharedArray, SharedId, Space, Stmt, VarId, shared_offsets};
use std::collections::{BTreeMap, BTreeSet};

/// Consecutive statements of a block, and the arrays that they alone use.
#[derive(Clone, PartialEq, Debug)]
struct Phase {
    first: usize,
    last: usize,
    arrays: BTreeSet<SharedId>,
}

/// Where phases were found: the way to a block of statements (a statement and which of its blocks, from the outermost on).
struct Found {
    way: Vec<(usize, usize)>,
    repeated: bool,
    phases: Vec<Phase>,
    placed: Vec<u32>,
    bytes: u32,
}

/// Registers that a thread has beside its arrays: what it counts and where it reads.
const ADDRESSES: u32 = 24;

/// Accesses by array.
type Uses = BTreeMap<SharedId, usize>;

/// What a multiprocessor has room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub registers: u32,
    pub threads: u32,
    pub blocks: u32,
    /// Bytes of shared memory.
    pub shared: u32,
    /// Those of one block, at most.
    pub shared_per_block: u32,
    /// Those that each block takes beside its own.
    pub reserved: u32,
}

impl Room {
    /// Blocks of so many bytes for which there is shared memory.
    fn blocks_of(self, bytes: u32) -> u32 {
        if bytes > self.shared_per_block { 0 } else { self.shared / (bytes + self.reserved).max(1) }
    }
}

/// Lays arrays over one another. `kept` are the author's.
pub(crate) fn overlay_arrays(kernel: &mut Kernel, kept: &BTreeSet<SharedId>, room: Room) {
    if kernel.shared.len() < 2 || kernel.shared.iter().any(|a| a.at.is_some()) || !kernel.launch.roles.is_empty() {
        return;
    }
    let (plain, block) = (kernel.shared_bytes(), kernel.launch.block);
    let by_registers = room.registers / (block.next_multiple_of(32) * least_registers(kernel, &kernel.body));
    let others = by_registers.min(room.threads / block).min(room.blocks);
    if plain <= room.shared_per_block && room.blocks_of(plain) >= others || !meets_as_a_block(&kernel.body) {
        return;
    }
    let mut body = std::mem::take(&mut kernel.body);
    let total = uses(&mut body);
    let mut search = Search { shared: &kernel.shared, kept, total, way: Vec::new(), best: None };
    search.block(&mut body, false);
    if let Some(found) = search.best.filter(|found| room.blocks_of(found.bytes) > room.blocks_of(plain)) {
        for (array, at) in kernel.shared.iter_mut().zip(&found.placed) {
            array.at = Some(*at);
        }
        meetings::meet_between(&mut body, &found);
    }
    kernel.body = body;
}

/// Registers that a thread takes at least: those of its arrays that are there at the same time, and some for the rest.
fn least_registers(kernel: &Kernel, body: &[Stmt]) -> u32 {
    fn arrays(kernel: &Kernel, body: &[Stmt]) -> usize {
        let words = |var: VarId| kernel.var(var).len.map_or(0, |len| (len as usize * kernel.var(var).dtype.size()).div_ceil(4));
        let own = body.iter().map(|stmt| if let Stmt::Declare { var, .. } = stmt { words(*var) } else { 0 });
        let inner = body.iter().flat_map(inner_blocks).map(|block| arrays(kernel, block)).max();
        own.sum::<usize>() + inner.unwrap_or(0)
    }
    (arrays(kernel, body) as u32 + ADDRESSES).next_multiple_of(8).min(255)
}

/// Whether nothing but barriers of the block and of warps, and copies that threads wait for, orders accesses to shared memory.
fn meets_as_a_block(body: &[Stmt]) -> bool {
    body.iter().all(|stmt| {
        let own = match stmt {
            Stmt::Barrier(barrier) => matches!(barrier, Barrier::Block | Barrier::Warp),
            Stmt::MbarrierInit { .. }
            | Stmt::MbarrierArrive { .. }
            | Stmt::MbarrierArriveAt { .. }
            | Stmt::MbarrierWait { .. }
            | Stmt::AsyncArrive { .. } => false,
            Stmt::BulkCopy { .. } | Stmt::TensorCopy { .. } | Stmt::ProxyFence | Stmt::SetRegisters { .. } => false,
            Stmt::Wgmma { .. } | Stmt::WgmmaFence | Stmt::WgmmaCommit | Stmt::WgmmaWait { .. } | Stmt::LoadFromBlock { .. } => false,
            Stmt::Let { .. } | Stmt::Declare { .. } | Stmt::Assign { .. } | Stmt::If { .. } | Stmt::For { .. } | Stmt::While { .. } => true,
            Stmt::LoadVector { .. } | Stmt::StoreVector { .. } | Stmt::Store { .. } | Stmt::Atomic { .. } | Stmt::Fence { .. } => true,
            Stmt::StoreRelaxed { .. } | Stmt::LoadRelaxed { .. } | Stmt::LoadMatrix { .. } | Stmt::Mma { .. } | Stmt::Comment(_) => true,
            Stmt::AsyncCopy { .. } | Stmt::AsyncCommit | Stmt::AsyncWait { .. } => true,
            Stmt::Shuffle { .. } | Stmt::Vote { .. } | Stmt::WarpReduce { .. } => true,
        };
        own && inner_blocks(stmt).into_iter().all(meets_as_a_block)
    })
}

fn has(stmts: &[Stmt], is: &dyn Fn(&Stmt) -> bool) -> bool {
    stmts.iter().any(|s| is(s) || inner_blocks(s).into_iter().any(|b| has(b, is)))
}

fn has_barrier(stmts: &[Stmt]) -> bool {
    has(stmts, &|s| matches!(s, Stmt::Barrier(Barrier::Block)))
}

fn uses(stmts: &mut [Stmt]) -> Uses {
    let mut found = Uses::new();
    each_place(stmts, &mut |place| {
        if let Space::Shared(id) = place.space {
            *found.entry(id).or_default() += 1;
        }
    });
    found
}

/// Whether a phase has a loop in whose turns threads meet: one meeting more beside it costs nothing.
fn is_long(phase: &Phase, stmts: &[Stmt]) -> bool {
    stmts[phase.first..=phase.last]
        .iter()
        .any(|s| matches!(s, Stmt::For { .. } | Stmt::While { .. }) && has_barrier(std::slice::from_ref(s)))
}

/// The phases, those put together that no loop stands in between.
fn joined(phases: Vec<Phase>, stmts: &[Stmt]) -> Vec<Phase> {
    let mut joined: Vec<Phase> = Vec::new();
    for phase in phases {
        match joined.last_mut() {
            Some(before) if !is_long(before, stmts) && !is_long(&phase, stmts) => {
                before.last = phase.last;
                before.arrays.extend(phase.arrays);
            }
            _ => joined.push(phase),
        }
    }
    joined
}

struct Search<'k> {
    shared: &'k [SharedArray],
    kept: &'k BTreeSet<SharedId>,
    /// Accesses in the whole kernel.
    total: Uses,
    way: Vec<(usize, usize)>,
    best: Option<Found>,
}

impl Search<'_> {
    /// Looks for phases in a block of statements and in those inside of it.
    fn block(&mut self, stmts: &mut [Stmt], repeated: bool) {
        if !has_barrier(stmts) {
            return;
        }
        let phases = joined(self.phases(stmts), stmts);
        let ends_meet = !repeated || [phases.first(), phases.last()].into_iter().flatten().any(|p| is_long(p, stmts));
        if phases.len() > 1 && ends_meet && phases.iter().all(|p| has_barrier(&stmts[p.first..=p.last])) {
            let (placed, bytes) = self.place(&phases);
            if self.best.as_ref().is_none_or(|best| bytes < best.bytes) {
                self.best = Some(Found { way: self.way.clone(), repeated, phases, placed, bytes });
            }
        }
        for (i, stmt) in stmts.iter_mut().enumerate() {
            let turns = repeated || matches!(stmt, Stmt::For { .. } | Stmt::While { .. });
            for (k, inner) in blocks(stmt).into_iter().enumerate() {
                self.way.push((i, k));
                self.block(inner, turns);
                self.way.pop();
            }
        }
    }

    /// The phases of a block of statements: spans of arrays that have all their accesses here, joined where they meet.
    fn phases(&self, stmts: &mut [Stmt]) -> Vec<Phase> {
        let (mut spans, mut counted): (BTreeMap<SharedId, (usize, usize)>, Uses) = Default::default();
        for i in 0..stmts.len() {
            for (id, n) in uses(&mut stmts[i..=i]) {
                spans.entry(id).or_insert((i, i)).1 = i;
                *counted.entry(id).or_default() += n;
            }
        }
        spans.retain(|id, _| !self.kept.contains(id) && counted[id] == self.total[id]);
        let mut sorted: Vec<(usize, usize, SharedId)> = spans.into_iter().map(|(id, (first, last))| (first, last, id)).collect();
        sorted.sort();
        let mut phases: Vec<Phase> = Vec::new();
        for (first, last, id) in sorted {
            match phases.last_mut() {
                Some(phase) if first <= phase.last => {
                    phase.last = phase.last.max(last);
                    phase.arrays.insert(id);
                }
                _ => phases.push(Phase { first, last, arrays: BTreeSet::from([id]) }),
            }
        }
        phases
    }

    /// The byte at which each array begins, and bytes in all: what is needed throughout, and behind it each phase from the same byte on.
    fn place(&self, phases: &[Phase]) -> (Vec<u32>, u32) {
        let ids = |of: &dyn Fn(SharedId) -> bool| (0..self.shared.len()).filter(|i| of(SharedId(*i as u32))).collect::<Vec<usize>>();
        let lay = |which: &[usize]| shared_offsets(&which.iter().map(|i| self.shared[*i].clone()).collect::<Vec<_>>());
        let mut placed = vec![0; self.shared.len()];
        let throughout = ids(&|id| phases.iter().all(|p| !p.arrays.contains(&id)));
        let (offsets, end) = lay(&throughout);
        throughout.iter().zip(offsets).for_each(|(i, at)| placed[*i] = at);
        let of_phases = ids(&|id| phases.iter().any(|p| p.arrays.contains(&id)));
        let align = of_phases.iter().map(|i| self.shared[*i].align).max().unwrap_or(1);
        let start = end.next_multiple_of(align.max(1));
        let mut bytes = end;
        for phase in phases {
            let own = ids(&|id| phase.arrays.contains(&id));
            let (offsets, end) = lay(&own);
            own.iter().zip(offsets).for_each(|(i, at)| placed[*i] = start + at);
            bytes = bytes.max(start + end);
        }
        (placed, bytes)
    }
}
