//! Access classes of stores.
