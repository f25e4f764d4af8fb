//! Statements as CUDA C: one function per kind.

use super::expr::special;
use super::helpers::Helper;
use super::literal::{c_type, vector_type, vector_zero, zero};
use super::writer::Writer;
use crate::simt::{Barrier, CacheHint, Expr, Place, ShuffleKind, Space, Stmt, VarId, VoteKind};
use crate::types::{AtomicOp, BinaryOp, DType, MemoryOrder, Scope};

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

    fn stmt(&mut self, stmt: &Stmt) {
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
            Stmt::AsyncCommit => {
                self.uses(Helper::CopyAsync);
                self.line("copy_async_commit();");
            }
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
                        let bytes = self.index(bytes);
                        self.line(format!("mbarrier_arrive_expect({barrier}, {bytes});"));
                    }
                }
            }
            Stmt::MbarrierWait { barrier, parity } => {
                let barrier = self.mbarrier(barrier);
                let parity = self.index(parity);
                self.line(format!("mbarrier_wait({barrier}, {parity});"));
            }
            Stmt::BulkCopy { shared, global, bytes, barrier } => {
                self.uses(Helper::BulkCopy);
                let (to, from) = (self.pointer(shared, false), self.pointer(global, true));
                let (bytes, barrier) = (self.index(bytes), self.mbarrier(barrier));
                self.line(format!("copy_bulk({to}, {from}, {bytes}, {barrier});"));
            }
            Stmt::Shuffle { var, value, kind, operand, width } => self.shuffle(*var, value, *kind, operand, *width),
            Stmt::Vote { var, kind, value } => self.vote(*var, *kind, value),
            Stmt::Mma { atom, d, a, b, c } => self.mma(*atom, [d, a, b, c]),
            Stmt::LoadMatrix { load, var, at, place } => self.load_matrix(*load, *var, at, place),
            Stmt::Comment(text) => {
                self.gap();
                for line in text.lines() {
                    self.line(format!("// {line}"));
                }
            }
        }
    }

    fn let_(&mut self, var: VarId, value: &Expr) {
        let value = match value {
            Expr::Special(s) => special(*s).trim_matches(['(', ')']).to_string(),
            Expr::Load { predicate: Some(_), .. } => unwrapped(self.expr(value)),
            _ => self.value(value),
        };
        let dtype = self.kernel.var(var).dtype;
        let name = self.declare(var);
        self.line(format!("const {} {name} = {value};", c_type(dtype)));
    }

    /// A value that is converted to its variable's type anyway.
    fn value(&mut self, value: &Expr) -> String {
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

    /// The elements `at..` of an array variable as one vector: `*reinterpret_cast<float4*>(&x[0])`.
    fn fragment(&mut self, var: VarId, at: &Expr, vector: &str, reads: bool) -> String {
        let (name, at) = (self.var_name(var), self.index(at));
        let qualifier = if reads { "const " } else { "" };
        if vector == c_type(self.kernel.var(var).dtype) {
            return format!("{name}[{at}]");
        }
        format!("*reinterpret_cast<{qualifier}{vector}*>(&{name}[{at}])")
    }

    fn load_vector(&mut self, var: VarId, at: &Expr, place: &Place, lanes: u32, predicate: Option<&Expr>, cache: CacheHint) {
        let (dtype, bytes) = (place.dtype, lanes * place.dtype.size() as u32);
        let shared = matches!(place.space, Space::Shared(_));
        if self.has_matrix_units && shared && (dtype, lanes) == (DType::F32, 2) && predicate.is_none() {
            return self.load_pair(var, at, place);
        }
        let vector = self.vector(dtype, bytes);
        let address = self.address(place, vector, true);
        let value = match cache {
            CacheHint::Streaming if matches!(place.space, Space::Global(_)) && bytes <= 16 => format!("__ldcs({address})"),
            _ => dereferenced(address),
        };
        let target = self.fragment(var, at, vector, false);
        match predicate {
            None => self.line(format!("{target} = {value};")),
            Some(p) => {
                let p = self.condition(p);
                self.line(format!("{target} = {p} ? {value} : {};", vector_zero(dtype, bytes)));
            }
        }
    }

    fn store_vector(&mut self, place: &Place, var: VarId, at: &Expr, lanes: u32, predicate: Option<&Expr>, cache: CacheHint) {
        let (dtype, bytes) = (place.dtype, lanes * place.dtype.size() as u32);
        let vector = self.vector(dtype, bytes);
        let address = self.address(place, vector, false);
        let value = self.fragment(var, at, vector, true);
        let text = match cache {
            CacheHint::Streaming if matches!(place.space, Space::Global(_)) && bytes <= 16 => format!("__stcs({address}, {value});"),
            _ => format!("{} = {value};", dereferenced(address)),
        };
        self.guarded(predicate, text);
    }

    fn vector(&mut self, dtype: DType, bytes: u32) -> &'static str {
        if bytes == 32 {
            self.uses(Helper::Vector32);
        }
        vector_type(dtype, bytes)
    }

    fn store(&mut self, place: &Place, value: &Expr, predicate: Option<&Expr>, cache: CacheHint) {
        let streaming = cache == CacheHint::Streaming && matches!(place.space, Space::Global(_)) && place.dtype != DType::Bool;
        let text = if streaming {
            let address = self.address(place, c_type(place.dtype), false);
            // The overload is chosen by the pointer; the value is converted to it.
            let value = self.expr(value);
            format!("__stcs({address}, {value});")
        } else {
            let target = self.element(place, false);
            let value = match value {
                Expr::Load { predicate: Some(_), .. } => unwrapped(self.expr(value)),
                _ => self.value(value),
            };
            format!("{target} = {value};")
        };
        self.guarded(predicate, text);
    }

    fn store_relaxed(&mut self, place: &Place, value: &Expr, predicate: Option<&Expr>) {
        self.uses(Helper::Words);
        let (word, value) = (self.pointer(place, false), self.expr(value));
        self.guarded(predicate, format!("store_relaxed({word}, {value});"));
    }

    fn load_relaxed(&mut self, var: VarId, place: &Place, wait: bool, predicate: Option<&Expr>) {
        self.uses(Helper::Words);
        let word = self.pointer(place, true);
        let call = if wait { format!("wait_nonzero({word}, {})", self.var_name(var)) } else { format!("load_relaxed({word})") };
        let value = match predicate {
            None => call,
            Some(p) => format!("{} ? {call} : 0ull", self.expr(p)),
        };
        self.receive(var, value);
    }

    fn guarded(&mut self, predicate: Option<&Expr>, text: String) {
        match predicate {
            None => self.line(text),
            Some(p) => {
                let p = self.expr(p);
                self.line(format!("if ({p}) {text}"));
            }
        }
    }

    fn atomic(&mut self, stmt: &Stmt) {
        let Stmt::Atomic { result, op, place, value, expected, predicate, scope, order } = stmt else { unreachable!() };
        let dtype = place.dtype;
        let call = self.atomic_call(*op, place, value, expected.as_ref(), *scope);
        let mut text = format!("{call};");
        if let Some(var) = result {
            let ty = c_type(self.kernel.var(*var).dtype);
            let back = if dtype == DType::I64 { "(long long)" } else { "" };
            text = match (self.declared[var.0 as usize], predicate) {
                (true, _) => format!("{} = {back}{call};", self.var_name(*var)),
                (false, None) => format!("const {ty} {} = {back}{call};", self.declare(*var)),
                (false, Some(_)) => {
                    let name = self.declare(*var);
                    self.line(format!("{ty} {name} = {};", zero(self.kernel.var(*var).dtype)));
                    format!("{name} = {back}{call};")
                }
            };
        }
        if matches!(order, MemoryOrder::Release | MemoryOrder::AcquireRelease) {
            self.line(fence(*scope));
        }
        self.guarded(predicate.as_ref(), text);
        if matches!(order, MemoryOrder::Acquire | MemoryOrder::AcquireRelease) {
            self.line(fence(*scope));
        }
    }

    fn atomic_call(&mut self, op: AtomicOp, place: &Place, value: &Expr, expected: Option<&Expr>, scope: Scope) -> String {
        let dtype = place.dtype;
        let value = self.expr(value);
        let float = dtype == DType::F32;
        if float && matches!(op, AtomicOp::Min | AtomicOp::Max) {
            let min = op == AtomicOp::Min;
            let helper = match (min, scope == Scope::System) {
                (true, false) => Helper::AtomicFloatMin,
                (false, false) => Helper::AtomicFloatMax,
                (true, true) => Helper::AtomicFloatMinSystem,
                (false, true) => Helper::AtomicFloatMaxSystem,
            };
            self.uses(helper);
            let at = self.element(place, false);
            return format!("{}(&{at}, {value})", helper.names()[0]);
        }
        let suffix = match scope {
            // Shared memory is the block's own.
            Scope::Warp | Scope::Block if matches!(place.space, Space::Shared(_)) => "",
            Scope::Warp | Scope::Block => "_block",
            Scope::Cluster | Scope::Device => "",
            Scope::System => "_system",
        };
        let name = match op {
            AtomicOp::Add => "atomicAdd",
            AtomicOp::Min => "atomicMin",
            AtomicOp::Max => "atomicMax",
            AtomicOp::And => "atomicAnd",
            AtomicOp::Or => "atomicOr",
            AtomicOp::Xor => "atomicXor",
            AtomicOp::Exchange => "atomicExch",
            AtomicOp::CompareSwap => "atomicCAS",
        };
        // Most 64-bit overloads exist for unsigned only; adding and exchanging bits is the same for both.
        let signed_only = matches!(op, AtomicOp::Min | AtomicOp::Max);
        let at = match dtype {
            DType::I64 if !signed_only => format!("reinterpret_cast<unsigned long long*>(&{})", self.element(place, false)),
            DType::F32 if op == AtomicOp::CompareSwap => format!("reinterpret_cast<int*>(&{})", self.element(place, false)),
            _ => format!("&{}", self.element(place, false)),
        };
        let convert = |text: String| match dtype {
            DType::I64 if !signed_only => format!("(unsigned long long)({text})"),
            DType::F32 if op == AtomicOp::CompareSwap => format!("__float_as_int({text})"),
            _ => text,
        };
        let value = convert(value);
        match expected {
            None => format!("{name}{suffix}({at}, {value})"),
            Some(expected) => {
                let expected = convert(self.expr(expected));
                let call = format!("{name}{suffix}({at}, {expected}, {value})");
                if float { format!("__int_as_float({call})") } else { call }
            }
        }
    }

    fn if_(&mut self, condition: &Expr, then: &[Stmt], otherwise: &[Stmt]) {
        let condition = self.expr(condition);
        self.open(&format!("if ({condition})"));
        self.body(then);
        self.otherwise(otherwise);
    }

    fn otherwise(&mut self, otherwise: &[Stmt]) {
        match otherwise {
            [] => self.close(""),
            [Stmt::If { condition, then, otherwise }] => {
                self.close_and_open(|this| format!("else if ({})", this.expr(condition)));
                self.body(then);
                self.otherwise(otherwise);
            }
            _ => {
                self.close_and_open(|_| "else".into());
                self.body(otherwise);
                self.close("");
            }
        }
    }

    fn for_(&mut self, var: VarId, [start, end, step]: [&Expr; 3], unroll: bool, body: &[Stmt]) {
        let ty = c_type(self.kernel.var(var).dtype);
        let literal_end = if let Expr::Literal(l) = end { Some(l.to_i64()) } else { None };
        let start = self.value(start);
        let hint = self.kernel.var(var).name.clone();
        // C evaluates the bound and the step at every turn, the IR once.
        let end = self.fixed(end, ty, &format!("{hint}_end"));
        let step = match step {
            Expr::Literal(l) if l.to_i64() == 1 => None,
            step => Some(self.fixed(step, ty, &format!("{hint}_step"))),
        };
        if unroll {
            self.line("#pragma unroll");
            self.below[var.0 as usize] = literal_end;
        }
        self.namer.open();
        let name = self.declare(var);
        let next = match step {
            None => format!("++{name}"),
            Some(step) => format!("{name} += {step}"),
        };
        self.open(&format!("for ({ty} {name} = {start}; {name} < {end}; {next})"));
        self.body(body);
        self.close("");
        self.namer.close();
    }

    /// The text of a value that must not change while a loop runs: a constant of its own if it could.
    fn fixed(&mut self, value: &Expr, ty: &str, hint: &str) -> String {
        let text = match value {
            Expr::Literal(_) => self.index(value),
            _ => self.text(self.unwidened(value)).at_least(super::expr::Prec::Shift),
        };
        if self.is_fixed(value) {
            return text;
        }
        let name = self.namer.name(hint);
        self.line(format!("const {ty} {name} = {text};"));
        name
    }

    fn is_fixed(&self, value: &Expr) -> bool {
        match value {
            Expr::Literal(_) | Expr::Param(_) | Expr::Special(_) => true,
            Expr::Var(v) => !self.mutable[v.0 as usize],
            Expr::Element(..) | Expr::Load { .. } => false,
            Expr::Unary(_, a) | Expr::Cast(_, a) | Expr::Bitcast(_, a) => self.is_fixed(a),
            Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => self.is_fixed(a) && self.is_fixed(b),
            Expr::Ternary(_, a, b, c) | Expr::Select(a, b, c) => self.is_fixed(a) && self.is_fixed(b) && self.is_fixed(c),
        }
    }

    fn while_(&mut self, header: &[Stmt], condition: &Expr, body: &[Stmt]) {
        if header.is_empty() {
            let condition = self.expr(condition);
            self.open(&format!("while ({condition})"));
        } else {
            self.open("while (true)");
            self.body(header);
            let condition = self.text(condition).at_least(super::expr::Prec::Unary);
            self.line(format!("if (!{condition}) break;"));
        }
        self.body(body);
        self.close("");
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
            Barrier::Cluster => {
                self.line("asm volatile(\"barrier.cluster.arrive.release.aligned;\" ::: \"memory\");");
                self.line("asm volatile(\"barrier.cluster.wait.acquire.aligned;\" ::: \"memory\");");
            }
            Barrier::Grid => {
                self.uses(Helper::GridBarrier);
                self.line(format!("grid_barrier(&{});", grid_counter(&self.kernel.name)));
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

    /// `&tile[i]`, or `tile + i` read as bytes: any pointer will do for a copy.
    pub fn pointer(&mut self, place: &Place, reads: bool) -> String {
        format!("&{}", self.element(place, reads))
    }

    /// `tile, i`, for a helper that counts bytes of shared memory in 32 bits: what is the same in many addresses is then added once. (NVRTC,
    /// unlike nvcc, makes a 64-bit address of `&tile[i]` anew for each `i`: 13 % more instructions in a product's loop.)
    pub fn in_array(&mut self, place: &Place) -> String {
        let (name, dtype) = self.memory(place.space);
        let index = self.index(&place.index);
        if dtype == place.dtype {
            return format!("{name}, {index}");
        }
        format!("reinterpret_cast<{}*>({name}), {index}", c_type(place.dtype))
    }

    fn mbarrier(&mut self, barrier: &Place) -> String {
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
        self.receive(
            var,
            match kind {
                VoteKind::Any => format!("__any_sync(0xffffffffu, {value}) != 0"),
                VoteKind::All => format!("__all_sync(0xffffffffu, {value}) != 0"),
                VoteKind::Ballot => format!("__ballot_sync(0xffffffffu, {value})"),
            },
        );
    }

    /// Sets a variable to what a call gives, and declares it where nothing else sets it.
    fn receive(&mut self, var: VarId, call: String) {
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

/// The counter of a kernel's grid barrier.
pub(super) fn grid_counter(kernel: &str) -> String {
    format!("{}_grid_counter", super::names::identifier(kernel))
}

fn fence(scope: Scope) -> &'static str {
    match scope {
        Scope::Warp | Scope::Block => "__threadfence_block();",
        Scope::Cluster | Scope::Device => "__threadfence();",
        Scope::System => "__threadfence_system();",
    }
}

/// `*a`, or `*(a + i)`.
fn dereferenced(address: String) -> String {
    let simple = address.starts_with("reinterpret_cast") || !address.contains(' ');
    if simple { format!("*{address}") } else { format!("*({address})") }
}

/// Without the parentheses around a whole predicated load.
fn unwrapped(text: String) -> String {
    match text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
        Some(inner) if text.contains(" ? ") => inner.to_string(),
        _ => text,
    }
}
