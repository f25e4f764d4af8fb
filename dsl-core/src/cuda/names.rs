//! Names: the source's, made valid and unique where they are visible.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Functions with C linkage that `cuda_runtime.h` declares to the host, and those of POSIX that a library must not stand before: a kernel has
/// C linkage, too, and an export is compiled for the host and linked. Local names may hide them.
static LIBRARY: LazyLock<HashSet<&str>> = LazyLock::new(|| include_str!("c_library.txt").split_whitespace().collect());

/// Words that mean something in CUDA C, or that our helpers and the launch syntax use.
const RESERVED: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "asm",
    "auto",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "compl",
    "const",
    "constexpr",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "half",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "nullptr",
    "operator",
    "or",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "threadIdx",
    "blockIdx",
    "blockDim",
    "gridDim",
    "warpSize",
    "dim3",
    "size_t",
    "clock",
    "clock64",
    "printf",
    "assert",
    "malloc",
    "free",
    "abs",
    "min",
    "max",
    "exp",
    "exp2",
    "log",
    "log2",
    "pow",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "tanh",
    "erf",
    "floor",
    "ceil",
    "round",
    "rint",
    "trunc",
    "fma",
    "expf",
    "exp2f",
    "logf",
    "log2f",
    "powf",
    "sqrtf",
    "rsqrtf",
    "sinf",
    "cosf",
    "tanhf",
    "erff",
    "floorf",
    "ceilf",
    "rintf",
    "truncf",
    "fabsf",
    "fmaf",
    "fminf",
    "fmaxf",
    "fmodf",
    "j0",
    "j1",
    "jn",
    "y0",
    "y1",
    "yn",
    "gamma",
    "signbit",
    "isnan",
    "isinf",
    "float2",
    "float4",
    "int2",
    "int4",
    "uint2",
    "uint4",
    "longlong2",
    "ulonglong2",
    "solve",
    "main",
    "shared_memory",
];

/// Names that no variable may have.
pub(crate) fn reserved() -> impl Iterator<Item = String> {
    RESERVED.iter().map(|name| name.to_string())
}

/// Gives out names. A name may be used again once the scope of its first use has ended.
pub(super) struct Namer {
    scopes: Vec<HashSet<String>>,
}

impl Namer {
    /// A namer with one open scope, in which `taken` (helpers' names) cannot be used.
    pub fn new(taken: impl Iterator<Item = String>) -> Namer {
        Namer { scopes: vec![taken.collect()] }
    }
    /// Opens a scope.
    pub fn open(&mut self) {
        self.scopes.push(HashSet::new());
    }
    /// Ends the innermost scope: its names are free again.
    pub fn close(&mut self) {
        self.scopes.pop();
    }
    /// A name like `hint` that nothing visible has.
    pub fn name(&mut self, hint: &str) -> String {
        let base = identifier(hint);
        let mut name = base.clone();
        let mut next = 2;
        while self.is_taken(&name) {
            name = if base.ends_with(|c: char| c.is_ascii_digit()) { format!("{base}_{next}") } else { format!("{base}{next}") };
            next += 1;
        }
        self.scopes.last_mut().expect("a scope is open").insert(name.clone());
        name
    }
    fn is_taken(&self, name: &str) -> bool {
        RESERVED.contains(&name) || self.scopes.iter().any(|s| s.contains(name))
    }
}

/// The name of a function: a kernel may be called `double` or `system`.
pub(crate) fn function(hint: &str) -> String {
    let name = identifier(hint);
    if RESERVED.contains(&name.as_str()) || LIBRARY.contains(name.as_str()) { format!("{name}_kernel") } else { name }
}

/// `hint` with everything that C does not allow in a name replaced; names that start with `__` belong to the compiler.
pub(crate) fn identifier(hint: &str) -> String {
    let mut text: String = hint.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if text.starts_with("__") {
        text = text.trim_start_matches('_').to_string();
    }
    if text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit()) {
        text.insert(0, 'v');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_where_visible_and_free_again_afterwards() {
        let mut namer = Namer::new(["nan_min".to_string()].into_iter());
        assert_eq!(namer.name("x"), "x");
        namer.open();
        assert_eq!(namer.name("x"), "x2");
        assert_eq!(namer.name("u"), "u");
        namer.close();
        assert_eq!(namer.name("u"), "u");
        assert_eq!(namer.name("nan_min"), "nan_min2");
        assert_eq!(namer.name("float"), "float3");
    }

    #[test]
    fn hints_become_identifiers() {
        assert_eq!((function("double").as_str(), function("relu").as_str()), ("double_kernel", "relu"));
        assert_eq!((function("system").as_str(), function("write").as_str()), ("system_kernel", "write_kernel"));
        assert_eq!(identifier("2x"), "v2x");
        assert_eq!(identifier("a.b"), "a_b");
        assert_eq!(identifier("__syncthreads"), "syncthreads");
    }
}
