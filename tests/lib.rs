//! Integration tests of girih live in `it/`.
