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
        Parser::new(text).signature().map_err(|e| format!("signature `{text}`: {e}"))
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
                    let named = of(false).find(|i| self.params[*i].name.eq_ignore_ascii_case(&param.name));
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

    fn check_bound(&self, at: usize, param: &crate::tile::Param, program: &Program) -> Result<(), String> {
        let there = &self.params[at];
        let (dtype, rank) = match param.kind {
            ParamKind::Tensor { dtype, rank, .. } => (dtype, Some(rank)),
            ParamKind::Scalar(dtype) => (dtype, None),
        };
        let what = format!("`{}` of program `{}` and `{}` of `{self}`", param.name, program.name, there.name);
        // A judge's `int` may hold what the program reads as unsigned: the bits are the same.
        if dtype.size() != there.dtype.size() || dtype.is_float() != there.dtype.is_float() {
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
const C_TYPES: [(&str, DType); 19] = [
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
    ("long long", DType::I64),
    ("int64_t", DType::I64),
    ("unsigned long long", DType::U64),
    ("size_t", DType::U64),
];

struct Parser {
    tokens: Vec<String>,
    at: usize,
}

impl Parser {
    fn new(text: &str) -> Parser {
        let mut tokens: Vec<String> = Vec::new();
        let mut joined = false;
        for c in text.chars() {
            let word = c.is_alphanumeric() || c == '_';
            match tokens.last_mut() {
                Some(last) if word && joined => last.push(c),
                _ if c.is_whitespace() => {}
                _ => tokens.push(c.to_string()),
            }
            joined = word;
        }
        Parser { tokens, at: 0 }
    }

    fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("the end", |t| t)
    }

    fn next(&mut self) -> String {
        let token = self.peek().to_string();
        self.at += 1;
        token
    }

    fn eat(&mut self, token: &str) -> bool {
        let here = self.peek() == token;
        self.at += here as usize;
        here
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.eat(token) { Ok(()) } else { Err(format!("expected `{token}`, found `{}`", self.peek())) }
    }

    fn signature(&mut self) -> Result<Signature, String> {
        self.expect("void")?;
        let name = self.next();
        self.expect("(")?;
        // Shapes mention scalars that follow, so extents are read in a second step.
        let mut params = Vec::new();
        let mut shapes = Vec::new();
        while !self.eat(")") {
            if !params.is_empty() {
                self.expect(",")?;
            }
            let (param, shape_at) = self.param()?;
            params.push(param);
            shapes.push(shape_at);
        }
        if self.at < self.tokens.len() {
            return Err(format!("expected the end, found `{}`", self.peek()));
        }
        for (i, shape_at) in shapes.into_iter().enumerate() {
            if let Some(at) = shape_at {
                self.at = at;
                params[i].shape = Some(self.extents(&params)?);
            }
        }
        Ok(Signature { name, params })
    }

    /// A parameter without its extents, and the token at which these start.
    fn param(&mut self) -> Result<(SignatureParam, Option<usize>), String> {
        let constant = self.eat("const");
        let mut words = Vec::new();
        while self.tokens.get(self.at + 1).is_some_and(|t| !matches!(t.as_str(), "," | ")" | "[")) && self.peek() != "*" {
            words.push(self.next());
        }
        let base = words.join(" ");
        let pointer = self.eat("*");
        let known = || C_TYPES.iter().find(|(name, _)| *name == base);
        let (_, dtype) = known().ok_or_else(|| format!("unknown C type `{base}`"))?;
        let name = self.next();
        let mut shape_at = None;
        if pointer {
            self.expect("[")?;
            shape_at = Some(self.at);
            while !self.eat("]") {
                if self.at >= self.tokens.len() {
                    return Err(format!("the shape of `{name}` has no end"));
                }
                self.at += 1;
            }
        }
        let c_type = format!("{}{base}{}", if constant { "const " } else { "" }, if pointer { "*" } else { "" });
        Ok((SignatureParam { name, c_type, dtype: *dtype, shape: None, constant }, shape_at))
    }

    fn extents(&mut self, params: &[SignatureParam]) -> Result<Vec<HostExpr>, String> {
        let mut extents = vec![self.sum(params)?];
        while self.eat(",") {
            extents.push(self.sum(params)?);
        }
        self.expect("]")?;
        Ok(extents)
    }

    fn sum(&mut self, params: &[SignatureParam]) -> Result<HostExpr, String> {
        let mut left = self.product(params)?;
        loop {
            let op = match self.peek() {
                "+" => BinaryOp::Add,
                "-" => BinaryOp::Sub,
                _ => return Ok(left),
            };
            self.at += 1;
            left = HostExpr::binary(op, left, self.product(params)?);
        }
    }

    fn product(&mut self, params: &[SignatureParam]) -> Result<HostExpr, String> {
        let mut left = self.atom(params)?;
        loop {
            let op = match self.peek() {
                "*" => BinaryOp::Mul,
                "/" => BinaryOp::Div,
                _ => return Ok(left),
            };
            self.at += 1;
            left = HostExpr::binary(op, left, self.atom(params)?);
        }
    }

    fn atom(&mut self, params: &[SignatureParam]) -> Result<HostExpr, String> {
        let token = self.next();
        if token == "(" {
            let inner = self.sum(params)?;
            self.expect(")")?;
            return Ok(inner);
        }
        if let Ok(number) = token.parse() {
            return Ok(HostExpr::Const(number));
        }
        match params.iter().position(|p| p.name == token) {
            Some(i) if params[i].dtype.is_int() => Ok(HostExpr::Scalar(i)),
            _ => Err(format!("`{token}` is no integer parameter; shapes are written with the signature's integers")),
        }
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
        assert!(wrong("void solve(quad* A[N], int N)").ends_with("unknown C type `quad`"));
        assert!(wrong("void solve(float* A[M], int N)").contains("`M` is no integer parameter"));
        assert!(wrong("void solve(float* A, int N)").contains("expected `[`, found `,`"));
        assert!(wrong("void solve(float* A[N").contains("has no end"));
    }
}
