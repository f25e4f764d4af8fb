//! Text form of SIMT IR: for panics of the passes, for traps of the simulator and for `show --ir simt`.
//!
//! Variables are printed as `name%id`, shared arrays as `name#id`, so that two of one name stay apart.

use super::{Barrier, Expr, Fragment, Kernel, LeftMatrix, ParamKind, Place, SharedMatrix, ShuffleKind, Space, Special, Stmt, VarId};
use crate::fragments::Operand;
use crate::types::{BinaryOp, CompareOp, DType, MemoryOrder, Scope};
use std::fmt::Write;

/// The whole kernel: provenance, launch record, parameters, shared arrays, body.
pub fn print(kernel: &Kernel) -> String {
    let mut out = String::new();
    let p = &kernel.provenance;
    let launch = &kernel.launch;
    let _ = writeln!(out, "// {} at {}", p.signature, p.loc);
    let _ = writeln!(out, "// {}", p.schedule);
    let _ = write!(out, "// grid {}, block {}, cluster {}, min blocks {}", launch.grid, launch.block, launch.cluster, launch.min_blocks);
    let ways = [(launch.cooperative, ", cooperative"), (launch.dependent, ", dependent")];
    let ways: String = ways.iter().filter(|(is, _)| *is).map(|(_, text)| *text).collect();
    let _ = writeln!(out, "{ways}, shared {} bytes", kernel.shared_bytes());
    for role in &launch.roles {
        let registers = role.registers.map_or(String::new(), |r| format!(", {r} registers"));
        let _ = writeln!(out, "// role {}: {} warps{registers}", role.name, role.warps);
    }
    let _ = writeln!(out, "kernel {}(", kernel.name);
    for (i, p) in kernel.params.iter().enumerate() {
        let _ = writeln!(out, "    {i}: {} {},", p.name, param(&p.kind));
    }
    let _ = writeln!(out, ") {{");
    for (i, a) in kernel.shared.iter().enumerate() {
        let at = a.at.map_or(String::new(), |at| format!(" at byte {at}"));
        let _ = writeln!(out, "    shared {}#{i}: {}[{}] align {}{at};", a.name, a.dtype, a.len, a.align);
    }
    block(kernel, &kernel.body, 1, &mut out);
    out.push_str("}\n");
    if let Some(next) = &kernel.next {
        out.push_str(&format!("\n// behind it\n{}", print(next)));
    }
    out
}

fn param(kind: &ParamKind) -> String {
    match kind {
        ParamKind::Pointer { tensor, dtype, writable, restrict, align } => {
            let access = if *writable { "mut" } else { "const" };
            let restrict = if *restrict { " restrict" } else { "" };
            format!("*{access} {dtype}{restrict} align {align} (tensor {tensor})")
        }
        ParamKind::Scalar { scalar, dtype, range: None } => format!("{dtype} (scalar {scalar})"),
        ParamKind::Scalar { scalar, dtype, range: Some((least, most)) } => format!("{dtype} (scalar {scalar}, {least} to {most})"),
        ParamKind::Host { dtype, value } => format!("{dtype} = {value}"),
        ParamKind::Workspace { dtype, len } => format!("workspace {dtype}[{len}]"),
        ParamKind::Constant { tensor, dtype, len } => format!("constant {dtype}[{len}] (tensor {tensor})"),
        ParamKind::TensorMap { map } => {
            let element = if map.rounds { "tf32".into() } else { map.dtype.to_string() };
            format!("tensor map of tensor {} ({element}, box {:?}, swizzle {})", map.tensor, map.box_lens, map.swizzle_bytes)
        }
    }
}

fn block(kernel: &Kernel, stmts: &[Stmt], level: usize, out: &mut String) {
    for s in stmts {
        let pad = "    ".repeat(level);
        let _ = writeln!(out, "{pad}{}", statement(kernel, s));
        match s {
            Stmt::If { then, otherwise, .. } => {
                block(kernel, then, level + 1, out);
                if !otherwise.is_empty() {
                    let _ = writeln!(out, "{pad}}} else {{");
                    block(kernel, otherwise, level + 1, out);
                }
                let _ = writeln!(out, "{pad}}}");
            }
            Stmt::For { body, .. } => {
                block(kernel, body, level + 1, out);
                let _ = writeln!(out, "{pad}}}");
            }
            Stmt::While { header, condition, body } => {
                block(kernel, header, level + 1, out);
                let _ = writeln!(out, "{pad}    while {};", expr(kernel, condition));
                block(kernel, body, level + 1, out);
                let _ = writeln!(out, "{pad}}}");
            }
            Stmt::Let { .. } | Stmt::Declare { .. } | Stmt::Assign { .. } | Stmt::Comment(_) => {}
            Stmt::LoadVector { .. } | Stmt::StoreVector { .. } | Stmt::Store { .. } | Stmt::Atomic { .. } => {}
            Stmt::StoreRelaxed { .. } | Stmt::LoadRelaxed { .. } | Stmt::LoadFromBlock { .. } | Stmt::LoadMatrix { .. } => {}
            Stmt::Barrier(_) | Stmt::Fence { .. } | Stmt::AsyncCopy { .. } | Stmt::AsyncCommit | Stmt::AsyncWait { .. } => {}
            Stmt::AsyncArrive { .. } | Stmt::MbarrierInit { .. } | Stmt::MbarrierArrive { .. } => {}
            Stmt::MbarrierArriveAt { .. } | Stmt::MbarrierWait { .. } => {}
            Stmt::BulkCopy { .. } | Stmt::TensorCopy { .. } | Stmt::Mma { .. } => {}
            Stmt::Shuffle { .. } | Stmt::Vote { .. } | Stmt::WarpReduce { .. } => {}
            Stmt::Wgmma { .. }
            | Stmt::WgmmaFence
            | Stmt::WgmmaCommit
            | Stmt::WgmmaWait { .. }
            | Stmt::ProxyFence
            | Stmt::SetRegisters { .. } => {}
        }
    }
}

/// One statement on one line; of a statement with a body only its head.
pub fn statement(kernel: &Kernel, stmt: &Stmt) -> String {
    let e = |x: &Expr| expr(kernel, x);
    let p = |x: &Place| place(kernel, x);
    let v = |x: VarId| name(kernel, x);
    let when = |x: &Option<Expr>| x.as_ref().map_or(String::new(), |x| format!(" when {}", e(x)));
    match stmt {
        Stmt::Let { var, value } => format!("let {}: {} = {};", v(*var), kernel.var(*var).dtype, e(value)),
        Stmt::Declare { var, init } => {
            let len = kernel.var(*var).len.map_or(String::new(), |n| format!("[{n}]"));
            let init = init.as_ref().map_or(String::new(), |x| format!(" = {}", e(x)));
            format!("var {}: {}{len}{init};", v(*var), kernel.var(*var).dtype)
        }
        Stmt::Assign { var, index: None, value } => format!("{} = {};", v(*var), e(value)),
        Stmt::Assign { var, index: Some(i), value } => format!("{}[{}] = {};", v(*var), e(i), e(value)),
        Stmt::LoadVector { var, at, place, lanes, predicate, cache } => {
            format!("{}[{}..+{lanes}] = load{} {}{};", v(*var), e(at), hint(*cache), p(place), when(predicate))
        }
        Stmt::StoreVector { place, var, at, lanes, predicate, cache } => {
            format!("store{} {} = {}[{}..+{lanes}]{};", hint(*cache), p(place), v(*var), e(at), when(predicate))
        }
        Stmt::Store { place, value, predicate, cache } => format!("store{} {} = {}{};", hint(*cache), p(place), e(value), when(predicate)),
        Stmt::Atomic { result, op, place, value, expected, predicate, scope, order } => {
            let result = result.map_or(String::new(), |r| format!("{} = ", v(r)));
            let expected = expected.as_ref().map_or(String::new(), |x| format!(", expected {}", e(x)));
            let tail = format!("{}{expected}){}", e(value), when(predicate));
            format!("{result}atomic {op:?}.{}.{}({}, {tail};", self::scope(*scope), self::order(*order), p(place))
        }
        Stmt::StoreRelaxed { place, value, predicate } => format!("store relaxed {} = {}{};", p(place), e(value), when(predicate)),
        Stmt::LoadRelaxed { var, place, wait: true, .. } => format!("{0} = wait nonzero({0}) {1};", v(*var), p(place)),
        Stmt::LoadRelaxed { var, place, predicate, .. } => format!("{} = load relaxed {}{};", v(*var), p(place), when(predicate)),
        Stmt::LoadFromBlock { var, place, block } => format!("{} = load {} of block {};", v(*var), p(place), e(block)),
        Stmt::If { condition, .. } => format!("if {} {{", e(condition)),
        Stmt::For { var, start, end, step, unroll, .. } => {
            let unroll = if *unroll { "unroll " } else { "" };
            format!("{unroll}for {}: {} in {}..{} step {} {{", v(*var), kernel.var(*var).dtype, e(start), e(end), e(step))
        }
        Stmt::While { .. } => "loop {".to_string(),
        Stmt::Barrier(b) => match b {
            Barrier::Block => "barrier block;".to_string(),
            Barrier::Warp => "barrier warp;".to_string(),
            Barrier::Named { id, threads } => format!("barrier named {id} of {threads} threads;"),
            Barrier::Slice { threads } => format!("barrier slice of {threads} threads;"),
            Barrier::AwaitTurn { first, groups } => format!("await the turn among {groups} groups, barriers from {first};"),
            Barrier::PassTurn { first, groups } => format!("pass the turn on among {groups} groups, barriers from {first};"),
            Barrier::Cluster => "barrier cluster;".to_string(),
            Barrier::Grid { counter } => format!("barrier grid at {};", kernel.params.get(*counter).map_or("?", |p| &p.name)),
        },
        Stmt::Fence { scope, order } => format!("fence {}.{};", self::scope(*scope), self::order(*order)),
        Stmt::AsyncCopy { shared, global, bytes, predicate } => {
            format!("async copy {} = {}, {bytes} bytes{};", p(shared), p(global), when(predicate))
        }
        Stmt::AsyncCommit => "async commit;".to_string(),
        Stmt::AsyncWait { pending } => format!("async wait until {pending} pending;"),
        Stmt::AsyncArrive { barrier } => format!("async arrive {};", p(barrier)),
        Stmt::MbarrierInit { barrier, count } => format!("mbarrier init {} count {count};", p(barrier)),
        Stmt::MbarrierArrive { barrier, expect } => {
            let expect = expect.as_ref().map_or(String::new(), |x| format!(" expect {} bytes", e(x)));
            format!("mbarrier arrive {}{expect};", p(barrier))
        }
        Stmt::MbarrierArriveAt { barrier, block } => format!("mbarrier arrive {} of block {};", p(barrier), e(block)),
        Stmt::MbarrierWait { barrier, parity, scope: of } => {
            let of = if *of == Scope::Block { String::new() } else { format!(" scope {}", scope(*of)) };
            format!("mbarrier wait {} parity {}{of};", p(barrier), e(parity))
        }
        Stmt::BulkCopy { shared, global, bytes, barrier } => {
            format!("bulk copy {} = {}, {} bytes, completes on {};", p(shared), p(global), e(bytes), p(barrier))
        }
        Stmt::Vote { var, kind, value } => format!("{} = vote {} {};", v(*var), format!("{kind:?}").to_lowercase(), e(value)),
        Stmt::WarpReduce { var, op, value } => format!("{} = warp reduce {} {};", v(*var), format!("{op:?}").to_lowercase(), e(value)),
        Stmt::Shuffle { var, value, kind, operand, width } => {
            let kind = match kind {
                ShuffleKind::Xor => "xor",
                ShuffleKind::Up => "up",
                ShuffleKind::Down => "down",
                ShuffleKind::Index => "index",
            };
            format!("{} = shuffle {kind}({}, {}, width {width});", v(*var), e(value), e(operand))
        }
        Stmt::Mma { atom, d, a, b, c } => {
            let part = |f: &Fragment, operand| format!("{}[{}..+{}]", v(f.var), e(&f.at), atom.registers(operand));
            let [d, c] = [d, c].map(|f| part(f, Operand::Accumulator));
            format!("{d} = mma {atom}({}, {}, {c});", part(a, Operand::A), part(b, Operand::B))
        }
        Stmt::LoadMatrix { load, var, at, place } => {
            let count = load.registers(place.dtype);
            format!("{}[{}..+{count}] = load matrix {load} {};", v(*var), e(at), p(place))
        }
        Stmt::TensorCopy { shared, map, at, barrier, to_all } => {
            let all = if *to_all { " of all blocks" } else { "" };
            let map = kernel.params.get(*map).map_or("?", |p| p.name.as_str());
            let at = at.iter().map(e).collect::<Vec<_>>().join(", ");
            format!("tensor copy {}{all} = {map} at [{at}], completes on {};", p(shared), p(barrier))
        }
        Stmt::Wgmma { atom, d, a, b, accumulate } => {
            let d = format!("{}[{}..+{}]", v(d.var), e(&d.at), atom.registers());
            let from = if matches!(accumulate, Expr::Literal(_)) { d.clone() } else { format!("{d} if {}", e(accumulate)) };
            let left = match a {
                LeftMatrix::Shared(a) => matrix(kernel, a),
                LeftMatrix::Registers(a) => format!("{}[{}..+{}]", v(a.var), e(&a.at), atom.left_registers()),
            };
            format!("{d} = wgmma {atom}({left}, {}, {from});", matrix(kernel, b))
        }
        Stmt::WgmmaFence => "wgmma fence;".to_string(),
        Stmt::WgmmaCommit => "wgmma commit;".to_string(),
        Stmt::WgmmaWait { pending, sums } => {
            let sums = sums.iter().map(|s| v(*s)).collect::<Vec<_>>().join(", ");
            format!("wgmma wait until {pending} pending, for {sums};")
        }
        Stmt::ProxyFence => "fence async proxy;".to_string(),
        Stmt::SetRegisters { count, more } => format!("{} registers, {count};", if *more { "more" } else { "fewer" }),
        Stmt::Comment(text) => format!("// {text}"),
    }
}

/// `tile[i] in rows of 128 bytes, 1024 bytes each 8, panels 8192 bytes apart`.
fn matrix(kernel: &Kernel, m: &SharedMatrix) -> String {
    let panels = if m.across { format!(", panels {} bytes apart", m.next_panel) } else { String::new() };
    let way = if m.across { "across rows" } else { "in rows" };
    format!("{} {way} of {} bytes, {} bytes each 8{panels}", place(kernel, &m.place), m.row_bytes, m.eight_rows)
}

fn hint(cache: super::CacheHint) -> &'static str {
    match cache {
        super::CacheHint::Default => "",
        super::CacheHint::Streaming => ".streaming",
        super::CacheHint::Kept => ".kept",
        super::CacheHint::Once => ".once",
    }
}

fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Warp => "warp",
        Scope::Block => "block",
        Scope::Cluster => "cluster",
        Scope::Device => "device",
        Scope::System => "system",
    }
}

fn order(order: MemoryOrder) -> &'static str {
    match order {
        MemoryOrder::Relaxed => "relaxed",
        MemoryOrder::Acquire => "acquire",
        MemoryOrder::Release => "release",
        MemoryOrder::AcquireRelease => "acquire_release",
    }
}

/// A variable as the text form shows it. A variable that does not exist is printed by its number.
pub fn name(kernel: &Kernel, var: VarId) -> String {
    let name = kernel.vars.get(var.0 as usize).map_or("?", |v| v.name.as_str());
    format!("{name}%{}", var.0)
}

fn space(kernel: &Kernel, space: Space) -> String {
    match space {
        Space::Global(p) | Space::Constant(p) => kernel.params.get(p).map_or(format!("?{p}"), |p| p.name.clone()),
        Space::Shared(s) => format!("{}#{}", kernel.shared.get(s.0 as usize).map_or("?", |a| a.name.as_str()), s.0),
    }
}

/// A place: `x[i]`, or `x as u32[i]` where the access reinterprets.
pub fn place(kernel: &Kernel, place: &Place) -> String {
    let natural = match place.space {
        Space::Global(p) | Space::Constant(p) => kernel.params.get(p).and_then(|p| match &p.kind {
            ParamKind::Pointer { dtype, .. } | ParamKind::Workspace { dtype, .. } | ParamKind::Constant { dtype, .. } => Some(*dtype),
            _ => None,
        }),
        Space::Shared(s) => kernel.shared.get(s.0 as usize).map(|a| a.dtype),
    };
    let cast = if natural == Some(place.dtype) { String::new() } else { format!(" as {}", place.dtype) };
    format!("{}{cast}[{}]", space(kernel, place.space), expr(kernel, &place.index))
}

/// An expression; operands that are operations themselves are in parentheses.
pub fn expr(kernel: &Kernel, e: &Expr) -> String {
    let x = |e: &Expr| expr(kernel, e);
    let operand = |e: &Expr| match e {
        Expr::Binary(op, ..) if binary_symbol(*op).is_none() => expr(kernel, e),
        Expr::Binary(..) | Expr::Compare(..) | Expr::Select(..) => format!("({})", expr(kernel, e)),
        _ => expr(kernel, e),
    };
    match e {
        // The common types show by their form: 1, 1.0, true.
        Expr::Literal(l) => match l.dtype {
            DType::I32 | DType::F32 | DType::Bool => l.to_string(),
            other => format!("{l}{other}"),
        },
        Expr::Var(v) => name(kernel, *v),
        Expr::Element(v, i) => format!("{}[{}]", name(kernel, *v), x(i)),
        Expr::Param(p) => kernel.params.get(*p).map_or(format!("?{p}"), |p| p.name.clone()),
        Expr::Special(s) => match s {
            Special::Thread => "thread".to_string(),
            Special::Block => "block".to_string(),
            Special::GridDim => "grid".to_string(),
            Special::Lane => "lane".to_string(),
            Special::Warp => "warp".to_string(),
            Special::Elected => "elected".to_string(),
        },
        Expr::Unary(op, a) => format!("{op:?}({})", x(a)),
        Expr::Binary(op, a, b) => match binary_symbol(*op) {
            Some(symbol) => format!("{} {symbol} {}", operand(a), operand(b)),
            None => format!("{op:?}({}, {})", x(a), x(b)),
        },
        Expr::Ternary(op, a, b, c) => format!("{op:?}({}, {}, {})", x(a), x(b), x(c)),
        Expr::Compare(op, a, b) => format!("{} {} {}", operand(a), compare_symbol(*op), operand(b)),
        Expr::Select(c, a, b) => format!("{} ? {} : {}", operand(c), operand(a), operand(b)),
        Expr::Cast(d, a) => format!("{d}({})", x(a)),
        Expr::Bitcast(d, a) => format!("bits {d}({})", x(a)),
        Expr::Load { place: p, predicate, cache } => {
            let when = predicate.as_ref().map_or(String::new(), |p| format!(" when {}", x(p)));
            format!("load{}({}{when})", hint(*cache), place(kernel, p))
        }
    }
}

fn binary_symbol(op: BinaryOp) -> Option<&'static str> {
    Some(match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::Rem => "%",
        BinaryOp::And => "&",
        BinaryOp::Or => "|",
        BinaryOp::Xor => "^",
        BinaryOp::Shl => "<<",
        BinaryOp::Shr => ">>",
        BinaryOp::Min | BinaryOp::Max | BinaryOp::MulHi | BinaryOp::DivApprox | BinaryOp::Pow => return None,
    })
}

fn compare_symbol(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
    }
}
