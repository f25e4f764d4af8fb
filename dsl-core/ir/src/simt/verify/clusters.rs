//! What blocks of a cluster read of one another stands between barriers of the cluster. This looks at the order of the text; the simulator
//! finds what is not ordered where loops and choices are taken.

use super::Violation;
use crate::simt::visit::inner_blocks;
use crate::simt::{Barrier, Stmt};

/// What matters here of a text.
#[derive(PartialEq)]
enum Event {
    Meet,
    Read,
}

/// Before the first read of another block's shared memory, and behind the last one, the cluster meets.
pub(super) fn between_barriers(body: &[Stmt]) -> Result<(), Violation> {
    let mut events = Vec::new();
    collect(body, &mut events);
    let reads = events.contains(&Event::Read);
    let inside = events.first() == Some(&Event::Meet) && events.last() == Some(&Event::Meet);
    if !reads || inside {
        return Ok(());
    }
    let invariant = "a block reads another one's shared memory before the cluster's first barrier or behind its last one";
    Err(Violation { invariant: invariant.to_string(), statement: String::new() })
}

fn collect(body: &[Stmt], events: &mut Vec<Event>) {
    for stmt in body {
        if matches!(stmt, Stmt::Barrier(Barrier::Cluster)) {
            events.push(Event::Meet);
        } else if matches!(stmt, Stmt::LoadFromBlock { .. }) {
            events.push(Event::Read);
        }
        inner_blocks(stmt).into_iter().for_each(|inner| collect(inner, events));
    }
}
