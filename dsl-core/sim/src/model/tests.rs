//! Predictions of kernels whose bounds are known.

use super::*;

const SMALL: Resources = Resources { registers: 32, shared: 0, spills: 0 };

fn streaming(n: f64, bytes_per_element: f64) -> Work {
    let sectors = n * bytes_per_element / 32.0;
    Work {
        load_sectors: sectors * 2.0 / 3.0,
        store_sectors: sectors / 3.0,
        memory_bytes: n * bytes_per_element,
        instructions: n / 32.0 * 2.0,
        rounds: 1.0,
        ..Default::default()
    }
}

#[test]
fn occupancy_finds_the_limit() {
    let h200 = Target::h200();
    let launch = |block| Launch { grid: 1000, block, stages: 1 };
    let of = |block, registers, shared| {
        let o = occupancy(h200, &launch(block), &Resources { registers, shared, spills: 0 });
        (o.blocks, o.limit)
    };
    assert_eq!(of(256, 32, 0), (8, Limit::Registers));
    assert_eq!(of(256, 16, 0), (8, Limit::Warps));
    assert_eq!(of(32, 16, 0), (32, Limit::Blocks));
    assert_eq!(of(256, 128, 0), (2, Limit::Registers));
    // 33 registers take 1280 per warp: 51 warps fit.
    assert_eq!(of(256, 33, 0), (6, Limit::Registers));
    // 100 KiB and the reserved KiB fit twice.
    assert_eq!(of(256, 32, 100 << 10), (2, Limit::Shared));
    assert_eq!(of(256, 32, 228 << 10), (0, Limit::Shared));
    assert_eq!(of(1024, 128, 0), (0, Limit::Registers));
}

#[test]
fn streaming_is_bound_by_memory_once_enough_is_in_flight() {
    let (n, h200) = (25e6, Target::h200());
    let work = streaming(n, 12.0);
    let few = predict(&work, &Launch { grid: (n / 256.0) as u64, block: 256, stages: 1 }, &SMALL, h200);
    let many = predict(&work, &Launch { grid: (n / 2048.0) as u64, block: 256, stages: 1 }, &SMALL, h200);
    assert_eq!((few.bottleneck, many.bottleneck), (Bottleneck::Latency, Bottleneck::Memory));
    assert!(many.seconds < few.seconds);
    // 300 MB at 4.3 TB/s are 70 µs.
    assert!((69e-6..80e-6).contains(&many.seconds), "{}", many.seconds);
}

#[test]
fn uncoalesced_accesses_are_bound_by_l2() {
    let mut work = streaming(25e6, 12.0);
    work.load_sectors *= 8.0;
    let launch = Launch { grid: 12207, block: 256, stages: 1 };
    assert_eq!(predict(&work, &launch, &SMALL, Target::h200()).bottleneck, Bottleneck::L2);
}

#[test]
fn small_launches_cost_the_launch_and_impossible_ones_infinity() {
    let launch = Launch { grid: 4, block: 256, stages: 1 };
    let small = predict(&streaming(1000.0, 12.0), &launch, &SMALL, Target::h200());
    assert_eq!(small.bottleneck, Bottleneck::Launch);
    let large = Resources { shared: 300 << 10, ..SMALL };
    let none = predict(&streaming(1000.0, 12.0), &launch, &large, Target::h200());
    assert_eq!((none.bottleneck, none.seconds), (Bottleneck::Resources, f64::INFINITY));
}

#[test]
fn launch_bounds_leave_registers_for_as_many_blocks() {
    assert_eq!([1, 2, 3, 4].map(|blocks| most_registers(256, blocks)), [255, 128, 80, 64]);
    assert_eq!((most_registers(1024, 1), most_registers(1024, 2), most_registers(33, 1)), (64, 32, 255));
    let launch = |block| Launch { grid: 1, block, stages: 1 };
    for (block, blocks) in [(256, 2), (256, 3), (128, 5), (96, 7), (1024, 2)] {
        let resources = Resources { registers: most_registers(block, blocks), shared: 0, spills: 0 };
        assert!(occupancy(Target::h200(), &launch(block), &resources).blocks >= blocks, "{blocks} blocks of {block}");
    }
}

#[test]
fn bank_conflicts_and_arithmetic_show() {
    let launch = Launch { grid: 12207, block: 256, stages: 1 };
    let base = streaming(25e6, 12.0);
    let conflicts = Work { shared_wavefronts: 25e6 / 32.0 * 64.0, ..base };
    assert_eq!(predict(&conflicts, &launch, &SMALL, Target::h200()).bottleneck, Bottleneck::Shared);
    let arithmetic = Work { float_operations: 25e6 * 200.0, instructions: 25e6 / 32.0 * 200.0, ..base };
    assert_eq!(predict(&arithmetic, &launch, &SMALL, Target::h200()).bottleneck, Bottleneck::Arithmetic);
    let special = Work { special_functions: arithmetic.float_operations, ..arithmetic };
    let found = predict(&special, &launch, &SMALL, Target::h200());
    assert_eq!(found.bottleneck, Bottleneck::SpecialFunctions);
    // 128 multiply-adds and 16 special functions per clock.
    let of = |wanted| found.bounds.iter().find(|(_, bound)| *bound == wanted).map_or(0.0, |(seconds, _)| *seconds);
    assert!((of(Bottleneck::SpecialFunctions) / of(Bottleneck::Arithmetic) - 8.0).abs() < 1e-9, "{found:?}");
    assert_eq!(found.waves, launch.grid as f64 / (132.0 * f64::from(found.occupancy.blocks)));
}

#[test]
fn matrix_instructions_are_bound_by_the_tensor_pipe() {
    // 4096³ in f16, with blocks of 128 × 128 that read each operand once per 128 elements of the other.
    let (n, block) = (4096f64, 128.0);
    let products = n * n * n;
    let work = Work {
        load_sectors: 2.0 * n * n * n / block * 2.0 / 32.0,
        store_sectors: n * n * 4.0 / 32.0,
        memory_bytes: n * n * 8.0,
        instructions: products / 2048.0 * 1.5,
        shared_wavefronts: products / 2048.0 * 1.5,
        matrix_half: products,
        rounds: 1.0,
        ..Default::default()
    };
    let launch = Launch { grid: 1024, block: 128, stages: 3 };
    for (name, tflops) in [("t4", 55.0), ("a100", 312.0), ("h200", 0.62 * 989.0), ("b200", 0.25 * 2250.0)] {
        let target = Target::find(name).expect("a target");
        let found = predict(&work, &launch, &Resources { registers: 128, shared: 16 << 10, spills: 0 }, target);
        assert_eq!(found.bottleneck, Bottleneck::Tensor, "{name}");
        // The clock under load is lower than that of the data sheet, and the last wave is partly empty.
        let reached = 2.0 * products / found.seconds / 1e12;
        assert!((0.6 * tflops..1.01 * tflops).contains(&reached), "{name}: {reached}");
    }
}

#[test]
fn rates_of_tensor_cores_are_those_of_the_data_sheets() {
    for (name, half, int8) in [("t4", 65.0, 130.0), ("a100", 312.0, 624.0), ("b200", 2250.0, 4500.0), ("rtx5090", 209.5, 838.0)] {
        let target = Target::find(name).expect("a target");
        let peak = |rate: u32| 2.0 * f64::from(rate) * f64::from(target.multiprocessors) * target.boost / 1e12;
        assert!((peak(target.matrix.half) / half - 1.0).abs() < 0.07, "{name}: {}", peak(target.matrix.half));
        assert!((peak(target.matrix.int8) / int8 - 1.0).abs() < 0.07, "{name}: {}", peak(target.matrix.int8));
    }
}

/// What a block waits for, another one computes in: of blocks whose registers leave room for two, half as many waits follow each other.
#[test]
fn blocks_that_fit_together_hide_each_others_waits() {
    let h200 = Target::h200();
    let launch = Launch { grid: 1056, block: 256, stages: 1 };
    let work = Work { load_sectors: 1e6, instructions: 1e8, chain: 100_000.0, repeats: 100.0, ..Default::default() };
    let seconds = |registers| predict(&work, &launch, &Resources { registers, shared: 0, spills: 0 }, h200).seconds;
    assert!(seconds(128) < 0.6 * seconds(168), "{} {}", seconds(128), seconds(168));
    // Values that are spilled are loaded again in every turn.
    let spilled = predict(&work, &launch, &Resources { registers: 128, shared: 0, spills: 400 }, h200).seconds;
    assert!(spilled > 1.1 * seconds(128), "{spilled} {}", seconds(128));
}

/// A line costs its time, however little of it is wanted; what threads spill goes to the L2 where the L1 is too small for it.
#[test]
fn lines_and_spills_reach_the_l2() {
    let h200 = Target::h200();
    let launch = Launch { grid: 1320, block: 256, stages: 1 };
    let whole =
        Work { load_sectors: 4e7, l2_sectors: 4e7, l2_lines: 1e7, memory_bytes: 1e8, chain: 2000.0, repeats: 1.0, ..Default::default() };
    let columns = Work { l2_lines: 4e7, ..whole };
    let seconds = |work: &Work, spills| predict(work, &launch, &Resources { registers: 64, shared: 0, spills }, h200).seconds;
    assert!(seconds(&columns, 0) > 3.0 * seconds(&whole, 0), "{} {}", seconds(&columns, 0), seconds(&whole, 0));
    // 1024 threads of a multiprocessor with 100 bytes each fit the L1, with 2000 each they do not.
    let [few, many] = [100, 2000].map(|spills| seconds(&Work { repeats: 100.0, ..whole }, spills) - seconds(&whole, 0));
    assert!(many > 30.0 * few, "{few} {many}");
}

/// Where few of the blocks have much to do, the grid takes no less than one of these.
#[test]
fn long_blocks_are_waited_for() {
    let launch = Launch { grid: 4096, block: 64, stages: 1 };
    let work = Work { load_sectors: 1e5, instructions: 1e6, chain: 1000.0, longest_chain: 90_000.0, ..Default::default() };
    let h200 = Target::h200();
    let seconds = predict(&work, &launch, &Resources { registers: 64, shared: 0, spills: 0 }, h200).seconds;
    assert!(seconds > 90_000.0 / h200.clock, "{seconds}");
}

/// Stores that fill sectors in halves lengthen the memory's time by a tenth of each, and multiprocessors that have about as much to do as the
/// memory are not hidden by it.
#[test]
fn half_filled_sectors_and_busy_units_lengthen_what_memory_takes() {
    let h200 = Target::h200();
    let launch = Launch { grid: 12207, block: 256, stages: 1 };
    let whole = Work { chain: 800.0, repeats: 1.0, ..streaming(25e6, 16.0) };
    let seconds = |work: &Work| predict(work, &launch, &SMALL, h200).seconds;
    let halves = Work { store_sectors: 2.0 * whole.store_sectors, partial_stores: 2.0 * whole.store_sectors, ..whole };
    let lengthened = seconds(&halves) - seconds(&whole);
    let tenths = HALF_FILLED * 32.0 * halves.partial_stores / h200.bandwidth;
    assert!((lengthened / tenths - 1.0).abs() < 0.05, "{lengthened} {tenths}");
    let busy = |share: f64| Work { float_operations: 128.0 * 132.0 * h200.clock * share * whole.memory_bytes / h200.bandwidth, ..whole };
    assert!(seconds(&busy(0.2)) < 1.03 * seconds(&whole), "{} {}", seconds(&busy(0.2)), seconds(&whole));
    assert!((1.25..1.5).contains(&(seconds(&busy(0.95)) / seconds(&whole))), "{} {}", seconds(&busy(0.95)), seconds(&whole));
}
