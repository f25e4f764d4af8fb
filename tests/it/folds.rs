//! Reductions and scans of the evaluator, and of lowered kernels on the simulator, against plain folds: random operators that do not
//! commute, random shapes and schedules, absent elements, numbers that are none.

use super::launches::{Launch, Placement, Shape};
use girih::prelude::*;
use girih_core::error::CompileError;
use girih_core::facts::{Facts, TensorArg};
use girih_core::lang::build::{self, Header};
use girih_core::lang::scan::Along;
use girih_core::lang::world::ByReference;
use girih_core::loc::SourceLoc;
use girih_core::lower::lower;
use girih_core::schedule::space::Space;
use girih_core::schedule::{Choice, Knob, KnobKind};
use girih_core::target::Target;
use girih_core::tile::eval::{EvalArg, EvalOptions, eval};
use girih_core::tile::{Kernel, KnobId, Param, ParamKind};
use girih_core::types::DType;
use proptest::prelude::*;

/// What is done with a tile.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Along an axis, which vanishes.
    Axis(usize),
    /// Over all elements.
    All,
    /// Along an axis, exclusive, reversed.
    Scan(usize, bool, bool),
}

/// Operators on elements of up to four words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum By {
    /// Composition of x ↦ a x + b: two components, does not commute.
    Affine,
    /// The first word that is not 0.
    First,
    /// Products of 2 × 2 matrices.
    Matrix,
    /// The largest float, by the standard operator.
    Max,
    /// The smallest float.
    Min,
    /// The sum of floats, in order.
    Sum,
    /// The author's maximum: of equal numbers, -0 and +0, the later one.
    Later,
}

type One = Scalar<u32>;
type Four<T> = (T, T, T, T);

fn affine(f: (One, One), g: (One, One)) -> (One, One) {
    (f.0 * g.0, f.1 * g.0 + g.1)
}

#[device]
fn first(a: One, b: One) -> One {
    if a != 0 { a } else { b }
}

fn matrix(a: Four<One>, b: Four<One>) -> Four<One> {
    (a.0 * b.0 + a.1 * b.2, a.0 * b.1 + a.1 * b.3, a.2 * b.0 + a.3 * b.2, a.2 * b.1 + a.3 * b.3)
}

#[device]
fn later(a: Scalar<f32>, b: Scalar<f32>) -> Scalar<f32> {
    if b >= a { b } else { a }
}

impl By {
    /// Words per element.
    pub fn components(self) -> usize {
        match self {
            By::Affine => 2,
            By::Matrix => 4,
            By::First | By::Max | By::Min | By::Sum | By::Later => 1,
        }
    }

    /// The words are floats.
    pub fn float(self) -> bool {
        matches!(self, By::Max | By::Min | By::Sum | By::Later)
    }

    fn identity(self) -> [u32; 4] {
        let float = |f: f32| [f.to_bits(), 0, 0, 0];
        match self {
            By::Affine => [1, 0, 0, 0],
            By::First => [0; 4],
            By::Matrix => [1, 0, 0, 1],
            By::Max | By::Later => float(f32::NEG_INFINITY),
            By::Min => float(f32::INFINITY),
            By::Sum => float(0.0),
        }
    }

    fn apply(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        let mul = |x: u32, y: u32, z: u32, w: u32| x.wrapping_mul(y).wrapping_add(z.wrapping_mul(w));
        let (x, y) = (f32::from_bits(a[0]), f32::from_bits(b[0]));
        let float = |f: f32| [f.to_bits(), 0, 0, 0];
        match self {
            By::Affine => [a[0].wrapping_mul(b[0]), a[1].wrapping_mul(b[0]).wrapping_add(b[1]), 0, 0],
            By::First => {
                if a[0] != 0 {
                    a
                } else {
                    b
                }
            }
            By::Matrix => {
                [mul(a[0], b[0], a[1], b[2]), mul(a[0], b[1], a[1], b[3]), mul(a[2], b[0], a[3], b[2]), mul(a[2], b[1], a[3], b[3])]
            }
            // The larger one, +0 above -0, NaN above all.
            By::Max | By::Min if x.is_nan() || y.is_nan() => float(f32::NAN),
            By::Max => float(if x > y || x == y && x.is_sign_positive() { x } else { y }),
            By::Min => float(if x < y || x == y && x.is_sign_negative() { x } else { y }),
            By::Sum => float(x + y),
            By::Later => {
                if y >= x {
                    b
                } else {
                    a
                }
            }
        }
    }

    /// The fold of some elements.
    pub fn fold(self, elements: impl Iterator<Item = [u32; 4]>) -> [u32; 4] {
        elements.fold(self.identity(), |a, b| self.apply(a, b))
    }

    fn work(self, work: Work, tiles: &[Tile<u32>]) -> Results {
        let float = tiles[0].bitcast::<f32>();
        match self {
            By::Affine => by(work, (tiles[0], tiles[1]), (1, 0), affine, |t| vec![t.0, t.1], |s| vec![s.0, s.1]),
            By::First => by(work, tiles[0], 0, first, |t| vec![t], |s| vec![s]),
            By::Matrix => {
                let all = (tiles[0], tiles[1], tiles[2], tiles[3]);
                by(work, all, (1, 0, 0, 1), matrix, |t| vec![t.0, t.1, t.2, t.3], |s| vec![s.0, s.1, s.2, s.3])
            }
            By::Later => by(work, float, f32::NEG_INFINITY, later, |t| vec![t.bitcast()], |s| vec![s.bitcast()]),
            By::Max => standard(work, float, Tile::max_axis, Tile::max_all, Tile::scan_max),
            By::Min => standard(work, float, Tile::min_axis, Tile::min_all, Tile::scan_min),
            By::Sum => standard(work, float, Tile::sum_axis, Tile::sum, Tile::scan_sum),
        }
    }
}

/// One tile or scalar per component.
enum Results {
    Tiles(Vec<Tile<u32>>),
    Scalars(Vec<One>),
}

fn axis_of(axis: usize, exclusive: bool, reversed: bool) -> Along {
    let mut at = along(axis);
    if exclusive {
        at = at.exclusive();
    }
    if reversed {
        at = at.reversed();
    }
    at
}

fn by<C: TileLike>(
    work: Work,
    tiles: C,
    identity: C::Value,
    op: impl FnOnce(C::Element, C::Element) -> C::Element,
    apart: fn(C) -> Vec<Tile<u32>>,
    scalars: fn(C::Element) -> Vec<One>,
) -> Results {
    match work {
        Work::Axis(axis) => Results::Tiles(apart(tiles.reduce_axis(axis, identity, op))),
        Work::All => Results::Scalars(scalars(tiles.reduce_all(identity, op))),
        Work::Scan(axis, exclusive, reversed) => Results::Tiles(apart(tiles.scan(axis_of(axis, exclusive, reversed), identity, op))),
    }
}

fn standard(
    work: Work,
    tile: Tile<f32>,
    axis: fn(Tile<f32>, usize) -> Tile<f32>,
    all: fn(Tile<f32>) -> Scalar<f32>,
    scan: fn(Tile<f32>, Along) -> Tile<f32>,
) -> Results {
    match work {
        Work::Axis(k) => Results::Tiles(vec![axis(tile, k).bitcast()]),
        Work::All => Results::Scalars(vec![all(tile).bitcast()]),
        Work::Scan(k, exclusive, reversed) => Results::Tiles(vec![scan(tile, axis_of(k, exclusive, reversed)).bitcast()]),
    }
}

/// A piece of work on matrices of words: their lengths and the tile's.
#[derive(Clone, Debug)]
pub struct Case {
    pub by: By,
    pub work: Work,
    /// Rows and columns.
    pub lens: [usize; 2],
    /// The tile, which covers the axis of the work.
    pub tile: [usize; 2],
    /// One matrix per component.
    pub words: Vec<Vec<u32>>,
}

impl Case {
    /// A tile may go beyond the lengths: absent elements count as the identity.
    pub fn kernel(&self) -> Kernel {
        let n = self.by.components();
        let rank = if matches!(self.work, Work::Scan(..)) { 2 } else { 1 };
        let tensor = |name: String, rank, mutable| Param { name, kind: ParamKind::Tensor { dtype: DType::U32, rank, mutable } };
        let params = (0..n).map(|i| tensor(format!("x{i}"), 2, false)).chain((0..n).map(|i| tensor(format!("y{i}"), rank, true))).collect();
        let loc = SourceLoc { file: file!(), line: 1, column: 1 };
        let header = Header { name: "fold", module: module_path!(), loc, source: include_str!("folds.rs"), params };
        let knob = |name: &str, kind, choices: &[i64]| Knob {
            name: name.into(),
            kind,
            of: None,
            choices: choices.iter().map(|c| Choice::Int(*c)).collect(),
            loc,
        };
        let knobs = vec![
            knob("R", KnobKind::Tile, &[self.tile[0] as i64]),
            knob("C", KnobKind::Tile, &[self.tile[1] as i64]),
            knob("CR", KnobKind::Coarsen { of: KnobId(0) }, &[1, 2, 3, 4]),
            knob("CC", KnobKind::Coarsen { of: KnobId(1) }, &[1, 2, 3, 5]),
        ];
        build::kernel(header, &[], build::Attribute { knobs, deterministic: false }, || self.body(n)).unwrap_or_else(|e| panic!("{e}"))
    }

    #[allow(clippy::needless_range_loop)]
    fn body(&self, n: usize) {
        let (rows, columns) = (Size::knob(0), Size::knob(1));
        let x: Vec<Tensor<u32, 2>> = (0..n).map(Tensor::symbol).collect();
        match self.work {
            Work::All => {
                let whole = (..self.lens[0] as i32, ..self.lens[1] as i32);
                let Results::Scalars(all) = self.by.work(self.work, &x.iter().map(|x| x.load(whole)).collect::<Vec<_>>()) else { return };
                (0..n).for_each(|i| Tensor::<u32, 1>::symbol(n + i).store_at(0, all[i]));
            }
            Work::Axis(axis) => with_tiles(&x, axis, rows, columns, |kept, v| {
                let Results::Tiles(all) = self.by.work(self.work, v) else { return };
                (0..n).for_each(|i| Tensor::<u32, 1>::symbol(n + i).store(kept, all[i]));
            }),
            Work::Scan(..) => both_tiles(&x, rows, columns, |at, v| {
                let Results::Tiles(all) = self.by.work(self.work, v) else { return };
                (0..n).for_each(|i| Tensor::<u32, 2>::symbol(n + i).store(at, all[i]));
            }),
        }
    }

    fn element(&self, row: usize, column: usize) -> [u32; 4] {
        std::array::from_fn(|k| self.words.get(k).map_or(0, |w| w[row * self.lens[1] + column]))
    }

    /// What each element of the output must be, in order.
    pub fn expected(&self) -> Vec<[u32; 4]> {
        let [rows, columns] = self.lens;
        let line = |axis: usize, at: usize| -> Vec<[u32; 4]> {
            if axis == 0 { (0..rows).map(|r| self.element(r, at)).collect() } else { (0..columns).map(|c| self.element(at, c)).collect() }
        };
        match self.work {
            Work::All => vec![self.by.fold((0..rows).flat_map(|r| line(1, r)))],
            Work::Axis(axis) => (0..self.lens[1 - axis]).map(|k| self.by.fold(line(axis, k).into_iter())).collect(),
            Work::Scan(axis, exclusive, reversed) => {
                let mut all = vec![[0; 4]; rows * columns];
                for k in 0..self.lens[1 - axis] {
                    let mut elements: Vec<[u32; 4]> = line(axis, k);
                    if reversed {
                        elements.reverse();
                    }
                    for i in 0..elements.len() {
                        let end = if exclusive { i } else { i + 1 };
                        let along = if reversed { elements.len() - 1 - i } else { i };
                        let at = if axis == 0 { along * columns + k } else { k * columns + along };
                        all[at] = self.by.fold(elements[..end].iter().copied());
                    }
                }
                all
            }
        }
    }

    /// Lengths of inputs and outputs.
    pub fn shapes(&self) -> (Vec<i64>, Vec<i64>) {
        let [rows, columns] = self.lens.map(|l| l as i64);
        let out = match self.work {
            Work::All => vec![1],
            Work::Axis(axis) => vec![if axis == 0 { columns } else { rows }],
            Work::Scan(..) => vec![rows, columns],
        };
        (vec![rows, columns], out)
    }

    /// Whether the words of the outputs are what the fold gives.
    pub fn check(&self, outputs: &[Vec<u32>]) {
        for (i, want) in self.expected().into_iter().enumerate() {
            for (k, words) in outputs.iter().enumerate() {
                let nan = |w: u32| self.by.float() && f32::from_bits(w).is_nan();
                let same = words[i] == want[k] || nan(words[i]) && nan(want[k]);
                assert!(same, "element {i}, component {k}: {:#x} where {:#x} is expected, in {self:?}", words[i], want[k]);
            }
        }
    }
}

/// A loop over the tiles of the kept axis; the tile covers the other.
#[device]
fn with_tiles(x: &[Tensor<u32, 2>], axis: usize, rows: Size, columns: Size, f: impl Fn(TileIdx, &[Tile<u32>])) {
    if axis == 1 {
        for r in x[0].axis(0).tiles(rows) {
            for c in x[0].axis(1).tiles(columns) {
                let v: Vec<Tile<u32>> = x.iter().map(|x| x.load((r, c))).collect();
                f(r, &v);
            }
        }
    } else {
        for c in x[0].axis(1).tiles(columns) {
            for r in x[0].axis(0).tiles(rows) {
                let v: Vec<Tile<u32>> = x.iter().map(|x| x.load((r, c))).collect();
                f(c, &v);
            }
        }
    }
}

#[device]
fn both_tiles(x: &[Tensor<u32, 2>], rows: Size, columns: Size, f: impl Fn((TileIdx, TileIdx), &[Tile<u32>])) {
    for (r, c) in x[0].tiles([rows, columns]) {
        let v: Vec<Tile<u32>> = x.iter().map(|x| x.load((r, c))).collect();
        f((r, c), &v);
    }
}

fn evaluate(case: &Case) {
    let kernel = case.kernel();
    let (inputs, output) = case.shapes();
    let bytes = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let n = case.by.components();
    let elements = output.iter().product::<i64>() as usize;
    let mut memory: Vec<Vec<u8>> = case.words.iter().map(|w| bytes(w)).chain((0..n).map(|_| bytes(&vec![!0; elements]))).collect();
    let mut args: Vec<EvalArg> = memory
        .iter_mut()
        .enumerate()
        .map(|(i, bytes)| EvalArg::Tensor { bytes, shape: TensorArg::packed(0, if i < n { &inputs } else { &output }) })
        .collect();
    eval(&kernel, &mut args, &EvalOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    drop(args);
    let words = |b: &Vec<u8>| b.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().expect("four bytes"))).collect();
    case.check(&memory[n..].iter().map(words).collect::<Vec<Vec<u32>>>());
}

/// Lowers the case under some schedules and runs it on the simulator and on a GPU, where there is one; how many schedules were legal.
fn simulate(case: &Case, seed: u64) -> usize {
    let kernel = case.kernel();
    let (inputs, output) = case.shapes();
    let n = case.by.components();
    let lens = (0..2 * n).map(|i| if i < n { inputs.clone() } else { output.clone() }).collect();
    let shape = Shape { lens, scalars: vec![None; 2 * n] };
    let launch = Launch::new(&kernel, &shape, Placement::Shifted, 0).holding(&case.words);
    let facts = Facts::packed(&kernel, true);
    let mut legal = 0;
    for schedule in Space::new(&kernel, &facts, Target::h200()).sample(3, seed) {
        let simt = match lower(&kernel, &facts, &schedule, Target::h200()) {
            Ok(simt) => simt,
            Err(CompileError::Schedule(_)) => continue,
            Err(e) => panic!("{e}"),
        };
        let after = launch.everywhere(&simt, FUEL).unwrap_or_else(|e| panic!("{}: {e}, in {case:?}", schedule.short(&kernel)));
        after.iter().for_each(|after| case.check(&launch.results(after)));
        legal += 1;
    }
    legal
}

/// Warp instructions after which a launch of these sizes is taken for endless.
const FUEL: u64 = 5_000_000;

/// Words of an operator's elements: floats among which are NaN, infinities and -0; words of which some are 0.
fn word(by: By) -> BoxedStrategy<u32> {
    if !by.float() {
        return prop_oneof![3 => any::<u32>(), 1 => Just(0)].boxed();
    }
    let special = if matches!(by, By::Sum | By::Later) {
        vec![0.0, -0.0, 1e30, -1e30]
    } else {
        vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0]
    };
    prop_oneof![4 => -8i32..8, 1 => 100i32..105]
        .prop_map(move |i| if i < 100 { (i as f32 * 0.7).to_bits() } else { special[i as usize % special.len()].to_bits() })
        .boxed()
}

/// Random cases; `scans` alone if asked.
pub fn cases(scans: bool) -> impl Strategy<Value = Case> {
    let by = prop_oneof![Just(By::Affine), Just(By::First), Just(By::Matrix), Just(By::Max), Just(By::Min), Just(By::Sum), Just(By::Later)];
    let scan = (0..2usize, any::<bool>(), any::<bool>()).prop_map(|(a, e, r)| Work::Scan(a, e, r));
    let work = if scans { scan.boxed() } else { prop_oneof![(0..2usize).prop_map(Work::Axis), Just(Work::All), scan].boxed() };
    (by, work, 1..20usize, 1..40usize, 0..9usize, 1..12usize).prop_flat_map(|(by, work, rows, columns, more, other)| {
        let lens = [rows, columns];
        let tile = match work {
            Work::All => lens,
            Work::Axis(axis) | Work::Scan(axis, ..) => std::array::from_fn(|k| if k == axis { lens[k] + more } else { other }),
        };
        proptest::collection::vec(proptest::collection::vec(word(by), rows * columns), by.components()).prop_map(move |words| Case {
            by,
            work,
            lens,
            tile,
            words,
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn reductions_and_scans_are_folds(case in cases(false)) {
        evaluate(&case);
    }

    /// Sums are regrouped and have a test of their own; other operators give the same bits in any grouping.
    #[test]
    fn lowered_reductions_and_scans_are_folds(case in cases(false), seed in any::<u64>()) {
        prop_assume!(case.by != By::Sum);
        simulate(&case, seed);
    }
}

/// The cases above have legal schedules: not all of them are skipped.
#[test]
fn folds_have_schedules() {
    let words = |n: usize| vec![(0..n as u32).collect::<Vec<u32>>(); 2];
    for (work, lens, tile) in
        [(Work::Axis(1), [7, 40], [4, 48]), (Work::All, [3, 5], [3, 5]), (Work::Scan(0, true, false), [12, 9], [16, 8])]
    {
        let case = Case { by: By::Affine, work, lens, tile, words: words(lens[0] * lens[1]) };
        assert!(simulate(&case, 1) > 0, "{work:?}");
    }
}
