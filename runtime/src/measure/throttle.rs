//! Samples that count: those during which neither heat nor a brake on its power lowered the GPU's clocks. Others are taken again behind a
//! rest, a few times; whoever gets none that count is told so. A power cap is no reason: it is how a GPU runs under a long load.

use crate::device::Device;
use crate::device::nvml::{Slowdown, Watched};
use crate::store::THROTTLED;
use std::cell::Cell;
use std::time::Duration;

/// Who knows what lowers a GPU's clocks.
pub trait Watch {
    /// What does now.
    fn slowdowns(&self) -> Vec<Slowdown>;

    /// Lets the GPU cool down.
    fn rest(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

impl Watch for Watched {
    fn slowdowns(&self) -> Vec<Slowdown> {
        Watched::slowdowns(self)
    }
}

/// Samples, or whatever was taken.
#[derive(Clone, PartialEq, Debug)]
pub struct Taken<T> {
    /// What was taken last.
    pub value: T,
    /// That nothing of it counts, and why: `measured while throttled: power brake`.
    pub throttled: Option<String>,
}

impl<T> Taken<T> {
    /// What counts of this and of what was taken before: both where they are alike, else what was not throttled.
    pub fn behind(self, former: Option<Taken<T>>, join: impl FnOnce(T, T) -> T) -> Taken<T> {
        match former {
            None => self,
            Some(former) => match (&former.throttled, &self.throttled) {
                (Some(_), None) => self,
                (None, Some(_)) => former,
                _ => Taken { value: join(former.value, self.value), throttled: self.throttled },
            },
        }
    }

    /// The value, for whoever has no use for one that does not count.
    ///
    /// # Errors
    /// It was throttled.
    pub fn clean(self) -> Result<T, String> {
        match self.throttled {
            None => Ok(self.value),
            Some(why) => Err(format!("{why}; let the GPU cool down, and measure again")),
        }
    }
}

/// How long the GPU rests before the second try, the third and the last one.
const RESTS: [Duration; 3] = [Duration::from_millis(20), Duration::from_millis(60), Duration::from_millis(180)];

/// Takes samples again that do not count.
pub struct Throttle {
    /// Nobody where NVML cannot be used: then all samples count.
    watch: Option<Box<dyn Watch>>,
    /// Whether no try of the last ones counted: the next ones have one try only, so that a hot machine does not rest all day.
    gave_up: Cell<bool>,
}

impl Throttle {
    /// By what NVML says of a device.
    pub fn of(device: &Device) -> Throttle {
        Throttle::by(Watched::of(device).ok().map(|watched| Box::new(watched) as Box<dyn Watch>))
    }

    fn by(watch: Option<Box<dyn Watch>>) -> Throttle {
        Throttle { watch, gave_up: Cell::new(false) }
    }

    /// What `take` takes while nothing lowers the clocks, or, after all tries, what it took last. `take` hears whether the GPU has rested, so
    /// that it can be warmed up again.
    ///
    /// # Errors
    /// Those of `take`, at once.
    pub fn clean<T, E>(&self, mut take: impl FnMut(bool) -> Result<T, E>) -> Result<Taken<T>, E> {
        let Some(watch) = &self.watch else { return Ok(Taken { value: take(false)?, throttled: None }) };
        let rests: &[Duration] = if self.gave_up.get() { &[] } else { &RESTS };
        for (tries, rest) in rests.iter().enumerate() {
            let before = watch.slowdowns();
            if reason(&before).is_none() {
                let taken = watched(&**watch, before, || take(tries > 0))?;
                if taken.throttled.is_none() {
                    return Ok(taken);
                }
            }
            watch.rest(*rest);
        }
        let taken = watched(&**watch, watch.slowdowns(), || take(!rests.is_empty()))?;
        self.gave_up.set(taken.throttled.is_some());
        Ok(taken)
    }
}

/// What is taken, with what lowered the clocks before it and behind it.
fn watched<T, E>(watch: &dyn Watch, before: Vec<Slowdown>, take: impl FnOnce() -> Result<T, E>) -> Result<Taken<T>, E> {
    let value = take()?;
    Ok(Taken { value, throttled: reason(&[before, watch.slowdowns()].concat()) })
}

/// Why samples do not count during which this lowered the clocks; nothing where they do.
fn reason(slowdowns: &[Slowdown]) -> Option<String> {
    let mut spoil: Vec<Slowdown> = slowdowns.iter().copied().filter(|s| *s != Slowdown::PowerCap).collect();
    spoil.sort();
    spoil.dedup();
    let names: Vec<String> = spoil.iter().map(Slowdown::to_string).collect();
    (!names.is_empty()).then(|| format!("{THROTTLED}{}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::rc::Rc;

    /// What a made-up GPU says each time that it is asked, nothing behind the last word; and how long it rested.
    #[derive(Clone, Default)]
    struct Told {
        slowdowns: Rc<RefCell<VecDeque<Slowdown>>>,
        for_ever: Rc<Cell<Option<Slowdown>>>,
        rests: Rc<RefCell<Vec<Duration>>>,
    }

    impl Watch for Told {
        fn slowdowns(&self) -> Vec<Slowdown> {
            self.slowdowns.borrow_mut().pop_front().or(self.for_ever.get()).into_iter().collect()
        }
        fn rest(&self, time: Duration) {
            self.rests.borrow_mut().push(time);
        }
    }

    /// Numbers one after another, each asked for once; and whether the GPU had rested before it.
    fn numbers(throttle: &Throttle) -> (Taken<u32>, Vec<bool>) {
        let mut rested = Vec::new();
        let taken = throttle.clean(|after_a_rest| {
            rested.push(after_a_rest);
            Ok::<u32, String>(rested.len() as u32)
        });
        (taken.expect("numbers do not end"), rested)
    }

    fn told(words: &[Slowdown]) -> (Told, Throttle) {
        let told = Told { slowdowns: Rc::new(RefCell::new(words.iter().copied().collect())), ..Told::default() };
        (told.clone(), Throttle::by(Some(Box::new(told))))
    }

    #[test]
    fn throttled_samples_are_taken_again() {
        // Before the first try the power is capped, which is no reason; behind it the GPU is hot.
        let (gpu, throttle) = told(&[Slowdown::PowerCap, Slowdown::HardwareThermal]);
        let (taken, rested) = numbers(&throttle);
        assert_eq!(taken, Taken { value: 2, throttled: None });
        assert_eq!((rested, gpu.rests.borrow().as_slice()), (vec![false, true], &RESTS[..1]));
    }

    #[test]
    fn a_hot_gpu_rests_before_anything_is_taken() {
        let (gpu, throttle) = told(&[Slowdown::SoftwareThermal, Slowdown::PowerBrake]);
        let (taken, rested) = numbers(&throttle);
        assert_eq!(taken, Taken { value: 1, throttled: None });
        assert_eq!((rested, gpu.rests.borrow().as_slice()), (vec![true], &RESTS[..2]));
    }

    #[test]
    fn power_caps_spoil_nothing() {
        let (gpu, throttle) = told(&[]);
        gpu.for_ever.set(Some(Slowdown::PowerCap));
        assert_eq!(numbers(&throttle), (Taken { value: 1, throttled: None }, vec![false]));
        assert!(gpu.rests.borrow().is_empty());
    }

    #[test]
    fn who_gets_no_clean_sample_is_told() {
        let (gpu, throttle) = told(&[Slowdown::Hardware]);
        gpu.for_ever.set(Some(Slowdown::HardwareThermal));
        let (taken, _) = numbers(&throttle);
        assert_eq!(taken.throttled.as_deref(), Some("measured while throttled: hardware thermal slowdown"));
        assert_eq!(gpu.rests.borrow().as_slice(), &RESTS, "it rests so often, and no more");
        // A machine that is hot for good is not waited for each time.
        assert!(numbers(&throttle).0.throttled.is_some());
        assert_eq!(gpu.rests.borrow().len(), RESTS.len());
        // Once it has cooled down, it is waited for again.
        gpu.for_ever.set(None);
        assert_eq!(numbers(&throttle).0.throttled, None);
        gpu.slowdowns.borrow_mut().push_back(Slowdown::PowerBrake);
        assert_eq!(numbers(&throttle).0, Taken { value: 1, throttled: None });
        assert_eq!(gpu.rests.borrow().len(), RESTS.len() + 1);
    }

    #[test]
    fn failures_are_told_at_once() {
        let (gpu, throttle) = told(&[]);
        gpu.for_ever.set(Some(Slowdown::PowerBrake));
        let mut tries = 0;
        let failed = throttle.clean(|_| {
            tries += 1;
            Err::<u32, String>("lost".into())
        });
        assert_eq!((failed, tries), (Err("lost".to_string()), 1));
    }

    #[test]
    fn where_nobody_watches_everything_counts() {
        assert_eq!(numbers(&Throttle::by(None)), (Taken { value: 1, throttled: None }, vec![false]));
        let simulator = Device::sim(girih_core::target::Target::h200());
        assert_eq!(numbers(&Throttle::of(&simulator)).0, Taken { value: 1, throttled: None });
    }

    #[test]
    fn of_two_only_the_clean_one_counts() {
        let taken = |value: u32, throttled: bool| Taken { value: vec![value], throttled: throttled.then(|| format!("{THROTTLED}{value}")) };
        let both = |a: bool, b: bool| taken(2, b).behind(Some(taken(1, a)), |a, b| [a, b].concat());
        assert_eq!(both(false, false), Taken { value: vec![1, 2], throttled: None });
        assert_eq!((both(true, false), both(false, true)), (taken(2, false), taken(1, false)));
        assert_eq!(both(true, true), Taken { value: vec![1, 2], throttled: Some("measured while throttled: 2".into()) });
        assert_eq!(taken(7, false).behind(None, |a, _| a), taken(7, false));
        let why = taken(7, true).clean().expect_err("it does not count");
        assert_eq!(why, "measured while throttled: 7; let the GPU cool down, and measure again");
    }
}
