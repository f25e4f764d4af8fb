//! The committed winners: each is legal on its GPU, and what a launch of its lengths runs under.

use girih::challenge::challenges;
use girih::launch::program_schedule::{self, Joint};
use girih::launch::schedule_lookup;
use girih::store::winners::{self, Winner};
use girih::subject::{Subject, schedules};
use girih::tune::launches::AtPerf;
use girih_core::facts::{Facts, TensorArg};
use girih_core::lengths::Lengths;
use girih_core::registry::kernels;
use girih_core::schedule::parse::parse_schedule;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use girih_core::tile::access::bounded_axes;
use girih_examples as _;
use std::collections::BTreeMap;

/// What a launch of packed, aligned tensors of these lengths promises; the best that one may where lengths are not known.
fn facts_of(kernel: &Kernel, lengths: Option<&Lengths>) -> Facts {
    let Some(Lengths(all)) = lengths else { return Facts::best(kernel) };
    let args: Vec<Option<TensorArg>> = all.iter().map(|lens| lens.as_ref().map(|lens| TensorArg::packed(256, lens))).collect();
    Facts::of_launch(&args, true).bounded(&bounded_axes(kernel), &args)
}

#[test]
fn committed_winners_are_legal() {
    for winner in winners::all().into_iter().filter(|w| w.facts != program_schedule::FACTS) {
        let def = kernels().into_iter().find(|d| d.path() == winner.kernel);
        let def = def.unwrap_or_else(|| panic!("winner of an unknown kernel: {winner}"));
        let kernel = (def.build)().expect("a winner's kernel builds");
        let schedule = parse_schedule(&kernel, &winner.schedule).unwrap_or_else(|e| panic!("{winner}: {e}"));
        let target = Target::find(&winner.arch).unwrap_or_else(|| panic!("winner of an unknown architecture: {winner}"));
        let facts = facts_of(&kernel, winner.lengths.as_ref());
        let legal = girih_core::lower::check(&kernel, &facts, &schedule, target);
        assert_eq!(legal, Ok(()), "{winner}");
        let chosen = schedule_lookup::of_kernel(&kernel, &facts, winner.lengths.as_ref(), target, None);
        assert!(chosen.iter().any(|(s, _)| *s == schedule), "{winner} is not found again");
    }
}

/// The winners of whole programs, with a subject that calls each.
fn of_programs() -> Vec<(Winner, Subject)> {
    let subjects: BTreeMap<String, Subject> = challenges()
        .iter()
        .map(|c| Subject::of_challenge(c).expect(c.slug))
        .map(|subject| (subject.source.path.clone(), subject))
        .collect();
    let of = |winner: Winner| {
        let subject = subjects.get(&winner.kernel).unwrap_or_else(|| panic!("winner of an unknown program: {winner}"));
        (winner, subject.clone())
    };
    winners::all().into_iter().filter(|w| w.facts == program_schedule::FACTS).map(of).collect()
}

#[test]
fn winners_of_programs_are_legal() {
    let all = of_programs();
    assert!(all.len() >= 90, "{} programs have winners", all.len());
    for (winner, subject) in all {
        let target = Target::find(&winner.arch).unwrap_or_else(|| panic!("winner of an unknown architecture: {winner}"));
        let joint = Joint::parse(&winner.schedule).unwrap_or_else(|e| panic!("{winner}: {e}"));
        let variants = joint.variants_on(&subject.source, target).unwrap_or_else(|e| panic!("{winner}: {e}"));
        let way = subject.with_variants(&variants).program;
        for (site, def) in way.site_names().iter().zip(way.sites()) {
            let kernel = (def.build)().expect("a winner's kernel builds");
            let named = joint.sites.iter().any(|(name, _)| name == site);
            assert_eq!(joint.schedule(site, &kernel).is_some(), named, "{site} has other knobs than its winner: {winner}");
        }
    }
}

/// Where a program was tuned for a challenge's own size, each of its launches there has the schedule that won.
#[test]
fn challenges_run_as_they_were_tuned() {
    let mut launched = 0;
    for (winner, subject) in of_programs() {
        let target = Target::find(&winner.arch).expect("its test looks");
        let lengths = AtPerf::of(&subject).program;
        if lengths.is_none() || lengths != winner.lengths {
            continue;
        }
        let (joint, way) = schedules::best(&subject, lengths.as_ref(), target, None).unwrap_or_else(|| panic!("{winner}: is not found"));
        let at_perf = AtPerf::of(&way);
        let taken = schedules::schedules(&way, Some(&joint), target, None, &at_perf.launches).unwrap_or_else(|e| panic!("{winner}: {e}"));
        let names = way.program.site_names();
        for (site, (schedule, kernel, origin)) in taken.iter().enumerate().filter(|(site, _)| at_perf.of_site(*site).is_some()) {
            let Some((_, text)) =
                Joint::parse(&winner.schedule).expect("it is one").sites.iter().find(|(name, _)| *name == names[site]).cloned()
            else {
                panic!("{}: {} is launched and has no schedule in {winner}", subject.name, names[site]);
            };
            let won = parse_schedule(kernel, &text).unwrap_or_else(|e| panic!("{winner}: {e}"));
            assert_eq!(
                (schedule.short(kernel), *origin),
                (won.short(kernel), "tuned with the program"),
                "{}: {}",
                subject.name,
                names[site]
            );
            launched += 1;
        }
    }
    assert!(launched >= 150, "{launched} launches were looked at");
}
