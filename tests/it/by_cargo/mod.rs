//! Tests that wait for cargo. They take long, and tests start in the order of their names: theirs come early.

mod features;
mod texts;
mod ui;
mod user_crate;
