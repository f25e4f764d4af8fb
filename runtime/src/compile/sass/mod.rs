//! SASS: the machine code of a cubin, read through NVIDIA's disassembler.
//!
//! What a kernel was meant to become shows here only: the width of its memory accesses, copies that pass by the registers, matrix
//! instructions, and registers that did not suffice.

mod expected;
mod find;
mod parse;

pub use expected::{Count, Kind, compare, expected};
pub use find::{WHEEL, fetch, find};
pub use parse::parse;

use crate::error::Error;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The code of one cubin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    /// Its functions, in the disassembler's order: kernels and what they call.
    pub functions: Vec<Function>,
}

/// The code of one entry function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Labels and instructions, in the order of their addresses, without the padding behind the last one.
    pub lines: Vec<Line>,
}

/// One line of code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// A place that others jump to: `.L_x_6`.
    Label(String),
    /// An instruction.
    Instruction(Instruction),
}

/// `@!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64]` at its address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// In bytes from the function's first.
    pub address: u64,
    /// The lanes that it does something for; all if there is none.
    pub predicate: Option<Predicate>,
    /// `LDG`.
    pub opcode: String,
    /// `["E", "128", "CONSTANT"]`.
    pub modifiers: Vec<String>,
    /// `["R4", "desc[UR4][R2.64]"]`.
    pub operands: Vec<String>,
}

/// `@!P0`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Predicate {
    /// Where it does not hold.
    pub negated: bool,
    /// The register: `P0`, or `UP0`, the same for the whole warp.
    pub register: String,
}

/// What an instruction is for. Memory accesses have the bits that one lane moves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// `LDG`: reads global memory.
    GlobalLoad(u32),
    /// `STG`: writes global memory.
    GlobalStore(u32),
    /// `LDGSTS`, `UBLKCP`, `UTMALDG` and their like: copies between global and shared memory past the registers; 0 bits where one
    /// instruction copies a block.
    AsyncCopy(u32),
    /// `LDS`, `LDSM`: reads shared memory.
    SharedLoad(u32),
    /// `STS`, `STSM`: writes shared memory.
    SharedStore(u32),
    /// `LDL`: reads what a thread keeps in memory of its own, for want of registers or because it is indexed.
    LocalLoad(u32),
    /// `STL`: writes it.
    LocalStore(u32),
    /// `ATOM`, `ATOMG`, `ATOMS`, `RED`: read-modify-write.
    Atomic,
    /// `HMMA`, `IMMA`, `HGMMA`, ..: matrix units.
    Matrix,
    /// `FFMA`: multiply-add in f32.
    FloatMultiplyAdd,
    /// `FADD`, `FMUL`: in f32.
    Float,
    /// `HFMA2`, `HADD2`, `HMUL2`: two 16-bit floats at a time.
    Half,
    /// `DFMA`, `DADD`, `DMUL`: in f64.
    Double,
    /// `MUFU`: reciprocals, roots, exponentials.
    Special,
    /// `IMAD`: multiply-add of integers, and moves in disguise.
    IntegerMultiplyAdd,
    /// `SHFL`: values from lane to lane.
    Shuffle,
    /// `BAR`: the block meets.
    Barrier,
    /// `BRA`, `BRX`, `CALL`, ..: jumps.
    Branch,
    /// Anything else: integers, comparisons, moves.
    Other,
}

impl Instruction {
    /// What it is for.
    pub fn class(&self) -> Class {
        match self.opcode.as_str() {
            "LDG" => Class::GlobalLoad(self.bits()),
            "STG" => Class::GlobalStore(self.bits()),
            "LDGSTS" => Class::AsyncCopy(self.bits()),
            "UBLKCP" | "UBLKRED" | "UTMALDG" | "UTMASTG" | "UTMAREDG" => Class::AsyncCopy(0),
            // Matrices of 8 rows of 16 bytes, one register per lane each.
            "LDSM" => Class::SharedLoad(self.matrix_bits()),
            "STSM" => Class::SharedStore(self.matrix_bits()),
            "LDS" => Class::SharedLoad(self.bits()),
            "STS" => Class::SharedStore(self.bits()),
            "LDL" => Class::LocalLoad(self.bits()),
            "STL" => Class::LocalStore(self.bits()),
            "ATOM" | "ATOMG" | "ATOMS" | "RED" | "REDG" | "REDAS" => Class::Atomic,
            o if o.ends_with("MMA") => Class::Matrix,
            "FFMA" | "FFMA2" => Class::FloatMultiplyAdd,
            "FADD" | "FMUL" | "FADD2" | "FMUL2" => Class::Float,
            "HFMA2" | "HADD2" | "HMUL2" => Class::Half,
            "DFMA" | "DADD" | "DMUL" => Class::Double,
            "MUFU" => Class::Special,
            "IMAD" => Class::IntegerMultiplyAdd,
            "SHFL" => Class::Shuffle,
            "BAR" => Class::Barrier,
            "BRA" | "BRX" | "JMP" | "CALL" | "RET" => Class::Branch,
            _ => Class::Other,
        }
    }

    /// The bits that a memory access moves per lane: what its modifiers say, else a register.
    fn bits(&self) -> u32 {
        let width = |m: &String| match m.as_str() {
            "U8" | "S8" | "8" => Some(8),
            "U16" | "S16" | "16" => Some(16),
            "64" => Some(64),
            "128" => Some(128),
            "256" => Some(256),
            _ => None,
        };
        self.modifiers.iter().find_map(width).unwrap_or(32)
    }

    fn matrix_bits(&self) -> u32 {
        let matrices = self.modifiers.iter().find_map(|m| m.parse::<u32>().ok());
        32 * matrices.unwrap_or(1)
    }
}

impl Class {
    /// Memory of a thread's own, in the way where registers were meant.
    pub fn is_local(self) -> bool {
        matches!(self, Class::LocalLoad(_) | Class::LocalStore(_))
    }
}

impl Function {
    /// Its instructions.
    pub fn instructions(&self) -> impl Iterator<Item = &Instruction> {
        self.lines.iter().filter_map(|l| match l {
            Line::Instruction(i) => Some(i),
            Line::Label(_) => None,
        })
    }

    /// How many instructions of each class it has. What runs is another number: loops run theirs more often.
    pub fn counts(&self) -> BTreeMap<Class, usize> {
        let mut counts = BTreeMap::new();
        self.instructions().for_each(|i| *counts.entry(i.class()).or_default() += 1);
        counts
    }

    /// Loads and stores of memory of a thread's own. 0 for a kernel whose values all fit in registers.
    pub fn local_accesses(&self) -> usize {
        self.instructions().filter(|i| i.class().is_local()).count()
    }

    /// One line: `96 instructions: 2 LDG.128, 1 STG.128, 4 FADD, 3 BRA, 86 others; nothing in local memory`.
    pub fn summary(&self) -> String {
        let counts = self.counts();
        let parts: Vec<String> = counts.iter().map(|(class, n)| format!("{n} {class}")).collect();
        let local = match self.local_accesses() {
            0 => "nothing in local memory".to_string(),
            n => format!("{n} accesses of local memory: registers did not suffice, or an array of a thread's own is indexed"),
        };
        format!("{} instructions: {}; {local}", self.instructions().count(), parts.join(", "))
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (name, bits) = match *self {
            Class::GlobalLoad(bits) => ("LDG", bits),
            Class::GlobalStore(bits) => ("STG", bits),
            Class::AsyncCopy(0) => ("bulk copies", 0),
            Class::AsyncCopy(bits) => ("LDGSTS", bits),
            Class::SharedLoad(bits) => ("LDS", bits),
            Class::SharedStore(bits) => ("STS", bits),
            Class::LocalLoad(bits) => ("LDL", bits),
            Class::LocalStore(bits) => ("STL", bits),
            Class::Atomic => ("ATOM", 0),
            Class::Matrix => ("MMA", 0),
            Class::FloatMultiplyAdd => ("FFMA", 0),
            Class::Float => ("FADD/FMUL", 0),
            Class::Half => ("HFMA2", 0),
            Class::Double => ("DFMA", 0),
            Class::Special => ("MUFU", 0),
            Class::IntegerMultiplyAdd => ("IMAD", 0),
            Class::Shuffle => ("SHFL", 0),
            Class::Barrier => ("BAR", 0),
            Class::Branch => ("BRA", 0),
            Class::Other => ("others", 0),
        };
        if bits == 0 { f.write_str(name) } else { write!(f, "{name}.{bits}") }
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let predicate = self.predicate.as_ref().map_or(String::new(), |p| format!("@{}{} ", if p.negated { "!" } else { "" }, p.register));
        write!(f, "{predicate:>6}{}", self.opcode)?;
        self.modifiers.iter().try_for_each(|m| write!(f, ".{m}"))?;
        if self.operands.is_empty() { Ok(()) } else { write!(f, " {}", self.operands.join(", ")) }
    }
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for function in &self.functions {
            writeln!(f, "{}:", function.name)?;
            for line in &function.lines {
                match line {
                    Line::Label(label) => writeln!(f, "{label}:")?,
                    Line::Instruction(i) => writeln!(f, "  {:04x}  {i}", i.address)?,
                }
            }
        }
        Ok(())
    }
}

/// The code of a cubin.
///
/// # Errors
/// [`Error::NoDisassembler`] where nvdisasm is missing, does not know the architecture, or writes what we can't read.
pub fn disassemble(cubin: &[u8]) -> Result<Listing, Error> {
    disassemble_until(cubin, None)
}

/// The same if it is there before `end`.
///
/// # Errors
/// As [`disassemble`]; there was no time.
pub(crate) fn disassemble_until(cubin: &[u8], end: Option<Instant>) -> Result<Listing, Error> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let program = find().map_err(|searched| find::missing(&searched))?;
    let name = format!("girih-{}-{}.cubin", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, cubin).map_err(Error::io(&file))?;
    let mut command = Command::new(&program);
    command.arg("--print-code").arg(&file);
    let output = match end {
        Some(end) => output_until(&mut command, &file, end),
        None => command.output().map(Some),
    };
    let _ = std::fs::remove_file(&file);
    let Some(output) = output.map_err(Error::io(&program))? else {
        return Err(Error::NoDisassembler("there was no time for the machine code".into()));
    };
    let failed = |text: &str| Error::NoDisassembler(format!("{}: {}", program.display(), text.trim()));
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr)));
    }
    parse(&String::from_utf8_lossy(&output.stdout)).map_err(|e| failed(&e))
}

/// What a program writes if it ends before `end`; else it is killed. Its standard output goes through a file: nobody reads it meanwhile.
fn output_until(command: &mut Command, file: &Path, end: Instant) -> std::io::Result<Option<Output>> {
    let written = file.with_extension("sass");
    let mut child = command.stdin(Stdio::null()).stdout(File::create(&written)?).stderr(Stdio::piped()).spawn()?;
    let ended = loop {
        match child.try_wait()? {
            None if Instant::now() >= end => {
                // It may have ended meanwhile.
                let _ = child.kill();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(2)),
            status => break status,
        }
    };
    let stderr = child.wait_with_output()?.stderr;
    let stdout = std::fs::read(&written);
    let _ = std::fs::remove_file(&written);
    let Some(status) = ended else { return Ok(None) };
    Ok(Some(Output { status, stdout: stdout?, stderr }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_so_much_time() {
        let file = std::env::temp_dir().join(format!("girih-output-until-{}.cubin", std::process::id()));
        let run = |script: &str, ms: u64| {
            let start = Instant::now();
            let output =
                output_until(Command::new("/bin/sh").args(["-c", script]), &file, start + Duration::from_millis(ms)).expect("a shell");
            (output, start.elapsed())
        };
        let (output, _) = run("echo code; echo word >&2; exit 3", 20_000);
        let output = output.expect("it ended");
        assert_eq!((output.status.code(), &output.stdout[..], &output.stderr[..]), (Some(3), &b"code\n"[..], &b"word\n"[..]));
        let (output, took) = run("exec sleep 60", 100);
        assert!(output.is_none() && took < Duration::from_secs(5), "{took:?}");
        assert!(!file.with_extension("sass").exists());
    }
}
