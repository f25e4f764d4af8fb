//! Dots of awkward numbers on every unit and in every precision: wide exponents, denormals, infinities, NaN, cancellation, extremes of
//! integers; empty, long and thin operands at odd addresses. Multiply-adds of a thread give the evaluator's very bits; matrix units stay
//! within what their arithmetic may lose.

use super::super::launches::{Launch, Placement, Shape};
use girih::inputs::Rng;
use girih_core::lower::lower;
use girih_core::registry::KernelDef;
use girih_core::scalar;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_core::tile::{Kernel, ParamKind};
use girih_core::types::{DType, Literal, UnaryOp};
use girih_examples::lower_precision_gemm::{Bf16Bf16, Bf16F32, F16F16, F16F32, Int8, NN, NT, TN, Tf32, lower_precision_gemm};
use girih_examples::{matrix_multiplication, split_products};

const FUEL: u64 = 50_000_000;

/// What a kernel multiplies, and how its operands lie.
struct Product {
    def: KernelDef,
    /// Its operands are rounded to tf32.
    tf32: bool,
    /// Its operands are taken for sums of two tf32 numbers.
    split: bool,
    a_turned: bool,
    b_turned: bool,
}

/// Every precision, every layout of one of them.
fn products() -> Vec<Product> {
    let product = |def, a_turned, b_turned| Product { def, tf32: false, split: false, a_turned, b_turned };
    vec![
        product(matrix_multiplication::matrix_multiplication::Kernel::def(), false, false),
        Product { split: true, ..product(split_products::split_matrix_multiplication::Kernel::def(), false, false) },
        product(lower_precision_gemm::Kernel::<F16F32, NN>::def(), false, false),
        product(lower_precision_gemm::Kernel::<F16F32, NT>::def(), false, true),
        product(lower_precision_gemm::Kernel::<F16F32, TN>::def(), true, false),
        product(lower_precision_gemm::Kernel::<F16F16, NT>::def(), false, true),
        product(lower_precision_gemm::Kernel::<Bf16F32, NN>::def(), false, false),
        product(lower_precision_gemm::Kernel::<Bf16Bf16, TN>::def(), true, false),
        Product { tf32: true, ..product(lower_precision_gemm::Kernel::<Tf32, NT>::def(), false, true) },
        Product { tf32: true, ..product(lower_precision_gemm::Kernel::<Tf32, TN>::def(), true, false) },
        product(lower_precision_gemm::Kernel::<Int8, NN>::def(), false, false),
        product(lower_precision_gemm::Kernel::<Int8, NT>::def(), false, true),
    ]
}

/// Schedules to try, by the kernel's knobs; what is illegal for a launch's facts is left out.
fn schedules(kernel: &Kernel) -> &'static [(&'static str, bool)] {
    match kernel.name.as_str() {
        "matrix_multiplication" => &[
            ("BM=32,BN=32,BK=8,TM=4,TN=4,V=4,O=Shared,S=3,P=Async,X=8,Z=1", false),
            ("BM=32,BN=32,BK=16,TM=2,TN=4,V=1,O=Shared,S=2,P=Registers,X=1,Z=1", false),
            ("BM=16,BN=16,BK=8,TM=1,TN=1,V=1,O=Direct,S=1,P=Registers,X=1,Z=1", false),
        ],
        "split_matrix_multiplication" => &[
            ("BM=32,BN=32,BK=32,TM=4,TN=4,V=4,U=Mma,W=4,S=3,P=Async,X=8,Z=1", true),
            ("BM=32,BN=32,BK=32,TM=4,TN=4,V=4,U=Mma,W=4,S=2,P=Overlap,X=1,Z=2", true),
            ("BM=32,BN=32,BK=16,TM=1,TN=1,V=1,U=Ffma,W=4,S=2,P=Registers,X=1,Z=1", true),
        ],
        _ => &[
            ("BM=32,BN=32,BK=32,TM=4,TN=4,V=4,U=Mma,W=4,S=3,P=Async,X=8", true),
            ("BM=32,BN=32,BK=32,TM=8,TN=8,V=8,U=Mma,W=4,S=1,P=Registers,X=1", true),
            ("BM=32,BN=32,BK=32,TM=1,TN=1,V=1,U=Mma,W=4,S=2,P=Registers,X=1", true),
            ("BM=32,BN=32,BK=32,TM=4,TN=4,V=1,U=Ffma,W=4,S=2,P=Registers,X=1", false),
        ],
    }
}

/// Operands with their lengths.
struct Case {
    name: &'static str,
    m: usize,
    n: usize,
    k: usize,
    a: Vec<Literal>,
    b: Vec<Literal>,
}

/// One case of a kernel's element type: `a(row, l)` and `b(l, column)`.
fn case(
    name: &'static str,
    dtype: DType,
    [m, n, k]: [usize; 3],
    a: impl Fn(usize, usize, &mut Rng) -> f64,
    b: impl Fn(usize, usize, &mut Rng) -> f64,
) -> Case {
    let mut rng = Rng::new(name.len() as u64 + (m * n * k) as u64);
    let literal = |x: f64| if dtype.is_float() { Literal::from_f64(dtype, x) } else { Literal::from_i64(dtype, x as i64) };
    let a = (0..m * k).map(|i| literal(a(i / k, i % k, &mut rng))).collect();
    let b = (0..k * n).map(|i| literal(b(i / n, i % n, &mut rng))).collect();
    Case { name, m, n, k, a, b }
}

/// Between -1 and 1.
fn fraction(rng: &mut Rng) -> f64 {
    rng.below(4001) as f64 / 2000.0 - 1.0
}

fn awkward(dtype: DType) -> Vec<Case> {
    const SHAPE: [usize; 3] = [35, 34, 70];
    if !dtype.is_float() {
        let any = |_: usize, _: usize, rng: &mut Rng| rng.below(256) as f64 - 128.0;
        return vec![
            case("least", dtype, SHAPE, |_, _, _| -128.0, |_, _, _| -128.0),
            case(
                "extremes",
                dtype,
                SHAPE,
                |_, l, _| if l % 2 == 0 { -128.0 } else { 127.0 },
                |l, _, _| if l % 3 == 0 { 127.0 } else { -128.0 },
            ),
            case("any", dtype, SHAPE, any, any),
        ];
    }
    // Products of f16 reach 2^10, their sums stay below 65504; those of f32's exponents are spread over 120 powers of two.
    let (widest, least) = match dtype {
        DType::F16 => (4, -24),
        DType::BF16 => (60, -133),
        _ => (60, -149),
    };
    let wide = move |_: usize, _: usize, rng: &mut Rng| fraction(rng) * 2f64.powi(rng.below(2 * widest + 1) as i32 - widest as i32);
    let near_one = |_: usize, _: usize, rng: &mut Rng| fraction(rng);
    let denormal = move |_: usize, _: usize, rng: &mut Rng| (rng.below(100) as f64 - 50.0) * 2f64.powi(least);
    // Every product has its opposite some places further on, and a little is left.
    let cancelling = |row: usize, l: usize, _: &mut Rng| {
        let large = ((row * 7 + l % 35 * 13) % 64 + 1) as f64;
        if l % 35 == 34 {
            2f64.powi(-10)
        } else if l < 35 {
            large
        } else {
            -large
        }
    };
    let special = |row: usize, l: usize, rng: &mut Rng| match (row, l) {
        (3, 5) | (30, 69) => f64::INFINITY,
        (4, 0) => f64::NEG_INFINITY,
        (5, 1) | (34, 68) => f64::NAN,
        (6, 2) => f64::INFINITY,
        (6, 40) => f64::NEG_INFINITY,
        // Rounds to infinity in any shorter format.
        (7, 3) if dtype == DType::F32 => f32::MAX as f64,
        _ => fraction(rng),
    };
    // What f32's (or an f16 result's) range can't hold, of one sign in each row, and rows that it can.
    let large = if dtype == DType::F16 { 60.0 } else { 2f64.powi(70) };
    let overflowing = move |row: usize, _: usize, rng: &mut Rng| match row % 3 {
        0 => fraction(rng),
        1 => large,
        _ => -large,
    };
    let columns = |l: usize, column: usize, rng: &mut Rng| match (l, column) {
        // Infinity times zero is no number, times a negative number the other infinity.
        (5, 0) | (0, 1) => 0.0,
        (5, 2) | (2, 3) => -1.0,
        (11, 33) => f64::NAN,
        (69, 32) => f64::INFINITY,
        (3, _) => 0.5,
        _ => fraction(rng).abs() + 0.125,
    };
    vec![
        case("wide exponents", dtype, SHAPE, wide, wide),
        case("denormals", dtype, SHAPE, denormal, near_one),
        case("cancellation", dtype, SHAPE, cancelling, |l, column, _| ((l % 35 + column) % 5 + 1) as f64),
        case("overflow", dtype, SHAPE, overflowing, move |_, _, _| large),
        case("infinities and NaN", dtype, SHAPE, special, columns),
    ]
}

/// Rows, columns, single elements and sums of nothing, of numbers near 1.
fn thin(dtype: DType) -> Vec<Case> {
    let scale = if dtype.is_float() { 1.0 } else { 100.0 };
    let any = move |_: usize, _: usize, rng: &mut Rng| fraction(rng) * scale;
    let shapes = [[1, 35, 37], [35, 1, 37], [1, 1, 1], [1, 1, 67], [33, 2, 0], [2, 33, 1]];
    shapes.map(|shape| case("thin", dtype, shape, any, any)).into()
}

/// The exact element (row, column) and the sum of all magnitudes. Infinities and NaN follow from double precision's rules.
fn exact(product: &Product, case: &Case, row: usize, column: usize) -> (f64, f64) {
    let value = |l: &Literal| match product.tf32 {
        true => Literal { bits: scalar::unary(UnaryOp::RoundTf32, DType::F32, l.bits), ..*l }.to_f64(),
        false => l.to_f64(),
    };
    let terms = (0..case.k).map(|l| value(&case.a[row * case.k + l]) * value(&case.b[l * case.n + column]));
    terms.fold((0.0, 0.0), |(sum, magnitude), t| (sum + t, magnitude + t.abs()))
}

/// By how much an element may be off: see `Atom::error_bound`; the last steps are those of f32's and the result's smallest numbers.
fn bound(out: DType, matrix: bool, terms: usize, (sum, magnitude): (f64, f64)) -> f64 {
    if !out.is_float() {
        return 0.0;
    }
    let terms = terms as f64 + 8.0;
    let step = if matrix { 1.25 * 2f64.powi(-23) } else { 2f64.powi(-24) };
    let sums = terms * (step * magnitude + 2f64.powi(-149));
    match out {
        DType::F16 => sums + (sum.abs() + sums) * 2f64.powi(-11) + 2f64.powi(-25),
        DType::BF16 => sums + (sum.abs() + sums) * 2f64.powi(-8) + 2f64.powi(-134),
        _ => sums,
    }
}

/// The same of operands that are sums of two tf32 numbers: they leave out the product of both lower ones, 2⁻²², and end with tf32's smallest
/// number; `most` is the largest element.
fn split_bound(terms: usize, (_, magnitude): (f64, f64), most: f64) -> f64 {
    bound(DType::F32, true, 3 * terms, (0.0, magnitude)) + 2f64.powi(-21) * magnitude + terms as f64 * 2f64.powi(-136) * (1.0 + most)
}

fn value(dtype: DType, bytes: &[u8]) -> f64 {
    let mut bits = [0; 8];
    bits[..bytes.len()].copy_from_slice(bytes);
    let literal = Literal { dtype, bits: u64::from_le_bytes(bits) };
    if dtype.is_float() { literal.to_f64() } else { literal.to_i64() as f64 }
}

/// A sum as a result of this type: an infinity where it is too large.
fn in_range(out: DType, sum: f64) -> f64 {
    let most = match out {
        DType::F16 => 65504.0,
        DType::BF16 => f32::from_bits(0x7f7f_0000) as f64,
        _ => f32::MAX as f64,
    };
    if out.is_float() && sum.abs() > 1.01 * most { f64::INFINITY.copysign(sum) } else { sum }
}

fn fits(got: f64, wanted: f64, bound: f64) -> bool {
    match wanted {
        w if w.is_nan() => got.is_nan(),
        w if w.is_infinite() => got == w,
        w => (got - w).abs() <= bound,
    }
}

/// Whether an element is what it should be; `None` where it is.
fn wrong(product: &Product, case: &Case, out: DType, matrix: bool, found: &[u8]) -> Option<String> {
    let finite = case.a.iter().chain(&case.b).map(|l| l.to_f64().abs()).filter(|x| x.is_finite());
    let most = finite.fold(0.0, f64::max);
    for (i, bytes) in found.chunks_exact(out.size()).enumerate() {
        let (row, column) = (i / case.n, i % case.n);
        let (wanted, got) = (exact(product, case, row, column), value(out, bytes));
        let bound = if product.split { split_bound(case.k, wanted, most) } else { bound(out, matrix, case.k, wanted) };
        let held = in_range(out, wanted.0);
        if !fits(got, held, bound) {
            return Some(format!("element ({row}, {column}) is {got:e}, not {held:e} ± {bound:e}"));
        }
    }
    None
}

/// Runs a case under every schedule that is legal for the placement's facts; how many there were.
fn run(product: &Product, kernel: &Kernel, case: &Case, placement: Placement) -> usize {
    let (m, n, k) = (case.m as i64, case.n as i64, case.k as i64);
    let turned = |turned: bool, rows: i64, columns: i64| if turned { vec![columns, rows] } else { vec![rows, columns] };
    let lens = vec![turned(product.a_turned, m, k), turned(product.b_turned, k, n), vec![m, n]];
    let mut launch = Launch::new(kernel, &Shape { lens, scalars: vec![None; 3] }, placement, 0);
    let operand = |elements: &[Literal], turned: bool, rows: usize, columns: usize, i: usize| match turned {
        true => elements[i % rows * columns + i / rows].bits,
        false => elements[i].bits,
    };
    launch.set(kernel, &kernel.params[0].name, &|i| operand(&case.a, product.a_turned, case.m, case.k, i));
    launch.set(kernel, &kernel.params[1].name, &|i| operand(&case.b, product.b_turned, case.k, case.n, i));
    let ParamKind::Tensor { dtype: out, .. } = kernel.params[2].kind else { panic!("the result is a tensor") };
    launch.slack = f64::INFINITY;
    let facts = launch.facts(kernel);
    let expected = launch.evaluate(kernel).unwrap_or_else(|e| panic!("{}: {e}", kernel.full_name()));
    let what = |text: &str| format!("{} {text}: {}, {placement:?}, {m} x {n} x {k}", kernel.full_name(), case.name);
    let evaluated = launch.elements_in(&expected, 2);
    assert_eq!(wrong(product, case, out, false, &evaluated), None, "{}", what("evaluated"));
    let mut runs = 0;
    for (text, matrix) in schedules(kernel) {
        let schedule = parse_schedule(kernel, text).unwrap_or_else(|e| panic!("{}: {e}", what(text)));
        let Ok(simt) = lower(kernel, &facts, &schedule, Target::h200()) else { continue };
        runs += 1;
        for after in launch.everywhere(&simt, FUEL).unwrap_or_else(|e| panic!("{}: {e}", what(text))) {
            // Numbers are judged below: this is for what must not be touched.
            assert_eq!(launch.difference(kernel, &after, &expected), None, "{}", what(text));
            let found = after.elements_of(&launch, 2);
            match matrix {
                true => assert_eq!(wrong(product, case, out, true, &found), None, "{}", what(text)),
                false => assert_eq!(unlike(out, &found, &evaluated), None, "{}", what(text)),
            }
        }
    }
    runs
}

/// The first element that has other bits; one NaN is as good as another.
fn unlike(out: DType, found: &[u8], wanted: &[u8]) -> Option<String> {
    let size = out.size();
    let mut pairs = found.chunks_exact(size).zip(wanted.chunks_exact(size)).enumerate();
    let (i, (f, w)) = pairs.find(|(_, (f, w))| f != w && !(value(out, f).is_nan() && value(out, w).is_nan()))?;
    Some(format!("element {i} is {:e}, the evaluator's is {:e}", value(out, f), value(out, w)))
}

/// Runs cases of every product; each must run on every unit that the kernel lists.
fn run_all(cases: fn(DType) -> Vec<Case>, placements: &[Placement]) {
    for product in products() {
        let kernel = (product.def.build)().expect("a kernel builds");
        let ParamKind::Tensor { dtype, .. } = kernel.params[0].kind else { panic!("an operand is a tensor") };
        for placement in placements {
            let runs: usize = cases(dtype).iter().map(|case| run(&product, &kernel, case, *placement)).sum();
            // At odd addresses there are schedules without vectors left: one for each unit.
            let units = if kernel.name == "matrix_multiplication" { 1 } else { 2 };
            assert!(runs >= units * cases(dtype).len(), "{}, {placement:?}: {runs} runs", kernel.full_name());
        }
    }
}

#[test]
fn awkward_numbers_go_through_every_unit() {
    run_all(awkward, &[Placement::Aligned]);
}

#[test]
fn thin_and_empty_operands_at_odd_addresses() {
    run_all(thin, &[Placement::Shifted, Placement::Strided]);
}

/// The tests above notice what they are for: a sum of another order, a product that was rounded, a zero in place of NaN.
#[test]
fn what_is_lost_is_noticed() {
    let product = products().remove(1);
    let case = awkward(DType::F16).remove(4);
    let exactly = |row, column| exact(&product, &case, row, column);
    assert!(exactly(3, 0).0.is_nan() && exactly(3, 2).0 == f64::NEG_INFINITY && exactly(3, 4).0 == f64::INFINITY);
    assert!(exactly(6, 4).0.is_nan() && exactly(0, 33).0.is_nan() && exactly(0, 0).0.is_finite());
    assert!(!fits(0.0, f64::NAN, 1.0) && !fits(f64::MAX, f64::INFINITY, 1.0) && !fits(f64::NAN, 0.0, 1.0));
    let case = awkward(DType::F16).remove(3);
    let sums = [0, 1, 2].map(|row| in_range(DType::F16, exact(&product, &case, row, 0).0));
    assert!(sums[0].is_finite() && sums[1..] == [f64::INFINITY, f64::NEG_INFINITY], "{sums:?}");
    assert!(in_range(DType::F32, exact(&product, &case, 1, 0).0).is_finite());
    // A large sum that leaves a little: half of f32's last place of the magnitudes is allowed, and no more.
    let case = awkward(DType::F32).remove(2);
    let (sum, magnitude) = exact(&products()[0], &case, 1, 1);
    let allowed = bound(DType::F32, false, case.k, (sum, magnitude));
    assert!(sum.abs() < 1.0 && magnitude > 1000.0 && allowed < 1e-4 * magnitude && !fits(sum + 0.01 * magnitude, sum, allowed));
    assert!(unlike(DType::F32, &1f32.to_le_bytes(), &(1.0 + f32::EPSILON).to_le_bytes()).is_some());
    assert_eq!(unlike(DType::F32, &f32::NAN.to_le_bytes(), &(-f32::NAN).to_le_bytes()), None);
}
