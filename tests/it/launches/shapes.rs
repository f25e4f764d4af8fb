//! Shapes of launches: lengths of axes that meet a kernel's requirements.

use girih::inputs::{Distribution, Rng};
use girih_core::facts::TensorArg;
use girih_core::tile::access::{shape_requirements, visit};
use girih_core::tile::host::{HostArg, HostExpr, work};
use girih_core::tile::{Kernel, Op, ParamKind, RequirementKind, Stmt};
use girih_core::types::Literal;

/// Lengths per parameter (none for scalars), and the scalars' values.
#[derive(Clone, PartialEq, Debug)]
pub struct Shape {
    pub lens: Vec<Vec<i64>>,
    pub scalars: Vec<Option<Literal>>,
}

/// Elements that a kernel may visit in one launch: a long filter on a long tensor takes too long to evaluate.
const MOST_WORK: i64 = 1 << 20;
/// The same where each of them is a multiply-add of a dot, many of which are computed by each thread.
const MOST_PRODUCTS: i64 = 1 << 17;

/// Shapes with axes of the given lengths that meet the kernel's requirements: all axes alike first, then mixtures.
pub fn shapes(kernel: &Kernel, lengths: &[i64], most: usize, seed: u64) -> Vec<Shape> {
    let most_work = if kernel.has_dots() { MOST_PRODUCTS } else { MOST_WORK };
    shapes_within(most_work, kernel, lengths, most, seed)
}

/// The same of launches that visit at most so many elements: where every axis has each length once, they need not all be long at once.
pub fn shapes_within(most_work: i64, kernel: &Kernel, lengths: &[i64], most: usize, seed: u64) -> Vec<Shape> {
    let mut rng = Rng::new(seed);
    let mut found: Vec<Shape> = Vec::new();
    for attempt in 0..lengths.len() + 300 {
        let mut pick = |alike: usize| lengths[if attempt < lengths.len() { alike } else { rng.below(lengths.len()) }];
        let shared: Vec<i64> = (0..8).map(|_| pick(attempt)).collect();
        let mut shape = Shape { lens: Vec::new(), scalars: Vec::new() };
        for p in &kernel.params {
            match p.kind {
                ParamKind::Tensor { rank, .. } => {
                    shape.lens.push((0..rank).map(|k| if attempt % 3 == 2 { pick(attempt) } else { shared[k] }).collect());
                    shape.scalars.push(None);
                }
                ParamKind::Scalar(dtype) => {
                    shape.lens.push(Vec::new());
                    let bits = Distribution::Integers(1, 3).draw(dtype, &mut Rng::new(seed ^ attempt as u64));
                    shape.scalars.push(Some(Literal { dtype, bits }));
                }
            }
        }
        meet_divisors_of_scalars(kernel, &mut shape);
        meet_equalities(kernel, &mut shape);
        let small = shape.lens.iter().all(|l| l.iter().product::<i64>() <= 1 << 17);
        if small && work(kernel, &host_args(&shape)) <= most_work && requirements_hold(kernel, &shape) && !found.contains(&shape) {
            found.push(shape);
        }
        if found.len() == most {
            break;
        }
    }
    if most > 1 && reads_windows(kernel) {
        let more = unusual(kernel, &found);
        found.extend(more);
    } else if most > 1 {
        let more = tight(kernel, lengths, &found);
        found.extend(more);
    }
    found
}

/// Where some tensors must be long enough for others: a few shapes of equal lengths, made just to suffice. Reads past those leave the tensor.
fn tight(kernel: &Kernel, lengths: &[i64], found: &[Shape]) -> Vec<Shape> {
    let mut more: Vec<Shape> = Vec::new();
    // Short ones stand last.
    for length in lengths.iter().rev() {
        let Some(mut shape) = found.first().cloned() else { break };
        shape.lens.iter_mut().flatten().for_each(|l| *l = *length);
        let alike = shape.clone();
        meet_bounds(kernel, &mut shape, if length % 16 == 0 { 16 } else { 1 });
        let new = shape != alike && !found.contains(&shape) && !more.contains(&shape);
        if new && requirements_hold(kernel, &shape) && work(kernel, &host_args(&shape)) <= MOST_WORK {
            more.push(shape);
        }
    }
    more.truncate(8);
    more
}

/// Whether a kernel reads windows: of tensors that may have other lengths than what it walks.
fn reads_windows(kernel: &Kernel) -> bool {
    let mut found = false;
    visit(&kernel.body, &mut |stmt| found |= matches!(stmt, Stmt::Let(_, Op::Window { .. })));
    found
}

/// Shapes of which tests would find few by chance: one axis empty, one tensor shorter than the others, and lengths that just suffice.
fn unusual(kernel: &Kernel, found: &[Shape]) -> Vec<Shape> {
    let all = |s: &Shape, holds: fn(i64) -> bool| s.lens.iter().flatten().all(|l| holds(*l));
    // Multiples of 16, but of as few tiles as can be.
    let rough = |s: &&Shape| s.lens.iter().flatten().filter(|l| **l % 32 != 0).count();
    let whole = found.iter().filter(|s| all(s, |l| l > 16 && l % 16 == 0)).max_by_key(rough);
    let first = found.iter().find(|s| all(s, |l| l > 16 && l % 16 == 0));
    let small = found.iter().filter(|s| all(s, |l| l > 0 && l % 16 == 0)).max_by_key(rough);
    let cut = found.iter().find(|s| all(s, |l| l > 16 && l % 16 != 0));
    let mut more = Vec::new();
    for base in [first, whole, small, cut].into_iter().flatten() {
        for at in 0..base.lens.len() {
            for axis in 0..base.lens[at].len() {
                let mut shape = base.clone();
                shape.lens[at][axis] = 0;
                more.push(shape);
            }
            let mut shape = base.clone();
            shape.lens[at].iter_mut().for_each(|l| *l -= 16);
            more.push(shape);
        }
        for multiple in [1, 16] {
            let mut shape = base.clone();
            meet_bounds(kernel, &mut shape, multiple);
            more.push(shape);
        }
    }
    more.iter_mut().for_each(|s| meet_equalities(kernel, s));
    more.dedup();
    more.retain(|s| !found.contains(s) && requirements_hold(kernel, s) && work(kernel, &host_args(s)) <= MOST_WORK);
    more
}

pub(super) fn host_args(shape: &Shape) -> Vec<HostArg> {
    let arg = |(lens, scalar): (&Vec<i64>, &Option<Literal>)| match scalar {
        Some(l) => HostArg::Scalar(*l),
        None => HostArg::Tensor(TensorArg::packed(0, lens)),
    };
    shape.lens.iter().zip(&shape.scalars).map(arg).collect()
}

pub(super) fn requirements(kernel: &Kernel) -> Vec<RequirementKind> {
    kernel.requirements.iter().chain(&shape_requirements(kernel)).map(|r| r.kind.clone()).collect()
}

/// Makes scalars as many times as large as they must be multiples of.
fn meet_divisors_of_scalars(kernel: &Kernel, shape: &mut Shape) {
    for r in &kernel.requirements {
        if let RequirementKind::Divisible(a, by) = r.kind
            && let Some(HostExpr::Scalar(p)) = HostExpr::of_value(kernel, a)
            && let Some(scalar) = &mut shape.scalars[p]
            && scalar.to_i64() % by != 0
        {
            *scalar = Literal::from_i64(scalar.dtype, scalar.to_i64() * by);
        }
    }
}

/// Sets lengths so that equalities hold, and such as ask for multiples or for so many at least; three times, for those that build on each other.
fn meet_equalities(kernel: &Kernel, shape: &mut Shape) {
    let host = |v| HostExpr::of_value(kernel, v);
    for _ in 0..3 {
        for kind in requirements(kernel) {
            let (a, b, holds): (_, _, fn(i64, i64) -> bool) = match kind {
                RequirementKind::Equal(a, b) => (host(a), host(b), |a, b| a == b),
                RequirementKind::Divisible(a, by) => (host(a), Some(HostExpr::Const(by)), |a, by| a % by == 0),
                RequirementKind::AtMost(a, b) if matches!(host(a), Some(HostExpr::Const(_))) => (host(a), host(b), |a, b| a <= b),
                _ => continue,
            };
            let (Some(a), Some(b)) = (a, b) else { continue };
            let met = |shape: &Shape| holds(a.eval(&host_args(shape), 1), b.eval(&host_args(shape), 1));
            let dims = [a.lengths(), b.lengths()].concat();
            // A longer one before a shorter one, but for equalities, which may ask for any.
            let from = |(p, k): &(usize, usize)| if matches!(kind, RequirementKind::Equal(..)) { 0 } else { shape.lens[*p][*k] };
            let starts: Vec<i64> = dims.iter().map(from).collect();
            if !met(shape) && !dims.iter().zip(starts).any(|(at, from)| assign(shape, *at, from, &met)) {
                return;
            }
        }
    }
}

/// Makes axes that must have a length at least just as long, rounded up: reads past their end leave the tensor.
fn meet_bounds(kernel: &Kernel, shape: &mut Shape, multiple: i64) {
    for kind in requirements(kernel) {
        let RequirementKind::AtMost(least, len) = kind else { continue };
        let (Some(least), Some(HostExpr::Dim(p, k))) = (HostExpr::of_value(kernel, least), HostExpr::of_value(kernel, len)) else {
            continue;
        };
        if matches!(least, HostExpr::Const(_)) {
            continue;
        }
        shape.lens[p][k] = (least.eval(&host_args(shape), 1) + multiple - 1) / multiple * multiple;
    }
}

/// Gives one axis the least length from `from` on that makes `holds` true, if there is one.
fn assign(shape: &mut Shape, (p, k): (usize, usize), from: i64, holds: &dyn Fn(&Shape) -> bool) -> bool {
    let before = shape.lens[p][k];
    let found = (from..=1 << 13).any(|len| {
        shape.lens[p][k] = len;
        holds(shape)
    });
    if !found {
        shape.lens[p][k] = before;
    }
    found
}

fn requirements_hold(kernel: &Kernel, shape: &Shape) -> bool {
    let args = host_args(shape);
    let value = |v| HostExpr::of_value(kernel, v).map(|e| e.eval(&args, 1));
    requirements(kernel).into_iter().all(|kind| match kind {
        RequirementKind::Packed(_) | RequirementKind::Aligned(..) => true,
        RequirementKind::Values(p, first, end) => value(first) < value(end) || shape.lens[p].contains(&0),
        RequirementKind::AtMost(a, b) => value(a) <= value(b),
        RequirementKind::Equal(a, b) => value(a) == value(b),
        RequirementKind::Divisible(a, by) => value(a).is_none_or(|a| a % by == 0),
    })
}
