//! The runners of one program: one for each choice of its variants that calls have led to.

use crate::device::Device;
use crate::error::Error;
use crate::launch::program::Runner;
use crate::launch::program_schedule;
use crate::launch::{Argument, lengths};
use girih_core::lengths::Lengths;
use girih_core::program::Program;
use std::sync::Arc;

/// A program whose variants are chosen by the lengths of its arguments. Calls that lead to the same variants share a workspace.
pub(crate) struct Runners {
    device: Device,
    program: Program,
    /// Which runner the calls of a class of lengths take ([`Lengths::class`]): that of the first of them.
    classes: Vec<(Lengths, usize)>,
    /// By their variants.
    runners: Vec<(Vec<bool>, Runner)>,
}

impl Runners {
    pub fn new(device: &Device, program: Program) -> Runners {
        Runners { device: device.clone(), program, classes: Vec::new(), runners: Vec::new() }
    }

    /// Runs the program with the variants that are best for these arguments, as [`Runner::run`] does; `graphs` where it is not the
    /// environment that decides.
    pub fn run(&mut self, args: &[Argument], graphs: Option<bool>) -> Result<(), Error> {
        let place = self.place(args);
        let runner = &mut self.runners[place].1;
        if let Some(graphs) = graphs {
            runner.graphs = graphs;
        }
        runner.run(args)
    }

    /// The place of a call's runner.
    fn place(&mut self, args: &[Argument]) -> usize {
        if self.program.variants.is_empty() {
            return self.runner(Vec::new());
        }
        let lengths = lengths(args);
        let class = lengths.class();
        if let Some((_, place)) = self.classes.iter().find(|(c, _)| *c == class) {
            return *place;
        }
        let place = self.runner(program_schedule::variants_for(&self.program, &lengths, &self.device));
        self.classes.push((class, place));
        place
    }

    /// The place of the runner with these variants.
    fn runner(&mut self, variants: Vec<bool>) -> usize {
        if let Some(place) = self.runners.iter().position(|(v, _)| *v == variants) {
            return place;
        }
        let program = if variants.is_empty() { self.program.clone() } else { self.program.with_variants(&variants) };
        self.runners.push((variants, Runner::new(&self.device, Arc::new(program))));
        self.runners.len() - 1
    }
}
