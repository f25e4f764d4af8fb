//! Launches without a schedule take the one that was tuned for the nearest lengths.

use girih::challenge::challenges;
use girih::device::buffer::Buffer;
use girih::launch::schedule_lookup;
use girih::launch::{self, Argument, Prepared, add_schedule_source};
use girih::prelude::*;
use girih::store::winners;
use girih::store::{Elected, Store, TrialKey};
use girih::subject::Subject;
use girih::tune::launches::AtPerf;
use girih::{Device, Stream};
use girih_core::facts::Facts;
use girih_core::lengths::Lengths;
use girih_core::schedule::Schedule;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use girih_core::types::DType;
use std::sync::Arc;

#[kernel(tile(T = [256, 512, 1024]), coarsen(C of T = [1, 2, 4]), vector(V = [1, 2, 4]))]
fn plus_one(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    for t in y.tiles([T]) {
        y.store(t, x.load(t) + 1.0);
    }
}

/// The first launch of a process decides where schedules come from; this is it, if no other test was.
#[kernel(tile(T = [256]))]
fn first(x: &mut Tensor<f32, 1>) {
    for t in x.tiles([T]) {
        x.store(t, x.load(t) + 1.0);
    }
}

/// A simulated device with memory for two tensors.
struct Place {
    device: Device,
    kernel: Kernel,
    buffers: [Buffer; 2],
}

/// The longest tensor.
const MOST: i64 = 1 << 20;

impl Place {
    fn new() -> Place {
        let device = Device::sim(Target::h200());
        let buffers = [0, 1].map(|_| device.alloc(MOST as usize * 4).expect("memory"));
        Place { device, kernel: (plus_one::Kernel::def().build)().expect("it builds"), buffers }
    }

    fn args(&self, n: i64) -> [Argument; 2] {
        let [x, y] = &self.buffers;
        [Argument::packed(x, 0, DType::F32, &[n], false), Argument::packed(y, 0, DType::F32, &[n], true)]
    }

    fn facts(&self, n: i64) -> String {
        launch::check_arguments(&self.kernel, &self.args(n), 1).expect("the arguments fit").to_string()
    }

    fn schedule(&self, text: &str) -> Schedule {
        parse_schedule(&self.kernel, text).expect("a schedule of the kernel")
    }

    fn prepare(&self, schedule: Option<&str>, n: i64) -> Arc<Prepared> {
        let schedule = schedule.map(|text| self.schedule(text));
        launch::prepare(&self.device, &plus_one::Kernel::def(), schedule.as_ref(), &self.args(n)).expect("a legal launch")
    }

    /// As the tuner does at the end of a search.
    fn elect(&self, store: &Store, n: i64, schedule: &str) {
        let key = TrialKey {
            kernel: winners::kernel_path(&self.kernel),
            identity: self.kernel.identity(),
            facts: self.facts(n),
            lengths: Some(launch::lengths(&self.args(n))),
            sizes: format!("N={n}"),
            device: self.device.name(),
            arch: Target::h200().arch.to_string(),
        };
        store.elect(&Elected { key, schedule: schedule.into(), median_us: 1.0 }).expect("a writable store");
    }
}

#[test]
fn launches_take_the_schedule_of_the_nearest_lengths() {
    let place = Place::new();
    let stream = Stream::on(&place.device);
    first(&stream, &mut stream.zeros([8]).unwrap()).unwrap();
    let folder = std::env::temp_dir().join(format!("girih-lengths-{}", std::process::id()));
    let store = Store::open(&folder.join("tune.sqlite")).expect("a temporary folder is writable");
    let (small, large) = ("T=256 C=1 V=1", "T=1024 C=4 V=4");
    place.elect(&store, 1 << 10, small);
    place.elect(&store, MOST, large);
    add_schedule_source(schedule_lookup::stored(store));

    let sizes = [1 << 10, MOST, 1 << 12, 1 << 17, 16, 1 << 19];
    assert!(sizes.iter().all(|n| place.facts(*n) == place.facts(MOST)), "facts don't tell these sizes apart");
    let all = sizes.map(|n| place.prepare(None, n));
    let chosen = all.each_ref().map(|p| p.schedule.clone());
    assert_eq!(chosen, [small, large, small, large, small, large].map(|text| place.schedule(text)));
    // One cubin for each schedule, however many lengths lead to it, or whoever asks for it.
    assert!(Arc::ptr_eq(&all[0], &all[2]) && Arc::ptr_eq(&all[0], &all[4]) && Arc::ptr_eq(&all[1], &all[3]));
    assert!(Arc::ptr_eq(&all[1], &place.prepare(Some(large), 1 << 10)));

    for n in [1000, 70_000] {
        let x: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
        let mut y = stream.zeros([n]).unwrap();
        plus_one(&stream, &stream.tensor(&x, [n]).unwrap(), &mut y).unwrap();
        assert_eq!(stream.read(&y).unwrap(), x.iter().map(|x| x + 1.0).collect::<Vec<_>>());
    }
    std::fs::remove_dir_all(folder).expect("it was made above");
}

#[test]
fn lengths_of_arguments_are_those_of_their_tensors() {
    let place = Place::new();
    assert_eq!(launch::lengths(&place.args(300)), Lengths::parse("300 300").expect("lengths"));
    assert_eq!(launch::lengths(&place.args(300)).class().to_string(), "320 320");
}

/// What `show` and `export` print is for the size that a challenge is judged at, even where a longer one was tuned for.
#[test]
fn a_challenges_own_size_is_known_without_its_data() {
    let subjects = challenges().into_iter().map(|c| (Subject::of_challenge(&c).expect(c.slug), c));
    let mut judged = None;
    for (subject, challenge) in subjects {
        for sizes in challenge.checks.iter().take(2) {
            let sizes = subject.perf_sizes(sizes).unwrap_or_else(|e| panic!("{e}"));
            let call = subject.call(&sizes, 1).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(subject.arguments(&sizes).unwrap_or_else(|e| panic!("{e}")), call.arguments(), "{} at {sizes}", subject.name);
        }
        let launches = AtPerf::of(&subject).launches;
        assert!(!launches.is_empty(), "{}", subject.name);
        if subject.name == "matrix_multiplication" {
            judged = Some(launches[0].clone());
        }
    }
    let judged = judged.expect("a challenge of the gallery");
    let kernel = (judged.kernel.build)().unwrap_or_else(|e| panic!("{e}"));
    let chosen = |lengths| {
        let known = schedule_lookup::choose(&kernel, &Facts::best(&kernel), lengths, Target::h200(), None, |_| true);
        known.map(|(schedule, _)| schedule.short(&kernel)).expect("a committed winner")
    };
    let tuned = |lengths: &str| {
        let found = winners::all()
            .into_iter()
            .find(|w| w.kernel.ends_with("::matrix_multiplication") && w.lengths.as_ref().is_some_and(|l| l.to_string() == lengths));
        found.map(|w| w.schedule).unwrap_or_else(|| panic!("no winner at {lengths}"))
    };
    assert_eq!(chosen(Some(&judged.lengths)), tuned("8192x6144 6144x4096 8192x4096"));
    assert_eq!(chosen(None), tuned("8192x8192 8192x8192 8192x8192"), "without lengths");
}
