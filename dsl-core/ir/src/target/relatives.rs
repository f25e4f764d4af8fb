//! Architectures of which girih knows no GPU: code is made for them all the same.

use super::{KB, MatrixRates, TARGETS, Target};

/// Architectures with the rates of the nearest lower one that is known, and with their own limits: threads, blocks and shared memory decide
/// what is legal. Source: the CUDA C++ Programming Guide, technical specifications per compute capability.
pub static RELATIVES: [Target; 7] = [
    like(&TARGETS[1], 86, "sm_86", Limits { threads: 1536, blocks: 16, shared: 100 * KB }),
    like(&TARGETS[1], 87, "sm_87", Limits { threads: 1536, blocks: 16, shared: 164 * KB }),
    like(&TARGETS[1], 88, "sm_88", Limits { threads: 1536, blocks: 16, shared: 100 * KB }),
    like(&TARGETS[1], 89, "sm_89", Limits { threads: 1536, blocks: 24, shared: 100 * KB }),
    like(&TARGETS[4], 103, "sm_103a", Limits { threads: 2048, blocks: 32, shared: 228 * KB }),
    like(&TARGETS[4], 110, "sm_110a", Limits { threads: 1536, blocks: 24, shared: 228 * KB }),
    like(&TARGETS[5], 121, "sm_121", Limits { threads: 1536, blocks: 24, shared: 100 * KB }),
];

/// What one multiprocessor has room for.
struct Limits {
    threads: u32,
    blocks: u32,
    /// Bytes, of which the system keeps 1 KiB for each block.
    shared: u32,
}

const fn like(known: &Target, capability: u32, arch: &'static str, limits: Limits) -> Target {
    // With f32 accumulators twice the products of 16 bits, from sm_89 on.
    let knows_float8 = capability >= 89;
    Target {
        name: arch,
        capability,
        arch,
        multiprocessors: known.multiprocessors,
        threads_per_multiprocessor: limits.threads,
        blocks_per_multiprocessor: limits.blocks,
        shared_per_block: limits.shared - KB,
        shared_per_multiprocessor: limits.shared,
        shared_reserved: KB,
        bandwidth: known.bandwidth,
        bytes_in_flight: known.bytes_in_flight,
        l2: known.l2,
        clock: known.clock,
        boost: known.boost,
        ffma_per_clock: known.ffma_per_clock,
        matrix: MatrixRates { float8: if knows_float8 { 2 * known.matrix.half } else { 0 }, ..known.matrix },
        launch: known.launch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_without_a_known_gpu_are_found() {
        let of = |name: &str| Target::find(name).map(|t| (t.arch, t.capability, t.shared_per_block / KB));
        assert_eq!(of("sm_86"), Some(("sm_86", 86, 99)));
        assert_eq!(of("sm_89"), Some(("sm_89", 89, 99)));
        assert_eq!(of("sm_103"), Some(("sm_103a", 103, 227)));
        assert_eq!(of("sm_121a"), Some(("sm_121", 121, 99)));
        assert_eq!(of("sm_90"), Some(("sm_90a", 90, 227)));
        assert_eq!((of("sm_70"), of("sm_99"), of("86")), (None, None, None));
    }

    #[test]
    fn relatives_have_the_rates_of_the_nearest_lower_one() {
        for target in &RELATIVES {
            let below = TARGETS.iter().rev().find(|t| t.capability < target.capability).expect("a lower one");
            let but_float8 = |rates: MatrixRates| MatrixRates { float8: 0, ..rates };
            let own = (target.bandwidth, but_float8(target.matrix));
            assert_eq!((below.bandwidth, but_float8(below.matrix)), own, "{}", target.arch);
            assert_eq!(target.matrix.float8 > 0, target.capability >= 89, "{}", target.arch);
        }
    }
}
