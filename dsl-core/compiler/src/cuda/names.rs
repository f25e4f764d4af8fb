//! Names: the source's, made valid and unique where they are visible.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Functions with C linkage that `cuda_runtime.h` declares to the host, and those of POSIX that a library must not stand before: a kernel has
/// C linkage, too, and an export is compiled for the host and linked. Local names may hide them.
static LIBRARY: LazyLock<HashSet<&str>> = LazyLock::new(|| include_str!("c_library.txt").split_whitespace().collect());

/// Keywords of C++, and what our texts use of CUDA's types and variables.
static KEYWORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| include_str!("keywords.txt").split_whitespace().collect());

/// Functions and types of CUDA that our texts use or may use: what has their name hides them.
static FUNCTIONS: LazyLock<HashSet<&str>> = LazyLock::new(|| include_str!("functions.txt").split_whitespace().collect());

/// Macros that CUDA's headers, those of the C and C++ libraries and the compilers themselves define (`g++ -dM -E`, in all versions of the
/// standard, and `nvcc -E -Xcompiler -dM`), but for those that begin with an underscore. No scope hides a macro.
static MACROS: LazyLock<HashSet<&str>> = LazyLock::new(|| include_str!("macros.txt").split_whitespace().collect());

/// Whether no declaration may have the name, in any scope: a keyword or a macro.
pub(crate) fn is_forbidden(name: &str) -> bool {
    KEYWORDS.contains(name) || MACROS.contains(name)
}

/// Whether nothing of ours gets the name: it is forbidden, or a function that our texts may call.
pub(crate) fn is_reserved(name: &str) -> bool {
    is_forbidden(name) || FUNCTIONS.contains(name)
}

/// Gives out names. A name may be used again once the scope of its first use has ended.
pub(super) struct Namer {
    scopes: Vec<Scope>,
}

#[derive(Default)]
struct Scope {
    names: HashSet<String>,
    /// By what names begin with: the first number that is not known to be taken while the scope is open.
    next: HashMap<String, usize>,
}

impl Namer {
    /// A namer with one open scope, in which `taken` (helpers' names) cannot be used.
    pub fn new(taken: impl Iterator<Item = String>) -> Namer {
        Namer { scopes: vec![Scope { names: taken.collect(), next: HashMap::new() }] }
    }
    /// Opens a scope.
    pub fn open(&mut self) {
        self.scopes.push(Scope::default());
    }
    /// Ends the innermost scope: its names are free again.
    pub fn close(&mut self) {
        self.scopes.pop();
    }
    /// A name like `hint` that nothing visible has.
    pub fn name(&mut self, hint: &str) -> String {
        let base = identifier(hint);
        let mut name = base.clone();
        let mut next = self.scopes.iter().filter_map(|s| s.next.get(&base)).max().copied().unwrap_or(2);
        while self.is_taken(&name) {
            name = if base.ends_with(|c: char| c.is_ascii_digit()) { format!("{base}_{next}") } else { format!("{base}{next}") };
            next += 1;
        }
        let innermost = self.scopes.last_mut().expect("a scope is open");
        innermost.names.insert(name.clone());
        innermost.next.insert(base, next);
        name
    }
    fn is_taken(&self, name: &str) -> bool {
        is_reserved(name) || self.scopes.iter().any(|s| s.names.contains(name))
    }
}

/// The name of a function: a kernel may be called `double` or `system`.
pub(crate) fn function(hint: &str) -> String {
    let name = identifier(hint);
    if is_reserved(&name) || LIBRARY.contains(name.as_str()) { format!("{name}_kernel") } else { name }
}

/// `hint` with everything that C does not allow in a name replaced; names that start with `__`, or with `_` and a capital, belong to the
/// compiler and its library, and `cudaMalloc` and its like to CUDA's runtime.
pub(crate) fn identifier(hint: &str) -> String {
    let mut text: String = hint.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if text.starts_with("__") || text.strip_prefix('_').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase())) {
        text = text.trim_start_matches('_').to_string();
    }
    let starts_with_capital = |rest: &str| rest.starts_with(|c: char| c.is_ascii_uppercase());
    if text.strip_prefix("cuda").is_some_and(starts_with_capital) {
        text.insert(4, '_');
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
        assert_eq!((namer.name("x"), namer.name("x")), ("x3".to_string(), "x4".to_string()));
        namer.close();
        assert_eq!((namer.name("u"), namer.name("x"), namer.name("x")), ("u".to_string(), "x2".to_string(), "x3".to_string()));
        assert_eq!(namer.name("nan_min"), "nan_min2");
        assert_eq!(namer.name("float"), "float3");
        for (hint, name) in [("NULL", "NULL2"), ("EOF", "EOF2"), ("unix", "unix2"), ("cudaFree", "cuda_Free"), ("bitand", "bitand2")] {
            assert_eq!(namer.name(hint), name);
        }
        assert_eq!(namer.name("cudart"), "cudart");
    }

    #[test]
    fn hints_become_identifiers() {
        assert_eq!((function("double").as_str(), function("relu").as_str()), ("double_kernel", "relu"));
        assert_eq!((function("system").as_str(), function("write").as_str()), ("system_kernel", "write_kernel"));
        assert_eq!(identifier("2x"), "v2x");
        assert_eq!(identifier("a.b"), "a_b");
        assert_eq!(identifier("__syncthreads"), "syncthreads");
        assert_eq!((identifier("_IOFBF").as_str(), identifier("_left").as_str()), ("IOFBF", "_left"));
    }
}
