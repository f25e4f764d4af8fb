//! The one test binary.

