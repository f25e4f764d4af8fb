//! Bytes that a call has to move, whatever its schedule.

use super::{Call, CallArg, Subject};

/// Bytes that have to move between the memory and the chip.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Compulsory {
    /// What is read, once.
    pub read: f64,
    /// What is written, once.
    pub written: f64,
}

impl Compulsory {
    /// Of a copy that moves so many bytes: half of them are read, half written.
    pub fn of_copy(bytes: f64) -> Compulsory {
        Compulsory { read: bytes / 2.0, written: bytes / 2.0 }
    }

    /// All of them.
    pub fn total(&self) -> f64 {
        self.read + self.written
    }
}

impl Subject {
    /// Bytes that must move: every input once, every output once, by the arguments' sizes; where the challenge says how many, as many, of
    /// which as great a part is written.
    pub fn compulsory_bytes(&self, call: &Call) -> Compulsory {
        let mut all = Compulsory { read: 0.0, written: 0.0 };
        for arg in &call.args {
            let CallArg::Tensor { name, data, mutable, .. } = arg else { continue };
            let (read, written) = match &self.challenge {
                Some(c) => (c.inputs.iter().any(|(n, _)| n == name), c.outputs.iter().any(|(n, _)| n == name)),
                None => (true, *mutable),
            };
            all.read += if read { data.bytes() as f64 } else { 0.0 };
            all.written += if written { data.bytes() as f64 } else { 0.0 };
        }
        let Some(bytes) = self.challenge.as_ref().and_then(|c| c.bytes).map(|bytes| bytes(&call.sizes)) else { return all };
        if all.total() == 0.0 {
            return Compulsory { read: bytes, written: 0.0 };
        }
        let share = bytes / all.total();
        Compulsory { read: all.read * share, written: all.written * share }
    }
}
