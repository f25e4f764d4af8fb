//! The simulator: the definition of SIMT IR.
