//! What a worker that is a shell script makes of requests.

use super::*;

/// What a worker is told, of which the scripts read nothing.
fn setup() -> Setup {
    let (name, sizes) = ("k".into(), "N=1".into());
    Setup { name, variants: Vec::new(), sizes, seed: 1, ordinal: 0, patience_ms: 100, l2: Default::default() }
}

/// A worker that is ready, and then does what the script says.
fn worker(script: &str) -> WorkerMeasure {
    let script = format!("read setup; echo '\"ready\"'; {script}");
    let launcher = Launcher { program: "/bin/sh".into(), args: vec!["-c".into(), script] };
    let mut measure = WorkerMeasure::new(launcher, setup(), Duration::from_millis(300), vec![String::new()]).unwrap();
    measure.take(0, vec![String::new()]);
    measure
}

#[test]
fn a_trial_is_what_the_worker_measured() {
    let mut measure = worker(r#"read trial; echo '{"measured":{"samples_us":[3.0,1.0,2.0]}}'"#);
    let trial = measure.trial("T=2", None);
    assert_eq!((trial.status, trial.median_us, trial.schedule.as_str()), (Status::Measured, Some(2.0), "T=2"));
}

#[test]
fn slow_ones_are_told_apart() {
    let mut measure = worker(r#"read trial; case $trial in *'"limit_us":2.5'*) echo '{"slow":{"samples_us":[3.0]}}';; esac"#);
    let trial = measure.trial("T=2", Some(2.5));
    assert_eq!((trial.status, trial.median_us), (Status::Slow, Some(3.0)));
}

#[test]
fn a_glance_says_who_is_worth_a_trial() {
    let script = r#"read one; case $one in *'{"glance":{"schedules":["T=2"],"limit_us":2.5}}'*) echo '{"promising":{"samples_us":[2.0]}}';; esac
        read two; echo '{"slow":{"samples_us":[3.0]}}'"#;
    let mut measure = worker(script);
    assert_eq!(measure.glance("T=2", 2.5), Ok(vec![2.0]));
    let trial = measure.glance("T=2", 2.5).expect_err("it is slow");
    assert_eq!((trial.status, trial.median_us), (Status::Slow, Some(3.0)));
    assert_eq!(measure.glance("T=2", 2.5).expect_err("the worker is gone").status, Status::Crashed);
}

#[test]
fn workers_that_hang_or_die_cost_one_trial() {
    let mut measure = worker("read trial; sleep 60");
    assert_eq!(measure.trial("T=1", None).status, Status::TimedOut);
    // The next trial starts a new worker, which hangs, too.
    assert_eq!(measure.trial("T=2", None).status, Status::TimedOut);
    let mut measure = worker("read trial; kill -9 $$");
    let trial = measure.trial("T=1", None);
    assert_eq!(trial.status, Status::Crashed);
    assert!(trial.reason.contains("signal: 9"), "{}", trial.reason);
    let mut measure = worker(r#"read trial; echo '{"lost":{"reason":"illegal address"}}'; read next; echo no"#);
    let (first, second) = (measure.trial("T=1", None), measure.trial("T=1", None));
    assert_eq!((first.status, first.reason.as_str()), (Status::Crashed, "illegal address"));
    assert_eq!(second.reason, "illegal address", "a lost worker is replaced");
}

/// Somebody else kills a worker: that says nothing of the candidate.
#[test]
fn a_worker_that_is_killed_from_outside_costs_nothing() {
    let once = std::env::temp_dir().join(format!("girih-killed-once-{}", std::process::id()));
    let _ = std::fs::remove_file(&once);
    let kill = format!("if mkdir {0} 2> /dev/null; then kill -9 $$; fi", once.display());
    let mut measure = worker(&format!(r#"read trial; {kill}; echo '{{"measured":{{"samples_us":[3.0]}}}}'"#));
    let trial = measure.trial("T=1", None);
    assert_eq!((trial.status, trial.median_us), (Status::Measured, Some(3.0)), "{}", trial.reason);
    std::fs::remove_dir(&once).expect("one worker was killed");
    // What the candidate may have done itself is not tried again.
    let mut measure = worker(&format!("read trial; if mkdir {} 2> /dev/null; then kill -SEGV $$; fi; sleep 9", once.display()));
    assert_eq!(measure.trial("T=1", None).status, Status::Crashed);
    std::fs::remove_dir(&once).expect("one worker died");
}

#[test]
fn throttled_trials_say_so() {
    let hot = r#"samples_us":[3.0],"throttled":"measured while throttled: power brake"}}"#;
    let mut measure = worker(&format!(r#"read trial; echo '{{"measured":{{"{hot}'"#));
    let trial = measure.trial("T=2", None);
    assert_eq!((trial.status, trial.median_us), (Status::Measured, Some(3.0)));
    assert_eq!(trial.throttled(), Some("measured while throttled: power brake"));
    let mut measure = worker(
        r#"read trial; echo '{"interleaved":{"samples_us":[[3.0]],"throttled":"measured while throttled: x"}}'
        read trial; echo '{"interleaved":{"samples_us":[[3.0]]}}'"#,
    );
    assert_eq!((measure.interleaved(&["T=1"], 1), measure.throttled()), (vec![vec![3.0]], Some("measured while throttled: x".into())));
    assert_eq!((measure.interleaved(&["T=1"], 1), measure.throttled()), (vec![vec![3.0]], None));
}

/// Whatever is slow there: references, generators, compilers.
#[test]
fn nothing_is_waited_for_beyond_the_end() {
    let measure = |script: &str, left: u64| {
        let launcher = Launcher { program: "/bin/sh".into(), args: vec!["-c".into(), script.into()] };
        let end = Some(Instant::now() + Duration::from_millis(left));
        WorkerMeasure::until(launcher, setup(), Duration::from_secs(20), vec![String::new()], end)
    };
    let start = Instant::now();
    let error = measure("read setup; sleep 60", 200).err().expect("it is never ready");
    assert!(error.starts_with("the budget was over before inputs") && start.elapsed() < Duration::from_secs(2), "{error}");
    let slow = r#"read setup; echo '{"noted":{"note":"late"}}'; read trial; sleep 60"#;
    let (start, mut measure) = (Instant::now(), measure(slow, 400).unwrap());
    assert_eq!((measure.note().as_deref(), measure.note()), (Some("late"), None));
    measure.take(0, vec![String::new()]);
    let trial = measure.trial("T=1", None);
    assert_eq!((trial.status, trial.reason.as_str()), (Status::Untried, "the time for it was over"));
    assert!(measure.interleaved(&["T=1"], 31).concat().is_empty());
    // The worker is gone, and there is no time for another one: nor is that the candidate's fault.
    let trial = measure.trial("T=2", None);
    assert_eq!((trial.status, trial.reason.as_str()), (Status::Untried, "the time for it was over"));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

/// There may be something else to tune.
#[test]
fn a_set_up_may_have_to_be_ready_before_the_end() {
    let launcher = Launcher { program: "/bin/sh".into(), args: vec!["-c".into(), "read setup; sleep 60".into()] };
    let (start, end) = (Instant::now(), Some(Instant::now() + Duration::from_secs(20)));
    let mut measure = WorkerMeasure::begin(launcher, setup(), Duration::from_secs(20), end).unwrap();
    let error = measure.ready(Some(start + Duration::from_millis(200))).unwrap_err();
    assert!(error.starts_with("the budget was over before inputs") && start.elapsed() < Duration::from_secs(2), "{error}");
    assert_eq!(measure.end, end, "of trials nothing changes");
}

/// What the tuner prepares itself takes none of the worker's time.
#[test]
fn a_set_up_begins_before_it_is_waited_for() {
    let script = r#"sleep 0.1; read setup; sleep 0.3; echo '{"noted":{"note":"done"}}'; read trial; echo '{"wrong":{"reason":"x"}}'"#;
    let launcher = Launcher { program: "/bin/sh".into(), args: vec!["-c".into(), script.into()] };
    start_ahead(&launcher);
    std::thread::sleep(Duration::from_millis(150));
    let start = Instant::now();
    let mut measure = WorkerMeasure::begin(launcher, setup(), Duration::from_secs(20), None).unwrap();
    assert!(start.elapsed() < Duration::from_millis(100), "it does not wait: {:?}", start.elapsed());
    std::thread::sleep(Duration::from_millis(350));
    let waited = Instant::now();
    measure.ready(None).unwrap();
    assert!(waited.elapsed() < Duration::from_millis(150), "it was at work meanwhile: {:?}", waited.elapsed());
    assert_eq!(measure.note().as_deref(), Some("done"));
    measure.take(0, vec![String::new()]);
    assert_eq!(measure.trial("T=1", None).status, Status::Wrong);
}

#[test]
fn a_worker_without_a_gpu_says_why() {
    let launcher = Launcher { program: "/bin/sh".into(), args: vec!["-c".into(), r#"echo '{"lost":{"reason":"no GPU"}}'"#.into()] };
    assert_eq!(WorkerMeasure::new(launcher, setup(), Duration::from_secs(1), Vec::new()).err().as_deref(), Some("no GPU"));
}
