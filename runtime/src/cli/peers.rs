//! PyTorch as a peer: a Python process that samples on request, so that its runs and ours alternate.

use crate::bench::{Peers, Yardstick};
use crate::challenge::Sizes;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The script, kept in the project and carried in the binary.
const SCRIPT: &str = include_str!("torch_peers.py");

/// A running Python process with torch.
pub struct Torch {
    child: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
    /// torch's version.
    pub version: String,
}

impl Torch {
    /// Starts `python3` (or `$GIRIH_PYTHON`).
    ///
    /// # Errors
    /// No Python, no torch, or no GPU for it: what it said last.
    pub fn start() -> Result<Torch, String> {
        let python = std::env::var("GIRIH_PYTHON").unwrap_or_else(|_| "python3".into());
        let mut command = Command::new(&python);
        command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("{python} could not be started: {e}"))?;
        let requests = child.stdin.take().expect("piped");
        let errors = child.stderr.take().expect("piped");
        // torch.compile writes warnings; unread they would fill the pipe and stop it.
        let errors = std::thread::spawn(move || BufReader::new(errors).lines().map_while(Result::ok).last());
        let replies = BufReader::new(child.stdout.take().expect("piped"));
        let mut torch = Torch { child, requests, replies, version: String::new() };
        match torch.reply() {
            Ok(ready) => {
                torch.version = ready["ready"].as_str().unwrap_or("?").to_string();
                Ok(torch)
            }
            Err(_) => {
                let _ = torch.child.wait();
                let said = errors.join().ok().flatten().unwrap_or_else(|| "it said nothing".into());
                Err(format!("{python} has no usable torch: {said}"))
            }
        }
    }

    fn ask(&mut self, request: Value) -> Result<Value, String> {
        writeln!(self.requests, "{request}").and_then(|()| self.requests.flush()).map_err(|e| format!("PyTorch's process: {e}"))?;
        self.reply()
    }

    fn reply(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        self.replies.read_line(&mut line).map_err(|e| format!("PyTorch's process: {e}"))?;
        let reply: Value = serde_json::from_str(&line).map_err(|_| "PyTorch's process ended".to_string())?;
        match reply["error"].as_str() {
            Some(e) => Err(e.to_string()),
            None => Ok(reply),
        }
    }
}

impl Peers for Torch {
    fn setup(&mut self, name: &str, sizes: &Sizes) -> Result<Vec<String>, String> {
        let reply = self.ask(json!({ "setup": { "name": name, "sizes": sizes.0 } }))?;
        let names = |v: &Value| v.as_array().into_iter().flatten().filter_map(|n| n.as_str().map(String::from)).collect::<Vec<_>>();
        for error in names(&reply["errors"]) {
            eprintln!("note: {name}: {error}");
        }
        Ok(names(&reply["peers"]))
    }

    fn setup_yardstick(&mut self, yardstick: Yardstick, bytes: usize) -> Result<(), String> {
        self.ask(json!({ (yardstick.name()): bytes })).map(|_| ())
    }

    fn sample(&mut self, peer: &str) -> Result<f64, String> {
        let reply = self.ask(json!({ "sample": peer }))?;
        reply["us"].as_f64().ok_or_else(|| format!("PyTorch's process answered {reply}"))
    }
}

impl Drop for Torch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
