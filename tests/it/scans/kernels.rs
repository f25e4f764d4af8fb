//! Kernels that scan.

use girih::prelude::*;

/// Prefix sums of rows, carried from tile to tile.
#[kernel(tile(R = [1, 2, 8], C = [16, 64, 256, 1024]), coarsen(CR of R = [1, 2], CC of C = [1, 2, 4, 8]), vector(V = [1, 2, 4]), grid(G = [0, 1]))]
pub fn prefix_rows(x: &Tensor<i32, 2>, y: &mut Tensor<i32, 2>) {
    for r in x.axis(0).tiles(R) {
        let mut before = zeros::<i32>([R]);
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            y.store((r, c), v.scan_sum(1) + before.expand(1, C));
            before += v.sum_axis(1);
        }
    }
}

/// Within each tile and row, the sum of what follows.
#[kernel(tile(R = [1, 3, 4], C = [24, 32, 96, 512]), coarsen(CR of R = [1], CC of C = [1, 2, 4]), vector(V = [1, 2, 4]))]
pub fn suffix_tiles(x: &Tensor<i64, 2>, y: &mut Tensor<i64, 2>) {
    for (r, c) in x.tiles([R, C]) {
        y.store((r, c), x.load((r, c)).scan_sum(along(1).exclusive().reversed()));
    }
}

/// Down the columns, the largest so far.
#[kernel(tile(R = [4, 6, 32, 64], C = [2, 8, 16]), coarsen(CR of R = [1, 2], CC of C = [1, 2]), vector(V = [1, 2]), grid(G = [0, 1]))]
pub fn most_so_far(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in x.tiles([R, C]) {
        y.store((r, c), x.load((r, c)).scan_max(0));
    }
}

/// The composition of x ↦ a x + b, an operator of two components that does not commute, in all four ways.
#[kernel(tile(T = [32, 96, 256, 2048]), coarsen(C of T = [1, 2, 4, 8]), vector(V = [1, 2, 4]))]
pub fn affine(a: &Tensor<u32, 1>, b: &Tensor<u32, 1>, y: &mut Tensor<u32, 2>) {
    for t in a.tiles([T]) {
        let f = (a.load(t), b.load(t));
        let ways = [along(0), along(0).exclusive(), along(0).reversed(), along(0).exclusive().reversed()];
        let all = ways.map(|way| {
            let (a, b) = f.scan(way, (1, 0), |f, g| (f.0 * g.0, g.0 * f.1 + g.1));
            a ^ b
        });
        y.store((t, ..4), stack(all));
    }
}

/// Sums that start anew where a number is odd.
#[kernel(tile(T = [64, 192, 1024]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 4]), grid(G = [0, 1]))]
pub fn runs(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, z: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        y.store(t, v.scan_segmented(v & 1 == 1, 0, 0, |a, b| a + b));
        z.store(t, v.scan_segmented(v & 1 == 1, along(0).exclusive(), 0, |a, b| a + b));
    }
}

/// From the end, sums that start anew where a number is odd; from the start, products of odd numbers.
#[kernel(tile(T = [64, 192]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 4]))]
pub fn runs_back(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 2>, z: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        let ways = [along(0).reversed(), along(0).exclusive().reversed()];
        y.store((t, ..2), stack(ways.map(|way| v.scan_segmented(v & 1 == 1, way, 0, |a, b| a + b))));
        z.store(t, (v | 1).scan_product(0));
    }
}

/// A 2 × 2 matrix modulo 2³².
#[derive(Clone, Copy, Debug, PartialEq, TileType)]
pub struct Matrix {
    pub a: u32,
    pub b: u32,
    pub c: u32,
    pub d: u32,
}

impl Matrix {
    const ONE: Matrix = Matrix { a: 1, b: 0, c: 0, d: 1 };
}

impl std::ops::Mul for MatrixScalar {
    type Output = MatrixScalar;
    fn mul(self, o: MatrixScalar) -> MatrixScalar {
        MatrixScalar {
            a: self.a * o.a + self.b * o.c,
            b: self.a * o.b + self.b * o.d,
            c: self.c * o.a + self.d * o.c,
            d: self.c * o.b + self.d * o.d,
        }
    }
}

/// Sums of segments without each element's own, alone: nobody asks for the flags of the last step.
#[kernel(tile(T = [32, 64]), coarsen(C of T = [1, 2]), vector = [1])]
pub fn before_in_segment(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        y.store(t, v.scan_segmented(v & 3 == 1, along(0).exclusive(), 0, |a, b| a + b));
    }
}

/// Products of matrices along the middle axis, several rows and columns in a block, and the product of the whole tile.
#[kernel(tile(R = [1, 2], T = [8, 24, 64], C = [1, 4]), coarsen(CT of T = [1, 2, 4]), vector = [1])]
pub fn products(x: &Tensor<u32, 3>, y: &mut Tensor<u32, 3>, z: &mut Tensor<u32, 3>) {
    for (r, t, c) in x.tiles([R, T, C]) {
        let v = x.load((r, t, c));
        let m = MatrixTile { a: v, b: v + 1, c: v ^ 5, d: v * 3 };
        let before = m.scan(along(1).exclusive(), Matrix::ONE, |a, b| a * b);
        y.store((r, t, c), before.a ^ before.b);
        z.store((r, t, c), (before * m).d);
    }
}

/// A scan of 16-bit floats, which compute in f32.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 2, 8]), vector(V = [1, 2, 8]))]
pub fn least_half(x: &Tensor<f16, 1>, y: &mut Tensor<f16, 1>) {
    for t in x.tiles([T]) {
        y.store(t, x.load(t).scan_min(along(0).reversed()));
    }
}
