//! NVRTC in processes of its own: a text that it takes too long for, or crashes on, costs one of them and is not tried again.

use super::{Cubin, compile_here};
use crate::child::{self, Gone, Launcher, Process};
use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The hidden command that such a process runs.
pub const COMPILER: &str = "__compiler";

/// What NVRTC is asked for.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    /// CUDA C.
    pub source: String,
    /// The architecture: `sm_90a`.
    pub arch: String,
    /// Besides those of every compilation.
    pub flags: Vec<String>,
    /// The kernel, in errors.
    pub name: String,
    /// The author's function, in errors.
    pub place: String,
}

/// What came out.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Made {
    Cubin(Cubin),
    /// NVRTC's log.
    Rejected(String),
    /// There is no NVRTC, or not one for this.
    Missing(String),
}

/// The processes, of which each compiles one text after the other.
pub(super) struct Compilers {
    launcher: Launcher,
    limit: Duration,
    idle: Mutex<Vec<Process>>,
    /// When nobody wants a cubin any more, if that is known.
    end: Mutex<Option<Instant>>,
    /// What did not come out, and why.
    given_up: Mutex<HashMap<Job, String>>,
}

static COMPILERS: OnceLock<Compilers> = OnceLock::new();

/// From now on this process asks others for its cubins, started with `launcher`, and gives each up that takes longer than `limit`.
/// The first call holds.
pub fn compile_apart(launcher: Launcher, limit: Duration) {
    let _ = COMPILERS.set(Compilers::new(launcher, limit));
}

/// From now on cubins are wanted until `end` only, those that are being made, too: what is not done then is given up, and may be tried again.
/// Nothing ends without.
pub fn compile_until(end: Option<Instant>) {
    if let Some(compilers) = COMPILERS.get() {
        compilers.until(end);
    }
}

/// Those that this process asks, if it does.
pub(super) fn compilers() -> Option<&'static Compilers> {
    COMPILERS.get()
}

/// What such a process does until nobody asks any more.
///
/// # Errors
/// As `child::serve`.
pub fn serve() -> Result<(), String> {
    child::serve(|job: Job| match compile_here(&job) {
        Ok(cubin) => Made::Cubin(cubin),
        Err(Error::Nvrtc { log, .. }) => Made::Rejected(log),
        Err(e) => Made::Missing(e.to_string()),
    })
}

impl Compilers {
    fn new(launcher: Launcher, limit: Duration) -> Compilers {
        Compilers { launcher, limit, idle: Mutex::default(), end: Mutex::default(), given_up: Mutex::default() }
    }

    fn until(&self, end: Option<Instant>) {
        *self.end.lock().expect("nobody panics with it") = end;
    }

    /// As [`super::compile`].
    pub fn compile(&self, job: Job) -> Result<Cubin, Error> {
        let given_up = |job: Job, why: String| Error::GivenUp { kernel: job.name, place: job.place, arch: job.arch, why };
        if let Some(why) = self.given_up.lock().expect("nobody panics with it").get(&job).cloned() {
            return Err(given_up(job, why));
        }
        let own = Instant::now() + self.limit;
        let wanted = || self.end.lock().expect("nobody panics with it").map_or(own, |end| end.min(own));
        let left = || wanted().saturating_duration_since(Instant::now());
        let ended = || "the time for it was over".to_string();
        if left().is_zero() {
            return Err(given_up(job, ended()));
        }
        let idle = self.idle.lock().expect("nobody panics with it").pop();
        let started = idle.map_or_else(|| Process::start(&self.launcher), Ok);
        let mut process = started.map_err(|why| given_up(job.clone(), why))?;
        let why = match process.ask_while(&job, left) {
            Ok(made) => {
                self.idle.lock().expect("nobody panics with it").push(process);
                return match made {
                    Made::Cubin(cubin) => Ok(cubin),
                    Made::Rejected(log) => Err(Error::Nvrtc { kernel: job.name, place: job.place, arch: job.arch, log }),
                    Made::Missing(text) => Err(Error::NoNvrtc(text)),
                };
            }
            Err(Gone::TimedOut) if wanted() < own => return Err(given_up(job, ended())),
            Err(Gone::TimedOut) => format!("it was not done after {} s", self.limit.as_secs_f64()),
            Err(Gone::Died(status)) => format!("its process died ({status})"),
        };
        self.given_up.lock().expect("nobody panics with it").insert(job.clone(), why.clone());
        Err(given_up(job, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    /// Processes that run a shell script: `$line` is each job that it reads.
    fn compilers(script: &str) -> Compilers {
        let launcher = Launcher { program: "/bin/sh".into(), args: vec!["-c".into(), script.into()] };
        Compilers::new(launcher, Duration::from_millis(300))
    }

    fn job(source: &str) -> Job {
        let [arch, name, place] = ["sm_90a", "add", "src/add.rs:3:1"].map(String::from);
        Job { source: source.into(), arch, flags: Vec::new(), name, place }
    }

    #[test]
    fn a_process_compiles_one_text_after_the_other() {
        let script =
            r#"n=0; while read line; do n=$((n+1)); echo "{\"cubin\":{\"code\":[$n],\"ptx\":\"\",\"resources\":[],\"log\":\"\"}}"; done"#;
        let compilers = compilers(script);
        let code = |source: &str| compilers.compile(job(source)).expect("compiled").code;
        assert_eq!((code("a"), code("b")), (vec![1], vec![2]));
    }

    #[test]
    fn what_is_rejected_is_told_by_its_log() {
        let error = compilers(r#"read line; echo '{"rejected":"add.cu(1): error"}'; read line"#).compile(job("a")).unwrap_err();
        assert!(matches!(&error, Error::Nvrtc { log, .. } if log == "add.cu(1): error"), "{error}");
        let error = compilers(r#"read line; echo '{"missing":"no NVRTC"}'; read line"#).compile(job("a")).unwrap_err();
        assert!(matches!(&error, Error::NoNvrtc(text) if text == "no NVRTC"), "{error}");
    }

    #[test]
    fn what_the_end_cuts_off_may_be_tried_again() {
        let script = r#"read line; sleep 0.2; echo '{"rejected":"add.cu(1): error"}'; read line"#;
        let compilers = compilers(script);
        let start = Instant::now();
        compilers.until(Some(start + Duration::from_millis(50)));
        let error = compilers.compile(job("slow")).unwrap_err().to_string();
        assert!(error.contains("the time for it was over") && start.elapsed() < Duration::from_millis(150), "{error}");
        assert!(compilers.compile(job("slow")).is_err(), "there is no time left at all");
        // An end that comes while a text is compiled.
        compilers.until(None);
        std::thread::scope(|scope| {
            let slow = scope.spawn(|| compilers.compile(job("slow")).unwrap_err().to_string());
            std::thread::sleep(Duration::from_millis(50));
            compilers.until(Some(Instant::now()));
            let error = slow.join().expect("no panic");
            assert!(error.contains("the time for it was over"), "{error}");
        });
        compilers.until(None);
        assert!(matches!(compilers.compile(job("slow")).unwrap_err(), Error::Nvrtc { .. }));
    }

    #[test]
    fn what_hangs_or_crashes_is_given_up_and_not_tried_again() {
        let hangs = compilers(r#"read line; case $line in *endless*) sleep 60;; *) kill -11 $$;; esac"#);
        let error = hangs.compile(job("endless")).unwrap_err().to_string();
        assert!(
            error.starts_with("NVRTC was given up on kernel `add` (src/add.rs:3:1) for sm_90a: it was not done after 0.3 s"),
            "{error}"
        );
        let (again, start) = (hangs.compile(job("endless")).unwrap_err().to_string(), Instant::now());
        assert_eq!(again, error);
        assert!(start.elapsed() < Duration::from_millis(100), "remembered");
        let error = hangs.compile(job("crashes")).unwrap_err().to_string();
        assert!(error.contains("its process died (signal: 11"), "{error}");
    }
}
