//! Tests of the emitter on SIMT kernels built by hand.

use super::*;
use girih_ir::simt::{Barrier, CacheHint, Expr, LaunchRecord, Param, Place, SharedArray, SharedId, Space, Special, Stmt, Var, VarId};
use girih_ir::tile::host::HostExpr;
use girih_ir::types::{BinaryOp, CompareOp, DType, Literal, UnaryOp};

/// A kernel without body over `f32` pointers and `int n`.
fn kernel(name: &str, pointers: &[(&str, bool)]) -> Kernel {
    let mut params: Vec<Param> = pointers
        .iter()
        .enumerate()
        .map(|(tensor, (name, writable))| Param {
            name: name.to_string(),
            kind: ParamKind::Pointer { tensor, dtype: DType::F32, writable: *writable, restrict: true, align: 16 },
        })
        .collect();
    params.push(Param { name: "n".into(), kind: ParamKind::Host { dtype: DType::I32, value: HostExpr::Dim(0, 0) } });
    Kernel {
        name: name.into(),
        params,
        vars: vec![],
        shared: vec![],
        body: vec![],
        launch: LaunchRecord::new(HostExpr::ceil_div(HostExpr::Dim(0, 0), 256), 256),
        provenance: Provenance {
            signature: format!("{name}(..)"),
            loc: SourceLoc { file: "src/kernels.rs", line: 7, column: 1 },
            schedule: "tile(T = 256)".into(),
            facts: "nothing promised".into(),
            launch: "ceil(n / 256) blocks of 256 threads".into(),
        },
        alike: Default::default(),
        next: None,
    }
}

fn var(kernel: &mut Kernel, name: &str, dtype: DType, len: Option<u32>) -> VarId {
    kernel.vars.push(Var { name: name.into(), dtype, len });
    VarId(kernel.vars.len() as u32 - 1)
}

fn v(var: VarId) -> Expr {
    Expr::Var(var)
}

fn i(value: i32) -> Expr {
    Expr::Literal(Literal::i32(value))
}

fn bin(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

fn lt(a: Expr, b: Expr) -> Expr {
    Expr::Compare(CompareOp::Lt, Box::new(a), Box::new(b))
}

fn global(param: usize, index: Expr) -> Place {
    Place { space: Space::Global(param), dtype: DType::F32, index }
}

fn load(place: Place, predicate: Option<Expr>) -> Expr {
    Expr::Load { place: Box::new(place), predicate: predicate.map(Box::new), cache: CacheHint::Default }
}

fn store(place: Place, value: Expr, predicate: Option<Expr>) -> Stmt {
    Stmt::Store { place, value, predicate, cache: CacheHint::Default }
}

fn body_of(text: &str) -> &str {
    let start = text.find("\n{\n").expect("a body") + 3;
    text[start..].trim_end_matches("}\n")
}

#[test]
fn the_naive_elementwise_kernel_reads_like_a_textbook() {
    let mut k = kernel("vector_add", &[("a", false), ("b", false), ("c", true)]);
    let (block, thread) = (var(&mut k, "block", DType::I32, None), var(&mut k, "thread", DType::I32, None));
    let at = var(&mut k, "i", DType::I32, None);
    k.body = vec![
        Stmt::Let { var: block, value: Expr::Special(Special::Block) },
        Stmt::Let { var: thread, value: Expr::Special(Special::Thread) },
        Stmt::Let { var: at, value: bin(BinaryOp::Add, bin(BinaryOp::Mul, v(block), i(256)), v(thread)) },
        Stmt::If {
            condition: lt(v(at), Expr::Param(3)),
            then: vec![store(global(2, v(at)), bin(BinaryOp::Add, load(global(0, v(at)), None), load(global(1, v(at)), None)), None)],
            otherwise: vec![],
        },
    ];
    assert_eq!(
        emit(&k),
        "\
// vector_add(..)    kernels.rs:7
// schedule: tile(T = 256)
// facts:    nothing promised
// launch:   ceil(n / 256) blocks of 256 threads
extern \"C\" __global__ void __launch_bounds__(256, 1)
vector_add(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n)
{
    const int block = blockIdx.x;
    const int thread = threadIdx.x;
    const int i = block * 256 + thread;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}
"
    );
}

#[test]
fn vectors_predicates_and_shared_memory_keep_their_names() {
    let mut k = kernel("copy", &[("x", false), ("y", true)]);
    let at = var(&mut k, "i", DType::I32, None);
    let frag = var(&mut k, "x", DType::F32, Some(4));
    let u = var(&mut k, "u", DType::I32, None);
    k.shared.push(SharedArray { name: "x_smem".into(), dtype: DType::F32, len: 256, align: 16, at: None });
    let smem = |index| Place { space: Space::Shared(SharedId(0)), dtype: DType::F32, index };
    k.body = vec![
        Stmt::Let { var: at, value: Expr::Special(Special::Thread) },
        Stmt::Declare { var: frag, init: None },
        Stmt::Comment("vector = 4".into()),
        Stmt::LoadVector {
            var: frag,
            at: i(0),
            place: global(0, bin(BinaryOp::Mul, v(at), i(4))),
            lanes: 4,
            predicate: Some(lt(v(at), Expr::Param(2))),
            cache: CacheHint::Streaming,
        },
        Stmt::For {
            var: u,
            start: i(0),
            end: i(4),
            step: i(1),
            unroll: true,
            body: vec![Stmt::Assign {
                var: frag,
                index: Some(v(u)),
                value: bin(BinaryOp::Max, Expr::Element(frag, Box::new(v(u))), Expr::Literal(Literal::f32(0.0))),
            }],
        },
        store(smem(v(at)), load(global(0, v(at)), Some(lt(v(at), Expr::Param(2)))), None),
        Stmt::Barrier(Barrier::Block),
        Stmt::StoreVector {
            place: global(1, v(at)),
            var: frag,
            at: i(0),
            lanes: 4,
            predicate: Some(lt(v(at), i(3))),
            cache: CacheHint::Default,
        },
    ];
    let text = emit(&k);
    assert!(text.starts_with("// The larger one; NaN if either is"), "{text}");
    assert_eq!(
        body_of(&text[text.find("copy(").expect("the kernel")..]),
        "    __shared__ __align__(16) float x_smem[256];

    const int i = threadIdx.x;
    __align__(16) float x2[4];

    // vector = 4
    *reinterpret_cast<float4*>(&x2[0]) =
        i < n ? __ldcs(reinterpret_cast<const float4*>(x + i * 4)) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
        x2[u] = nan_max(x2[u], 0.0f);
    }
    x_smem[i] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < 3) *reinterpret_cast<float4*>(y + i) = *reinterpret_cast<const float4*>(&x2[0]);
"
    );
}

/// The text of one expression over i32 variables `a`, `b` (indices) and `x` (data).
fn text(build: impl Fn(Expr, Expr, Expr) -> Expr) -> String {
    let mut k = kernel("k", &[("p", false)]);
    let [a, b, x, r] = ["a", "b", "x", "r"].map(|n| var(&mut k, n, DType::I32, None));
    let data = Place { space: Space::Global(0), dtype: DType::I32, index: i(0) };
    let value = build(v(a), v(b), v(x));
    k.vars[r.0 as usize].dtype = k.dtype(&value);
    k.body = vec![
        Stmt::Let { var: a, value: Expr::Special(Special::Thread) },
        Stmt::Let { var: b, value: Expr::Special(Special::Block) },
        Stmt::Let { var: x, value: load(data, None) },
        Stmt::Let { var: r, value },
    ];
    let text = emit(&k);
    let line = text.lines().find(|l| l.contains(" r = ")).expect("the line of r");
    line[line.find(" = ").expect("an initialiser") + 3..].trim_end_matches(';').to_string()
}

#[test]
fn parentheses_follow_precedence() {
    use BinaryOp::{Add, And, Mul, Or, Shl, Sub, Xor};
    assert_eq!(text(|a, b, _| bin(Mul, bin(Add, a, b.clone()), b)), "(a + b) * b");
    assert_eq!(text(|a, b, _| bin(Sub, a, bin(Sub, b, i(1)))), "a - (b - 1)");
    assert_eq!(text(|a, b, _| bin(Add, bin(Mul, a, i(3)), b)), "a * 3 + b");
    assert_eq!(text(|a, _, _| bin(Add, a, i(-3))), "a - 3");
    assert_eq!(text(|a, b, _| bin(Xor, bin(And, a.clone(), b), bin(Shl, a, i(3)))), "(a & b) ^ (a << 3)");
    assert_eq!(text(|a, b, _| bin(Or, bin(Or, a.clone(), b), a)), "a | b | a");
    assert_eq!(text(|a, b, _| Expr::Select(Box::new(lt(a.clone(), b.clone())), Box::new(a), Box::new(b))), "a < b ? a : b");
    assert_eq!(
        text(|a, b, _| bin(And, lt(a.clone(), b.clone()), bin(Or, lt(b.clone(), a.clone()), lt(a, i(2))))),
        "a < b && (b < a || a < 2)"
    );
}

#[test]
fn indices_are_plain_and_data_wrap() {
    use BinaryOp::{Add, Div, Mul, Rem, Shl};
    assert_eq!(text(|a, b, _| bin(Div, a, b)), "a / b");
    assert_eq!(text(|_, _, x| bin(Add, bin(Mul, x, i(31)), i(7))), "(int)((unsigned int)x * 31u + 7u)");
    assert_eq!(text(|a, _, _| bin(Mul, a, i(1_000_003))), "(int)((unsigned int)a * 1000003u)");
    assert_eq!(text(|a, _, x| bin(Rem, a, x)), "modulo(a, x)");
    assert_eq!(text(|_, _, x| bin(Rem, x, i(7))), "x % 7");
    assert_eq!(text(|a, _, x| bin(Shl, x, a)), "(int)((unsigned int)x << (a & 31))");
    assert_eq!(text(|_, _, x| Expr::Unary(UnaryOp::Neg, Box::new(x))), "(int)(0u - (unsigned int)x)");
}

#[test]
fn casts_saturate_and_small_integers_stay_small() {
    let cast = |d, e| Expr::Cast(d, Box::new(e));
    assert_eq!(text(|a, _, _| cast(DType::F32, a)), "(float)a");
    assert_eq!(text(|a, _, _| cast(DType::I32, cast(DType::F32, a))), "__float2int_rz((float)a)");
    assert_eq!(text(|a, _, _| cast(DType::U8, cast(DType::F32, a))), "float_to_uchar((float)a)");
    assert_eq!(
        text(|a, _, _| bin(BinaryOp::Add, cast(DType::U8, a), Expr::Literal(Literal::from_i64(DType::U8, 9)))),
        "(unsigned char)((unsigned char)a + 9)"
    );
    assert_eq!(text(|a, b, _| cast(DType::F16, bin(BinaryOp::Add, a, b))), "float_to_half((float)(a + b))");
}

#[test]
fn conversions_that_c_makes_by_itself_are_not_written() {
    let wide = |e| Expr::Cast(DType::I64, Box::new(e));
    let long = || Expr::Literal(Literal::index(7));
    let product = |a| bin(BinaryOp::Mul, wide(a), long());
    assert_eq!(text(|a, b, _| bin(BinaryOp::Add, product(a), wide(b))), "(long long)a * 7 + b");
    assert_eq!(text(|a, b, _| bin(BinaryOp::Mul, wide(a), wide(b))), "(long long)a * (long long)b");
    assert_eq!(text(|a, _, _| wide(a)), "a");
}

#[test]
fn a_sign_that_nobody_reads_is_not_written() {
    use BinaryOp::{Add, And, Mul, Shl, Sub};
    let cast = |d, e| Expr::Cast(d, Box::new(e));
    let word = |n| Expr::Literal(Literal::from_i64(DType::U32, n));
    let unsigned = |e| cast(DType::U32, e);
    let signed = |e| cast(DType::I32, e);
    assert_eq!(text(|a, _, x| unsigned(bin(Add, bin(Mul, x, i(3)), a))), "(unsigned int)x * 3u + (unsigned int)a");
    assert_eq!(text(|a, _, x| bin(Add, signed(bin(And, unsigned(x), word(255))), a)), "(int)(((unsigned int)x & 0xffu) + (unsigned int)a)");
    assert_eq!(text(|a, _, _| unsigned(bin(Add, a, i(3)))), "(unsigned int)(a + 3)");
    let ones = |e| Expr::Unary(UnaryOp::Popcount, Box::new(unsigned(e)));
    assert_eq!(text(|_, _, x| signed(ones(x))), "__popc((unsigned int)x)");
    assert_eq!(text(|_, _, x| bin(Sub, word(32), ones(x))), "32u - (unsigned int)__popc((unsigned int)x)");
    // A shift by what is masked already.
    assert_eq!(text(|_, _, x| bin(Shl, word(1), unsigned(bin(And, x, i(31))))), "1u << (unsigned int)(x & 31)");
    assert_eq!(text(|_, _, x| bin(Shl, word(1), bin(And, unsigned(x), word(63)))), "1u << (((unsigned int)x & 0x3fu) & 31)");
}

#[test]
fn much_shared_memory_is_dynamic() {
    let mut k = kernel("k", &[("p", false)]);
    k.shared.push(SharedArray { name: "a".into(), dtype: DType::F32, len: 8192, align: 16, at: None });
    k.shared.push(SharedArray { name: "b".into(), dtype: DType::F32, len: 8192, align: 128, at: None });
    let text = emit(&k);
    assert!(text.contains("extern __shared__ __align__(128) unsigned char shared_memory[];"), "{text}");
    assert!(text.contains("float* const b = reinterpret_cast<float*>(shared_memory + 32768);"), "{text}");
    assert!(has_dynamic_shared(&k));
    // In one file it is one variable, which nvcc wants declared alike everywhere.
    let mut other = kernel("other", &[("p", false)]);
    other.shared.push(SharedArray { name: "c".into(), dtype: DType::F32, len: 16384, align: 16, at: None });
    let both = emit_kernels(&[k, other]);
    assert_eq!(both.matches("extern __shared__ __align__(128) unsigned char shared_memory[];").count(), 2, "{both}");
}
