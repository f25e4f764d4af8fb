//! One block: its warps from barrier to barrier, one after the other.

mod access;
mod atomics;
mod run;
mod warp;

use super::latency;
use super::loops::{Sample, Turns};
use super::slice::{Slice, Uses};
use super::tally::{self, Count};
use super::traffic::{Banks, Touched};
use super::{Contents, CountArg, Uncounted};
use crate::decode::GROUP;
use crate::op::{Op, Slot};
use crate::{Class, Program};
use girih_ir::types::Literal;
use std::collections::HashMap;
use warp::Warp;

/// What is known of an operation before it runs.
struct Info {
    class: Class,
    /// Its values are needed.
    carried_out: bool,
    /// It reads and sets scalars of registers, and nothing else.
    plain: bool,
    reads: [Slot; 3],
    sets: Slot,
    latency: f64,
}

/// No slot, no loop.
const NONE: u32 = u32::MAX;

impl Info {
    fn of(op: &Op, class: Class, uses: &Uses, carried_out: bool) -> Info {
        let plain = op.is_plain();
        let mut reads = [NONE; 3];
        if plain {
            reads.iter_mut().zip(&uses.reads).for_each(|(to, from)| *to = from.0);
        }
        let sets = if plain { uses.sets.map_or(NONE, |s| s.0) } else { NONE };
        Info { class, carried_out, plain, reads, sets, latency: latency::of_class(class) }
    }
}

/// What a block shares with others: sums to which each adds its part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shares {
    /// Sums that blocks share, at most.
    pub counters: u64,
    /// To how many of them the block adds.
    pub drawn: u64,
}

/// Runs blocks of one launch.
pub(super) struct Machine<'a> {
    pub(super) program: &'a Program,
    pub(super) grid: u32,
    args: &'a [CountArg],
    contents: &'a dyn Contents,
    /// Parameters with words that blocks leave each other.
    words: Vec<usize>,
    /// Operations that may still be looked at.
    pub(super) fuel: u64,
    /// Whether the count is given up.
    is_late: Option<&'a dyn Fn() -> bool>,
    /// Which turns of loops are run; those that are written out are run whole, if they are short, unless even few turns take too much.
    pub(super) sample: Sample,
    info: Vec<Info>,
    /// The counted loop that begins, is tested or turns at an operation.
    loop_at: Vec<u32>,
    /// Loops of which each turn sets elements of arrays that are needed: none is left out.
    fills: Vec<bool>,
    warps: Vec<Option<Box<Warp>>>,
    banks: Banks,
    /// What the block touched.
    pub(super) touched: Touched,
    /// What the blocks before it touched.
    others: Touched,
    shared: Vec<u8>,
    /// What the block has stored where contents matter, by parameter and byte.
    stored: HashMap<(usize, u64), u8>,
    /// The block comes last wherever it shares a sum.
    pub(super) comes_last: bool,
    /// Where it does.
    pub(super) shares: Option<Shares>,
    /// Tickets that the block has drawn, by parameter and address.
    drawn: HashMap<(usize, u64), u64>,
    block: u32,
    count: Count,
    /// When the copies of each phase of a barrier of phases arrive, by its place.
    phases: HashMap<u64, Vec<f64>>,
    /// Integer divisions of what all lanes have in common, and what by.
    pub(super) divisions: Vec<(u64, u64)>,
    division_at: Vec<bool>,
}

impl<'a> Machine<'a> {
    pub(super) fn new(
        (program, slice): (&'a Program, &Slice),
        grid: u32,
        args: &'a [CountArg],
        contents: &'a dyn Contents,
        is_late: Option<&'a dyn Fn() -> bool>,
    ) -> Machine<'a> {
        let ops = program.code.iter().zip(&program.class).zip(slice.uses.iter().zip(&slice.carried_out));
        let info: Vec<Info> = ops.map(|((op, class), (uses, carried_out))| Info::of(op, *class, uses, *carried_out)).collect();
        let mut loop_at = vec![NONE; program.code.len()];
        for (number, l) in program.loops.iter().enumerate() {
            for pc in [l.head, l.test, l.jump] {
                loop_at[pc as usize] = number as u32;
            }
        }
        let set = |op: &Op| matches!(op, Op::SetElement { .. } | Op::LoadVector { .. });
        let needed = |pc: u32| info[pc as usize].carried_out && set(&program.code[pc as usize]);
        let fills = program.loops.iter().map(|l| l.written_out && (l.head..l.jump).any(needed)).collect();
        let mut division_at = vec![false; program.code.len()];
        program.divisions.iter().for_each(|pc| division_at[*pc as usize] = true);
        let scalars: Vec<Literal> = args.iter().map(|a| if let CountArg::Scalar(l) = a { *l } else { Literal::i32(0) }).collect();
        let threads = program.kernel.launch.block;
        let warps = (0..threads.div_ceil(32)).map(|w| Some(Box::new(Warp::new(program, &scalars, w, threads)))).collect();
        let shared = if slice.shared { vec![0; program.shared_bytes] } else { Vec::new() };
        Machine {
            program,
            grid,
            args,
            contents,
            words: slice.words.clone(),
            fuel: 0,
            is_late,
            sample: Sample::SHORT,
            info,
            loop_at,
            fills,
            warps,
            banks: Banks::default(),
            touched: Touched::default(),
            others: Touched::default(),
            shared,
            stored: HashMap::new(),
            comes_last: false,
            shares: None,
            drawn: HashMap::new(),
            block: 0,
            count: Count::zero(program.kernel.params.len()),
            phases: HashMap::new(),
            divisions: Vec::new(),
            division_at,
        }
    }

    /// Bytes of a parameter's memory; 0 of a scalar.
    pub(super) fn bytes(&self, param: usize) -> f64 {
        match self.args[param] {
            CountArg::Pointer { bytes, .. } | CountArg::Map { bytes, .. } => bytes as f64,
            CountArg::Scalar(_) => 0.0,
        }
    }

    /// Forgets what blocks have touched.
    pub(super) fn forget(&mut self) {
        self.touched.clear();
        self.others.clear();
    }

    /// Runs a block.
    pub(super) fn run(&mut self, block: u32) -> Result<Count, Uncounted> {
        self.block = block;
        self.others.add(&self.touched);
        self.touched.clear();
        self.stored.clear();
        self.drawn.clear();
        self.shares = None;
        self.shared.fill(0);
        self.divisions.clear();
        self.phases.clear();
        self.count = Count::zero(self.program.kernel.params.len());
        self.warps.iter_mut().flatten().for_each(|w| w.restart());
        let mut running = true;
        while running {
            running = false;
            for w in 0..self.warps.len() {
                let mut warp = self.warps[w].take().expect("a warp runs once at a time");
                let ended = if warp.done { Ok(()) } else { self.advance(&mut warp) };
                running |= !warp.done;
                self.warps[w] = Some(warp);
                ended?;
            }
            self.meet();
        }
        let end = self.warps.iter().flatten().map(|w| w.now()).fold(0.0, f64::max);
        self.count.numbers[tally::CHAIN] = end;
        self.count.longest = end;
        self.count.blocks = 1;
        Ok(self.count.clone())
    }

    /// All warps that wait at a barrier go on at the same time.
    fn meet(&mut self) {
        let waiting = || self.warps.iter().flatten().filter(|w| !w.done);
        let last = waiting().map(|w| w.now()).fold(0.0, f64::max) + latency::BARRIER;
        for warp in self.warps.iter_mut().flatten().filter(|w| !w.done) {
            warp.wait_until(last);
        }
    }

    /// How many turns a counted loop has left in the lanes that take any: the least of them; 0 if none does.
    fn turns_left(&self, warp: &Warp, number: usize) -> u64 {
        let l = &self.program.loops[number];
        warp.least_turns(l)
    }

    fn begin_loop(&mut self, warp: &mut Warp, number: usize) {
        let turns = self.turns_left(warp, number);
        let now = warp.now();
        let sample = match self.program.loops[number].written_out {
            true if self.fills[number] => Sample::WHOLE,
            true if self.sample != Sample::LEAST => Sample::SHORT,
            _ => self.sample,
        };
        warp.turns.push(Turns::begin(number, turns, sample, warp.weight, now));
        warp.weight *= warp.turns.last().map_or(1.0, Turns::weight);
    }

    /// At the end of a turn, whose operations were issued then: goes to the next one that is run.
    fn turn(&mut self, warp: &mut Warp, number: usize, issued: f64) {
        let Some(mut t) = warp.turns.pop() else { return };
        if t.number != number {
            // A loop that was left by other ways than its test.
            warp.turns.push(t);
            return;
        }
        let more = t.weight() - 1.0;
        if more > 0.0 {
            let each = warp.now() - t.began;
            let grouped = self.program.loops[number].grouped;
            let each = if grouped { (each / GROUP as f64).max(issued - t.began) } else { each };
            warp.delay(more * each);
        }
        let left_out = t.next();
        if left_out > 0 {
            warp.skip(&self.program.loops[number], left_out);
        }
        if t.is_over() {
            t.go_on(self.turns_left(warp, number));
        }
        t.began = if self.program.loops[number].grouped { warp.clock } else { warp.now() };
        warp.weight = t.outer * t.weight();
        warp.turns.push(t);
    }
}
