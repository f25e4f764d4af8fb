//! Products of f32 matrices by planes and halves of 16 bits, of operands that 16 bits cannot hold: wide exponents, numbers that are not finite,
//! rows of zeros. What they lose must be what multiply-adds, or tf32, would lose.

use girih::{Device, Stream};
use girih_core::target::Target;
use girih_examples::half_products::{halve_columns, halve_rows, multiply_halves};
use girih_examples::split_planes::{planes_of_batch, planes_onto, planes_product};

const SHAPE: [usize; 3] = [35, 34, 40];
/// Of the sum of the products' magnitudes: f32 has 2⁻²⁴ for each of 40 additions; planes keep 22 bits of each operand.
const PLANES: f64 = 1.0 / (1u64 << 19) as f64;
/// Operands of 11 bits.
const HALVES: f64 = 1.0 / (1u64 << 10) as f64;

struct Case {
    name: &'static str,
    a: fn(usize, usize) -> f32,
    b: fn(usize, usize) -> f32,
}

/// Between -1 and 1, never 0.
fn noise(i: usize, j: usize) -> f32 {
    ((i * 7919 + j * 104_729 + 13) % 1009) as f32 / 504.5 - 0.9995
}

fn cases() -> Vec<Case> {
    let case = |name, a, b| Case { name, a, b };
    vec![
        case("plain", noise, noise),
        case("large", |i, j| noise(i, j) * 1e18, |i, j| noise(i, j) * 1e17),
        case("small", |i, j| noise(i, j) * 1e-18, |i, j| noise(i, j) * 1e-15),
        case("beyond f16", |i, j| noise(i, j) * 1e5, |i, j| noise(i, j) * 1e5),
        // One number of a row is far above the others, and meets a zero: all that is left are those that its scale would drop.
        case("a peak", |i, j| if j == 3 { 1e12 } else { noise(i, j) }, |i, j| if i == 3 { 0.0 } else { noise(i, j) }),
        case("a peak in columns", |i, j| if j == 5 { 0.0 } else { noise(i, j) }, |i, j| if i == 5 { 3e14 } else { noise(i, j) * 1e-3 }),
        case(
            "exponents",
            |i, j| noise(i, j) * 2f32.powi((i * 5 + j * 11) as i32 % 60 - 30),
            |i, j| noise(i, j) * 2f32.powi((i * 3 + j) as i32 % 50 - 25),
        ),
        case("subnormal", |i, j| noise(i, j) * 1e-39, |i, j| noise(i, j) * 1e20),
        case("zeros", |i, j| if i % 3 == 0 { 0.0 } else { noise(i, j) }, |i, j| if j % 4 == 0 { 0.0 } else { noise(i, j) }),
        case("infinite", |i, j| if (i, j) == (4, 7) { f32::INFINITY } else { noise(i, j) }, noise),
        case("no number", noise, |i, j| if (i, j) == (9, 2) { f32::NAN } else { noise(i, j) }),
    ]
}

struct Data {
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Case {
    fn data(&self, [m, n, k]: [usize; 3]) -> Data {
        let a = (0..m * k).map(|i| (self.a)(i / k, i % k)).collect();
        let b = (0..k * n).map(|i| (self.b)(i / n, i % n)).collect();
        Data { a, b }
    }
}

/// Compares a product with the sum in f64, and says where it lost more than a share of its terms.
fn lost([m, n, k]: [usize; 3], data: &Data, c: &[f32], share: f64) -> Option<String> {
    (0..m * n).find_map(|i| {
        let (row, column) = (i / n, i % n);
        let terms = (0..k).map(|l| f64::from(data.a[row * k + l]) * f64::from(data.b[l * n + column]));
        let (sum, size) = terms.fold((0.0, 0.0), |(s, t), x| (s + x, t + x.abs()));
        let right = if sum.is_finite() {
            (f64::from(c[i]) - sum).abs() <= share * size + f64::from(f32::MIN_POSITIVE)
        } else {
            c[i].is_nan() == sum.is_nan() && (c[i].is_nan() || f64::from(c[i]) == sum)
        };
        (!right).then(|| format!("[{row}, {column}]: {} for {sum}, of {size}", c[i]))
    })
}

fn stream() -> Stream {
    Stream::on(&Device::sim(Target::h200()))
}

#[test]
fn planes_lose_what_multiply_adds_lose() {
    let [m, n, k] = SHAPE;
    for case in cases() {
        let (data, s) = (case.data(SHAPE), stream());
        let (a, b) = (s.tensor(&data.a, [m, k]).expect("memory"), s.tensor(&data.b, [k, n]).expect("memory"));
        let mut c = s.zeros::<f32, 2>([m, n]).expect("memory");
        planes_product(&s, &a, &b, &mut c).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(lost(SHAPE, &data, &s.read(&c).expect("results"), PLANES), None, "planes of {}", case.name);

        let (a, b) = (s.tensor(&data.a, [1, m, k]).expect("memory"), s.tensor(&data.b, [1, k, n]).expect("memory"));
        let mut c = s.zeros::<f32, 3>([1, m, n]).expect("memory");
        planes_of_batch(&s, &a, &b, &mut c).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(lost(SHAPE, &data, &s.read(&c).expect("results"), PLANES), None, "batches of {}", case.name);

        let turned: Vec<f32> = (0..n * k).map(|i| data.b[i % k * n + i / k]).collect();
        let (a, w) = (s.tensor(&data.a, [m, k]).expect("memory"), s.tensor(&turned, [n, k]).expect("memory"));
        let before = s.zeros::<f32, 2>([m, n]).expect("memory");
        let mut c = s.zeros::<f32, 2>([m, n]).expect("memory");
        planes_onto(&s, &a, &w, &before, &mut c).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(lost(SHAPE, &data, &s.read(&c).expect("results"), PLANES), None, "planes onto, of {}", case.name);
    }
}

#[test]
fn halves_lose_what_tf32_loses() {
    let [m, n, k] = SHAPE;
    for case in cases() {
        let (data, s) = (case.data(SHAPE), stream());
        let (a, b) = (s.tensor(&data.a, [m, k]).expect("memory"), s.tensor(&data.b, [k, n]).expect("memory"));
        let (mut left, mut right) = (s.zeros([m, k]).expect("memory"), s.zeros([k, n]).expect("memory"));
        let (mut rows, mut flawed) = (s.zeros([m]).expect("memory"), s.zeros([n]).expect("memory"));
        halve_rows(&s, &a, &mut left, &mut rows).unwrap_or_else(|e| panic!("{e}"));
        halve_columns(&s, &b, &mut right, &mut flawed).unwrap_or_else(|e| panic!("{e}"));
        let mut c = s.zeros::<f32, 2>([m, n]).expect("memory");
        multiply_halves(&s, &left, &right, &rows, &flawed, &a, &b, &mut c).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(lost(SHAPE, &data, &s.read(&c).expect("results"), HALVES), None, "halves of {}", case.name);
        if case.name == "plain" {
            assert!(s.read(&flawed).expect("columns").iter().all(|f| *f == 0), "no column of it is flawed");
            assert!(s.read(&rows).expect("rows").iter().all(|r| *r != 0.0), "no row of it is flawed");
        }
    }
}
