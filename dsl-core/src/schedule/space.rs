//! The legal schedules of a kernel, in a fixed order.
