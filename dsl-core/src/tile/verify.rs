//! Well-formedness of tile IR.
