//! Statements: what they set is declared and of the right type, and barriers stand where all threads come by.

use super::{Check, State, Verifier};
use crate::fragments::GroupAtom;
use crate::simt::{Barrier, Expr, ParamKind, Place, Space, Stmt, TensorMap, VarId, print};
use crate::types::{AtomicOp, BinaryOp, DType, Scope};

impl Verifier<'_> {
    pub(super) fn stmt(&mut self, stmt: &Stmt, declared: &mut Vec<usize>) -> Check {
        let k = self.kernel;
        self.statement = print::statement(k, stmt);
        match stmt {
            Stmt::Let { var, value } => {
                let dtype = if let Expr::Special(_) = value { self.kernel.dtype(value) } else { self.expr(value)? };
                self.declare(*var, State::Fixed, declared)?;
                self.require(k.var(*var).len.is_none(), || "a Let variable is a scalar".to_string())?;
                self.same(dtype, k.var(*var).dtype)
            }
            Stmt::Declare { var, init } => {
                let dtype = init.as_ref().map(|x| self.expr(x)).transpose()?;
                self.declare(*var, State::Mutable, declared)?;
                dtype.map_or(Ok(()), |d| self.same(d, k.var(*var).dtype))
            }
            Stmt::Assign { var, index, value } => {
                let dtype = self.expr(value)?;
                self.target(*var)?;
                self.require(index.is_some() == k.var(*var).len.is_some(), || "arrays are assigned by element, scalars whole".to_string())?;
                if let Some(i) = index {
                    self.element(*var, i, 1)?;
                }
                self.same(dtype, k.var(*var).dtype)
            }
            Stmt::LoadVector { var, at, place, lanes, predicate, .. } => {
                self.target(*var)?;
                self.vector(*var, at, place, *lanes, predicate)?;
                self.place(place, false)
            }
            Stmt::StoreVector { place, var, at, lanes, predicate, .. } => {
                self.vector(*var, at, place, *lanes, predicate)?;
                self.place(place, true)
            }
            Stmt::Store { place, value, predicate, .. } => {
                self.place(place, true)?;
                self.predicate(predicate)?;
                let dtype = self.expr(value)?;
                self.same(dtype, place.dtype)
            }
            Stmt::Atomic { result, op, place, value, expected, predicate, .. } => {
                self.place(place, true)?;
                self.predicate(predicate)?;
                let swap = *op == AtomicOp::CompareSwap;
                self.require(expected.is_some() == swap, || "compare-and-swap, and nothing else, has an expected value".to_string())?;
                for x in [Some(value), expected.as_ref()].into_iter().flatten() {
                    let dtype = self.expr(x)?;
                    self.same(dtype, place.dtype)?;
                }
                if let Some(r) = result {
                    self.scalar_target(*r, place.dtype)?;
                }
                let bits = matches!(op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor);
                self.require(!(bits && place.dtype.is_float()), || format!("{op:?} is not defined on {}", place.dtype))
            }
            Stmt::StoreRelaxed { place, value, predicate } => {
                self.word(place)?;
                self.predicate(predicate)?;
                let dtype = self.expr(value)?;
                self.same(dtype, place.dtype)
            }
            Stmt::LoadRelaxed { var, place, wait, predicate } => {
                self.word(place)?;
                self.predicate(predicate)?;
                self.require(!wait || predicate.is_none(), || "a wait for a word has no predicate".to_string())?;
                self.scalar_target(*var, place.dtype)
            }
            Stmt::LoadFromBlock { var, place, block } => self.load_from_block(*var, place, block),
            Stmt::If { condition, then, otherwise } => {
                self.boolean(condition)?;
                let divergent = self.varies(condition) as u32;
                self.divergent += divergent;
                self.block(then)?;
                self.block(otherwise)?;
                self.divergent -= divergent;
                Ok(())
            }
            Stmt::For { var, start, end, step, unroll, body } => self.for_loop(*var, [start, end, step], *unroll, body),
            Stmt::While { header, condition, body } => self.while_loop(header, condition, body),
            Stmt::Barrier(b) => self.barrier(*b),
            Stmt::Fence { .. } | Stmt::ProxyFence | Stmt::AsyncCommit | Stmt::AsyncWait { .. } | Stmt::Comment(_) => Ok(()),
            Stmt::AsyncCopy { shared, global, bytes, predicate } => {
                self.require(matches!(bytes, 4 | 8 | 16), || format!("an async copy moves 4, 8 or 16 bytes, not {bytes}"))?;
                self.predicate(predicate)?;
                self.copy(shared, global)
            }
            Stmt::MbarrierInit { barrier, count } => {
                self.require(*count > 0, || "an mbarrier counts at least one arrival".to_string())?;
                self.mbarrier(barrier)
            }
            Stmt::AsyncArrive { barrier } => self.mbarrier(barrier),
            Stmt::MbarrierArrive { barrier, expect } => {
                self.mbarrier(barrier)?;
                expect.as_ref().map_or(Ok(()), |x| self.index(x))
            }
            Stmt::MbarrierArriveAt { barrier, block } => {
                self.in_cluster("arrives at another one's mbarrier")?;
                self.mbarrier(barrier)?;
                let dtype = self.expr(block)?;
                self.same(dtype, DType::I32)
            }
            Stmt::MbarrierWait { barrier, parity, scope } => {
                let legal = matches!(scope, Scope::Block | Scope::Cluster);
                self.require(legal, || format!("a wait for arrivals of the block or of the cluster, not of scope {scope:?}"))?;
                self.mbarrier(barrier)?;
                self.index(parity)
            }
            Stmt::BulkCopy { shared, global, bytes, barrier } => {
                self.copy(shared, global)?;
                self.index(bytes)?;
                self.mbarrier(barrier)
            }
            Stmt::TensorCopy { shared, map, at, barrier, to_all } => {
                if *to_all {
                    self.in_cluster("copies to another one's shared memory")?;
                }
                self.tensor_copy(shared, *map, at, barrier)
            }
            Stmt::Mma { atom, d, a, b, c } => self.mma(atom, [d, a, b, c]),
            Stmt::LoadMatrix { load, var, at, place } => self.load_matrix(*load, *var, at, place),
            Stmt::Wgmma { atom, d, a, b, accumulate } => {
                self.boolean(accumulate)?;
                self.wgmma(atom, d, a, b)
            }
            Stmt::WgmmaFence | Stmt::WgmmaCommit => self.whole_groups(),
            Stmt::SetRegisters { count, .. } => {
                let legal = count.is_multiple_of(8) && (24..=256).contains(count);
                self.require(legal, || format!("a thread has a multiple of 8 registers from 24 to 256, not {count}"))?;
                let groups = self.kernel.launch.roles.iter().all(|role| (32 * role.warps).is_multiple_of(GroupAtom::THREADS));
                self.require(groups, || "registers are those of whole warp groups".into())
            }
            Stmt::WgmmaWait { sums, .. } => {
                self.whole_groups()?;
                sums.iter().try_for_each(|var| self.target(*var))
            }
            Stmt::Vote { var, kind, value } => {
                let dtype = self.expr(value)?;
                self.require(kind.takes(dtype), || format!("lanes do not vote on {dtype} by {kind:?}"))?;
                self.scalar_target(*var, kind.gives())
            }
            Stmt::WarpReduce { var, op, value } => {
                use BinaryOp::{Add, And, Max, Min, Or, Xor};
                let dtype = self.expr(value)?;
                let known = matches!(op, Add | Min | Max | And | Or | Xor) && matches!(dtype, DType::I32 | DType::U32);
                self.require(known, || format!("no instruction combines the lanes' {dtype} by {op:?}"))?;
                self.scalar_target(*var, dtype)
            }
            Stmt::Shuffle { var, value, operand, width, .. } => {
                let dtype = self.expr(value)?;
                self.require(dtype.size() == 4, || format!("a shuffle moves 32-bit values, not {dtype}"))?;
                self.require(width.is_power_of_two() && *width <= 32, || {
                    format!("a shuffle's width is a power of two up to 32, not {width}")
                })?;
                self.index(operand)?;
                self.scalar_target(*var, dtype)
            }
        }
    }

    fn for_loop(&mut self, var: VarId, [start, end, step]: [&Expr; 3], unroll: bool, body: &[Stmt]) -> Check {
        let literal = |e: &Expr| matches!(e, Expr::Literal(_));
        self.require(!unroll || [start, end, step].into_iter().all(literal), || "an unrolled loop has literal bounds".to_string())?;
        if let Expr::Literal(l) = step {
            self.require(l.to_i64() > 0, || "a loop's step is positive".to_string())?;
        }
        let mut divergent = false;
        for e in [start, end, step] {
            let dtype = self.expr(e)?;
            self.same(dtype, self.var(var)?.dtype)?;
            divergent |= self.varies(e);
        }
        self.require(self.var(var)?.dtype.is_int(), || "a loop counts integers".to_string())?;
        let mut declared = Vec::new();
        self.declare(var, State::Fixed, &mut declared)?;
        self.divergent += divergent as u32;
        self.block(body)?;
        self.divergent -= divergent as u32;
        self.state[var.0 as usize] = State::OutOfScope;
        Ok(())
    }

    fn while_loop(&mut self, header: &[Stmt], condition: &Expr, body: &[Stmt]) -> Check {
        let divergent = self.varies(condition) as u32;
        self.divergent += divergent;
        // The header's variables are visible in the condition and the body.
        let mut declared = Vec::new();
        for s in header {
            self.stmt(s, &mut declared)?;
        }
        self.statement = format!("while {}", print::expr(self.kernel, condition));
        self.boolean(condition)?;
        self.block(body)?;
        self.divergent -= divergent;
        for v in declared {
            self.state[v] = State::OutOfScope;
        }
        Ok(())
    }

    pub(super) fn barrier(&self, barrier: Barrier) -> Check {
        let launch = &self.kernel.launch;
        match barrier {
            Barrier::Block => self.uniform("block"),
            Barrier::Warp => Ok(()),
            Barrier::Named { id, threads } => {
                self.require((1..=15).contains(&id), || format!("named barriers are 1 to 15, not {id}"))?;
                let whole = threads > 0 && threads % 32 == 0 && threads <= launch.block;
                self.require(whole, || format!("{threads} threads at a named barrier are not whole warps of the block"))
            }
            Barrier::Slice { threads } => {
                let whole = threads >= 64 && threads % 32 == 0 && launch.block.is_multiple_of(threads) && launch.block / threads <= 15;
                self.require(whole, || format!("slices of {threads} threads do not divide a block of {}", launch.block))
            }
            Barrier::AwaitTurn { first, groups } | Barrier::PassTurn { first, groups } => {
                let named = first >= 1 && first + groups <= 16;
                self.require(named, || format!("{groups} groups take turns at named barriers from {first}, which end at 15"))?;
                let there = groups >= 2 && groups * GroupAtom::THREADS <= launch.block;
                self.require(there, || format!("{groups} warp groups take turns in a block of {} threads", launch.block))
            }
            Barrier::Cluster => self.uniform("cluster"),
            Barrier::Grid { counter } => {
                self.require(launch.cooperative, || "a grid barrier needs a cooperative launch".to_string())?;
                let counts =
                    matches!(self.kernel.params.get(counter).map(|p| &p.kind), Some(ParamKind::Workspace { dtype: DType::U32, .. }));
                self.require(counts, || format!("parameter {counter} is no workspace of u32, at which blocks could meet"))?;
                self.uniform("grid")
            }
        }
    }

    fn vector(&self, var: VarId, at: &Expr, place: &Place, lanes: u32, predicate: &Option<Expr>) -> Check {
        let bytes = lanes as usize * place.dtype.size();
        self.require(matches!(lanes, 2 | 4 | 8 | 16) && bytes <= 32, || format!("{lanes} lanes of {} are no vector", place.dtype))?;
        self.predicate(predicate)?;
        self.element(var, at, lanes)?;
        self.same(self.var(var)?.dtype, place.dtype)
    }

    /// A word that blocks leave each other; who waits for one leaves something there, too.
    fn word(&self, place: &Place) -> Check {
        let legal = matches!(place.space, Space::Global(_)) && place.dtype == DType::U64;
        self.require(legal, || "a word between blocks is a u64 in global memory".to_string())?;
        self.place(place, true)
    }

    /// What is done across blocks needs a cluster.
    fn in_cluster(&self, does: &str) -> Check {
        self.require(self.kernel.launch.cluster > 1, || format!("a block {does} without a cluster"))
    }

    /// What another block of the cluster has in its shared memory.
    fn load_from_block(&self, var: VarId, place: &Place, block: &Expr) -> Check {
        self.in_cluster("reads another one's shared memory")?;
        let legal = matches!(place.space, Space::Shared(_)) && place.dtype.size() == 4;
        self.require(legal, || format!("blocks read elements of 32 bits of one another's shared arrays, not {}", place.dtype))?;
        self.place(place, false)?;
        let dtype = self.expr(block)?;
        self.same(dtype, DType::I32)?;
        self.scalar_target(var, place.dtype)
    }

    fn copy(&self, shared: &Place, global: &Place) -> Check {
        let spaces = matches!((shared.space, global.space), (Space::Shared(_), Space::Global(_)));
        self.require(spaces, || "an asynchronous copy goes from global to shared memory".to_string())?;
        self.place(shared, true)?;
        self.place(global, false)
    }

    fn tensor_copy(&self, shared: &Place, map: usize, at: &[Expr], barrier: &Place) -> Check {
        let Some(ParamKind::TensorMap { map }) = self.kernel.params.get(map).map(|p| &p.kind) else {
            return self.fail("a tensor copy reads through a tensor map");
        };
        let axes = map.lens.len();
        let alike =
            at.len() == axes && map.box_lens.len() == axes && map.strides.len() + 1 == axes && (1..=TensorMap::AXES).contains(&axes);
        self.require(alike, || format!("a box of {} axes of a map of {axes}, at {} coordinates", map.box_lens.len(), at.len()))?;
        let small = map.box_lens.iter().all(|n| (1..=256).contains(n));
        self.require(small, || format!("a box has 1 to 256 elements along each axis, not {:?}", map.box_lens))?;
        self.require(!map.rounds || map.dtype == DType::F32, || format!("a map rounds f32 to tf32, not {}", map.dtype))?;
        let row = map.box_lens[0] * map.dtype.size() as u32;
        self.require(row.is_multiple_of(16) && (map.swizzle_bytes == 0 || row <= map.swizzle_bytes), || {
            format!("rows of a box of {row} bytes under a swizzle of {} bytes", map.swizzle_bytes)
        })?;
        self.require(matches!(shared.space, Space::Shared(_)), || "a tensor copy goes to shared memory".to_string())?;
        self.same(shared.dtype, map.dtype)?;
        self.place(shared, true)?;
        at.iter().try_for_each(|e| self.index(e))?;
        self.mbarrier(barrier)
    }

    fn mbarrier(&self, barrier: &Place) -> Check {
        let legal = matches!(barrier.space, Space::Shared(_)) && barrier.dtype == DType::U64;
        self.require(legal, || "an mbarrier is a u64 in shared memory".to_string())?;
        self.place(barrier, true)
    }
}
