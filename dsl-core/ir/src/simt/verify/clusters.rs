//! What blocks of a cluster do in one another's shared memory stands between barriers of the cluster. This looks at the order of the text; the
//! simulator finds what is not ordered where loops and choices are taken.

use super::Violation;
use crate::simt::visit::inner_blocks;
use crate::simt::{Barrier, Stmt};

/// What matters here of a text.
#[derive(PartialEq)]
enum Event {
    Meet,
    Reach,
}

/// Before a block first reaches into another one's shared memory, and behind the last time, the cluster meets.
pub(super) fn between_barriers(body: &[Stmt]) -> Result<(), Violation> {
    let mut events = Vec::new();
    collect(body, &mut events);
    let reaches = events.contains(&Event::Reach);
    let inside = events.first() == Some(&Event::Meet) && events.last() == Some(&Event::Meet);
    if !reaches || inside {
        return Ok(());
    }
    let invariant = "a block reaches into another one's shared memory before the cluster's first barrier or behind its last one";
    Err(Violation { invariant: invariant.to_string(), statement: String::new() })
}

fn collect(body: &[Stmt], events: &mut Vec<Event>) {
    for stmt in body {
        if matches!(stmt, Stmt::Barrier(Barrier::Cluster)) {
            events.push(Event::Meet);
        } else if matches!(stmt, Stmt::LoadFromBlock { .. } | Stmt::MbarrierArriveAt { .. } | Stmt::TensorCopy { to_all: true, .. }) {
            events.push(Event::Reach);
        }
        inner_blocks(stmt).into_iter().for_each(|inner| collect(inner, events));
    }
}
