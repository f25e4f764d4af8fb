//! `h[t] = a[t] · h[t − 1] + x[t]` in every row: a scan by an operator that keeps order.
//!
//! A step is an affine map, and maps compose: (a₁, x₁) then (a₂, x₂) is (a₂ a₁, a₂ x₁ + x₂). Rows are few and long, so each is cut into
//! chunks. The first launch composes every chunk to one map; in the second every block composes the maps of the chunks before its own,
//! and scans its chunk from the value that they lead to.

use girih::prelude::*;

/// The map that applies the first map and then the second.
fn compose(first: (Scalar<f32>, Scalar<f32>), second: (Scalar<f32>, Scalar<f32>)) -> (Scalar<f32>, Scalar<f32>) {
    (second.0 * first.0, second.0.fma(first.1, second.1))
}

/// Factors and addends of some steps. The first factor of a row is never used.
#[device]
fn steps(a: &Tensor<f32, 2>, x: &Tensor<f32, 2>, r: TileIdx, t: TileIdx, rows: Size) -> (Tile<f32>, Tile<f32>) {
    (select((t.coords() == 0).expand(0, rows), 0.0, a.load((r, t))), x.load((r, t)))
}

/// The map of each chunk.
#[kernel(tile(R = 1, T = 2048), coarsen(C of T = [2, 4, 8, 16]), vector(V = [1, 2, 4]))]
pub fn chunk_maps(a: &Tensor<f32, 2>, x: &Tensor<f32, 2>, factors: &mut Tensor<f32, 2>, addends: &mut Tensor<f32, 2>) {
    for (r, t) in x.tiles([R, T]) {
        let (factor, addend) = steps(a, x, r, t, R).reduce_axis(1, (1.0, 0.0), compose);
        factors.scatter((r.coords(), t.number()), factor);
        addends.scatter((r.coords(), t.number()), addend);
    }
}

/// The recurrence in each chunk, from where the chunks before it lead.
#[kernel(tile(R = 1, T = 2048, S = [8, 32]), coarsen(C of T = [2, 4, 8, 16]), vector(V = [1, 2, 4]))]
pub fn apply_maps(a: &Tensor<f32, 2>, x: &Tensor<f32, 2>, factors: &Tensor<f32, 2>, addends: &Tensor<f32, 2>, h: &mut Tensor<f32, 2>) {
    for (r, t) in h.tiles([R, T]) {
        let mut from = zeros::<f32>([R]);
        for s in factors.axis(1).tiles(S) {
            let earlier = (s.coords() < t.number()).expand(0, R);
            let maps = (select(earlier, factors.load((r, s)), 1.0), select(earlier, addends.load((r, s)), 0.0));
            let (factor, addend) = maps.reduce_axis(1, (1.0, 0.0), compose);
            from = factor * from + addend;
        }
        let (factor, addend) = steps(a, x, r, t, R).scan(1, (1.0, 0.0), compose);
        h.store((r, t), factor.fma(from.expand(1, T), addend));
    }
}

/// What the judge calls.
#[program]
pub fn solve(a: &Tensor<f32, 2>, x: &Tensor<f32, 2>, h: &mut Tensor<f32, 2>) {
    let chunks = (x.len(1) + 2047) / 2048;
    let (mut factors, mut addends) = (temp([x.len(0), chunks]), temp([x.len(0), chunks]));
    chunk_maps(a, x, &mut factors, &mut addends);
    apply_maps(a, x, &factors, &addends, h);
}

girih::challenge! {
    Challenge::new(
        "linear_recurrence",
        solve::Program::def,
        "void solve(const float* a[B, L], const float* x[B, L], float* h[B, L], int B, int L)",
    )
    .input("a", uniform(0.0, 1.0))
    .input("x", normal(0.0, 1.0))
    .output_all("h", |c| {
        let mut h = 0.0;
        let step = |i| {
            let factor = if i % c.len("L") == 0 { 0.0 } else { c.at("a", i) };
            h = factor * h + c.at("x", i);
            h
        };
        (0..c.len("B") * c.len("L")).map(step).collect()
    })
    .tolerance(1e-5, 1e-5)
    .check_at(["B=0 L=3", "B=1 L=1", "B=3 L=127", "B=2 L=2047", "B=1 L=2048", "B=2 L=2049", "B=2 L=6151"])
    .perf_at("B=64, L=16_384")
    .flops(|s| 2.0 * s.size("B") * s.size("L"))
}
