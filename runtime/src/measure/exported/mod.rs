//! Exported files as a judge has them: compiled by nvcc, loaded, called with device pointers, and timed beside what they were exported from.

mod build;
mod timed;

pub use build::{Build, nvcc};
pub use timed::{Timed, timed};

use crate::subject::guarded_args::Placed;
use crate::subject::{Call, CallArg};
use girih_core::program::signature::{Signature, SignatureParam};
use girih_core::types::Literal;
use libloading::Library;
use std::ffi::{c_int, c_void};
use std::path::Path;

/// The function that [`Build`] adds to an exported file: calls `solve` with arguments behind pointers, and returns the runtime's last error.
const ENTRY: &str = "girih_call_solve";

type Entry = unsafe extern "C" fn(*const *const c_void) -> c_int;

/// A loaded exported file.
pub struct Exported {
    entry: Entry,
    /// Keeps the code there.
    _library: Library,
}

impl Exported {
    /// Loads what [`Build::run`] made.
    ///
    /// # Errors
    /// The loader's.
    pub fn open(path: &Path) -> Result<Exported, String> {
        let failed = |e: libloading::Error| format!("{} could not be loaded: {e}", path.display());
        // SAFETY: the library was made by `Build`; it runs no code of its own when it is loaded but the CUDA runtime's registration.
        let library = unsafe { Library::new(path) }.map_err(failed)?;
        // SAFETY: `Build` defines the function with this type.
        let entry = *unsafe { library.get::<Entry>(ENTRY.as_bytes()) }.map_err(failed)?;
        Ok(Exported { entry, _library: library })
    }

    /// Calls `solve`, which queues its work on the default stream of the current context.
    ///
    /// # Errors
    /// The error that the CUDA runtime reports.
    pub fn call(&self, arguments: &Arguments) -> Result<(), String> {
        let pointers: Vec<*const c_void> = arguments.0.iter().map(|word| std::ptr::from_ref(word).cast()).collect();
        // SAFETY: one pointer for each parameter of the signature, to a value of its type.
        match unsafe { (self.entry)(pointers.as_ptr()) } {
            0 => Ok(()),
            status => Err(format!("the exported solve left CUDA error {status}")),
        }
    }
}

/// What a judge passes, in the order of the signature: each value in the lower bytes of a word.
pub struct Arguments(Vec<u64>);

impl Arguments {
    /// The tensors where they were placed, and the call's scalars.
    ///
    /// # Errors
    /// A parameter of the signature for which the call has nothing.
    pub fn new(signature: &Signature, call: &Call, placed: &Placed) -> Result<Arguments, String> {
        let word = |p: &SignatureParam| {
            if p.shape.is_none() {
                let value = call.sizes.0.get(&p.name).ok_or_else(|| format!("the call has no scalar `{}`", p.name))?;
                return Ok(Literal::from_f64(p.dtype, *value).bits);
            }
            let at = call.args.iter().position(|a| matches!(a, CallArg::Tensor { name, .. } if *name == p.name));
            at.and_then(|at| placed.address(at)).ok_or_else(|| format!("the call has no tensor `{}`", p.name))
        };
        signature.params.iter().map(word).collect::<Result<_, String>>().map(Arguments)
    }
}
