//! Reduced calls, run launch by launch on the simulator with real inputs: what each launch site finds in memory, how much work it is, how
//! often it is launched, and what the program reads back. A kernel that scatters to places which it reads from memory makes sense only there.

use super::launches::{self, Launch};
use super::reduced::reduced;
use crate::device::Device;
use crate::error::{Error, headline};
use crate::launch::Argument;
use crate::launch::program::{Runner, Witness};
use crate::measure::bench::scaled_sizes;
use crate::subject::challenge::Sizes;
use crate::subject::guarded_args::Placed;
use crate::subject::{Call, Subject};
use girih_core::program::walk::LaunchArg;
use girih_core::target::Target;
use girih_core::tile::Kernel;
use girih_core::types::Literal;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Bytes of the largest tensor at the reduced size: many tiles, little to simulate.
pub(super) const SMALL: f64 = 256.0 * 1024.0;
/// No tensor is made smaller for the sake of less work.
const LEAST: f64 = 1024.0;
/// Warp instructions of a site's launch at the reduced size, at most: about a second.
const MOST: u64 = 4_000_000;
/// As many times that for the smallest call where nobody waits and no call comes to its end: a launch has thousands of blocks at any size, say,
/// one for each part of what it divides.
const PATIENCE: u64 = 4;
/// Those for each second of a budget: a search makes some tens of simulations.
const PER_SECOND: f64 = 100_000.0;
/// A whole call may take as many times what one launch may.
const CALL: u64 = 4;

/// A launch site in a reduced call.
#[derive(Clone, Debug)]
pub struct SiteRun {
    /// The site.
    pub site: usize,
    /// What its first launch found in each argument's memory, from the lowest to the highest element; nothing for scalars.
    pub before: Vec<Option<Vec<u8>>>,
    /// What it left in those that it may change; nothing if it did not come to its end.
    pub left: Vec<Option<Vec<u8>>>,
    /// Warp instructions of the first launch, under the schedule known for it; nothing if it did not come to its end.
    pub steps: Option<u64>,
}

/// What a reduced call did, as far as it came.
#[derive(Clone, Debug)]
pub struct DryRun {
    /// Its sizes.
    pub sizes: Sizes,
    /// The sites that it launched.
    pub sites: Vec<SiteRun>,
    /// What was read back, in order.
    pub read: Vec<Literal>,
    /// Why it ended early.
    pub ended: Option<Ended>,
}

/// Why a dry run ended early.
#[derive(Clone, Debug)]
pub enum Ended {
    /// It is too much work to simulate.
    TooLong,
    /// Something failed: a scalar may not fit the reduced size.
    Failed(String),
}

impl DryRun {
    /// A site, if it was launched.
    pub fn site(&self, site: usize) -> Option<&SiteRun> {
        self.sites.iter().find(|s| s.site == site)
    }

    /// Whether a smaller call would tell more of a site, or of the whole program.
    fn is_too_long(&self, site: Option<usize>) -> bool {
        let known = |at: usize| self.site(at).is_some_and(|s| s.steps.is_some());
        matches!(self.ended, Some(Ended::TooLong)) && !site.is_some_and(known)
    }
}

/// The dry runs of a subject for a target; each is made once.
pub struct DryRuns {
    /// Warp instructions that a launch may take.
    most: u64,
    /// Nobody waits.
    patient: bool,
    /// Bytes of the largest tensor.
    bytes: f64,
    known: Mutex<HashMap<String, Arc<DryRun>>>,
}

impl DryRuns {
    /// For searches that share so much time; some seconds for each simulation without.
    pub fn within(time: Option<Duration>) -> DryRuns {
        let most = time.map_or(MOST, |t| ((t.as_secs_f64() * PER_SECOND) as u64).clamp(MOST / 40, MOST));
        DryRuns { most, patient: time.is_none(), bytes: SMALL, known: Mutex::default() }
    }

    /// Of calls whose largest tensor has at most so many bytes.
    pub fn of_bytes(bytes: f64) -> DryRuns {
        DryRuns { bytes, ..DryRuns::within(None) }
    }

    /// Warp instructions after which the launch of a candidate is given up, where one under the known schedule takes so many.
    pub fn fuel(&self, steps: Option<u64>) -> u64 {
        self.most.max(8 * steps.unwrap_or(self.most))
    }

    /// A call so small that a launch of the site can be simulated often.
    ///
    /// # Errors
    /// The subject has no such call.
    pub fn of_site(
        &self,
        subject: &Subject,
        sizes: &Sizes,
        (site, kernel): (usize, &Kernel),
        target: &Target,
    ) -> Result<Arc<DryRun>, String> {
        self.shrunk(subject, target, Some(site), &|bytes| reduced(subject, sizes, (site, kernel), target, bytes))
    }

    /// The largest of the reduced calls that comes to its end.
    ///
    /// # Errors
    /// As [`DryRuns::of_site`].
    pub fn of_program(&self, subject: &Subject, sizes: &Sizes, target: &Target) -> Result<Arc<DryRun>, String> {
        let fitting = |bytes| Ok(if subject.largest_bytes(sizes)? <= bytes { sizes.clone() } else { scaled_sizes(subject, sizes, bytes)? });
        self.shrunk(subject, target, None, &fitting)
    }

    /// The first of ever smaller calls that is not too long.
    fn shrunk(
        &self,
        subject: &Subject,
        target: &Target,
        site: Option<usize>,
        fitting: &dyn Fn(f64) -> Result<Sizes, String>,
    ) -> Result<Arc<DryRun>, String> {
        let (mut bytes, mut last) = (self.bytes, None::<Sizes>);
        while bytes >= LEAST {
            let sizes = fitting(bytes)?;
            bytes /= 4.0;
            if last.as_ref() == Some(&sizes) {
                continue;
            }
            let found = self.at(subject, &sizes, target, self.most)?;
            if !found.is_too_long(site) {
                return Ok(found);
            }
            last = Some(sizes);
        }
        if let Some(least) = last.as_ref().filter(|_| self.patient) {
            let found = self.at(subject, least, target, PATIENCE * self.most)?;
            if !found.is_too_long(site) {
                return Ok(found);
            }
        }
        let at = last.map_or(String::new(), |s| format!(", even at {s}"));
        Err(format!("a call of {} takes more than {} warp instructions{at}", subject.name, self.most))
    }

    /// A call at these sizes; with scalars that fit them where those that are given do not.
    fn at(&self, subject: &Subject, sizes: &Sizes, target: &Target, most: u64) -> Result<Arc<DryRun>, String> {
        let mut known = self.known.lock().unwrap_or_else(|e| e.into_inner());
        let name = format!("{sizes} by {most}");
        if let Some(found) = known.get(&name) {
            return Ok(found.clone());
        }
        let mut found = run_dry(subject, sizes, target, most)?;
        let fitting = fitting_scalars(subject, sizes);
        if matches!(found.ended, Some(Ended::Failed(_))) && fitting != *sizes {
            let other = run_dry(subject, &fitting, target, most)?;
            if other.ended.is_none() {
                found = other;
            }
        }
        let found = Arc::new(found);
        known.insert(name, found.clone());
        Ok(found)
    }
}

/// Sizes whose whole-numbered scalars are places within every axis: a reduced call may have no room for those of the large one.
fn fitting_scalars(subject: &Subject, sizes: &Sizes) -> Sizes {
    let extents = subject.extents();
    let least = extents.iter().filter_map(|e| sizes.0.get(e)).copied().fold(f64::INFINITY, f64::min);
    let place = |name: &String, value: f64| {
        let outside = value.fract() == 0.0 && value >= least && least >= 1.0;
        if extents.contains(name) || !outside { value } else { least - 1.0 }
    };
    Sizes(sizes.0.iter().map(|(name, value)| (name.clone(), place(name, *value))).collect())
}

/// Runs a call under the schedules that are known, and keeps what each site finds first.
fn run_dry(subject: &Subject, sizes: &Sizes, target: &Target, most: u64) -> Result<DryRun, String> {
    let call = subject.call(sizes, super::SEED)?;
    let device = Device::sim_within(target, most, false);
    let text = |e: Error| e.to_string();
    let placed = Placed::new(&device, &call, 0).map_err(text)?;
    let mut runner = Runner::new(&device, subject.program.clone());
    let dry_run = DryRun { sizes: sizes.clone(), sites: Vec::new(), read: Vec::new(), ended: None };
    let mut notes = Notes { device: &device, dry_run, running: None, left: CALL * most, subject };
    let done = runner.run_before(&placed.arguments(), &mut notes);
    notes.conclude(done.is_ok());
    let ended = match done {
        Err(Error::Unfinished { .. }) if notes.is_enough() => None,
        Err(Error::Unfinished { .. }) => Some(Ended::TooLong),
        Err(e) => Some(Ended::Failed(e.to_string())),
        Ok(()) => None,
    };
    Ok(DryRun { ended, ..notes.dry_run })
}

/// Takes notes while a call runs.
struct Notes<'a> {
    device: &'a Device,
    subject: &'a Subject,
    dry_run: DryRun,
    /// The site whose launch was made last, if it was its first, and where the tensors lie that it may change.
    running: Option<(usize, Vec<Option<Place>>)>,
    /// Warp instructions that the rest of the call may take.
    left: u64,
}

impl Notes<'_> {
    /// Nothing more can be learned: every site is known, and how often they are launched depends on no data.
    fn is_enough(&self) -> bool {
        let all = self.subject.program.sites().len();
        let known = self.dry_run.sites.iter().filter(|s| s.steps.is_some()).count();
        known == all && !self.subject.program.reads_back()
    }

    /// The last launch has ended, well or not.
    fn conclude(&mut self, well: bool) {
        let Device::Sim(sim) = self.device else { return };
        let steps = sim.last_report().map_or(0, |r| r.steps);
        self.left = self.left.saturating_sub(steps);
        let Some((site, changed)) = self.running.take().filter(|_| well) else { return };
        let left = changed.iter().map(|place| place.as_ref().and_then(|p| p.bytes(self.device).ok())).collect();
        if let Some(found) = self.dry_run.sites.iter_mut().find(|s| s.site == site) {
            (found.steps, found.left) = (Some(steps), left);
        }
    }
}

/// Where a tensor's elements lie.
struct Place {
    address: u64,
    bytes: usize,
    mutable: bool,
}

impl Place {
    fn of(region: &LaunchArg, arg: &Argument) -> Option<Place> {
        let (LaunchArg::Tensor(region), Argument::Tensor { tensor, mutable, .. }) = (region, arg) else { return None };
        let (start, end) = region.span();
        let address = tensor.address.wrapping_add_signed(start - region.offset);
        Some(Place { address, bytes: (end - start) as usize, mutable: *mutable })
    }

    fn bytes(&self, device: &Device) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; self.bytes];
        device.read_at(self.address, &mut bytes)?;
        Ok(bytes)
    }
}

impl Witness for Notes<'_> {
    fn launching(&mut self, site: usize, regions: &[LaunchArg], args: &[Argument]) -> Result<(), Error> {
        self.conclude(true);
        if self.left == 0 || self.is_enough() {
            return Err(Error::Unfinished { kernel: self.subject.name.clone(), steps: 0 });
        }
        if self.dry_run.site(site).is_none() {
            let places: Vec<Option<Place>> = regions.iter().zip(args).map(|(r, a)| Place::of(r, a)).collect();
            let before = places.iter().map(|p| p.as_ref().map(|p| p.bytes(self.device)).transpose()).collect::<Result<_, Error>>()?;
            self.dry_run.sites.push(SiteRun { site, before, left: Vec::new(), steps: None });
            self.running = Some((site, places.into_iter().map(|p| p.filter(|p| p.mutable)).collect()));
        }
        Ok(())
    }

    fn read(&mut self, value: Literal) -> Result<(), Error> {
        self.dry_run.read.push(value);
        Ok(())
    }
}

/// The launches of a call, in which a program that reads values back reads what its reduced call read, and words for what that leaves open.
///
/// # Errors
/// Arguments that do not fit the program.
pub fn found(dry_runs: &DryRuns, subject: &Subject, call: &Call, target: &Target) -> Result<(Vec<Launch>, Option<String>), String> {
    let unread = || launches::launches(&subject.program, call, 0);
    if !subject.program.reads_back() {
        return Ok((unread()?, None));
    }
    let lower = "so launches that depend on it may be left out, and the time of the whole program is a lower bound";
    let dry_run = match dry_runs.of_program(subject, &call.sizes, target) {
        Ok(dry_run) => dry_run,
        Err(e) => return Ok((unread()?, Some(format!("{} reads values back that are not known, {lower}: {e}", subject.name)))),
    };
    let (name, at) = (&subject.name, &dry_run.sizes);
    if let Some(Ended::Failed(why)) = &dry_run.ended {
        let why = headline(why);
        return Ok((unread()?, Some(format!("{name} reads values back that are not known, {lower}: at {at}: {why}"))));
    }
    let Ok(found) = launches::launches_reading(&subject.program, call, &dry_run.read) else {
        return Ok((unread()?, Some(format!("{name} reads other values back at {at}, {lower}"))));
    };
    let as_often = found.iter().map(|l| format!("{} {}", subject.program.site_names()[l.site], l.count)).collect::<Vec<_>>().join(", ");
    let more = if *at == call.sizes { "" } else { "; a larger call may take more" };
    Ok((found, Some(format!("{name} reads values back: its launches are counted as a call at {at} makes them ({as_often}){more}"))))
}
