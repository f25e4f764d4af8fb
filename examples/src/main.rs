//! `autotune` for the challenge gallery.

use girih_examples as _;

fn main() -> std::process::ExitCode {
    girih::cli::main()
}
