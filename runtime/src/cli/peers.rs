//! PyTorch as a peer: a Python process that samples on request, so that its runs and ours alternate.

use crate::measure::bench::{Peers, Yardstick};
use crate::subject::challenge::Sizes;
use crate::subject::inputs::HostTensor;
use girih_core::types::DType;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Modules of the peers' process in the order in which they start, kept in the project and carried in the binary; the last one answers requests.
const MODULES: &[(&str, &str)] = &[
    ("inputs", include_str!("peers/inputs.py")),
    ("attention", include_str!("peers/attention.py")),
    ("elementwise", include_str!("peers/elementwise.py")),
    ("filters", include_str!("peers/filters.py")),
    ("graphs", include_str!("peers/graphs.py")),
    ("products", include_str!("peers/products.py")),
    ("reductions", include_str!("peers/reductions.py")),
    ("scans", include_str!("peers/scans.py")),
    ("sorting", include_str!("peers/sorting.py")),
    ("transformers", include_str!("peers/transformers.py")),
    ("transforms", include_str!("peers/transforms.py")),
    ("cub", include_str!("peers/cub.py")),
    ("bench", include_str!("peers/bench.py")),
];

/// Makes modules of the first line of the standard input: they are too long for an argument.
const LOADER: &str = r#"
import json, sys, types
for name, text in json.loads(sys.stdin.readline()):
    module = types.ModuleType(f"peers.{name}")
    sys.modules[module.__name__] = module
    exec(compile(text, f"peers/{name}.py", "exec"), module.__dict__)
"#;

/// What a request may take. torch.compile unrolls loops, and may then be at work for hours.
const ANSWERED_WITHIN: Duration = Duration::from_secs(120);

/// A Python process with torch. One that does not answer in time is stopped; the next set-up starts another.
pub struct Torch {
    python: String,
    modules: Vec<(String, String)>,
    patience: Duration,
    process: Option<Process>,
    /// torch's version.
    pub version: String,
}

struct Process {
    child: Child,
    requests: ChildStdin,
    replies: Receiver<String>,
    /// Its last line on the standard error.
    said: Option<JoinHandle<Option<String>>>,
}

impl Torch {
    /// Starts `python3` (or `$GIRIH_PYTHON`).
    ///
    /// # Errors
    /// No Python, no torch, or no GPU for it: what it said last.
    pub fn start() -> Result<Torch, String> {
        let python = std::env::var("GIRIH_PYTHON").unwrap_or_else(|_| "python3".into());
        Torch::of(&python, MODULES, ANSWERED_WITHIN)
    }

    fn of(python: &str, modules: &[(&str, &str)], patience: Duration) -> Result<Torch, String> {
        let modules = modules.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
        let mut torch = Torch { python: python.to_string(), modules, patience, process: None, version: String::new() };
        torch.started()?;
        Ok(torch)
    }

    /// The process, started if there is none.
    fn started(&mut self) -> Result<&mut Process, String> {
        if self.process.is_none() {
            let (process, ready) = Process::start(&self.python, &self.modules, self.patience)?;
            self.version = ready["ready"].as_str().unwrap_or("?").to_string();
            self.process = Some(process);
        }
        Ok(self.process.as_mut().expect("started above"))
    }

    fn ask(&mut self, request: &Value) -> Result<Value, String> {
        let patience = self.patience;
        let answer = self.started()?.ask(request, patience);
        answer.map_err(|failure| match failure {
            Failure::Refused(said) => said,
            Failure::Lost(why) => {
                self.process = None;
                why
            }
        })
    }
}

/// Why a request has no answer.
enum Failure {
    /// The process says why.
    Refused(String),
    /// The process is gone, or is of no more use.
    Lost(String),
}

impl Process {
    /// A process that has said that it is ready, and what it said.
    fn start(python: &str, modules: &[(String, String)], patience: Duration) -> Result<(Process, Value), String> {
        let mut command = Command::new(python);
        command.args(["-c", LOADER]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("{python} could not be started: {e}"))?;
        let mut requests = child.stdin.take().expect("piped");
        let errors = child.stderr.take().expect("piped");
        // torch.compile writes warnings; unread they would fill the pipe and stop it.
        let said = std::thread::spawn(move || BufReader::new(errors).lines().map_while(Result::ok).last());
        // A process that has ended already says why below.
        let _ = writeln!(requests, "{}", json!(modules)).and_then(|()| requests.flush());
        let (send, replies) = channel();
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| send.send(line)));
        let mut process = Process { child, requests, replies, said: Some(said) };
        match process.reply(patience) {
            Ok(ready) => Ok((process, ready)),
            Err(_) => {
                let _ = process.child.kill();
                let said = process.said.take().and_then(|thread| thread.join().ok()).flatten();
                Err(format!("{python} has no usable torch: {}", said.unwrap_or_else(|| "it said nothing".into())))
            }
        }
    }

    fn ask(&mut self, request: &Value, patience: Duration) -> Result<Value, Failure> {
        let sent = writeln!(self.requests, "{request}").and_then(|()| self.requests.flush());
        sent.map_err(|e| Failure::Lost(format!("PyTorch's process: {e}")))?;
        self.reply(patience)
    }

    fn reply(&mut self, patience: Duration) -> Result<Value, Failure> {
        let line = self.replies.recv_timeout(patience).map_err(|e| {
            Failure::Lost(match e {
                RecvTimeoutError::Timeout => {
                    format!("PyTorch's process did not answer within {} s, and is stopped", patience.as_secs_f64())
                }
                RecvTimeoutError::Disconnected => "PyTorch's process ended".into(),
            })
        })?;
        let reply: Value = serde_json::from_str(&line).map_err(|e| Failure::Lost(format!("PyTorch's process wrote {line:?}: {e}")))?;
        match reply["error"].as_str() {
            Some(e) => Err(Failure::Refused(e.to_string())),
            None => Ok(reply),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peers for Torch {
    fn setup(&mut self, name: &str, sizes: &Sizes) -> Result<Vec<String>, String> {
        let request = |compile: bool| json!({ "setup": { "name": name, "sizes": sizes.0, "compile": compile } });
        let reply = self.ask(&request(true)).or_else(|e| match self.process {
            Some(_) => Err(e),
            None => {
                eprintln!("note: {name}: not compiled: {e}");
                self.ask(&request(false))
            }
        })?;
        let names = |v: &Value| v.as_array().into_iter().flatten().filter_map(|n| n.as_str().map(String::from)).collect::<Vec<_>>();
        for error in names(&reply["errors"]) {
            eprintln!("note: {name}: {error}");
        }
        Ok(names(&reply["peers"]))
    }

    fn setup_yardstick(&mut self, yardstick: Yardstick, bytes: usize) -> Result<(), String> {
        self.ask(&json!({ (yardstick.name()): bytes })).map(|_| ())
    }

    fn turn(&mut self, peer: &str) -> Result<Vec<f64>, String> {
        let reply = self.ask(&json!({ "turn": peer }))?;
        let samples: Option<Vec<f64>> = reply["us"].as_array().and_then(|all| all.iter().map(Value::as_f64).collect());
        samples.filter(|all| !all.is_empty()).ok_or_else(|| format!("PyTorch's process answered {reply}"))
    }

    fn result(&mut self, inputs: &[&HostTensor], output: &HostTensor) -> Result<(String, HostTensor), String> {
        let folder = std::env::temp_dir().join(format!("girih-peers-{}", std::process::id()));
        let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let path = |name: &str| folder.join(name).display().to_string();
        let exchanged = (|| {
            let mut given = Vec::new();
            for (i, tensor) in inputs.iter().enumerate() {
                let path = path(&format!("input-{i}"));
                std::fs::write(&path, &tensor.bytes).map_err(failed)?;
                given.push(json!({ "path": path, "dtype": dtype_name(tensor.dtype)? }));
            }
            let to = path("output");
            let reply = self.ask(&json!({ "result": { "inputs": given, "output": to, "dtype": dtype_name(output.dtype)? } }))?;
            let bytes = std::fs::read(&to).map_err(failed)?;
            if bytes.len() != output.bytes.len() {
                return Err(format!("PyTorch's result has {} bytes, the output {}", bytes.len(), output.bytes.len()));
            }
            let peer = reply["peer"].as_str().unwrap_or("eager").to_string();
            Ok((peer, HostTensor { bytes, ..output.clone() }))
        })();
        let _ = std::fs::remove_dir_all(&folder);
        exchanged
    }
}

/// PyTorch's name of an element type.
fn dtype_name(dtype: DType) -> Result<&'static str, String> {
    match dtype {
        DType::F32 => Ok("float32"),
        DType::F16 => Ok("float16"),
        DType::BF16 => Ok("bfloat16"),
        DType::F8E4M3 => Ok("float8_e4m3fn"),
        DType::F8E5M2 => Ok("float8_e5m2"),
        DType::I8 => Ok("int8"),
        DType::U8 => Ok("uint8"),
        DType::I32 => Ok("int32"),
        DType::I64 => Ok("int64"),
        DType::U32 | DType::U64 | DType::Bool => Err(format!("PyTorch does not compute with {dtype}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::timing;

    /// A peer whose result is its second input, and which says what it was asked for.
    const ECHO: &str = r#"
import json, sys
print(json.dumps({"ready": "0"}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)["result"]
    if asked["dtype"] != "float16":
        print(json.dumps({"error": "wanted " + asked["dtype"]}), flush=True)
        continue
    second = asked["inputs"][1]
    assert second["dtype"] == "int8", second
    open(asked["output"], "wb").write(open(second["path"], "rb").read())
    print(json.dumps({"peer": "eager"}), flush=True)
"#;

    #[test]
    fn both_sides_flush_and_warm_up_alike() {
        let constant = |name: &str| {
            let (_, bench) = MODULES[MODULES.len() - 1];
            bench.lines().find_map(|l| l.strip_prefix(&format!("{name} = "))).unwrap_or_else(|| panic!("{name} is not in the script"))
        };
        assert_eq!(constant("FLUSH_BYTES"), format!("{} << 20", timing::FLUSH >> 20));
        assert_eq!(constant("FLUSH_BYTE"), format!("0x{:02X}", timing::FLUSH_BYTE));
        assert_eq!(constant("WARM_BELOW_US"), format!("{:.1}", timing::WARM_BELOW_US));
        assert_eq!(constant("SAMPLES_OF_A_TURN"), timing::SAMPLES_OF_A_TURN.to_string());
    }

    #[test]
    fn all_files_of_peers_are_carried() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/peers");
        let mut files: Vec<String> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        let mut carried: Vec<String> = MODULES.iter().map(|(name, _)| format!("{name}.py")).collect();
        files.sort();
        carried.sort();
        assert_eq!(files, carried);
    }

    #[test]
    fn peers_compute_with_our_inputs() {
        let mut torch = Torch::of("python3", &[("echo", ECHO)], ANSWERED_WITHIN).unwrap();
        let tensor = |dtype, bytes: &[u8]| HostTensor { dtype, lens: vec![(bytes.len() / dtype.size()) as i64], bytes: bytes.to_vec() };
        let (a, b) = (tensor(DType::F32, &[0; 8]), tensor(DType::I8, &[1, 2, 3, 4]));
        let output = tensor(DType::F16, &[0; 4]);
        let result = torch.result(&[&a, &b], &output).unwrap();
        assert_eq!(result, ("eager".to_string(), tensor(DType::F16, &[1, 2, 3, 4])));
        let short = torch.result(&[&a, &b], &tensor(DType::F16, &[0; 2])).unwrap_err();
        assert_eq!(short, "PyTorch's result has 4 bytes, the output 2");
        assert_eq!(torch.result(&[&a, &b], &a).unwrap_err(), "wanted float32");
    }

    /// A peer that never ends to compile.
    const STUCK: &str = r#"
import json, sys, time
print(json.dumps({"ready": "0"}), flush=True)
for line in sys.stdin:
    setup = json.loads(line)["setup"]
    if setup["name"] == "stuck" or setup["name"] == "endless" and setup["compile"]:
        time.sleep(600)
    print(json.dumps({"peers": ["eager"] + ["compiled"] * setup["compile"], "errors": []}), flush=True)
"#;

    #[test]
    fn a_peer_that_does_not_answer_costs_one_row() {
        let mut torch = Torch::of("python3", &[("stuck", STUCK)], Duration::from_secs(2)).unwrap();
        assert_eq!(torch.setup("endless", &Sizes::default()).unwrap(), ["eager"]);
        let missed = torch.setup("stuck", &Sizes::default()).unwrap_err();
        assert_eq!(missed, "PyTorch's process did not answer within 2 s, and is stopped");
        assert_eq!(torch.setup("relu", &Sizes::default()).unwrap(), ["eager", "compiled"]);
    }
}
