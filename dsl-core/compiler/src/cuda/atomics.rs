//! Atomics as CUDA C, with the fences that their order asks for.

use super::helpers::Helper;
use super::literal::{c_type, zero};
use super::stmt::fence;
use super::writer::Writer;
use girih_ir::simt::{Expr, Place, Space, Stmt};
use girih_ir::types::{AtomicOp, DType, MemoryOrder, Scope};

impl Writer<'_> {
    pub fn atomic(&mut self, stmt: &Stmt) {
        let Stmt::Atomic { result, op, place, value, expected, predicate, scope, order } = stmt else { unreachable!() };
        let dtype = place.dtype;
        let load = *op == AtomicOp::Load;
        let call =
            if load { self.fetch_call(place, *scope, *order) } else { self.atomic_call(*op, place, value, expected.as_ref(), *scope) };
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
        if !load && matches!(order, MemoryOrder::Acquire | MemoryOrder::AcquireRelease) {
            self.line(fence(*scope));
        }
    }

    /// A load of what other blocks store; its instruction has the order.
    fn fetch_call(&mut self, place: &Place, scope: Scope, order: MemoryOrder) -> String {
        let helper = match (order == MemoryOrder::Relaxed, scope == Scope::System) {
            (true, false) => Helper::FetchRelaxed,
            (true, true) => Helper::FetchRelaxedSystem,
            (false, false) => Helper::FetchAcquire,
            (false, true) => Helper::FetchAcquireSystem,
        };
        self.uses(helper);
        let (at, name) = (self.element(place, false), helper.names()[0]);
        match place.dtype {
            DType::I32 => format!("(int){name}(reinterpret_cast<const unsigned int*>(&{at}))"),
            DType::F32 => format!("__uint_as_float({name}(reinterpret_cast<const unsigned int*>(&{at})))"),
            DType::I64 => format!("{name}(reinterpret_cast<const unsigned long long*>(&{at}))"),
            _ => format!("{name}(&{at})"),
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
            AtomicOp::Load => panic!("emit: a load is no read-modify-write"),
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
}
