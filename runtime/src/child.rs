//! Processes that answer: one line of JSON for each line that they are asked, within a time limit. What hangs, traps or crashes there
//! costs that process.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How such a process is started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}

impl Launcher {
    /// This very program with one of its hidden commands.
    ///
    /// # Errors
    /// Its path is not known.
    pub fn this_program(command: &str) -> Result<Launcher, String> {
        let program = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
        Ok(Launcher { program, args: vec![command.into()] })
    }
}

/// Why a question has no answer.
#[derive(Clone, PartialEq, Debug)]
pub enum Gone {
    /// It took longer than it may.
    TimedOut,
    /// The process ended, or answered something else; how.
    Died(String),
}

/// How often who waits for an answer looks at what is left of the limit.
const LOOK: Duration = Duration::from_millis(20);

/// A process that is asked, and ends with this value.
pub struct Process {
    child: Child,
    questions: ChildStdin,
    answers: Receiver<String>,
}

impl Process {
    /// Starts one.
    ///
    /// # Errors
    /// The system's.
    pub fn start(launcher: &Launcher) -> Result<Process, String> {
        let mut command = Command::new(&launcher.program);
        command.args(&launcher.args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|e| format!("cannot start a worker process: {e}"))?;
        let (questions, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let (send, answers) = channel();
        // Reading has no time limit of its own, so a thread reads; it ends with the process.
        std::thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Ok(Process { child, questions, answers })
    }

    /// Asks and waits for the answer. Behind an error the process is of no more use.
    ///
    /// # Errors
    /// There is no answer.
    #[cfg(feature = "tune")]
    pub fn ask<Answer: DeserializeOwned>(&mut self, question: &impl Serialize, limit: Duration) -> Result<Answer, Gone> {
        let end = std::time::Instant::now() + limit;
        self.ask_while(question, || end.saturating_duration_since(std::time::Instant::now()))
    }

    /// Asks without waiting: [`Process::answer_while`] does.
    pub fn tell(&mut self, question: &impl Serialize) {
        let line = serde_json::to_string(question).expect("questions are plain data");
        // A process that died shows as a missing answer.
        let _ = writeln!(self.questions, "{line}").and_then(|()| self.questions.flush());
    }

    /// Asks and waits for the answer as long as `left` says that something is left: the limit may change meanwhile. Behind an error the process
    /// is of no more use.
    ///
    /// # Errors
    /// There is no answer.
    pub fn ask_while<Answer: DeserializeOwned>(&mut self, question: &impl Serialize, left: impl Fn() -> Duration) -> Result<Answer, Gone> {
        self.tell(question);
        self.answer_while(left)
    }

    /// Waits for the answer to what was told, as long as [`Process::ask_while`] does.
    ///
    /// # Errors
    /// There is no answer.
    pub fn answer_while<Answer: DeserializeOwned>(&mut self, left: impl Fn() -> Duration) -> Result<Answer, Gone> {
        loop {
            let left = left();
            return match self.answers.recv_timeout(left.min(LOOK)) {
                Ok(line) => serde_json::from_str(&line).map_err(|e| Gone::Died(format!("it answered `{line}`: {e}"))),
                Err(RecvTimeoutError::Timeout) if left > LOOK => continue,
                Err(RecvTimeoutError::Timeout) => Err(Gone::TimedOut),
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
                    Err(Gone::Died(status))
                }
            };
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may hang: asking politely could take forever.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The other side: answers each line of stdin with a line on stdout, until stdin ends.
///
/// # Errors
/// A line that is no question, or stdin and stdout failing: who asked is gone.
pub fn serve<Question: DeserializeOwned, Answer: Serialize>(mut answer: impl FnMut(Question) -> Answer) -> Result<(), String> {
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| e.to_string())?;
        let question: Question = serde_json::from_str(&line).map_err(|e| format!("no request: {e}: {line}"))?;
        let line = serde_json::to_string(&answer(question)).map_err(|e| e.to_string())?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|e| e.to_string())?;
    }
    Ok(())
}
