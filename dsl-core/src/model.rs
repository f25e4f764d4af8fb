//! Predicts time from counters, resources and a target.
