//! The emitter: prints SIMT IR as CUDA C.
