//! Statements as CUDA C: one function per kind.

use super::access::unwrapped;
use super::expr::special;
use super::helpers::Helper;
use super::literal::c_type;
use super::writer::Writer;
use girih_ir::simt::{Barrier, Expr, Place, ShuffleKind, Special, Stmt, VarId, VoteKind};
use girih_ir::types::{BinaryOp, DType, Scope};

/// Arrays up to this length list their initial values.
const LISTED: u32 = 8;

impl Writer<'_> {
    /// Writes statements in order.
    pub fn body(&mut self, body: &[Stmt]) {
        for (i, stmt) in body.iter().enumerate() {
            if !self.declared_by_next(stmt, body.get(i + 1)) {
                self.stmt(stmt);
            }
        }
    }

    pub fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Let { var, value } => self.let_(*var, value),
            Stmt::Declare { var, init } => self.declaration(*var, init.as_ref()),
            Stmt::Assign { var, index, value } => self.assign(*var, index.as_ref(), value),
            Stmt::LoadVector { var, at, place, lanes, predicate, cache } => {
                self.load_vector(*var, at, place, *lanes, predicate.as_ref(), *cache);
            }
            Stmt::StoreVector { place, var, at, lanes, predicate, cache } => {
                self.store_vector(place, *var, at, *lanes, predicate.as_ref(), *cache);
            }
            Stmt::Store { place, value, predicate, cache } => self.store(place, value, predicate.as_ref(), *cache),
            Stmt::Atomic { .. } => self.atomic(stmt),
            Stmt::StoreRelaxed { place, value, predicate } => self.store_relaxed(place, value, predicate.as_ref()),
            Stmt::LoadRelaxed { var, place, wait, predicate } => self.load_relaxed(*var, place, *wait, predicate.as_ref()),
            Stmt::If { condition, then, otherwise } => self.if_(condition, then, otherwise),
            Stmt::For { var, start, end, step, unroll, body } => {
                self.for_(*var, [start, end, step], *unroll, body);
            }
            Stmt::While { header, condition, body } => self.while_(header, condition, body),
            Stmt::Barrier(b) => self.barrier(*b),
            Stmt::Fence { scope, .. } => self.line(fence(*scope)),
            Stmt::AsyncCopy { shared, global, bytes, predicate } => self.async_copy(shared, global, *bytes, predicate.as_ref()),
            Stmt::AsyncCommit => self.helper_line(Helper::CopyAsync, "copy_async_commit();"),
            Stmt::AsyncWait { pending } => {
                self.uses(Helper::CopyAsync);
                self.line(format!("copy_async_wait<{pending}>();"));
            }
            Stmt::MbarrierInit { barrier, count } => {
                let barrier = self.mbarrier(barrier);
                self.line(format!("mbarrier_init({barrier}, {count});"));
            }
            Stmt::AsyncArrive { barrier } => {
                let barrier = self.mbarrier(barrier);
                self.uses(Helper::AsyncArrive);
                self.line(format!("copy_async_arrive({barrier});"));
            }
            Stmt::MbarrierArrive { barrier, expect } => {
                let barrier = self.mbarrier(barrier);
                match expect {
                    None => self.line(format!("mbarrier_arrive({barrier});")),
                    Some(bytes) => {
                        self.uses(Helper::MbarrierExpect);
                        let bytes = self.index(bytes);
                        self.line(format!("mbarrier_arrive_expect({barrier}, {bytes});"));
                    }
                }
            }
            Stmt::MbarrierArriveAt { barrier, block } => {
                self.uses(Helper::MbarrierCluster);
                let (barrier, block) = (self.mbarrier(barrier), self.index(block));
                self.line(format!("mbarrier_arrive_at({barrier}, {block});"));
            }
            Stmt::MbarrierWait { barrier, parity, scope } => {
                let barrier = self.mbarrier(barrier);
                let parity = self.index(parity);
                if *scope == Scope::Block {
                    self.line(format!("mbarrier_wait({barrier}, {parity});"));
                } else {
                    self.uses(Helper::MbarrierCluster);
                    self.line(format!("mbarrier_wait_cluster({barrier}, {parity});"));
                }
            }
            Stmt::BulkCopy { shared, global, bytes, barrier } => {
                self.uses(Helper::BulkCopy);
                let (to, from) = (self.pointer(shared, false), self.pointer(global, true));
                let (bytes, barrier) = (self.index(bytes), self.mbarrier(barrier));
                self.line(format!("copy_bulk({to}, {from}, {bytes}, {barrier});"));
            }
            Stmt::TensorCopy { shared, map, at, barrier, to_all } => self.tensor_copy(shared, *map, at, barrier, *to_all),
            Stmt::LoadFromBlock { var, place, block } => {
                self.uses(Helper::LoadFromBlock);
                let (from, block) = (self.in_array(place), self.index(block));
                self.receive(*var, format!("load_from_block({from}, {block})"));
            }
            Stmt::Shuffle { var, value, kind, operand, width } => self.shuffle(*var, value, *kind, operand, *width),
            Stmt::Vote { var, kind, value } => self.vote(*var, *kind, value),
            Stmt::WarpReduce { var, op, value } => self.warp_reduce(*var, *op, value),
            Stmt::Mma { atom, d, a, b, c } => self.mma(*atom, [d, a, b, c]),
            Stmt::LoadMatrix { load, var, at, place } => self.load_matrix(*load, *var, at, place),
            Stmt::Wgmma { atom, d, a, b, accumulate } => self.wgmma(*atom, d, (a, b), accumulate),
            Stmt::WgmmaFence => self.helper_line(Helper::WgmmaGroups, "wgmma_fence();"),
            Stmt::WgmmaCommit => self.helper_line(Helper::WgmmaGroups, "wgmma_commit();"),
            Stmt::SetRegisters { count, more } => {
                self.uses(Helper::SetRegisters);
                self.line(format!("{}_registers<{count}>();", if *more { "more" } else { "fewer" }));
            }
            Stmt::WgmmaWait { pending, sums } => self.wgmma_wait(*pending, sums),
            Stmt::ProxyFence => self.helper_line(Helper::ProxyFence, "fence_async_proxy();"),
            Stmt::Comment(text) => {
                self.gap();
                for line in text.lines() {
                    self.line(format!("// {line}"));
                }
            }
        }
    }

    /// A line that calls a helper.
    fn helper_line(&mut self, helper: Helper, line: &str) {
        self.uses(helper);
        self.line(line);
    }

    fn let_(&mut self, var: VarId, value: &Expr) {
        let value = match value {
            Expr::Special(Special::Elected) => {
                self.uses(Helper::Elect);
                "elect()".to_string()
            }
            Expr::Special(s) => special(*s).trim_matches(['(', ')']).to_string(),
            Expr::Load { predicate: Some(_), .. } => unwrapped(self.expr(value)),
            _ => self.value(value),
        };
        let dtype = self.kernel.var(var).dtype;
        let name = self.declare(var);
        self.line(format!("const {} {name} = {value};", c_type(dtype)));
    }

    /// A value that is converted to its variable's type anyway.
    pub fn value(&mut self, value: &Expr) -> String {
        match value {
            Expr::Literal(_) => self.index(value),
            _ => self.expr(self.unwidened(value)),
        }
    }

    fn declaration(&mut self, var: VarId, init: Option<&Expr>) {
        let (dtype, len) = (self.kernel.var(var).dtype, self.kernel.var(var).len);
        let value = init.map(|e| self.value(e));
        let is_zero = matches!(init, Some(Expr::Literal(l)) if l.bits == 0);
        let align = match self.var_align[var.0 as usize] {
            a if a > dtype.size() as u32 => format!("__align__({a}) "),
            _ => String::new(),
        };
        let name = self.declare(var);
        let ty = c_type(dtype);
        match (len, value) {
            (None, None) => self.line(format!("{ty} {name};")),
            (None, Some(value)) => self.line(format!("{ty} {name} = {value};")),
            (Some(len), None) => self.line(format!("{align}{ty} {name}[{len}];")),
            (Some(len), Some(_)) if is_zero => self.line(format!("{align}{ty} {name}[{len}] = {{}};")),
            (Some(len), Some(value)) if len <= LISTED && matches!(init, Some(Expr::Literal(_) | Expr::Var(_) | Expr::Param(_))) => {
                let values = vec![value; len as usize].join(", ");
                self.line(format!("{align}{ty} {name}[{len}] = {{{values}}};"));
            }
            (Some(len), Some(value)) => {
                self.line(format!("{align}{ty} {name}[{len}];"));
                self.line("#pragma unroll");
                self.namer.open();
                let i = self.namer.name("i");
                self.line(format!("for (int {i} = 0; {i} < {len}; ++{i}) {name}[{i}] = {value};"));
                self.namer.close();
            }
        }
    }

    fn assign(&mut self, var: VarId, index: Option<&Expr>, value: &Expr) {
        let name = self.var_name(var);
        let target = match index {
            None => name,
            Some(index) => format!("{name}[{}]", self.index(index)),
        };
        if let Some((symbol, operand)) = self.compound(var, index, value) {
            let operand = self.value(operand);
            self.line(format!("{target} {symbol} {operand};"));
            return;
        }
        let value = match value {
            Expr::Load { predicate: Some(_), .. } => unwrapped(self.expr(value)),
            _ => self.value(value),
        };
        self.line(format!("{target} = {value};"));
    }

    /// The operator and operand of `x += y`, where the value is `x + y`.
    fn compound<'e>(&self, var: VarId, index: Option<&Expr>, value: &'e Expr) -> Option<(&'static str, &'e Expr)> {
        let Expr::Binary(op, left, right) = value else { return None };
        let symbol = match op {
            BinaryOp::Add => "+=",
            BinaryOp::Sub => "-=",
            BinaryOp::Mul => "*=",
            _ => return None,
        };
        let same = match (&**left, index) {
            (Expr::Var(v), None) => *v == var,
            (Expr::Element(v, at), Some(index)) => *v == var && **at == *index,
            _ => false,
        };
        let small = self.kernel.var(var).dtype.size() == 1;
        (same && !small && !self.data.must_wrap(self.kernel, value)).then_some((symbol, &**right))
    }

    fn barrier(&mut self, barrier: Barrier) {
        match barrier {
            Barrier::Block => self.line("__syncthreads();"),
            Barrier::Warp => self.line("__syncwarp();"),
            Barrier::Named { id, threads } => self.line(format!("asm volatile(\"bar.sync {id}, {threads};\" ::: \"memory\");")),
            Barrier::Slice { threads } => {
                self.uses(Helper::SliceBarrier);
                self.line(format!("sync_slice<{threads}>();"));
            }
            Barrier::AwaitTurn { first, .. } => {
                self.uses(Helper::Turns);
                self.line(format!("await_turn<{first}>();"));
            }
            Barrier::PassTurn { first, groups } => {
                self.uses(Helper::Turns);
                self.line(format!("pass_turn<{first}, {groups}>();"));
            }
            Barrier::Cluster => {
                self.uses(Helper::ClusterBarrier);
                self.line("sync_cluster();");
            }
            Barrier::Grid { counter } => {
                self.uses(Helper::GridBarrier);
                self.line(format!("grid_barrier({});", self.params[counter]));
            }
        }
    }

    fn async_copy(&mut self, shared: &Place, global: &Place, bytes: u32, predicate: Option<&Expr>) {
        self.uses(Helper::CopyAsync);
        let (to, from) = (self.in_array(shared), self.pointer(global, true));
        match predicate {
            None => self.line(format!("copy_async<{bytes}>({to}, {from});")),
            Some(p) => {
                let p = self.expr(p);
                self.line(format!("copy_async<{bytes}>({to}, {from}, {p});"));
            }
        }
    }

    pub(super) fn mbarrier(&mut self, barrier: &Place) -> String {
        self.uses(Helper::Mbarrier);
        format!("&{}", self.element(barrier, false))
    }

    fn shuffle(&mut self, var: VarId, value: &Expr, kind: ShuffleKind, operand: &Expr, width: u32) {
        let name = match kind {
            ShuffleKind::Xor => "__shfl_xor_sync",
            ShuffleKind::Up => "__shfl_up_sync",
            ShuffleKind::Down => "__shfl_down_sync",
            ShuffleKind::Index => "__shfl_sync",
        };
        let (value, operand) = (self.expr(value), self.index(operand));
        let width = if width == 32 { String::new() } else { format!(", {width}") };
        self.receive(var, format!("{name}(0xffffffffu, {value}, {operand}{width})"));
    }

    fn vote(&mut self, var: VarId, kind: VoteKind, value: &Expr) {
        let value = self.expr(value);
        let call = match kind {
            VoteKind::Any => format!("__any_sync(0xffffffffu, {value}) != 0"),
            VoteKind::All => format!("__all_sync(0xffffffffu, {value}) != 0"),
            VoteKind::Ballot => format!("__ballot_sync(0xffffffffu, {value})"),
            VoteKind::Match(bits) => {
                self.uses(Helper::MatchLanes);
                format!("match_lanes<{bits}>({value})")
            }
        };
        self.receive(var, call);
    }

    fn warp_reduce(&mut self, var: VarId, op: BinaryOp, value: &Expr) {
        let (name, bits) = match op {
            BinaryOp::Add => ("add", false),
            BinaryOp::Min => ("min", false),
            BinaryOp::Max => ("max", false),
            BinaryOp::And => ("and", true),
            BinaryOp::Or => ("or", true),
            BinaryOp::Xor => ("xor", true),
            other => panic!("cuda: no instruction combines lanes by {other:?}"),
        };
        let signed = self.kernel.dtype(value) == DType::I32;
        let value = self.expr(value);
        self.receive(
            var,
            // Bits are unsigned.
            match bits && signed {
                true => format!("(int)__reduce_{name}_sync(0xffffffffu, (unsigned int)({value}))"),
                false => format!("__reduce_{name}_sync(0xffffffffu, {value})"),
            },
        );
    }

    /// Sets a variable to what a call gives, and declares it where nothing else sets it.
    pub fn receive(&mut self, var: VarId, call: String) {
        if self.declared[var.0 as usize] {
            let target = self.var_name(var);
            self.line(format!("{target} = {call};"));
        } else {
            let ty = c_type(self.kernel.var(var).dtype);
            let target = self.declare(var);
            self.line(format!("const {ty} {target} = {call};"));
        }
    }
}

pub(super) fn fence(scope: Scope) -> &'static str {
    match scope {
        Scope::Warp | Scope::Block => "__threadfence_block();",
        Scope::Cluster | Scope::Device => "__threadfence();",
        Scope::System => "__threadfence_system();",
    }
}
