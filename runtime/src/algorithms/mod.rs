//! Building blocks of parallel algorithms, written in the language itself: functions that kernels call.

mod look_back;

pub use look_back::{last_total, look_back, look_back_to};
