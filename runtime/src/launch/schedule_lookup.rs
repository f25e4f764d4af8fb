//! What schedules are known for a launch or a program: the device's own from the tuner's store and the committed winners, in one order by how
//! near what they were tuned for is to what is asked. Where both are equally near, the device's own comes first; winners of other
//! architectures come last. What other GPUs have elected, in a store that was merged into this one, stands beside the winners. What was predicted on
//! this machine stands in where nothing of the architecture was measured.

use crate::device::Device;
use crate::launch::program_schedule;
use crate::launch::{ScheduleSource, add_schedule_source};
use crate::store::winners::{self, kernel_path};
use crate::store::{self, Candidate, Store};
use girih_core::facts::{Facts, TensorArg};
use girih_core::facts_distance::Occasion;
use girih_core::lengths::Lengths;
use girih_core::program::Program;
use girih_core::schedule::Schedule;
use girih_core::schedule::ladder::{Ladder, Step};
use girih_core::schedule::parse::parse_schedule;
use girih_core::schedule::space::Space;
use girih_core::target::Target;
use girih_core::tile::access::bounded_axes;
use girih_core::tile::{Kernel, Param, ParamKind};
use std::sync::{Arc, Mutex};

/// What stands behind a device's name where times were taken with a warm L2: they are kept apart from others, and no launch asks for them.
const WARM: &str = ", warm L2";

/// The name of a device whose times were taken with a warm L2.
#[cfg(feature = "tune")]
pub(crate) fn warm_device(name: &str) -> String {
    format!("{name}{WARM}")
}

/// Whether a device's times were taken with a warm L2.
pub(crate) fn is_warm(device: &str) -> bool {
    device.ends_with(WARM)
}

/// Where a schedule came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Tuned on this device.
    Store,
    /// A committed winner.
    Winner,
    /// Tuned on another GPU: its store was merged into this one.
    AnotherGpu,
    /// Tuned by prediction on this machine: nothing was measured.
    Predicted,
    /// What its author lists first.
    Default,
    /// What stands in for that ([`instead`]), which is illegal here.
    Instead,
}

impl Origin {
    /// A word for tables.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Store => "tuned here",
            Origin::Winner => "committed winner",
            Origin::AnotherGpu => "tuned on another GPU",
            Origin::Predicted => "predicted on this machine",
            Origin::Default => "default",
            Origin::Instead => INSTEAD,
        }
    }

    /// Whether the word of [`Origin::name`] says that nobody tuned it.
    #[cfg(feature = "tune")]
    pub(crate) fn is_untuned(name: &str) -> bool {
        [Origin::Default, Origin::Instead].iter().any(|origin| origin.name() == name)
    }
}

/// The device under whose name the store keeps what is predicted for a target.
pub fn predicted_device(target: &Target) -> String {
    format!("{PREDICTED}{}", target.name)
}

/// Whether the store keeps predictions under a device's name.
pub fn is_predicted(device: &str) -> bool {
    device.starts_with(PREDICTED)
}

/// Before the target's name.
const PREDICTED: &str = "simulated ";

/// The word for what stands in for an author's first choice.
const INSTEAD: &str = "stands in for the default, which is illegal here";

/// A schedule that is known for something near what is asked.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Known {
    /// Its text.
    pub text: String,
    pub origin: Origin,
    /// How far what it was measured for on this architecture is from what is asked ([`Occasion::distance`]); infinite where it was not measured
    /// there.
    pub distance: f64,
    /// What was other where the store's word on it was made.
    pub elsewhere: Option<String>,
}

impl Known {
    /// Tells of what is taken for a kernel or program though it was tuned elsewhere.
    pub fn tell(&self, name: &str) {
        #[cfg(feature = "tune")]
        self.elsewhere.iter().for_each(|elsewhere| crate::store::provenance::tell(name, elsewhere));
        #[cfg(not(feature = "tune"))]
        let _ = name;
    }
}

/// Who asks: a kernel or a program, by its path and its identity, and the one that it has in stores of former versions.
struct Asker<'a> {
    path: &'a str,
    identity: u64,
    former: u64,
}

impl Asker<'_> {
    /// What a store knows for it on a device.
    fn stored(&self, store: &Store, asked: Occasion, device: &str) -> Vec<Candidate> {
        let of = |identity| store.candidates(identity, asked, device).unwrap_or_default();
        [of(self.identity), of(self.former)].concat()
    }

    /// What a store knows for it that was measured on others, with how far their architecture is.
    fn stored_elsewhere(&self, store: &Store, asked: Occasion, device: &str, target: &Target) -> Vec<(u32, Candidate)> {
        let of = |identity| store.candidates_elsewhere(identity, asked, device).unwrap_or_default();
        let measured =
            [of(self.identity), of(self.former)].concat().into_iter().filter(|e| !is_predicted(&e.device) && !is_warm(&e.device));
        measured.filter_map(|e| Some((winners::arch_distance(&e.arch, target)?, e.candidate))).collect()
    }
}

/// The schedules known to `asker`, the first to consider first.
fn nearest(asker: Asker, asked: Occasion, target: &Target, store: Option<(&Store, &str)>) -> Vec<Known> {
    let measured = store.filter(|(_, device)| !is_predicted(device));
    let stored = measured.map_or(Vec::new(), |(s, device)| asker.stored(s, asked, device));
    let predicted = store.map_or(Vec::new(), |(s, _)| asker.stored(s, asked, &predicted_device(target)));
    let committed = winners::nearest(winners::all(), asker.path, asked, target);
    // Times of a warm L2 are a case of their own.
    let others = store.filter(|(_, device)| !is_warm(device));
    let elsewhere = others.map_or(Vec::new(), |(s, device)| asker.stored_elsewhere(s, asked, device, target));
    merged(stored, predicted, committed, elsewhere, asked)
}

/// All lists, each in its order, as one. What is predicted comes after all that was measured on this architecture, and a winner of another
/// one, so far away, behind that.
fn merged(
    stored: Vec<Candidate>,
    predicted: Vec<Candidate>,
    committed: Vec<(u32, winners::Winner)>,
    elsewhere: Vec<(u32, Candidate)>,
    asked: Occasion,
) -> Vec<Known> {
    let stored = stored.into_iter().map(|c| (0, c, Origin::Store));
    let predicted = predicted.into_iter().map(|c| (1, c, Origin::Predicted));
    let place = |far: u32| if far == 0 { 0 } else { 1 + far };
    let committed = committed.into_iter().map(|(far, w)| {
        let candidate = Candidate { schedule: w.schedule, facts: w.facts, lengths: w.lengths, elsewhere: None };
        (place(far), candidate, Origin::Winner)
    });
    let elsewhere = elsewhere.into_iter().map(|(far, candidate)| (place(far), candidate, Origin::AnotherGpu));
    let mut all: Vec<(u32, Candidate, Origin)> = stored.chain(predicted).chain(committed).chain(elsewhere).collect();
    all.sort_by(|(x, a, _), (y, b, _)| x.cmp(y).then_with(|| asked.order(&a.occasion(), &b.occasion())));
    let known = |(far, candidate, origin): (u32, Candidate, Origin)| {
        let distance = if far == 0 { asked.distance(&candidate.occasion()) } else { f64::INFINITY };
        Known { text: candidate.schedule, origin, distance, elsewhere: candidate.elsewhere }
    };
    all.into_iter().map(known).collect()
}

/// The schedules known for a kernel, the first to consider first; without a store the committed ones, without lengths those of the longest
/// tensors before others. Those that don't name exactly its knobs are left out.
pub fn of_kernel(
    kernel: &Kernel,
    facts: &Facts,
    lengths: Option<&Lengths>,
    target: &Target,
    store: Option<(&Store, &str)>,
) -> Vec<(Schedule, Origin)> {
    near_kernel(kernel, facts, lengths, target, store).into_iter().map(|(schedule, known)| (schedule, known.origin)).collect()
}

/// The same with how far each is.
fn near_kernel(
    kernel: &Kernel,
    facts: &Facts,
    lengths: Option<&Lengths>,
    target: &Target,
    store: Option<(&Store, &str)>,
) -> Vec<(Schedule, Known)> {
    let (path, facts) = (kernel_path(kernel), facts.to_string());
    let asker = Asker { path: &path, identity: kernel.identity(), former: kernel.former_identity() };
    let known = nearest(asker, Occasion { facts: &facts, lengths }, target, store);
    known.into_iter().filter_map(|known| Some((parse_schedule(kernel, &known.text).ok()?, known))).collect()
}

/// What launches promise for which a kernel was tuned, on a device of the store's or where the winners for the target were measured: aligned
/// tensors of those lengths.
pub fn tuned_facts(kernel: &Kernel, target: &Target, store: Option<(&Store, &str)>) -> Vec<Facts> {
    let path = kernel_path(kernel);
    let asked = Occasion { facts: "", lengths: None };
    let stored = store.and_then(|(s, device)| s.candidates(kernel.identity(), asked, device).ok()).unwrap_or_default();
    let committed = winners::nearest(winners::all(), &path, asked, target).into_iter().filter(|(far, _)| *far == 0);
    let lengths = stored.into_iter().map(|c| c.lengths).chain(committed.map(|(_, w)| w.lengths));
    let mut all: Vec<Facts> = Vec::new();
    for facts in lengths.flatten().filter_map(|lengths| facts_of_lengths(kernel, &lengths)) {
        if !all.contains(&facts) {
            all.push(facts);
        }
    }
    all
}

/// What aligned, packed tensors of these lengths promise; `None` where they are not the kernel's.
fn facts_of_lengths(kernel: &Kernel, lengths: &Lengths) -> Option<Facts> {
    let arg = |lens: &Option<Vec<i64>>| lens.as_ref().map(|lens| TensorArg::packed(0, lens));
    let args: Vec<Option<TensorArg>> = lengths.0.iter().map(arg).collect();
    let fits = |(param, arg): (&Param, &Option<TensorArg>)| match param.kind {
        ParamKind::Tensor { rank, .. } => arg.as_ref().is_some_and(|a| a.lens.len() == rank),
        ParamKind::Scalar(_) => arg.is_none(),
    };
    let own = args.len() == kernel.params.len() && kernel.params.iter().zip(&args).all(fits);
    own.then(|| Facts::of_launch(&args, true).bounded(&bounded_axes(kernel), &args))
}

/// The schedules known for a program as a whole ([`crate::launch::program_schedule`]), the first to consider first.
pub(crate) fn of_program(program: &Program, lengths: Option<&Lengths>, target: &Target, store: Option<(&Store, &str)>) -> Vec<Known> {
    let asker =
        Asker { path: &program.path, identity: program_schedule::identity(program), former: program_schedule::former_identity(program) };
    nearest(asker, Occasion { facts: program_schedule::FACTS, lengths }, target, store)
}

/// The best schedule known that is legal: of the store's for this device and the winners the nearest, else the default, else the naive one.
///
/// Without lengths it is one for the longest tensors. `legal` proves legality for the facts and target at hand (by lowering). `None` only
/// if nothing is legal.
pub fn choose(
    kernel: &Kernel,
    facts: &Facts,
    lengths: Option<&Lengths>,
    target: &Target,
    store: Option<(&Store, &str)>,
    mut legal: impl FnMut(&Schedule) -> bool,
) -> Option<(Schedule, Origin)> {
    if let Some((schedule, known)) = near_kernel(kernel, facts, lengths, target, store).into_iter().find(|(s, _)| legal(s)) {
        known.tell(&kernel_path(kernel));
        return Some((schedule, known.origin));
    }
    let default = Some((Schedule::default_of(kernel), Origin::Default));
    let stands_in = || Some((instead(kernel, facts, target)?, Origin::Instead));
    default.filter(|(s, _)| legal(s)).or_else(|| stands_in().filter(|(s, _)| legal(s)))
}

/// The schedules known for a kernel, the first to consider first, each with how far what it was measured for on this architecture lies from what
/// is asked; infinite where it was not measured there.
#[cfg(feature = "tune")]
pub fn near(
    kernel: &Kernel,
    facts: &Facts,
    lengths: Option<&Lengths>,
    target: &Target,
    store: Option<(&Store, &str)>,
) -> Vec<(Schedule, f64)> {
    near_kernel(kernel, facts, lengths, target, store).into_iter().map(|(schedule, known)| (schedule, known.distance)).collect()
}

/// Schedules of neighbours with which a search begins.
#[cfg(feature = "tune")]
const SEEDS: usize = 4;

/// Where a search begins: the first few of those that are near, as candidates of its space, each once.
#[cfg(feature = "tune")]
pub fn seeds(near: Vec<(Schedule, f64)>, space: &Space) -> Vec<Schedule> {
    let mut seeds: Vec<Schedule> = Vec::new();
    for (schedule, _) in near {
        if seeds.len() == SEEDS {
            break;
        }
        if space.check(&schedule).is_err() {
            continue;
        }
        // A knob that has no effect here may have had one there.
        let candidate = space.canonical(&schedule);
        if space.holds(&candidate) && !seeds.contains(&candidate) {
            seeds.push(candidate);
        }
    }
    seeds
}

/// The first legal one of the schedules that were measured on this architecture for something nearer than `than`.
#[cfg(feature = "tune")]
pub(crate) fn nearer(
    (kernel, facts): (&Kernel, &Facts),
    lengths: Option<&Lengths>,
    target: &Target,
    store: Option<(&Store, &str)>,
    than: f64,
    mut legal: impl FnMut(&Schedule) -> bool,
) -> Option<(Schedule, Origin)> {
    let mut nearer = near_kernel(kernel, facts, lengths, target, store).into_iter().filter(|(_, known)| known.distance < than);
    let (schedule, known) = nearer.find(|(s, _)| legal(s))?;
    known.tell(&kernel_path(kernel));
    Some((schedule, known.origin))
}

/// What stands in for first listed values that are illegal here: they need not be legal for every target and every launch. Of a kernel that
/// multiplies tiles the highest rung of its ladder, of others the naive schedule, or any that is legal.
pub fn instead(kernel: &Kernel, facts: &Facts, target: &Target) -> Option<Schedule> {
    let space = Space::new(kernel, facts, target);
    let highest = Ladder::new(&space).ok().flatten().map(|l| l.up_to(Step::Mma).clone());
    highest.or_else(|| space.naive().ok()).or_else(|| space.candidates().next())
}

/// Makes launches without an explicit schedule use what the tuner's store and the committed winners know. Once per process is enough.
pub fn add_sources() {
    add_schedule_source(Arc::new(KnownSchedules(store::existing().map(Mutex::new))));
}

/// What a store and the committed winners know, as launches ask it ([`add_schedule_source`]).
pub fn stored(store: Store) -> Arc<dyn ScheduleSource> {
    Arc::new(KnownSchedules(Some(Mutex::new(store))))
}

/// Tells of what is taken though nobody measured it, by the word of its origin.
pub(crate) fn tell_of_prediction(name: &str, origin: &str) {
    if origin.starts_with(Origin::Predicted.name()) {
        crate::notes::once(format!("{name}: its schedule is {origin}; nothing measured is known"));
    }
}

/// What is known, as launches ask it.
struct KnownSchedules(Option<Mutex<Store>>);

impl ScheduleSource for KnownSchedules {
    fn schedule(&self, kernel: &Kernel, facts: &Facts, lengths: &Lengths, device: &Device) -> Option<Schedule> {
        let store = self.0.as_ref().and_then(|s| s.lock().ok());
        let name = device.name();
        let known = near_kernel(kernel, facts, Some(lengths), device.target(), store.as_deref().map(|s| (s, name.as_str())));
        let legal = |s: &Schedule| girih_core::lower::check(kernel, facts, s, device.target()).is_ok();
        let (schedule, known) = known.into_iter().find(|(s, _)| legal(s))?;
        known.tell(&kernel_path(kernel));
        tell_of_prediction(&kernel_path(kernel), known.origin.name());
        Some(schedule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(schedule: &str, n: &str) -> Candidate {
        Candidate { schedule: schedule.into(), facts: "16p/16 i32".into(), lengths: Lengths::parse(n).ok(), elsewhere: None }
    }

    #[test]
    fn the_devices_own_and_the_winners_stand_in_one_order() {
        let file = "
            sm_90a | g::k | 16p/16 i32 | 1024 | T=1 | 1.00
            sm_90a | g::k | 16p/16 i32 | 1048576 | T=2 | 9.00
            sm_80 | g::k | 16p/16 i32 | 1024 | T=3 | 1.00";
        let order = |n: &str| -> Vec<(String, Origin)> {
            let lengths = Lengths::parse(n).unwrap();
            let asked = Occasion { facts: "16p/16 i32", lengths: Some(&lengths) };
            let committed = winners::nearest(winners::parse(file).unwrap(), "g::k", asked, Target::h200());
            let others = vec![(0, candidate("T=7", "1024")), (10, candidate("T=6", "1024"))];
            let known = merged(vec![candidate("T=9", "1024")], vec![candidate("T=8", n)], committed, others, asked);
            let elsewhere = known.iter().filter(|k| k.distance.is_infinite()).map(|k| k.text.as_str());
            assert_eq!(elsewhere.collect::<Vec<_>>(), ["T=8", "T=3", "T=6"]);
            known.into_iter().map(|k| (k.text, k.origin)).collect()
        };
        let named = |list: [(&str, Origin); 7]| list.map(|(s, o)| (s.to_string(), o));
        // As near as a winner, what was tuned here comes first; a winner that is nearer comes before it.
        // What is predicted comes after all that was measured here, and before what was measured elsewhere.
        let (store, winner, own) = (Origin::Store, Origin::Winner, ("T=8", Origin::Predicted));
        // What another GPU of the architecture elected is as good as a winner; both are far where they are of another one.
        let [near, far] = ["T=7", "T=6"].map(|s| (s, Origin::AnotherGpu));
        assert_eq!(order("1024"), named([("T=9", store), ("T=1", winner), near, ("T=2", winner), own, ("T=3", winner), far]));
        assert_eq!(order("524288"), named([("T=2", winner), ("T=9", store), ("T=1", winner), near, own, ("T=3", winner), far]));
    }

    /// Where the author's first choice is illegal what stands in for it is not called by its name, and a launch tells.
    #[test]
    fn what_stands_in_for_the_default_is_told() {
        use girih::prelude::*;

        #[kernel(tile(T = 256), stages(S = [3]), copy(P = [Async, Registers]), grid(G = 1))]
        pub fn staged(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
            for t in y.tiles([T]) {
                y.store(t, x.load(t));
            }
        }
        let kernel = (staged::Kernel::def().build)().expect("it builds");
        let chosen = |name: &str| {
            let target = Target::find(name).expect("a target");
            let legal = |s: &Schedule| girih_core::lower::check(&kernel, &Facts::best(&kernel), s, target).is_ok();
            choose(&kernel, &Facts::best(&kernel), None, target, None, legal).expect("something is legal").1
        };
        assert_eq!((chosen("h200"), chosen("t4")), (Origin::Default, Origin::Instead));
        let device = Device::sim(Target::find("t4").expect("a target"));
        let facts = Facts::best(&kernel);
        let taken = crate::launch::choose(&device, &kernel, &facts, &Lengths(vec![None, None])).unwrap_or_else(|e| panic!("{e}"));
        assert!(girih_core::lower::check(&kernel, &facts, &taken, device.target()).is_ok());
        let told = format!("so {} is taken: ", taken.short(&kernel));
        assert!(crate::notes::was_told("what its author lists first is illegal on") && crate::notes::was_told(&told));
    }
}
