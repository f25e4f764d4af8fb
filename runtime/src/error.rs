//! What can go wrong at run time, said so that the reader knows what to do.

use girih_core::error::CompileError;
use girih_core::loc::SourceLoc;
use girih_core::schedule::ScheduleError;
use std::path::PathBuf;

/// Any failure of the runtime.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel or its schedule is wrong.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// No CUDA driver, or no GPU behind it. The text says what was looked for.
    #[error("{0}")]
    NoDevice(String),
    /// NVRTC was not found or could not be loaded. The text says where it was looked for and how to get it.
    #[error("{0}")]
    NoNvrtc(String),
    /// NVIDIA's disassembler was not found, failed, or wrote what can't be read. The text says where it was looked for and how to get it.
    #[error("{0}")]
    NoDisassembler(String),
    /// NVRTC rejected the CUDA C: a compiler bug of girih, or an architecture that this NVRTC does not know.
    #[error("NVRTC could not compile kernel `{kernel}` ({place}) for {arch}:\n{log}")]
    Nvrtc {
        /// The kernel's name.
        kernel: String,
        /// The author's function: `src/add.rs:12:1`, or a description where there is none.
        place: String,
        /// The architecture: `sm_90a`.
        arch: String,
        /// NVRTC's log, each place followed by the line of CUDA C that it speaks of.
        log: String,
    },
    /// NVRTC took too long for the CUDA C, or crashed: it ran in a process of its own, which is gone.
    #[error(
        "NVRTC was given up on kernel `{kernel}` ({place}) for {arch}: {why}\n  help: shorter texts compile faster (smaller tiles, less \
         coarsening or unrolling); --compile-limit gives more time"
    )]
    GivenUp {
        /// The kernel's name.
        kernel: String,
        /// The author's function: `src/add.rs:12:1`.
        place: String,
        /// The architecture: `sm_90a`.
        arch: String,
        /// How long it was waited for, or how it ended.
        why: String,
    },
    /// A call to the CUDA driver failed. After an illegal address or a trap every later call fails, too.
    #[error("CUDA driver: {call} failed: {name} ({text}){}", hint(name))]
    Driver {
        /// What was being done: `cuLaunchKernel of vector_add`.
        call: String,
        /// `CUDA_ERROR_ILLEGAL_ADDRESS`.
        name: String,
        /// The driver's own words.
        text: String,
    },
    /// Memory of the device is used up.
    #[error("out of device memory: {bytes} bytes wanted on {device}, {free} free")]
    OutOfMemory {
        /// What was asked for.
        bytes: usize,
        /// The device's name.
        device: String,
        /// What is left, as text.
        free: String,
    },
    /// A launch whose arguments do not fit the kernel: shape, aliasing, number or type.
    #[error("cannot launch `{kernel}`: {message}\n  --> {loc}")]
    Launch {
        /// The kernel's name.
        kernel: String,
        /// What was found, what is allowed, what to do.
        message: String,
        /// The author's line that asks for it.
        loc: SourceLoc,
    },
    /// The simulator found a defect: race, access out of bounds, deadlock, ..
    #[error("simulating `{kernel}`: {message}")]
    Trap {
        /// The kernel's name.
        kernel: String,
        /// The trap in words.
        message: String,
    },
    /// A simulation took more warp instructions than it may: an endless loop, or much work.
    #[error("simulating `{kernel}`: not finished after {steps} warp instructions")]
    Unfinished {
        /// The kernel's name.
        kernel: String,
        /// How many it may take.
        steps: u64,
    },
    /// A buffer was used beyond its end or on another device.
    #[error("{0}")]
    Buffer(String),
    /// A share of a multiprocessor's memory that there is not.
    #[error("a carve-out of {0} %: shared memory may prefer 0 to 100 % of what a multiprocessor has")]
    CarveOut(u8),
    /// A program could not run.
    #[error("program `{program}`: {message}\n  --> {loc}")]
    Program {
        /// The program's name.
        program: String,
        /// What was found and what is allowed.
        message: String,
        /// The author's line.
        loc: SourceLoc,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl From<ScheduleError> for Error {
    fn from(e: ScheduleError) -> Error {
        Error::Compile(CompileError::Schedule(e))
    }
}

impl Error {
    /// An I/O failure with its file.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { path, source }
    }
}

/// What went wrong in one line: a message's first line, and of one that ends with a colon the line behind it, too.
pub(crate) fn headline(message: &str) -> String {
    let mut lines = message.lines();
    let first = lines.next().unwrap_or_default();
    match lines.next().filter(|_| first.ends_with(':')) {
        Some(more) => format!("{first} {}", more.trim()),
        None => first.to_string(),
    }
}

fn hint(name: &str) -> &'static str {
    match name {
        "CUDA_ERROR_NO_BINARY_FOR_GPU" => "; the cubin was made for another architecture than this GPU's",
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" | "CUDA_ERROR_INVALID_IMAGE" => "; the driver is older than the NVRTC that made the cubin",
        "CUDA_ERROR_ILLEGAL_ADDRESS" | "CUDA_ERROR_MISALIGNED_ADDRESS" | "CUDA_ERROR_LAUNCH_FAILED" => {
            "; the context is lost, only a new process can use the GPU again (run the kernel on the simulator to find the access)"
        }
        _ => "",
    }
}

#[cfg(all(test, feature = "tune"))]
mod tests {
    use super::headline;

    #[test]
    fn headlines_say_what_was_wrong() {
        assert_eq!(headline("a launch failed\n  help: none"), "a launch failed");
        assert_eq!(
            headline("NVRTC could not compile kernel `k`:\n  k.cu(3): error: no such name\nmore"),
            "NVRTC could not compile kernel `k`: k.cu(3): error: no such name"
        );
        assert_eq!((headline(""), headline("nothing behind:")), (String::new(), "nothing behind:".to_string()));
    }
}
