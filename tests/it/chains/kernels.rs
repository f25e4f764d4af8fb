//! Kernels whose warps take turns, and which copy and read runs of neighbours by hand.

use girih::prelude::*;

/// The decaying sum of each column of up to 32, along rows; each warp adds a row and hands the sums on.
#[kernel(tile(W = [2, 4]))]
pub fn decaying_sums(x: &Tensor<f32, 3>, y: &mut Tensor<f32, 3>) {
    x.same_shape(y);
    for i in y.axes([0]).tiles([Size::from(1)]) {
        let (lane, warp) = (lanes(32 * W), warps(32 * W).cast::<i64>());
        let mut sums = chain(zeros::<f32>([32 * W]));
        for t in x.axis(1).tiles(W) {
            let row = warp + t.start();
            let v = x.gather((i.number(), row, lane)).or(0.0);
            let mut sum = sums.take();
            sum = sum * 0.5 + v;
            sums.leave(sum);
            y.scatter((i.number(), row, lane), sum);
        }
    }
}

/// A polynomial hash of each batch, walked by warps of which each lane keeps two numbers of its own, of 64 bits; what comes out of the last
/// step is the last warp's.
#[kernel(tile(W = [2, 4]))]
pub fn hashes(x: &Tensor<u64, 2>, last: &mut Tensor<u64, 3>) {
    for i in x.axes([0]).tiles([Size::from(1)]) {
        let (lane, warp) = (lanes(32 * W), warps(32 * W).cast::<i64>());
        let start = (iota::<u64>(2).expand(1, 32 * W) + lane.cast::<u64>().expand(0, 2)) * 7 + 1;
        let mut kept = chain(start);
        for t in x.axis(1).tiles(W) {
            let at = warp + t.start();
            let v = x.gather((i.number(), at)).or(0);
            let step = |h: Tile<u64>| h * 0x9E37_79B9_7F4A_7C15u64 + v.expand(0, 2);
            let h = kept.take();
            let next = if (at < x.len(1)).expand(0, 2) { step(h) } else { h };
            kept.leave(next);
            if at == x.len(1) - 1 {
                last.scatter((i.number(), lane, 0), next.pick(0, 0));
            }
            if at == x.len(1) - 1 {
                last.scatter((i.number(), lane, 1), next.pick(0, 1));
            }
        }
    }
}

/// Each warp brings a row's chunk of 64 to shared memory by copies of two, turns it around there and back in part, and stores it in twos.
#[kernel(tile(W = [2, 1, 4], C = 64), types(F = [f32, f16, u8, i64]))]
pub fn turned_runs<F: Num>(x: &Tensor<F, 2>, y: &mut Tensor<F, 2>) {
    x.same_shape(y);
    for r in y.axes([0]).tiles([W]) {
        let (lane, warp) = (lanes(32 * W), warps(32 * W));
        let (own, row) = (warp * 64, warp.cast::<i64>() + r.start());
        let mut brought = shared_uninit::<F>([64 * W]).by_hand();
        let mut turned = shared_uninit::<F>([64 * W]).by_hand();
        for c in x.axis(1).tiles(C) {
            let column = (lane * 2).cast::<i64>() + c.start();
            brought.copy_run(2, own + lane * 2, x, (row, column));
            close_copies();
            await_copies(0);
            warp_barrier();
            turned.scatter_run(2, own + lane * 2, brought.gather_run(2, own + (31 - lane) * 2));
            warp_barrier();
            y.scatter_run(2, (row, column), turned.gather_run(2, own + (lane ^ 5) * 2));
        }
    }
}

/// The sums of the rows of each matrix, read through copies of four that run one turn ahead.
#[kernel(tile(W = [2, 1, 4]))]
pub fn sums_ahead(x: &Tensor<f32, 3>, sums: &mut Tensor<f32, 2>) {
    let x = x.slice(0, 0, sums.len(0));
    for (i, r) in sums.tiles([Size::from(1), W]) {
        let (lane, warp) = (lanes(32 * W), warps(32 * W));
        let row = warp.cast::<u32>() + r.start().cast::<u32>();
        let mut parts = shared_uninit::<f32>([256 * W]).by_hand();
        let fetch = |parts: &mut Shared<f32>, turn: Scalar<i32>| {
            let to = warp * 256 + (turn & 1) * 128 + lane * 4;
            parts.copy_run(4, to, &x, (i.number(), row, lane * 4 + turn * 128));
            close_copies();
        };
        fetch(&mut parts, scalar(0));
        let mut sum = zeros::<f32>([32 * W]);
        for turn in 0..((x.len(2) + 127) / 128).cast::<i32>() {
            fetch(&mut parts, turn + 1);
            await_copies(1);
            warp_barrier();
            sum += parts.gather_run(4, warp * 256 + (turn & 1) * 128 + (31 - lane) * 4).sum_axis(0);
            warp_barrier();
        }
        await_copies(0);
        for distance in [16, 8, 4, 2, 1] {
            sum += sum.shuffle_xor(distance);
        }
        if lane == 0 {
            sums.scatter((i.number(), row), sum);
        }
    }
}
