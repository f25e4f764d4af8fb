//! What a compiled kernel uses: ptxas's report (`--ptxas-options=-v`) as numbers.

use nom::bytes::complete::{tag, take_until};
use nom::character::complete::u32 as number;
use nom::sequence::{delimited, preceded, terminated};
use nom::{IResult, Parser};

/// Registers and memory of one compiled kernel; the most that one of its launches takes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize, serde::Deserialize)]
pub struct Resources {
    /// 32-bit registers per thread.
    pub registers: u32,
    /// Bytes per thread of registers stored to local memory.
    pub spill_store_bytes: u32,
    /// Bytes per thread loaded back from local memory.
    pub spill_load_bytes: u32,
    /// Bytes of shared memory per block, without what the system reserves: of arrays in the text, or those that a launch asks for.
    pub shared_bytes: u32,
    /// Bytes of stack per thread.
    pub stack: u32,
}

impl Resources {
    /// The most of each that one of two functions takes.
    pub fn most(self, other: Resources) -> Resources {
        Resources {
            registers: self.registers.max(other.registers),
            spill_store_bytes: self.spill_store_bytes.max(other.spill_store_bytes),
            spill_load_bytes: self.spill_load_bytes.max(other.spill_load_bytes),
            shared_bytes: self.shared_bytes.max(other.shared_bytes),
            stack: self.stack.max(other.stack),
        }
    }
}

/// The reports of a log, by entry function. Kernels are not in source order, and lines that are no report are skipped.
pub fn parse(log: &str) -> Vec<(String, Resources)> {
    let mut all: Vec<(String, Resources)> = Vec::new();
    for line in log.lines() {
        if let Ok((_, name)) = entry(line) {
            all.push((name.to_string(), Resources::default()));
        } else if let Some((_, resources)) = all.last_mut() {
            if let Ok((_, (stack, stores, loads))) = frame(line) {
                (resources.stack, resources.spill_store_bytes, resources.spill_load_bytes) = (stack, stores, loads);
            } else if let Ok((_, registers)) = registers(line) {
                resources.registers = registers;
                resources.shared_bytes = shared(line).map_or(0, |(_, bytes)| bytes);
            }
        }
    }
    all
}

/// `ptxas info    : Compiling entry function 'k' for 'sm_90a'`
fn entry(line: &str) -> IResult<&str, &str> {
    let name = delimited(tag("'"), take_until("'"), tag("'"));
    preceded((take_until("Compiling entry function "), tag("Compiling entry function ")), name).parse(line)
}

/// `    0 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads`, which NVRTC writes behind `ptxas         .`
fn frame(line: &str) -> IResult<&str, (u32, u32, u32)> {
    let stack = terminated(number, tag(" bytes stack frame, "));
    let stores = terminated(number, tag(" bytes spill stores, "));
    let loads = terminated(number, tag(" bytes spill loads"));
    (stack, stores, loads).parse(line.trim_start_matches(|c: char| !c.is_ascii_digit()))
}

/// `ptxas info    : Used 32 registers, used 1 barriers, 1024 bytes smem`
fn registers(line: &str) -> IResult<&str, u32> {
    delimited((take_until("Used "), tag("Used ")), number, tag(" registers")).parse(line)
}

fn shared(line: &str) -> IResult<&str, u32> {
    let end = line.find(" bytes smem").unwrap_or(0);
    let start = line[..end].rfind(' ').map_or(0, |i| i + 1);
    terminated(number, tag(" bytes smem")).parse(&line[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_two_kernels() {
        let log = "\
k.cu(3): warning #177-D: variable \"x\" was declared but never referenced
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 8 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 3.141 ms
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
";
        let second = Resources { registers: 255, spill_store_bytes: 16, spill_load_bytes: 24, shared_bytes: 1024, stack: 8 };
        let first = Resources { registers: 8, ..Resources::default() };
        assert_eq!(parse(log), vec![("second".to_string(), second), ("first".to_string(), first)]);
    }

    #[test]
    fn the_report_as_nvrtc_writes_it() {
        let log = "\
ptxas info    : Compiling entry function 'indexed' for 'sm_90a'
ptxas info    : Function properties for indexed
ptxas         .     256 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 256 bytes cumulative stack size
";
        let indexed = Resources { registers: 32, spill_store_bytes: 4, spill_load_bytes: 8, stack: 256, ..Resources::default() };
        assert_eq!(parse(log), vec![("indexed".to_string(), indexed)]);
    }

    #[test]
    fn other_texts_have_no_reports() {
        assert_eq!(parse(""), vec![]);
        assert_eq!(parse("ptxas info    : Used 8 registers, used 0 barriers\n"), vec![]);
    }
}
