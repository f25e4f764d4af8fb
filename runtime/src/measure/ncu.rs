//! NVIDIA's profiler `ncu`: run on a command that launches kernels, and read what it counts of each launch.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Folders in which it lies, beside those of `PATH`.
const FOLDERS: [&str; 2] = ["/usr/local/cuda/bin", "/opt/nvidia/nsight-compute"];
/// What a profile may take: each launch runs several times.
pub const LIMIT: Duration = Duration::from_secs(600);
/// How often its end is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// How it refuses to read the GPU's counters.
const NO_PERMISSION: &str = "ERR_NVGPUCTRPERM";

/// What it counted of one launch.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Launched {
    /// The `__global__` function.
    pub function: String,
    /// Numbers by metric, in base units; of several launches their average.
    pub values: BTreeMap<String, f64>,
    /// How many launches these are.
    pub launches: usize,
}

/// What it counted of a command.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Profile {
    /// The launches in their order.
    pub launches: Vec<Launched>,
    /// Metrics that this version, or the GPU, does not have.
    pub unknown: Vec<String>,
}

/// The profiler of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ncu {
    program: PathBuf,
}

impl Ncu {
    /// Looks through the folders of a `PATH`, and where CUDA puts it.
    ///
    /// # Errors
    /// It is in none of them.
    pub fn find(path: Option<&OsStr>) -> Result<Ncu, String> {
        let named = path.map_or(Vec::new(), |path| std::env::split_paths(path).collect());
        let found = named.into_iter().chain(FOLDERS.map(PathBuf::from)).map(|folder| folder.join("ncu")).find(|program| program.is_file());
        found
            .map(|program| Ncu { program })
            .ok_or_else(|| format!("there is no `ncu` on the PATH, nor in {}: NVIDIA's Nsight Compute brings it", FOLDERS.join(" or ")))
    }

    /// Counts metrics of the launches of functions, as many as `most`, while a program runs. Metrics that there are not are left out.
    ///
    /// # Errors
    /// It may not read the GPU's counters; the program fails; nothing was launched; the limit is over.
    pub fn profile(
        &self,
        (program, args): (&OsStr, &[OsString]),
        functions: &[String],
        most: usize,
        metrics: &[&str],
        limit: Duration,
    ) -> Result<Profile, String> {
        let (end, mut asked, mut unknown) = (Instant::now() + limit, metrics.to_vec(), Vec::new());
        loop {
            let text = run(&mut self.command((program, args), functions, most, &asked), end)?;
            match parse(&text) {
                Ok(launches) if !launches.is_empty() => return Ok(Profile { launches, unknown }),
                outcome => {
                    let refused = refused(&text, &asked);
                    if refused.is_empty() || refused.len() == asked.len() {
                        return Err(outcome.err().unwrap_or_else(|| why_nothing(&text)));
                    }
                    asked.retain(|metric| !refused.contains(metric));
                    unknown.extend(refused.into_iter().map(String::from));
                }
            }
        }
    }

    fn command(&self, (program, args): (&OsStr, &[OsString]), functions: &[String], most: usize, metrics: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--csv", "--page", "details", "--print-units", "base", "--clock-control", "none", "--target-processes", "all"]);
        command.arg("--kernel-name").arg(format!("regex:^({})$", functions.join("|")));
        command.arg("--launch-count").arg(most.to_string()).arg("--metrics").arg(metrics.join(","));
        command.arg(program).args(args).env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// What a command prints, standard output first.
fn run(command: &mut Command, end: Instant) -> Result<String, String> {
    let mut child = command.spawn().map_err(|e| format!("cannot start {}: {e}", command.get_program().display()))?;
    let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    // Both are read at once: a pipe that is full holds up who writes.
    let out = std::thread::spawn(move || all_of(&mut out));
    let err = std::thread::spawn(move || all_of(&mut err));
    while child.try_wait().map_err(|e| e.to_string())?.is_none() {
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            return Err("ncu took too long, and was given up".into());
        }
        std::thread::sleep(LOOK);
    }
    Ok(format!("{}\n{}", out.join().unwrap_or_default(), err.join().unwrap_or_default()))
}

fn all_of(pipe: &mut dyn Read) -> String {
    let mut bytes = Vec::new();
    // What was printed before an error is worth reading.
    let _ = pipe.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Why a profile has no launches.
fn why_nothing(text: &str) -> String {
    if text.contains(NO_PERMISSION) {
        return format!(
            "ncu may not read the GPU's counters ({NO_PERMISSION}): run it as root, or allow it to all users by the driver's option \
             NVreg_RestrictProfilingToAdminUsers=0"
        );
    }
    let told = text.lines().map(str::trim).find(|line| line.starts_with("==ERROR==") || line.starts_with("error:"));
    format!("ncu has no profile: {}", told.or(text.lines().map(str::trim).rfind(|l| !l.is_empty())).unwrap_or("it prints nothing"))
}

/// The metrics of which it says that there are none.
fn refused<'a>(text: &str, asked: &[&'a str]) -> Vec<&'a str> {
    let complaints: Vec<String> = text
        .lines()
        .filter(|line| (line.contains("==ERROR==") || line.contains("==WARNING==")) && line.contains("metric"))
        .map(|line| line.replace('\\', ""))
        .collect();
    let is_named = |metric: &str| complaints.iter().any(|line| line.contains(metric));
    asked.iter().copied().filter(|metric| is_named(metric)).collect()
}

/// Reads the CSV of its details page, a line for each metric of each launch, among whatever else is printed. Nothing where nothing was profiled.
///
/// # Errors
/// A page without the columns that are needed.
pub fn parse(text: &str) -> Result<Vec<Launched>, String> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("\"ID\""));
    let Some(head) = lines.next() else { return Ok(Vec::new()) };
    let head = fields(head);
    let column = |name: &str| head.iter().position(|h| h == name).ok_or_else(|| format!("ncu's page has no column \"{name}\""));
    let (id, function, metric, value) = (column("ID")?, column("Kernel Name")?, column("Metric Name")?, column("Metric Value")?);
    let mut all: Vec<(String, Launched)> = Vec::new();
    for line in lines.map(fields).filter(|line| line.len() == head.len()) {
        if all.last().is_none_or(|(last, _)| *last != line[id]) {
            let function = line[function].split(['(', '<']).next().unwrap_or_default().trim().to_string();
            all.push((line[id].clone(), Launched { function, launches: 1, ..Launched::default() }));
        }
        // What cannot be counted is `n/a`.
        if let (Some(number), Some((_, launch))) = (number(&line[value]), all.last_mut()) {
            launch.values.insert(line[metric].clone(), number);
        }
    }
    Ok(all.into_iter().map(|(_, launch)| launch).collect())
}

/// The fields of a line of CSV, which are quoted, with doubled quotes inside.
fn fields(line: &str) -> Vec<String> {
    let (mut all, mut field, mut quoted, mut chars) = (Vec::new(), String::new(), false, line.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    all.push(field);
    all
}

/// A number that may have separators of thousands.
fn number(text: &str) -> Option<f64> {
    text.replace([',', '\''], "").trim().parse().ok()
}

impl Profile {
    /// The launches of functions in the order in which they are named: of a function that was launched as often as it is named each its own, of
    /// another one the average of all its launches.
    pub fn of(&self, functions: &[&str]) -> Vec<Option<Launched>> {
        let named = |function: &str, among: &[&str]| among.iter().filter(|f| **f == function).count();
        let own = |(at, function): (usize, &&str)| {
            let all: Vec<&Launched> = self.launches.iter().filter(|l| l.function == **function).collect();
            if named(function, functions) == all.len() {
                return Some(all[named(function, &functions[..at])].clone());
            }
            average(&all)
        };
        functions.iter().enumerate().map(own).collect()
    }
}

fn average(all: &[&Launched]) -> Option<Launched> {
    let mut sum = (*all.first()?).clone();
    for more in &all[1..] {
        more.values.iter().for_each(|(metric, value)| *sum.values.entry(metric.clone()).or_default() += value);
    }
    sum.launches = all.len();
    sum.values.values_mut().for_each(|value| *value /= all.len() as f64);
    Some(sum)
}

#[cfg(test)]
mod tests;
