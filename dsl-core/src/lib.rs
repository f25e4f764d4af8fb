//! The pure compiler of girih.
//!
//! ```text
//! tile IR ──eval──▶ reference result
//! tile IR ──lower(facts, schedule, target)──▶ SIMT IR with its launch record
//! SIMT IR ──emit──▶ CUDA C
//! SIMT IR ──simulate──▶ result, traps, counters
//! ```
//!
//! Nothing here does I/O, names a driver or reads a clock. It is one surface over four crates that are compiled apart:
//!
//! | crate | what is in it |
//! |---|---|
//! | `girih-ir` | the data: tile IR and its evaluator, program IR, SIMT IR, facts, schedules, targets |
//! | `girih-lang` | the handles that bodies are made of |
//! | `girih-compiler` | spaces of schedules, lowering, the emitter, exports |
//! | `girih-sim` | the simulator and the model of time |

pub use girih_compiler::{cuda, lower};
pub use girih_ir::{
    aliasing, bug, error, facts, facts_distance, fragments, layout, lengths, loc, registry, scalar, simt, target, tile, types,
};
pub use girih_lang as lang;
pub use girih_sim as sim;
pub use girih_sim::model;

/// Program IR, and its exports.
pub mod program {
    #[cfg(feature = "export")]
    pub use girih_compiler::export;
    pub use girih_ir::program::*;
}

/// Schedules, and the spaces of those that are legal.
pub mod schedule {
    pub use girih_compiler::legality;
    pub use girih_compiler::space::{self, illegal_first_choices, ladder};
    pub use girih_ir::schedule::*;
}

/// Re-exported for the code that the attributes expand to.
#[doc(hidden)]
pub use girih_ir::linkme;
