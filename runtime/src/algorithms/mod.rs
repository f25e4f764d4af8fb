//! Building blocks of parallel algorithms, written in the language itself: functions that kernels call, and programs that programs call.

mod compacting;
mod counting;
mod keys;
mod look_back;
mod merging;
mod radix;
mod scanning;
mod selecting;
mod sorting;
mod steps;

pub use compacting::{Keep, Positive, keep_flagged, keep_if, keep_tile};
pub use counting::{Binning, Value, histogram, histogram_256, histogram_8192, histogram_global};
pub use keys::{Ascending, Descending, Direction, Number, Order, SortKey, Word};
pub use look_back::{last_total, look_back, look_back_to};
pub use merging::{merge, merge_pairs};
pub use scanning::{Ends, Exclusive, Greatest, Inclusive, Least, Operator, Product, Sum, reduce_by_key, scan};
pub use selecting::top_k;
pub use sorting::{sort, sort_in_place, sort_pairs, sort_segments};
pub use steps::{bitonic_sort, bitonic_stage, merge_path};

/// Elements of the longest vectors whose positions and numbers are of 32 bits, and one more.
const LONGEST: i64 = 1 << 31;
