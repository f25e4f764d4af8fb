//! The signature that a judge calls `solve` with: C types, and the shape of each pointer behind its name.
//!
//! ```text
//! void solve(const float* input[rows, cols], float* output[cols, rows], int rows, int cols)
//! ```
//! Extents are integer expressions (`+ - * /`, parentheses) over the scalar parameters.

use super::Program;
use crate::tile::ParamKind;
use crate::tile::host::{HostArg, HostExpr};
use crate::types::{BinaryOp, DType};
use nom::bytes::complete::take_while;
use nom::character::complete::{digit1, satisfy};
use nom::combinator::{opt, recognize};
use nom::error::{ErrorKind, ParseError};
use nom::multi::separated_list1;
use nom::sequence::{pair, terminated};
use nom::{IResult, Parser};
use std::fmt;

/// A C function's name and parameters, with shapes.
#[derive(Clone, PartialEq, Debug)]
pub struct Signature {
    /// `solve`.
    pub name: String,
    /// Parameters in order.
    pub params: Vec<SignatureParam>,
}

/// A parameter of a [`Signature`].
#[derive(Clone, PartialEq, Debug)]
pub struct SignatureParam {
    /// Its name in C.
    pub name: String,
    /// Its C type as written: `const float*`, `int`.
    pub c_type: String,
    /// Element type, or the scalar's type.
    pub dtype: DType,
    /// Shape of a pointer: extents in which [`HostExpr::Scalar`] counts the signature's parameters. `None` for scalars.
    pub shape: Option<Vec<HostExpr>>,
    /// A pointer to `const`.
    pub constant: bool,
}

impl Signature {
    /// Reads a signature.
    ///
    /// # Errors
    /// A sentence that says what was found where.
    pub fn parse(text: &str) -> Result<Signature, String> {
        match signature(text) {
            Ok((_, signature)) => Ok(signature),
            Err(nom::Err::Error(e) | nom::Err::Failure(e)) => {
                let column = text[..text.len() - e.left].chars().count() + 1;
                Err(format!("signature `{text}`: column {column}: {}", e.message))
            }
            Err(nom::Err::Incomplete(_)) => unreachable!("complete parsers need no more input"),
        }
    }

    /// The parameter of a name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|p| p.name == name)
    }

    /// The shape of pointer parameter `param` for the scalars' values (any number for pointers); `None` for scalars.
    pub fn shape(&self, param: usize, values: &[HostArg]) -> Option<Vec<i64>> {
        Some(self.params[param].shape.as_ref()?.iter().map(|e| e.eval(values, 0)).collect())
    }

    /// Which parameter of the signature each parameter of a program is: tensors are the pointers in order, scalars go by
    /// name (whatever its case), else by order among the scalars that no shape mentions.
    ///
    /// # Errors
    /// A sentence that names the parameters that do not fit.
    pub fn bind(&self, program: &Program) -> Result<Vec<usize>, String> {
        let of = |tensor: bool| (0..self.params.len()).filter(move |i| self.params[*i].shape.is_some() == tensor);
        let mut pointers = of(true);
        let mut loose = of(false).filter(|i| !self.is_extent(*i));
        let mut bound = Vec::new();
        for param in &program.params {
            let nothing = || format!("`{}` of program `{}` has no counterpart in `{self}`", param.name, program.name);
            let at = match param.kind {
                ParamKind::Tensor { .. } => pointers.next(),
                ParamKind::Scalar(_) => {
                    let exact = |i: &usize, name: &str| self.params[*i].name == name;
                    // Judges write `N` for what Rust calls `n`; where a signature has both, each is itself.
                    let alike = |i: &usize| {
                        self.params[*i].name.eq_ignore_ascii_case(&param.name) && !program.params.iter().any(|p| exact(i, &p.name))
                    };
                    let named = of(false).find(|i| exact(i, &param.name)).or_else(|| of(false).find(alike));
                    named.or_else(|| loose.find(|i| !bound.contains(i)))
                }
            };
            let at = at.ok_or_else(nothing)?;
            self.check_bound(at, param, program)?;
            bound.push(at);
        }
        match pointers.next() {
            Some(extra) => Err(format!("pointer `{}` of `{self}` is no parameter of program `{}`", self.params[extra].name, program.name)),
            None => Ok(bound),
        }
    }

    /// Whether the program stores to nothing that the signature calls constant, where `bound` is what [`Signature::bind`] found.
    ///
    /// # Errors
    /// The first such pointer.
    pub fn check_constness(&self, program: &Program, bound: &[usize]) -> Result<(), String> {
        for (param, at) in program.params.iter().zip(bound) {
            let there = &self.params[*at];
            if matches!(param.kind, ParamKind::Tensor { mutable: true, .. }) && there.constant {
                return Err(format!("program {} stores to {}, but `{} {}` is const", program.name, param.name, there.c_type, there.name));
            }
        }
        Ok(())
    }

    fn check_bound(&self, at: usize, param: &crate::tile::Param, program: &Program) -> Result<(), String> {
        let there = &self.params[at];
        let (dtype, rank) = match param.kind {
            ParamKind::Tensor { dtype, rank, .. } => (dtype, Some(rank)),
            ParamKind::Scalar(dtype) => (dtype, None),
        };
        let what = format!("`{}` of program `{}` and `{}` of `{self}`", param.name, program.name, there.name);
        // A judge's `int` may hold what the program reads as unsigned: the bits are the same.
        let floats = dtype.is_float() || there.dtype.is_float();
        if dtype.size() != there.dtype.size() || floats && dtype != there.dtype {
            return Err(format!("{what} have different types: {dtype} and {}", there.c_type));
        }
        if rank != there.shape.as_ref().map(Vec::len) {
            let shown = |r: Option<usize>| r.map_or("a scalar".to_string(), |r| format!("{r} axes"));
            return Err(format!("{what} differ: {} and {}", shown(rank), shown(there.shape.as_ref().map(Vec::len))));
        }
        Ok(())
    }

    /// Whether a shape mentions the parameter.
    pub fn is_extent(&self, scalar: usize) -> bool {
        fn mentions(e: &HostExpr, scalar: usize) -> bool {
            match e {
                HostExpr::Scalar(i) => *i == scalar,
                HostExpr::Binary(_, a, b) => mentions(a, scalar) || mentions(b, scalar),
                HostExpr::Wrap(_, e) => mentions(e, scalar),
                HostExpr::Const(_) | HostExpr::Dim(..) | HostExpr::Stride(..) | HostExpr::Multiprocessors => false,
            }
        }
        self.params.iter().flat_map(|p| p.shape.iter().flatten()).any(|e| mentions(e, scalar))
    }
}

/// The signature in C, without the shapes.
impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let params: Vec<String> = self.params.iter().map(|p| format!("{} {}", p.c_type, p.name)).collect();
        write!(f, "void {}({})", self.name, params.join(", "))
    }
}

/// The C types that a signature may use, without `const` and `*`.
const C_TYPES: [(&str, DType); 21] = [
    ("float", DType::F32),
    ("int", DType::I32),
    ("int32_t", DType::I32),
    ("unsigned int", DType::U32),
    ("unsigned", DType::U32),
    ("uint32_t", DType::U32),
    ("unsigned char", DType::U8),
    ("uint8_t", DType::U8),
    ("signed char", DType::I8),
    ("int8_t", DType::I8),
    ("char", DType::I8),
    ("bool", DType::Bool),
    ("half", DType::F16),
    ("__half", DType::F16),
    ("__nv_bfloat16", DType::BF16),
    ("__nv_fp8_e4m3", DType::F8E4M3),
    ("__nv_fp8_e5m2", DType::F8E5M2),
    ("long long", DType::I64),
    ("int64_t", DType::I64),
    ("unsigned long long", DType::U64),
    ("size_t", DType::U64),
];

/// What was wrong, and how much of the text was left there.
struct Mistake {
    message: String,
    left: usize,
}

impl<'a> ParseError<&'a str> for Mistake {
    fn from_error_kind(input: &'a str, _: ErrorKind) -> Mistake {
        Mistake { message: format!("expected something else, found `{}`", token(input)), left: input.len() }
    }
    fn append(_: &'a str, _: ErrorKind, other: Mistake) -> Mistake {
        other
    }
}

type Parsed<'a, T> = IResult<&'a str, T, Mistake>;

fn mistake<T>(at: &str, message: String) -> Parsed<'_, T> {
    Err(nom::Err::Failure(Mistake { message, left: at.len() }))
}

/// The first token of a text, for messages.
fn token(input: &str) -> &str {
    let input = input.trim_start();
    let word = input.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(input.len());
    match input.chars().next() {
        None => "the end",
        Some(c) => &input[..word.max(c.len_utf8())],
    }
}

fn symbol<'a>(sign: &'static str) -> impl Fn(&'a str) -> Parsed<'a, ()> {
    move |input| match input.trim_start().strip_prefix(sign) {
        Some(rest) => Ok((rest, ())),
        // An error that others recover from: a list ends where there is no comma.
        None => Err(nom::Err::Error(Mistake {
            message: format!("expected `{sign}`, found `{}`", token(input)),
            left: input.trim_start().len(),
        })),
    }
}

fn eat<'a>(sign: &str, input: &'a str) -> Option<&'a str> {
    let rest = input.trim_start().strip_prefix(sign)?;
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    // `constant` doesn't start with `const`.
    if sign.ends_with(in_word) && rest.starts_with(in_word) { None } else { Some(rest) }
}

fn word(input: &str) -> Parsed<'_, &str> {
    let input = input.trim_start();
    let first = |c: char| c.is_alphabetic() || c == '_';
    let name = recognize(pair(satisfy(first), take_while(|c: char| c.is_alphanumeric() || c == '_')));
    match opt(name).parse(input)? {
        (rest, Some(name)) => Ok((rest, name)),
        (_, None) => mistake(input, format!("expected a name, found `{}`", token(input))),
    }
}

/// A parameter without its extents, and the text that these start with.
type Declared<'a> = (SignatureParam, Option<&'a str>);

fn signature(input: &str) -> Parsed<'_, Signature> {
    let (rest, (_, name, _)) = (symbol("void"), word, symbol("(")).parse(input)?;
    let mut rest = rest;
    let mut declared: Vec<Declared> = Vec::new();
    while eat(")", rest).is_none() {
        if !declared.is_empty() {
            rest = symbol(",")(rest)?.0;
        }
        let (after, param) = param(rest)?;
        declared.push(param);
        rest = after;
    }
    let rest = eat(")", rest).unwrap_or(rest).trim_start();
    if !rest.trim_end_matches(';').trim_end().is_empty() {
        return mistake(rest, format!("expected the end, found `{}`", token(rest)));
    }
    // Shapes mention scalars that follow, so extents are read in a second step.
    let params: Vec<SignatureParam> = declared.iter().map(|(p, _)| p.clone()).collect();
    let mut shaped = params.clone();
    for (param, (_, extents)) in shaped.iter_mut().zip(&declared) {
        if let Some(text) = extents {
            let mut list = terminated(separated_list1(symbol(","), |i| sum(i, &params)), symbol("]"));
            param.shape = Some(list.parse(text)?.1);
        }
    }
    Ok((rest, Signature { name: name.to_string(), params: shaped }))
}

fn param(input: &str) -> Parsed<'_, Declared<'_>> {
    let start = input.trim_start();
    let (constant, rest) = match eat("const", start) {
        Some(rest) => (true, rest),
        None => (false, start),
    };
    // The longest type that the text starts with: `unsigned int`, not `unsigned`.
    let known = C_TYPES.iter().filter_map(|(c, dtype)| Some((c, dtype, eat_words(c, rest)?)));
    let Some((base, dtype, rest)) = known.min_by_key(|(.., rest)| rest.len()) else {
        let known: Vec<&str> = C_TYPES.iter().map(|(c, _)| *c).collect();
        return mistake(rest.trim_start(), format!("unknown C type `{}`: a signature has {}", token(rest), known.join(", ")));
    };
    let pointer = eat("*", rest);
    let (rest, name) = word(pointer.unwrap_or(rest))?;
    let c_type = format!("{}{base}{}", if constant { "const " } else { "" }, if pointer.is_some() { "*" } else { "" });
    let param = SignatureParam { name: name.to_string(), c_type, dtype: *dtype, shape: None, constant };
    if pointer.is_none() {
        return Ok((rest, (param, None)));
    }
    let (extents, _) = symbol("[")(rest)?;
    match extents.find(']') {
        Some(end) => Ok((&extents[end + 1..], (param, Some(extents)))),
        None => mistake(extents, format!("the shape of `{name}` has no end")),
    }
}

fn eat_words<'a>(words: &str, input: &'a str) -> Option<&'a str> {
    words.split(' ').try_fold(input, |rest, word| eat(word, rest))
}

type Extent<'a> = Parsed<'a, HostExpr>;

fn sum<'a>(input: &'a str, params: &[SignatureParam]) -> Extent<'a> {
    operators(input, [("+", BinaryOp::Add), ("-", BinaryOp::Sub)], |i| product(i, params))
}

fn product<'a>(input: &'a str, params: &[SignatureParam]) -> Extent<'a> {
    operators(input, [("*", BinaryOp::Mul), ("/", BinaryOp::Div)], |i| atom(i, params))
}

/// Operands joined by operators of one precedence, from the left.
fn operators<'a>(input: &'a str, signs: [(&str, BinaryOp); 2], operand: impl Fn(&'a str) -> Extent<'a>) -> Extent<'a> {
    let (mut rest, mut left) = operand(input)?;
    while let Some((op, after)) = signs.iter().find_map(|(sign, op)| Some((*op, eat(sign, rest)?))) {
        let (after, right) = operand(after)?;
        (rest, left) = (after, HostExpr::binary(op, left, right));
    }
    Ok((rest, left))
}

fn atom<'a>(input: &'a str, params: &[SignatureParam]) -> Extent<'a> {
    let input = input.trim_start();
    if let Some(inner) = eat("(", input) {
        return terminated(|i| sum(i, params), symbol(")")).parse(inner);
    }
    if input.starts_with(|c: char| c.is_ascii_digit()) {
        let (rest, digits) = digit1(input)?;
        return match digits.parse() {
            Ok(number) => Ok((rest, HostExpr::Const(number))),
            Err(_) => mistake(input, format!("`{digits}` is too large")),
        };
    }
    let (rest, name) = word(input)?;
    match params.iter().position(|p| p.name == name) {
        Some(i) if params[i].dtype.is_int() && !params[i].c_type.ends_with('*') => Ok((rest, HostExpr::Scalar(i))),
        _ => mistake(input, format!("`{name}` is no integer parameter; shapes are written with the signature's integers")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Literal;

    #[test]
    fn reads_types_and_shapes() {
        let s =
            Signature::parse("void solve(const float* input[N], unsigned char* image[h, (w + 1) / 2 * 4], float lo, int N, int w, int h)")
                .unwrap();
        assert_eq!(s.to_string(), "void solve(const float* input, unsigned char* image, float lo, int N, int w, int h)");
        let mut values = vec![HostArg::Scalar(Literal::i32(0)); 3];
        values.extend([8, 5, 7].map(|v| HostArg::Scalar(Literal::i32(v))));
        assert_eq!(s.shape(0, &values), Some(vec![8]));
        assert_eq!(s.shape(1, &values), Some(vec![7, 12]));
        assert_eq!(s.shape(2, &values), None);
        assert!(s.params[0].constant && !s.params[1].constant);
        assert_eq!(s.params[1].dtype, DType::U8);
    }

    #[test]
    fn says_what_is_wrong() {
        let wrong = |text: &str| Signature::parse(text).unwrap_err();
        assert!(wrong("void solve(quad* A[N], int N)").contains("unknown C type `quad`: a signature has float, int, "));
        assert!(wrong("void solve(float* A[M], int N)").contains("`M` is no integer parameter"));
        assert!(wrong("void solve(float* A, int N)").contains("expected `[`, found `,`"));
        assert!(wrong("void solve(float* A[N").contains("has no end"));
        assert!(wrong("void solve(float* A[N+], int N)").ends_with("column 23: expected a name, found `]`"));
        assert!(wrong("void solve(float* A[(N], int N)").contains("expected `)`, found `]`"));
        assert!(wrong("void solve(int N) x").contains("expected the end, found `x`"));
        assert!(wrong("int solve(int N)").contains("column 1: expected `void`, found `int`"));
    }
}
