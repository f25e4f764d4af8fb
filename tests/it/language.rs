//! The language: what kernels and programs record, and what their mistakes say.

use girih::prelude::*;
use girih_core::error::CompileError;
use girih_core::registry::KernelDef;

#[kernel(tile(T = [256, 512, 1024]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]), stages(S = [1, 2]))]
pub fn vector_add(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, c: &mut Tensor<f32, 1>) {
    for t in c.tiles([T]) {
        c.store(t, a.load(t) + b.load(t));
    }
}

#[kernel(tile(R = [16, 32], C = [16, 32]), coarsen(CR of R = [1, 2, 4]), vector = [1, 2, 4])]
pub fn transpose(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for (r, c) in x.tiles([R, C]) {
        y.store((c, r), x.load((r, c)).t());
    }
}

#[kernel(tile(BM = [64, 128], BN = [64, 128], BK = [8, 16]), coarsen(TM of BM = [4, 8], TN of BN = [4, 8]), unit(U = [Ffma, Mma]), types(T = [f32, f16]))]
pub fn matmul<T: Float>(a: &Tensor<T, 2>, b: &Tensor<T, 2>, c: &mut Tensor<T, 2>) {
    for (m, n) in c.tiles([BM, BN]) {
        let mut acc = zeros::<f32>([BM, BN]);
        for k in a.axis(1).tiles(BK) {
            acc = dot(a.load((m, k)), b.load((k, n)), acc);
        }
        c.store((m, n), epilogue(acc).cast());
    }
}

fn epilogue(acc: Tile<f32>) -> Tile<f32> {
    acc.max(0.0)
}

#[kernel(types(F = [f32, f16]), tile(T = [256, 512]), vector(V = [1, 2, 4]))]
pub fn leaky_relu<F: Float>(x: &Tensor<F, 1>, y: &mut Tensor<F, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        let out = if v > 0.0 { v } else { 0.01 * v };
        y.store(t, out);
    }
}

const OFFSET: u32 = 2166136261;
const PRIME: u32 = 16777619;

fn fnv1a(x: Tile<u32>) -> Tile<u32> {
    let mut h = x.like(OFFSET);
    for byte in 0..4 {
        h = (h ^ ((x >> (8 * byte)) & 0xff)) * PRIME;
    }
    h
}

#[kernel(tile(T = [256, 512]), vector(V = [1, 2, 4]))]
pub fn rainbow_table(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>, rounds: Scalar<u32>) {
    for t in x.tiles([T]) {
        let mut h = x.load(t);
        for _ in 0..rounds {
            h = fnv1a(h);
        }
        y.store(t, h);
    }
}

#[kernel(tile(R = [1, 4], C = [256, 1024]), vector(V = [1, 2, 4]))]
pub fn softmax(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    for r in x.axis(0).tiles(R) {
        let (mut m, mut s) = (full([R], f32::NEG_INFINITY), zeros([R]));
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            let new = m.max(v.max_axis(1));
            s = s * (m - new).exp() + (v - new.expand(1, C)).exp().sum_axis(1);
            m = new;
        }
        for c in x.axis(1).tiles(C) {
            let v = x.load((r, c));
            y.store((r, c), (v - m.expand(1, C)).exp() / s.expand(1, C));
        }
    }
}

#[kernel(tile(T = [1024, 2048]), coarsen(C of T = [4, 8]))]
pub fn invert(image: &mut Tensor<u8, 1>) {
    let mut pixels = image.reinterpret::<u32>();
    for t in pixels.tiles([T]) {
        let p = pixels.load(t);
        pixels.store(t, p ^ 0x00ff_ffff);
    }
}

#[kernel(tile(T = [256, 512]))]
pub fn reverse(x: &mut Tensor<f32, 1>) {
    let half = x.len(0) / 2;
    let (low, rest) = x.split_at(0, half);
    let odd = x.len(0) - half;
    let mut low = low;
    let mut high = rest.reversed(0).slice(0, 0, half);
    let _ = odd;
    for t in low.tiles([T]) {
        let (a, b) = (low.load(t), high.load(t));
        low.store(t, b);
        high.store(t, a);
    }
}

#[kernel(tile(T = [256, 512]))]
pub fn clip(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, low: Scalar<f32>, high: Scalar<f32>) {
    x.same_shape(y);
    for t in x.tiles([T]) {
        y.store(t, x.load(t).clamp(low, high));
    }
}

#[kernel(tile(P = [256, 512]))]
pub fn gray(image: &Tensor<f32, 2>, out: &mut Tensor<f32, 1>) {
    for p in out.tiles([P]) {
        let rgb = image.load((p, ..3));
        out.store(p, 0.299 * rgb.pick(1, 0) + 0.587 * rgb.pick(1, 1) + 0.114 * rgb.pick(1, 2));
    }
}

#[kernel(tile(T = [256]))]
pub fn shuffle(x: &Tensor<f32, 1>, to: &Tensor<i32, 1>, from: &Tensor<i32, 1>, y: &mut Tensor<f32, 1>) {
    for t in to.tiles([T]) {
        let v = x.gather(from.load(t));
        y.scatter(to.load(t), v);
    }
}

#[kernel(tile(T = [256]))]
pub fn masked(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, table: &Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        let v = x.load(t);
        let i = t.coords();
        let mut out = v;
        if i < 10i64 && v > 0.0 {
            out = table.gather(i) * 2.0;
        }
        y.store(t, out);
    }
}

#[device]
fn collatz(start: Scalar<i64>) -> Scalar<i32> {
    let mut n = start;
    let mut steps = scalar(0);
    while n > 1 {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

#[kernel(tile(T = [256]))]
pub fn scalars(y: &mut Tensor<i32, 1>, n: Scalar<i64>, flag: Scalar<bool>) {
    let steps = collatz(n);
    let more = if flag { 1 } else { 0 };
    for t in y.tiles([T]) {
        y.store(t, y.load(t) + steps + more);
    }
}

#[program]
pub fn add_twice(a: &Tensor<f32, 1>, b: &Tensor<f32, 1>, c: &mut Tensor<f32, 1>) {
    let mut sum = temp([a.len(0)]);
    vector_add(a, b, &mut sum);
    vector_add(&sum, b, c);
}

#[program]
pub fn choose(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>, rounds: Scalar<u32>) {
    y.fill(0);
    if x.len(0) > 1000 {
        rainbow_table(x, y, rounds);
    } else {
        y.copy_from(x);
    }
    let mut left = rounds;
    for i in 0..rounds {
        rainbow_table(x, y, i);
        left = left - 1;
    }
    while y.at(0) > 100u32 {
        rainbow_table(x, y, left);
    }
}

fn ir(def: KernelDef) -> String {
    match (def.build)() {
        Ok(kernel) => kernel.to_string(),
        Err(error) => panic!("{error}"),
    }
}

fn mistakes(def: KernelDef) -> String {
    match (def.build)() {
        Ok(kernel) => panic!("no mistake was found:\n{kernel}"),
        Err(CompileError::Kernel(all)) => all.iter().map(|d| d.to_string()).collect::<Vec<_>>().join("\n\n"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn all_build() {
    for def in [
        vector_add::Kernel::def(),
        transpose::Kernel::def(),
        matmul::Kernel::<f16>::def(),
        leaky_relu::Kernel::<f32>::def(),
        rainbow_table::Kernel::def(),
        softmax::Kernel::def(),
        invert::Kernel::def(),
        reverse::Kernel::def(),
        clip::Kernel::def(),
        gray::Kernel::def(),
        shuffle::Kernel::def(),
        masked::Kernel::def(),
        scalars::Kernel::def(),
    ] {
        println!("{}", ir(def));
    }
    println!("{:#?}", (add_twice::Program::def().build)().unwrap());
    println!("{:#?}", (choose::Program::def().build)().unwrap());
    let _ = mistakes;
}
