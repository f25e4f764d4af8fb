//! Chains: each warp waits at an mbarrier of its own for what the warp before it leaves in shared memory. Nothing else of the block waits.
//!
//! A slot is written again only after the chain has been all around the block, so that its reader is done with it.

use super::context::{Data, Expanded, Expander, Rep, TileRep};
use super::elements::unrolled;
use super::index::{Index, compare};
use super::mask::Mask;
use crate::block::gcd;
use crate::block::layouts::by_lanes;
use crate::block::{SharedId, ValueId};
use crate::lower::refusal::Refusal;
use girih_ir::layout::Layout;
use girih_ir::simt::{Barrier, Expr, Place, SharedId as ArrayId, Space, Stmt, VarId};
use girih_ir::types::{BinaryOp, CompareOp, DType, Scope, ShuffleKind};

/// Index arithmetic in registers.
const LOCAL: Index = Index { dtype: DType::I32 };
const LANES: i64 = 32;

/// A chain during lowering.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    /// For each thread, what its warp takes.
    slots: ArrayId,
    /// An mbarrier for each warp: what it takes is there.
    ready: ArrayId,
    /// The number of this warp, the same in all of its lanes as the compiler sees it: addresses of mbarriers are then the warp's.
    warp: VarId,
    /// The parity of the phase that this warp waits for next.
    phase: VarId,
    layout: Layout,
    dtype: DType,
}

impl Chain {
    /// Elements of one access.
    fn width(&self) -> i64 {
        gcd(self.layout.registers, 16 / self.dtype.size() as i64)
    }

    fn signal(&self, warp: Expr) -> Place {
        Place { space: Space::Shared(self.ready), dtype: DType::U64, index: warp }
    }

    /// The accesses of a thread's slot: first register and place of each, neighbouring threads beside each other.
    fn accesses(&self, thread: &Expr, threads: i64, body: &dyn Fn(Expr, Place) -> Stmt, counter: (VarId, Expr)) -> Stmt {
        let width = self.width();
        let access = |n: Expr| {
            let slot = LOCAL.add(LOCAL.mul(n.clone(), LOCAL.lit(threads)), thread.clone());
            let place = Place { space: Space::Shared(self.slots), dtype: self.dtype, index: LOCAL.mul(slot, LOCAL.lit(width)) };
            body(LOCAL.mul(n, LOCAL.lit(width)), place)
        };
        match self.layout.registers / width {
            1 => access(LOCAL.lit(0)),
            several => unrolled(counter.0, several, vec![access(counter.1)]),
        }
    }
}

impl Expander<'_> {
    /// Makes a chain; its first warp finds its elements of a value.
    ///
    /// # Errors
    /// See [`Expander::chain_layout`].
    pub fn start_chain(&mut self, id: SharedId, value: ValueId) -> Expanded<()> {
        let declared = self.kernel.shared_array(id).clone();
        let (name, dtype) = (declared.name.unwrap_or_else(|| "chain".into()), declared.dtype);
        let layout = self.chain_layout(&declared.shape, declared.form)?;
        let (threads, thread) = (self.team.threads, self.thread32());
        let slots = self.new_shared(&name, dtype, threads * layout.registers);
        let ready = self.new_shared(&format!("{name}_ready"), DType::U64, threads / LANES);
        let phase = self.new_var(&format!("{name}_phase"), DType::I32, None);
        let warp = self.new_var("warp", DType::I32, None);
        let chain = Chain { slots, ready, warp, phase, layout, dtype };
        self.comment(format!("`{name}` goes from warp to warp, each of which waits at an mbarrier of its own; the first one begins"));
        let own = self.in_registers(&chain, value, "first")?;
        let (number, lane) = (LOCAL.div(thread.clone(), LANES), LOCAL.lit(0));
        self.emit(Stmt::Declare { var: warp, init: None });
        self.emit(Stmt::Shuffle { var: warp, value: number, kind: ShuffleKind::Index, operand: lane, width: LANES as u32 });
        let (counter, w) = self.loop_var("w");
        let init = Stmt::MbarrierInit { barrier: chain.signal(w), count: LANES as u32 };
        let each = unrolled(counter, threads / LANES, vec![init]);
        self.emit(Stmt::If { condition: compare(CompareOp::Eq, thread.clone(), LOCAL.lit(0)), then: vec![each], otherwise: vec![] });
        let begins = compare(CompareOp::Lt, thread.clone(), LOCAL.lit(LANES));
        let stored = self.stored_in_slot(&chain, own, &thread);
        self.emit(Stmt::If { condition: begins.clone(), then: vec![stored], otherwise: vec![] });
        self.emit(Stmt::Barrier(Barrier::Block));
        let arrive = Stmt::MbarrierArrive { barrier: chain.signal(LOCAL.lit(0)), expect: None };
        self.emit(Stmt::If { condition: begins, then: vec![arrive], otherwise: vec![] });
        self.emit(Stmt::Declare { var: phase, init: Some(LOCAL.lit(0)) });
        self.chains.insert(id, chain);
        Ok(())
    }

    /// The layout of a chain's values: 32 neighbours along the last axis are a warp.
    ///
    /// # Errors
    /// A GPU without mbarriers, a chain that begins again and again, or one that has not one element for each thread.
    fn chain_layout(&self, shape: &[i64], form: u32) -> Expanded<Layout> {
        if !self.kernel.launch.has_async {
            return Err(Refusal::ChainTarget);
        }
        if self.repeated {
            return Err(Refusal::ChainOnce);
        }
        let (along, threads) = (shape.last().copied().unwrap_or(1), self.team.threads);
        let layout = by_lanes(self.dealt_as(Some(form)).own.clone(), threads).filter(|_| along == threads);
        layout.ok_or(Refusal::ChainLanes { along, threads })
    }

    fn known_chain(&self, id: SharedId) -> Chain {
        self.chains.get(&id).unwrap_or_else(|| panic!("chain: {id:?} has not begun")).clone()
    }

    /// Waits for what the warp before this one leaves.
    pub fn take_chain(&mut self, id: SharedId, result: ValueId) {
        let chain = self.known_chain(id);
        let thread = self.thread32();
        self.emit(Stmt::MbarrierWait { barrier: chain.signal(Expr::Var(chain.warp)), parity: Expr::Var(chain.phase), scope: Scope::Block });
        let other = super::index::binary(BinaryOp::Xor, Expr::Var(chain.phase), LOCAL.lit(1));
        self.emit(Stmt::Assign { var: chain.phase, index: None, value: other });
        let (registers, name) = (chain.layout.registers, self.name_of(result, "taken"));
        let data = if registers == 1 {
            let place = Place { space: Space::Shared(chain.slots), dtype: chain.dtype, index: thread };
            let e =
                self.load_register(Some(chain.dtype), Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() });
            Data::One(self.declare_let(&name, chain.dtype.compute(), e))
        } else {
            let var = self.new_var(&name, chain.dtype, Some(registers as u32));
            self.emit(Stmt::Declare { var, init: None });
            let counter = self.loop_var("n");
            let lanes = chain.width() as u32;
            let read = |at: Expr, place: Place| match lanes {
                1 => {
                    let value = Expr::Load { place: Box::new(place), predicate: None, cache: Default::default() };
                    Stmt::Assign { var, index: Some(at), value }
                }
                _ => Stmt::LoadVector { var, at, place, lanes, predicate: None, cache: Default::default() },
            };
            let reads = chain.accesses(&thread, self.team.threads, &read, counter);
            self.emit(reads);
            Data::Array(var)
        };
        self.set(result, Rep::Tile(TileRep { elsewhere: vec![], layout: Some(chain.layout), mask: Mask::default(), data }));
    }

    /// Leaves a value for the next warp.
    pub fn leave_chain(&mut self, id: SharedId, value: ValueId) -> Expanded<()> {
        let chain = self.known_chain(id);
        let own = self.in_registers(&chain, value, "left")?;
        let next = LOCAL.rem(LOCAL.add(self.thread32(), LOCAL.lit(LANES)), self.team.threads);
        let next = self.declare_let("next_thread", DType::I32, next);
        let stored = self.stored_in_slot(&chain, own, &next);
        self.emit(stored);
        let next = LOCAL.rem(LOCAL.add(Expr::Var(chain.warp), LOCAL.lit(1)), self.team.threads / LANES);
        self.emit(Stmt::MbarrierArrive { barrier: chain.signal(next), expect: None });
        Ok(())
    }

    /// A value's elements in the chain's layout: an array of registers.
    fn in_registers(&mut self, chain: &Chain, value: ValueId, name: &str) -> Expanded<VarId> {
        let var = self.new_var(
            &format!("{}_{name}", self.shared[chain.slots.0 as usize].name.clone()),
            chain.dtype,
            Some(chain.layout.registers as u32),
        );
        self.emit(Stmt::Declare { var, init: None });
        let layout = chain.layout.clone();
        let dtype = chain.dtype;
        self.for_elements(&[value], &layout, false, &mut |cx, at, mut elements| {
            let value = cx.to_storage(dtype, elements.remove(0));
            cx.emit(Stmt::Assign { var, index: Some(at.flat.clone()), value });
            Ok(())
        })?;
        Ok(var)
    }

    fn stored_in_slot(&mut self, chain: &Chain, var: VarId, thread: &Expr) -> Stmt {
        let lanes = chain.width() as u32;
        let store = |at: Expr, place: Place| match lanes {
            1 => Stmt::Store { place, value: Expr::Element(var, Box::new(at)), predicate: None, cache: Default::default() },
            _ => Stmt::StoreVector { place, var, at, lanes, predicate: None, cache: Default::default() },
        };
        let counter = self.loop_var("n");
        chain.accesses(thread, self.team.threads, &store, counter)
    }
}
