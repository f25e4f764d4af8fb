//! NVRTC behind `dlopen`: the few functions that compile CUDA C to a cubin.

use super::find;
use crate::error::Error;
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;

type Program = *mut c_void;
type Status = c_int;

/// A loaded NVRTC.
pub(super) struct Nvrtc {
    create: unsafe extern "C" fn(*mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> Status,
    destroy: unsafe extern "C" fn(*mut Program) -> Status,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> Status,
    log: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    cubin_size: unsafe extern "C" fn(Program, *mut usize) -> Status,
    cubin: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    ptx_size: unsafe extern "C" fn(Program, *mut usize) -> Status,
    ptx: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    error: unsafe extern "C" fn(Status) -> *const c_char,
    /// `13.0`.
    pub version: (u32, u32),
    /// `[75, 80, ..]`, sorted.
    pub archs: Vec<u32>,
    _library: Library,
    _builtins: Option<Library>,
}

/// A function of the library.
///
/// # Safety
/// `F` is the function's type as nvrtc.h has it.
unsafe fn symbol<F: Copy>(library: &Library, name: &[u8]) -> Result<F, libloading::Error> {
    // SAFETY: see above; the library stays loaded as long as its functions are kept.
    unsafe { library.get::<F>(name).map(|f| *f) }
}

/// What one compilation gave.
pub(super) struct Output {
    pub cubin: Vec<u8>,
    pub ptx: String,
    pub log: String,
}

impl Nvrtc {
    /// Opens the library at `path`.
    pub fn open(path: &Path) -> Result<Nvrtc, Error> {
        let failed = |e: libloading::Error| Error::NoNvrtc(format!("{} could not be loaded: {e}", path.display()));
        // NVRTC does not look beside itself for its builtins, but finds them if they are loaded already.
        let builtins = match find::builtins_of(path) {
            // SAFETY: NVIDIA's libraries have no initialisers that could misbehave.
            Some(builtins) => Some(unsafe { Library::new(builtins) }.map_err(failed)?),
            None => None,
        };
        // SAFETY: as above; the types of the functions are those of nvrtc.h.
        unsafe {
            let library = Library::new(path).map_err(failed)?;
            let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status = symbol(&library, b"nvrtcVersion\0").map_err(failed)?;
            let num_archs: unsafe extern "C" fn(*mut c_int) -> Status = symbol(&library, b"nvrtcGetNumSupportedArchs\0").map_err(failed)?;
            let get_archs: unsafe extern "C" fn(*mut c_int) -> Status = symbol(&library, b"nvrtcGetSupportedArchs\0").map_err(failed)?;
            let (mut major, mut minor, mut count) = (0, 0, 0);
            version(&mut major, &mut minor);
            num_archs(&mut count);
            let mut archs = vec![0; count.max(0) as usize];
            get_archs(archs.as_mut_ptr());
            archs.sort();
            Ok(Nvrtc {
                create: symbol(&library, b"nvrtcCreateProgram\0").map_err(failed)?,
                destroy: symbol(&library, b"nvrtcDestroyProgram\0").map_err(failed)?,
                compile: symbol(&library, b"nvrtcCompileProgram\0").map_err(failed)?,
                log_size: symbol(&library, b"nvrtcGetProgramLogSize\0").map_err(failed)?,
                log: symbol(&library, b"nvrtcGetProgramLog\0").map_err(failed)?,
                cubin_size: symbol(&library, b"nvrtcGetCUBINSize\0").map_err(failed)?,
                cubin: symbol(&library, b"nvrtcGetCUBIN\0").map_err(failed)?,
                ptx_size: symbol(&library, b"nvrtcGetPTXSize\0").map_err(failed)?,
                ptx: symbol(&library, b"nvrtcGetPTX\0").map_err(failed)?,
                error: symbol(&library, b"nvrtcGetErrorString\0").map_err(failed)?,
                version: (major as u32, minor as u32),
                archs: archs.into_iter().map(|a: c_int| a as u32).collect(),
                _library: library,
                _builtins: builtins,
            })
        }
    }

    /// Compiles; the error is NVRTC's log. May be called from several threads.
    pub fn compile(&self, source: &str, file: &str, options: &[String]) -> Result<Output, String> {
        let text = |s: &str| CString::new(s).map_err(|_| "the CUDA C contains a zero byte".to_string());
        let (source, file) = (text(source)?, text(file)?);
        let options = options.iter().map(|o| text(o)).collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let mut program: Program = std::ptr::null_mut();
        // SAFETY: all strings live through the calls, every buffer has the size that NVRTC asked for, and the program is
        // destroyed once, by this function.
        unsafe {
            let none = std::ptr::null();
            let created = (self.create)(&mut program, source.as_ptr(), file.as_ptr(), 0, none, none);
            if created != 0 {
                return Err(self.message(created));
            }
            let status = (self.compile)(program, pointers.len() as c_int, pointers.as_ptr());
            let log = self.bytes(program, self.log_size, self.log);
            let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_string();
            let result = if status == 0 {
                let cubin = self.bytes(program, self.cubin_size, self.cubin);
                let ptx = self.bytes(program, self.ptx_size, self.ptx);
                let ptx = String::from_utf8_lossy(&ptx).trim_end_matches('\0').to_string();
                Ok(Output { cubin, ptx, log })
            } else {
                // Of what the log tells, the status is the kind alone.
                Err(if log.trim().is_empty() { self.message(status) } else { log.trim().to_string() })
            };
            (self.destroy)(&mut program);
            result
        }
    }

    /// SAFETY: `program` is alive, and `size` and `get` belong together.
    unsafe fn bytes(
        &self,
        program: Program,
        size: unsafe extern "C" fn(Program, *mut usize) -> Status,
        get: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    ) -> Vec<u8> {
        let mut len = 0;
        // SAFETY: see above.
        unsafe {
            if size(program, &mut len) != 0 {
                return Vec::new();
            }
            let mut data = vec![0u8; len];
            get(program, data.as_mut_ptr().cast());
            data
        }
    }

    fn message(&self, status: Status) -> String {
        // SAFETY: NVRTC gives a static string for every number.
        unsafe { CStr::from_ptr((self.error)(status)).to_string_lossy().into_owned() }
    }
}
