//! Whether a cubin is what its kernel was meant to become: nothing spilled, and the intended instructions in its machine code.
//!
//! A verdict is a note and no refusal: a kernel that is not accepted is right and runs, but something that its schedule counts on did not
//! happen. The tuner elects a schedule whose cubin is not accepted only where no other one's is.

use crate::compile::Compiled;
use crate::compile::resources::Resources;
use crate::compile::sass::{self, Count, Listing};
use crate::error::Error;
use girih_core::simt;
use girih_core::types::UnaryOp;
use std::fmt;
use std::time::Instant;

/// The verdict on one cubin.
#[derive(Clone, PartialEq, Debug)]
pub struct Acceptance {
    /// What ptxas said.
    pub resources: Resources,
    /// Instructions that the kernel was meant to become, with those there are; or why the machine code was not looked at, in words.
    pub instructions: Result<Vec<Count>, String>,
    /// The kernel calls functions that have a stack of their own, whatever the schedule: see [`calls_with_stack`].
    pub calls_with_stack: bool,
}

/// Whether a kernel or a launch behind it computes sines or cosines: for large arguments CUDA's functions keep the digits of 2/π in
/// local memory, which no schedule can change.
pub fn calls_with_stack(kernel: &simt::Kernel) -> bool {
    kernel.computes(&|op| matches!(op, UnaryOp::Sin | UnaryOp::Cos))
}

impl Acceptance {
    /// The verdict by what ptxas said alone.
    pub fn of_resources(kernel: &simt::Kernel, resources: Resources) -> Acceptance {
        let instructions = Err("machine code was not looked at".into());
        Acceptance { resources, instructions, calls_with_stack: calls_with_stack(kernel) }
    }

    /// What is not as it was meant, in words; empty for a cubin that is accepted.
    pub fn flaws(&self) -> Vec<String> {
        let Resources { spill_store_bytes, spill_load_bytes, stack, .. } = self.resources;
        let mut flaws = Vec::new();
        if spill_store_bytes + spill_load_bytes > 0 {
            flaws.push(format!("{} bytes spilled per thread", spill_store_bytes.max(spill_load_bytes)));
        } else if stack > 0 && !self.calls_with_stack {
            flaws.push(format!("{stack} bytes of local memory per thread"));
        }
        let missing = self.instructions.iter().flatten().filter(|c| c.found < c.meant);
        flaws.extend(missing.map(|c| format!("{} {} where {} were meant", c.found, c.kind, c.meant)));
        flaws
    }

    /// Whether nothing is amiss.
    pub fn accepted(&self) -> bool {
        self.flaws().is_empty()
    }
}

/// One line: `accepted: nothing spilled; 64 MMA, 24 LDSM as meant`, or `not accepted: 48 bytes spilled per thread`.
impl fmt::Display for Acceptance {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let flaws = self.flaws();
        match flaws[..] {
            [] => f.write_str("accepted: nothing spilled")?,
            _ => write!(f, "not accepted: {}", flaws.join(", "))?,
        }
        match &self.instructions {
            Err(why) => write!(f, "; only registers and memory were checked: {why}"),
            Ok(counts) => {
                let fine: Vec<String> = counts.iter().filter(|c| c.found >= c.meant).map(|c| format!("{} {}", c.found, c.kind)).collect();
                if fine.is_empty() { Ok(()) } else { write!(f, "; {} as meant", fine.join(", ")) }
            }
        }
    }
}

impl Compiled {
    /// Whether the cubin is what the kernel was meant to become. Without NVIDIA's disassembler only registers and memory are checked, and
    /// the verdict says so.
    ///
    /// # Errors
    /// As [`Compiled::with_cubin`].
    pub fn acceptance(&self) -> Result<Acceptance, Error> {
        self.acceptance_until(None)
    }

    /// The same; only registers and memory are checked where the machine code is not there before `end`.
    pub(crate) fn acceptance_until(&self, end: Option<Instant>) -> Result<Acceptance, Error> {
        let Some(resources) = self.resources else { return self.clone().with_cubin()?.acceptance_until(end) };
        let mut verdict = Acceptance::of_resources(&self.simt, resources);
        verdict.instructions = match self.sass_until(end) {
            // The whole sentence says where it was looked for.
            Err(e) => Err(e.to_string().lines().next().unwrap_or("no disassembler").split(". ").next().unwrap_or("").to_string()),
            Ok(listing) => self.instructions(&listing),
        };
        Ok(verdict)
    }

    /// The instructions that all launches of the kernel were meant to become, with those there are.
    fn instructions(&self, listing: &Listing) -> Result<Vec<Count>, String> {
        let mut all: Vec<Count> = Vec::new();
        for launch in self.simt.launches() {
            let name = girih_core::cuda::function_name(launch);
            let Some(function) = listing.functions.iter().find(|f| f.name == name) else {
                return Err(format!("the listing has no function {name}"));
            };
            all.extend(sass::compare(launch, function));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::sass::Kind;

    fn verdict(resources: Resources, counts: &[(Kind, u64, u64)]) -> Acceptance {
        let counts = counts.iter().map(|(kind, meant, found)| Count { kind: *kind, meant: *meant, found: *found });
        Acceptance { resources, instructions: Ok(counts.collect()), calls_with_stack: false }
    }

    #[test]
    fn verdicts_say_what_is_amiss() {
        let clean = Resources { registers: 128, ..Resources::default() };
        let spilled = Resources { spill_store_bytes: 48, spill_load_bytes: 40, stack: 48, ..clean };
        let fine = verdict(clean, &[(Kind::Matrix, 64, 64), (Kind::LoadMatrix, 24, 32)]);
        assert!(fine.accepted());
        assert_eq!(fine.to_string(), "accepted: nothing spilled; 64 MMA, 32 LDSM as meant");
        let lost = verdict(clean, &[(Kind::Matrix, 64, 64), (Kind::AsyncCopy(128), 8, 0)]);
        assert!(!lost.accepted());
        assert_eq!(lost.to_string(), "not accepted: 0 LDGSTS.128 where 8 were meant; 64 MMA as meant");
        assert_eq!(verdict(spilled, &[]).to_string(), "not accepted: 48 bytes spilled per thread");
        let indexed = Resources { stack: 256, ..clean };
        assert_eq!(verdict(indexed, &[]).flaws(), ["256 bytes of local memory per thread"]);
        let sines = |resources| Acceptance { calls_with_stack: true, ..verdict(resources, &[]) };
        assert!(
            sines(indexed).accepted() && !sines(spilled).accepted(),
            "a function's own stack is none of the schedule's doing, spills are"
        );
        let blind = Acceptance { instructions: Err("nvdisasm was not found".into()), ..fine };
        assert!(blind.accepted());
        assert_eq!(blind.to_string(), "accepted: nothing spilled; only registers and memory were checked: nvdisasm was not found");
    }
}
