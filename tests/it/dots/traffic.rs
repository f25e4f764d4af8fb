//! What matrix units cost: how their operands are copied to shared memory and read, and how results are stored, as the simulator counts.

use super::super::launches::{Launch, Placement, Shape, best_facts};
use super::super::rungs::all_kernels;
use girih_core::lower::lower;
use girih_core::schedule::parse::parse_schedule;
use girih_core::sim::{Class, Counters};
use girih_core::target::Target;
use girih_core::tile::{Kernel, ParamKind};
use girih_core::types::Literal;

/// The test kernels of this name, one per element type.
fn kernels(name: &str) -> Vec<Kernel> {
    let found: Vec<_> = all_kernels().into_iter().filter(|k| k.path.contains("dots::kernels") && k.name.starts_with(name)).collect();
    assert!(!found.is_empty(), "no kernel is called {name}");
    found
}

/// What a block does for one tile and two turns of the sum's loop; `None` where the schedule is illegal.
fn of_one_tile(kernel: &Kernel, [bm, bn, bk]: [i64; 3], rest: &str) -> Option<Counters> {
    let text = format!("BM={bm},BN={bn},BK={bk},{rest}");
    let schedule = parse_schedule(kernel, &text).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    let simt = lower(kernel, &best_facts(kernel), &schedule, Target::h200()).ok()?;
    let (m, n, k) = (bm, bn, 2 * bk);
    let lens = kernel.params.iter().map(|p| match (p.name.as_str(), &p.kind) {
        ("a", _) => vec![m, k],
        ("at", _) => vec![k, m],
        ("b", _) => vec![k, n],
        ("bt", _) => vec![n, k],
        ("bias", _) => vec![n],
        (_, ParamKind::Tensor { .. }) => vec![m, n],
        (_, ParamKind::Scalar(_)) => vec![],
    });
    let lens: Vec<Vec<i64>> = lens.collect();
    let scalars = kernel.params.iter().map(|p| match p.kind {
        ParamKind::Scalar(dtype) => Some(Literal::from_f64(dtype, 0.5)),
        ParamKind::Tensor { .. } => None,
    });
    let shape = Shape { scalars: scalars.collect(), lens };
    let counters = Launch::new(kernel, &shape, Placement::Aligned, 1).counters(&simt);
    Some(counters.unwrap_or_else(|e| panic!("{} {text}: {e}", kernel.name)))
}

/// Rows of operands from 16 bytes to more than 128, powers of two and others.
const TILES: [[i64; 3]; 11] = [
    [8, 64, 64],
    [8, 128, 32],
    [32, 16, 16],
    [32, 32, 32],
    [64, 64, 64],
    [64, 48, 32],
    [128, 96, 32],
    [64, 128, 96],
    [32, 192, 32],
    [64, 80, 16],
    [16, 8, 32],
];

#[test]
fn operands_of_matrix_units_have_no_bank_conflicts() {
    for name in ["matrix_unit_product", "turned_unit_product", "tf32_product", "split_product"] {
        for kernel in kernels(name) {
            let mut legal = 0;
            for tile in TILES {
                for rest in ["V=8,U=Mma,W=1,S=2,P=Async", "V=8,U=Mma,W=2,S=1,P=Registers", "V=2,U=Mma,W=4,S=3,P=Async"] {
                    let Some(counters) = of_one_tile(&kernel, tile, rest) else { continue };
                    legal += 1;
                    let Counters { shared_load: load, shared_store: store, .. } = &counters;
                    assert!(load.requests > 0 && store.requests > 0, "{name} {tile:?} {rest}");
                    assert_eq!((load.conflicts, store.conflicts), (0, 0), "{} {tile:?} {rest}: {load:?} {store:?}", kernel.path);
                }
            }
            assert!(legal >= 12, "{name}: {legal} schedules");
        }
    }
    // Bytes that lie across the axis of the sum are read one by one, from rows of 64 bytes or more without a conflict.
    for kernel in kernels("quantized_product") {
        for tile in [[64, 64, 64], [64, 128, 96], [32, 192, 32], [128, 128, 64]] {
            let counters = of_one_tile(&kernel, tile, "V=4,U=Mma,W=2,S=2,P=Async").expect("a legal schedule");
            let Counters { shared_load: load, shared_store: store, .. } = &counters;
            assert_eq!((load.conflicts, store.conflicts), (0, 0), "{} {tile:?}: {load:?} {store:?}", kernel.path);
        }
    }
}

/// Each operand is read once for all dots, and what lies across the sum in pairs: 32 columns of 8 rows are 4 reads of a warp, 16 rows of 8 columns
/// one `ldmatrix`.
#[test]
fn dots_on_the_same_loads_read_them_once() {
    let kernel = &kernels("split_product")[0];
    let counters = of_one_tile(kernel, [16, 32, 16], "V=2,U=Mma,W=1,S=2,P=Async").expect("a legal schedule");
    // Two turns of two steps each.
    assert_eq!(counters.shared_load.requests, 4 * (4 + 1), "{:?}", counters.shared_load);
}

/// Eight rows are half of what the instruction has as it is: its left operand is the dot's right one, and no row is multiplied for nothing.
#[test]
fn skinny_results_swap_the_operands_of_matrix_units() {
    for (name, [m, n, k]) in
        [("matrix_unit_product", [8, 64, 32]), ("turned_unit_product", [8, 32, 32]), ("quantized_product", [8, 64, 64])]
    {
        for kernel in kernels(name) {
            let counters = of_one_tile(&kernel, [m, n, k], "V=4,U=Mma,W=2,S=2,P=Async").expect("a legal schedule");
            let (products, each) = (2 * m * n * k, if name == "quantized_product" { 16 * 8 * 32 } else { 16 * 8 * 16 });
            assert_eq!(counters.warps(Class::Matrix), products as u64 / each, "{}", kernel.path);
        }
    }
}

#[test]
fn threads_that_own_neighbouring_rows_read_them_without_bank_conflicts() {
    let kernel = &kernels("turned_product")[0];
    for (tile, rest) in [([64, 64, 32], "TM=4,TN=4,V=4,O=Shared,S=2,P=Async"), ([32, 64, 64], "TM=4,TN=2,V=2,O=Shared,S=1,P=Registers")] {
        let counters = of_one_tile(kernel, tile, rest).expect("a legal schedule");
        let load = &counters.shared_load;
        assert!(load.requests > 0);
        assert_eq!(load.conflicts, 0, "{tile:?} {rest}: {load:?}");
    }
}

/// A thread's 8 rows and 8 columns are two reads each at every step of the sum; as they lie, rows are read four steps at a time.
#[test]
fn transposed_operands_are_read_in_vectors_along_the_result() {
    let kernel = &kernels("product")[0];
    let tile = [128, 128, 16];
    let of = |operands: &str| of_one_tile(kernel, tile, &format!("TM=8,TN=8,V=4,O={operands},S=1,P=Registers")).expect("a legal schedule");
    let (lying, transposed) = (of("Shared"), of("Transposed"));
    let (warps, steps) = (8, 2 * 16);
    assert_eq!(transposed.shared_load.requests, warps * steps * (2 + 2));
    assert_eq!(transposed.shared_load.conflicts, 0, "{:?}", transposed.shared_load);
    assert_eq!(lying.shared_load.requests, transposed.shared_load.requests);
    // 128 x 16 elements of a by fours as they lie, one by one transposed; b by fours.
    let (fours, ones) = (128 * 16 / 4 / 32, 128 * 16 / 32);
    assert_eq!(lying.shared_store.requests, 2 * 2 * fours);
    assert_eq!(transposed.shared_store.requests, 2 * (fours + ones));
    assert_eq!(transposed.global_load.requests, lying.global_load.requests);
}

#[test]
fn results_of_matrix_units_are_stored_in_16_bytes() {
    let exchanges = |c: &Counters| c.warps(Class::Shuffle);
    for (name, bytes, shuffles) in [("matrix_unit_product", 2, 0), ("turned_unit_product", 4, 4 * 8), ("tf32_product", 4, 4 * 8)] {
        for kernel in kernels(name) {
            // 64 elements per lane: 8 or 16 accesses of 16 bytes, each of which fills its sectors.
            let counters = of_one_tile(&kernel, [64, 128, 32], "V=2,U=Mma,W=4,S=1,P=Registers").expect("a legal schedule");
            let store = &counters.global_store;
            assert_eq!((store.requests, store.bytes), (4 * 64 * bytes / 16, 64 * 128 * bytes), "{}: {store:?}", kernel.path);
            assert_eq!(store.sectors * 32, store.bytes, "{}: {store:?}", kernel.path);
            assert_eq!(exchanges(&counters), 4 * shuffles, "{}", kernel.path);
        }
    }
    // Rows without whole lines of 128 bytes are exchanged by lanes.
    let kernel = &kernels("matrix_unit_product")[0];
    let short = of_one_tile(kernel, [64, 96, 32], "V=2,U=Mma,W=1,S=1,P=Registers").expect("a legal schedule");
    assert_eq!((short.global_store.requests, exchanges(&short)), (64 * 96 * 2 / 512, 192), "{:?}", short.global_store);
    // Too few columns for whole runs: the longest there are.
    let narrow = of_one_tile(kernel, [64, 16, 32], "V=2,U=Mma,W=4,S=1,P=Registers").expect("a legal schedule");
    assert_eq!((narrow.global_store.requests, narrow.global_store.bytes), (4 * 2, 64 * 16 * 2), "{:?}", narrow.global_store);
}

/// The kernel under a schedule for tiles of these extents.
fn lowered(kernel: &Kernel, [bm, bn, bk]: [i64; 3], rest: &str) -> girih_core::simt::Kernel {
    let schedule = parse_schedule(kernel, &format!("BM={bm},BN={bn},BK={bk},{rest}")).expect("a schedule");
    lower(kernel, &best_facts(kernel), &schedule, Target::h200()).unwrap_or_else(|e| panic!("{}: {e}", kernel.name))
}

#[test]
fn results_of_16_bits_leave_in_whole_rows_through_the_memory_of_operands() {
    for kernel in kernels("matrix_unit_product") {
        // Padded rows fit the copies of an operand; only swizzled ones do; none does.
        let copies = [("S=3,P=Async", 2), ("S=3,P=Overlap", 2), ("S=2,P=Async", 2), ("S=2,P=Registers", 2), ("S=1,P=Registers", 3)];
        for (rest, arrays) in copies {
            let (tile, rest) = ([64, 128, 32], format!("V=8,U=Mma,W=4,{rest}"));
            assert_eq!(lowered(&kernel, tile, &rest).shared.len(), arrays, "{rest}");
            let counters = of_one_tile(&kernel, tile, &rest).expect("a legal schedule");
            let Counters { shared_load: load, shared_store: store, global_store: out, .. } = &counters;
            assert_eq!((load.conflicts, store.conflicts), (0, 0), "{rest}: {load:?} {store:?}");
            assert_eq!((counters.warps(Class::Shuffle), out.bytes), (0, 512 * out.requests), "{rest}: {out:?}");
            assert_eq!(out.sectors * 32, out.bytes, "{rest}: {out:?}");
        }
        // Where shared memory has no room for them, lanes exchange them: the schedule stays legal.
        let full = lowered(&kernel, [256, 256, 112], "V=8,U=Mma,W=8,S=1,P=Registers");
        assert_eq!(full.shared.len(), 2);
        assert!(girih_core::cuda::emit(&full).contains("__shfl_xor_sync"));
    }
}
