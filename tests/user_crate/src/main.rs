//! A user's own kernel with its own `autotune`.

use girih::prelude::*;

#[kernel(tile(T = [256, 512, 1024]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]))]
pub fn saxpy(a: Scalar<f32>, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, a * x.load(t) + y.load(t));
    }
}

girih::winners!("winners.txt");

fn main() -> std::process::ExitCode {
    girih::cli::main()
}
