//! The disassembler's text as functions and instructions.

use super::{Function, Instruction, Line, Listing, Predicate};
use nom::branch::alt;
use nom::bytes::complete::{tag, take_till1, take_until, take_while1};
use nom::character::complete::{char, hex_digit1, space0, space1};
use nom::combinator::{all_consuming, map, opt, rest};
use nom::multi::many0;
use nom::sequence::{delimited, preceded, terminated};
use nom::{IResult, Parser};

/// What a line of the text may be.
enum Text<'a> {
    /// The section of a function begins.
    Section(&'a str),
    Label(&'a str),
    Instruction(Instruction),
    /// Directives, comments, nothing.
    Skipped,
}

/// The listing of `nvdisasm --print-code`.
///
/// # Errors
/// The first line that is none of section, label, instruction and directive.
pub fn parse(text: &str) -> Result<Listing, String> {
    let mut functions: Vec<Function> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let unexpected = || format!("line {} of the listing is neither code nor a directive: `{}`", number + 1, line.trim());
        let (_, text) = all_consuming(any).parse(line.trim()).map_err(|_| unexpected())?;
        match (text, functions.last_mut()) {
            (Text::Section(name), _) => functions.push(Function { name: name.to_string(), lines: Vec::new() }),
            // The function's own name, once with its section.
            (Text::Label(label), Some(f)) if label != f.name && label.strip_prefix(".text.") != Some(&f.name) => {
                f.lines.push(Line::Label(label.to_string()));
            }
            (Text::Instruction(i), Some(f)) => f.lines.push(Line::Instruction(i)),
            (Text::Instruction(_), None) => return Err(unexpected()),
            (Text::Label(_) | Text::Skipped, _) => {}
        }
    }
    functions.iter_mut().for_each(without_padding);
    Ok(Listing { functions })
}

/// Drops what fills the section up: a jump to itself and what does nothing, and labels of the end.
fn without_padding(function: &mut Function) {
    let mut last = |drops: &dyn Fn(&Line) -> bool| {
        while function.lines.last().is_some_and(drops) {
            function.lines.pop();
        }
    };
    let nothing = |l: &Line| match l {
        Line::Label(_) => true,
        Line::Instruction(i) => i.opcode == "NOP",
    };
    last(&nothing);
    let Some(Line::Instruction(jump)) = function.lines.last() else { return };
    let label = jump.operands.first().and_then(|o| o.strip_prefix("`(")).and_then(|o| o.strip_suffix(')')).map(str::to_string);
    let before = function.lines.len().checked_sub(2).map(|at| &function.lines[at]);
    if jump.opcode == "BRA" && label.is_some_and(|l| before == Some(&Line::Label(l))) {
        function.lines.truncate(function.lines.len() - 2);
    }
}

fn any(line: &str) -> IResult<&str, Text<'_>> {
    alt((section, map(instruction, Text::Instruction), label, directive)).parse(line)
}

/// `.section .text.vector_add,"ax",@progbits`
fn section(line: &str) -> IResult<&str, Text<'_>> {
    let name = delimited((tag(".section"), space1, tag(".text.")), take_until(","), rest);
    map(name, Text::Section).parse(line)
}

/// `.L_x_6:`
fn label(line: &str) -> IResult<&str, Text<'_>> {
    map(terminated(take_till1(|c: char| c == ':' || c.is_whitespace()), char(':')), Text::Label).parse(line)
}

/// `.align 128`, a comment, or nothing.
fn directive(line: &str) -> IResult<&str, Text<'_>> {
    if line.is_empty() {
        return Ok((line, Text::Skipped));
    }
    map((alt((tag("."), tag("//"))), rest), |_| Text::Skipped).parse(line)
}

/// `/*0000*/                   @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;`
fn instruction(line: &str) -> IResult<&str, Instruction> {
    let address = delimited(tag("/*"), hex_digit1, tag("*/"));
    let (line, address) = terminated(address, space0).parse(line)?;
    let (line, predicate) = opt(terminated(predicate, space1)).parse(line)?;
    let (line, opcode) = name(line)?;
    let (line, modifiers) = many0(preceded(char('.'), name)).parse(line)?;
    let (line, text) = preceded(space0, take_until(";")).parse(line)?;
    // Behind it there may be a comment.
    let (line, _) = (char(';'), space0, opt((tag("/*"), rest))).parse(line)?;
    let address = u64::from_str_radix(address, 16).expect("hexadecimal digits of an address");
    let (opcode, modifiers) = (opcode.to_string(), modifiers.into_iter().map(str::to_string).collect());
    Ok((line, Instruction { address, predicate, opcode, modifiers, operands: operands(text) }))
}

/// `@!P0`, `@UP1`
fn predicate(line: &str) -> IResult<&str, Predicate> {
    map(preceded(char('@'), (opt(char('!')), name)), |(not, register)| Predicate { negated: not.is_some(), register: register.to_string() })
        .parse(line)
}

fn name(line: &str) -> IResult<&str, &str> {
    take_while1(|c: char| c.is_ascii_alphanumeric() || c == '_').parse(line)
}

/// Operands are separated by commas outside of brackets.
fn operands(text: &str) -> Vec<String> {
    let (mut depth, mut all) = (0, vec![String::new()]);
    for c in text.trim().chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                all.push(String::new());
                continue;
            }
            _ => {}
        }
        all.last_mut().expect("there is a first one").push(c);
    }
    all.into_iter().map(|o| o.trim().to_string()).filter(|o| !o.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::sass::Class;

    const TEXT: &str = "
\t.target\tsm_90a

//--------------------- .text.scaled            --------------------------
\t.section\t.text.scaled,\"ax\",@progbits
\t.align\t128
        .global         scaled
        .size           scaled,(.L_x_2 - scaled)
scaled:
.text.scaled:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
.L_x_0:
        /*0020*/              @UP1 BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0030*/                   HFMA2.MMA R2, -RZ, RZ, 0, 0 ;
        /*0040*/                   HMMA.16816.F32 R4, R8, R2, R4 ;
        /*0050*/                   LDGSTS.E.BYPASS.LTC128B.128 [R5], desc[UR6][R2.64], !PT ;
        /*0060*/                   STL.64 [R1+0x8], R4 ;
        /*0070*/                   STS.U8 [R5], R4 ;
        /*0080*/               @P0 BRA `(.L_x_0) ;
        /*0090*/                   EXIT ;
.L_x_1:
        /*00a0*/                   BRA `(.L_x_1);
        /*00b0*/                   NOP;
.L_x_2:

//--------------------- SYMBOLS --------------------------

\t.type\t\t.nv.reservedSmem.offset0,@object
";

    fn scaled() -> Function {
        let listing = parse(TEXT).expect("a listing");
        assert_eq!(listing.functions.len(), 1);
        listing.functions[0].clone()
    }

    #[test]
    fn instructions_have_their_parts() {
        let function = scaled();
        assert_eq!(function.name, "scaled");
        let load = function.instructions().nth(1).expect("the second one").clone();
        let expected = Instruction {
            address: 0x10,
            predicate: Some(Predicate { negated: true, register: "P0".into() }),
            opcode: "LDG".into(),
            modifiers: ["E", "128", "CONSTANT"].map(str::to_string).to_vec(),
            operands: ["R4", "desc[UR4][R2.64]"].map(str::to_string).to_vec(),
        };
        assert_eq!(load, expected);
        assert_eq!(load.to_string(), " @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64]");
        assert!(function.lines.contains(&Line::Label(".L_x_0".into())));
    }

    #[test]
    fn padding_is_left_out() {
        let last = scaled().instructions().last().map(|i| i.opcode.clone());
        assert_eq!(last.as_deref(), Some("EXIT"));
        assert!(matches!(scaled().lines.last(), Some(Line::Instruction(_))));
    }

    #[test]
    fn instructions_are_counted_by_class() {
        let counts = scaled().counts();
        for class in [
            Class::GlobalLoad(128),
            Class::AsyncCopy(128),
            Class::LocalStore(64),
            Class::SharedStore(8),
            Class::Matrix,
            Class::Half,
            Class::Barrier,
            Class::Branch,
        ] {
            assert_eq!(counts.get(&class), Some(&1), "{class}");
        }
        assert_eq!(scaled().local_accesses(), 1);
        let summary = scaled().summary();
        assert!(summary.starts_with("10 instructions: 1 LDG.128, ") && summary.contains("1 accesses of local memory"), "{summary}");
    }

    #[test]
    fn other_lines_are_errors() {
        let error = parse(&TEXT.replace("EXIT ;", "EXIT")).unwrap_err();
        assert_eq!(error, "line 21 of the listing is neither code nor a directive: `/*0090*/                   EXIT`");
    }
}
