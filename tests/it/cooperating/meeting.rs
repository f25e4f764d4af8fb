//! How blocks meet: by words that the last one waits for, or by tickets.

use super::super::launches::{Launch, Placement, Shape, best_facts};
use super::super::mutator::{Removed, mutants};
use super::super::nvrtc::provide;
use super::super::on_devices::devices;
use super::kernel;
use girih::{Compiled, Device};
use girih_core::cuda::emit;
use girih_core::facts::{Facts, TensorArg};
use girih_core::lower::lower;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::simt;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use girih_core::tile::host::HostArg;

const FUEL: u64 = 2_000_000;

fn of_cooperating(name: &str) -> Kernel {
    kernel("cooperating::kernels", name)
}

fn lowered(kernel: &Kernel, facts: &Facts, schedule: &str) -> simt::Kernel {
    let schedule = match schedule {
        "" => Schedule::default_of(kernel),
        text => parse_schedule(kernel, text).unwrap_or_else(|e| panic!("{}: {e}", kernel.name)),
    };
    lower(kernel, facts, &schedule, Target::h200()).unwrap_or_else(|e| panic!("{}: {e}", kernel.name))
}

fn takes_tickets(kernel: &Kernel, facts: &Facts) -> bool {
    let text = emit(&lowered(kernel, facts, ""));
    let (ticket, waits) = (text.contains("ticket"), text.contains("wait_nonzero(&"));
    assert!(ticket != waits && text.contains("__threadfence") == ticket, "{text}");
    ticket
}

#[test]
fn parts_of_32_bits_need_no_ticket_and_no_fence() {
    let gallery = ["reduction", "softmax_statistics", "count_equal"].map(|name| {
        let def = girih_core::registry::kernels().into_iter().find(|d| d.name == name);
        (def.unwrap_or_else(|| panic!("no kernel {name}")).build)().unwrap_or_else(|e| panic!("{name}: {e}"))
    });
    for kernel in gallery.iter().chain(&[of_cooperating("mean"), of_cooperating("narrow_parts")]) {
        assert!(!takes_tickets(kernel, &best_facts(kernel)) && !takes_tickets(kernel, &Facts::none(kernel)), "{}", kernel.name);
    }
}

#[test]
fn tickets_order_wide_parts_and_memory() {
    for name in ["largest_at", "flipped_count", "scaled_by_last"] {
        let kernel = of_cooperating(name);
        assert!(takes_tickets(&kernel, &best_facts(&kernel)), "{name}");
    }
}

#[test]
fn the_last_block_changes_what_all_are_done_with() {
    for (name, lens) in [("flipped_count", vec![vec![900], vec![1]]), ("scaled_by_last", vec![vec![900], vec![1]])] {
        let kernel = of_cooperating(name);
        let shape = Shape { scalars: vec![None; lens.len()], lens };
        let launch = Launch::new(&kernel, &shape, Placement::Aligned, 5);
        let simt = lowered(&kernel, &Facts::packed(&kernel, true), "T=64,C=1,V=1,G=0");
        let expected = launch.evaluate(&kernel).unwrap_or_else(|e| panic!("{name}: {e}"));
        for seed in 0..16 {
            let after = launch.simulate_in_order(&simt, seed).unwrap_or_else(|trap| panic!("{name}: {trap}"));
            assert_eq!(launch.difference(&kernel, &after, &expected), None, "{name}, seed {seed}");
        }
    }
}

/// Without a word, its zero or the wait, no launch ends well, in whatever order threads are stepped.
#[test]
fn words_are_left_awaited_and_emptied() {
    let kernel = of_cooperating("narrow_parts");
    let simt = lowered(&kernel, &Facts::packed(&kernel, true), "T=64,C=1,V=1,G=0");
    let launch = Launch::new(&kernel, &Shape { lens: vec![vec![300], vec![2], vec![1]], scalars: vec![None; 3] }, Placement::Aligned, 1);
    launch.simulate(&simt, FUEL).unwrap_or_else(|trap| panic!("{trap}"));
    let words = |m: &Removed| matches!(m, Removed::Word | Removed::Wait | Removed::StorePredicate);
    let found: Vec<_> = mutants(&simt).into_iter().filter(|m| words(&m.removed) && m.place.contains("_parts[b")).collect();
    // Three parts: each is stored, by one thread, awaited and emptied.
    let count = |kind: Removed| found.iter().filter(|m| m.removed == kind).count();
    assert_eq!([Removed::Word, Removed::StorePredicate, Removed::Wait].map(count), [6, 3, 3]);
    for mutant in found {
        for seed in 0..4 {
            let lives = launch.simulate_in_order(&mutant.kernel, seed).is_ok();
            assert!(!lives, "{:?} of `{}` with seed {seed}", mutant.removed, mutant.place);
        }
    }
}

/// The means that launches of such lengths find, one after the other.
fn means(device: &Device, simt: &simt::Kernel, lens: &[i64]) -> Vec<f32> {
    let mut compiled = Compiled::of(simt.clone(), device.target());
    if device.needs_cubin() {
        provide();
        compiled = compiled.with_cubin().unwrap_or_else(|e| panic!("{e}"));
    }
    let loaded = device.load(&compiled).unwrap();
    let out = device.alloc(4).unwrap();
    let mean = |len: &i64| {
        let x = device.alloc(*len as usize * 4).unwrap();
        let bytes: Vec<u8> = (0..*len).flat_map(|i| ((i % 8 + len % 8) as f32).to_le_bytes()).collect();
        device.upload(&x, 0, &bytes).unwrap();
        let args = [(x.address(), *len), (out.address(), 1)].map(|(at, n)| HostArg::Tensor(TensorArg::packed(at, &[n])));
        device.launch(&loaded, &args).unwrap_or_else(|e| panic!("{e}"));
        let mut found = [0; 4];
        device.download(&out, 0, &mut found).unwrap();
        f32::from_le_bytes(found)
    };
    lens.iter().map(mean).collect()
}

#[test]
fn launches_in_a_row_find_empty_words() {
    // The same again, fewer blocks, one, as many as before, more.
    let lens = [4096, 4096, 1024, 8, 4096, 64000, 16];
    for device in devices() {
        for schedule in ["T=64,C=1,V=1,G=0", "T=256,C=4,V=4,G=2"] {
            let kernel = of_cooperating("mean");
            let simt = lowered(&kernel, &best_facts(&kernel), schedule);
            assert_eq!(means(&device, &simt, &lens), [3.5; 7], "{schedule} on {}", device.name());
        }
    }
}
