//! Text form of SIMT IR.
