//! Kernels that break one rule of clusters each, by any choice above 1.

use girih::prelude::*;

#[kernel(tile(R = 1, C = 64), cluster(X of C = [1, 2]))]
pub fn pinned_columns(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut acc = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            acc += x.load((r, c));
        }
        y.store(r, acc.sum_axis(1));
    }
}

#[kernel(tile(R = 1, C = [64, 128]), grid(G = [0, 1]), cluster(X of C = [1, 2]))]
pub fn dealt_rows(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut acc = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            acc += x.load((r, c));
        }
        y.store(r, acc.sum_axis(1));
    }
}

#[kernel(tile(R = 1, C = [64, 128], D = [32, 64]), cluster(X of C = [1, 2]))]
pub fn other_tiles(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut acc = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            acc += x.load((r, c));
        }
        let mut more = zeros::<f32>([R, D]);
        for d in x.axis(1).tiles(D) {
            more += x.load((r, d));
        }
        y.store(r, acc.sum_axis(1) + more.sum_axis(1));
    }
}

#[kernel(tile(R = 1, C = [64, 128]), cluster(X of C = [1, 2]))]
pub fn counted_turns(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut acc = zeros::<f32>([R, C]);
        let mut turns = zeros::<f32>([R]);
        for c in x.axis(1).tiles(C) {
            acc += x.load((r, c));
            turns += 1.0;
        }
        y.store(r, acc.sum_axis(1) + turns);
    }
}

#[kernel(tile(R = 1, C = [64, 128]), cluster(X of C = [1, 2]))]
pub fn sums_of_turns(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut acc = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            acc += v - v.max_axis(1).expand(1, C);
        }
        y.store(r, acc.sum_axis(1));
    }
}

#[kernel(tile(R = 1, C = [64, 128]), cluster(X of C = [1, 2]))]
pub fn wide_numbers(x: &Tensor<i64, 2>, y: &mut Tensor<i64, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut acc = zeros::<i64>([R, C]);
        for c in x.axis(1).tiles(C) {
            acc += x.load((r, c));
        }
        y.store(r, acc.sum_axis(1));
    }
}

#[kernel(tile(R = 1, C = [64, 128]), cluster(X of C = [1, 2]))]
pub fn stored_by_turns(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>, z: &mut Tensor<f32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut acc = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            acc += x.load((r, c));
            z.store(r, full::<f32>([R], 1.0));
        }
        y.store(r, acc.sum_axis(1));
    }
}

#[kernel(tile(R = 1, C = [64, 128]), cluster(X of C = [1, 2]))]
pub fn rows_in_place(x: &mut Tensor<f32, 2>) {
    for r in x.axis(0).tiles(R) {
        let mut acc = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            acc += x.load((r, c));
        }
        let sum = acc.sum_axis(1);
        for c in x.axis(1).tiles(C) {
            x.store((r, c), x.load((r, c)) / sum.expand(1, C));
        }
    }
}

#[kernel(tile(R = 1, C = [64, 128]), cluster(X of C = [1, 2]))]
pub fn totals_of_rows(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    for r in x.axis(0).tiles(R) {
        let mut acc = zeros::<f32>([R, C]);
        for c in x.axis(1).tiles(C) {
            acc += x.load((r, c));
        }
        y.atomic_add(0, acc.sum());
    }
}

#[kernel(tile(R = 1, C = [64, 128]), cluster(X of C = [1, 2]))]
pub fn stored_twice(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for r in x.axis(0).tiles(R) {
        for c in x.axis(1).tiles(C) {
            y.store((r, c), x.load((r, c)));
        }
        for c in x.axis(1).tiles(C) {
            y.store((r, c), x.load((r, c)) + 1.0);
        }
    }
}
