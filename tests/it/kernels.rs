//! Kernels for tests: what the gallery's own kernels don't use. Pipelines, copies ahead of their turn, indirect accesses, 16-bit floats,
//! grids of two axes, per-element choices.

use girih::prelude::*;

/// A scaled sum with every knob of one axis. Also the example of docs/SCHEDULE.md.
#[kernel(
    tile(T = [64, 128, 256, 1024]),
    coarsen(C of T = [1, 2, 4]),
    vector(V = [1, 2, 4]),
    stages(S = [1, 2, 3]),
    copy(P = [Registers, Async]),
    grid(G = [0, 1, 2]),
    cache(H = [Default, Streaming])
)]
pub fn saxpy(a: Scalar<f32>, x: &Tensor<f32, 1>, y: &Tensor<f32, 1>, z: &mut Tensor<f32, 1>) {
    for t in z.tiles([T]) {
        z.store(t, a * x.load(t) + y.load(t));
    }
}

/// A transposition whose tiles are dealt to blocks: the shared tile is used again.
#[kernel(tile(R = [8, 16, 32], C = [8, 16, 32]), coarsen(CR of R = [1, 2, 4], CC of C = [1, 2, 4]), vector(V = [1, 2, 4]), grid(G = [0, 1]))]
pub fn dealt_transpose(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in x.tiles([R, C]) {
        y.store((c, r), x.load((r, c)).t());
    }
}

/// 16-bit floats, computed in f32.
#[kernel(tile(T = [64, 256]), coarsen(C of T = [1, 2, 8]), vector(V = [1, 2, 8]))]
pub fn half_product(a: &Tensor<f16, 1>, b: &Tensor<f16, 1>, c: &mut Tensor<f16, 1>) {
    for t in c.tiles([T]) {
        c.store(t, (a.load(t).cast::<f32>() * b.load(t).cast::<f32>()).cast::<f16>());
    }
}

/// Loads on one side of a per-element choice.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]))]
pub fn chosen(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, c: &mut Tensor<f32, 1>) {
    for t in c.tiles([T]) {
        let x = a.load(t);
        let y = if x > 0.0 { b.load(t) } else { x };
        c.store(t, y);
    }
}

/// Elements at positions that a tensor holds; positions out of range are absent.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2]))]
pub fn gathered(at: &Tensor<i32, 1>, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.gather(at.load(t)));
    }
}

/// How often each number occurs.
#[kernel(tile(T = [64, 128]), coarsen(C of T = [1, 2]))]
pub fn counted(x: &Tensor<u32, 1>, bins: &mut Tensor<u32, 1>) {
    for t in x.tiles([T]) {
        bins.atomic_add(x.load(t), 1);
    }
}
