//! Layouts as values.
