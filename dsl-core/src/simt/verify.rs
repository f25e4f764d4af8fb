//! Well-formedness of SIMT IR.
