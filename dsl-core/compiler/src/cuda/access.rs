//! Loads and stores as CUDA C: of one element, of vectors, of words between blocks, each under its predicate.

use super::helpers::Helper;
use super::literal::{c_type, vector_type, vector_zero};
use super::writer::Writer;
use girih_ir::simt::{CacheHint, Expr, ParamKind, Place, Space, VarId};
use girih_ir::types::DType;

impl Writer<'_> {
    /// The elements `at..` of an array variable as one vector: `*reinterpret_cast<float4*>(&x[0])`.
    fn fragment(&mut self, var: VarId, at: &Expr, vector: &str, reads: bool) -> String {
        let (name, at) = (self.var_name(var), self.index(at));
        let qualifier = if reads { "const " } else { "" };
        if vector == c_type(self.kernel.var(var).dtype) {
            return format!("{name}[{at}]");
        }
        format!("*reinterpret_cast<{qualifier}{vector}*>(&{name}[{at}])")
    }

    pub fn load_vector(&mut self, var: VarId, at: &Expr, place: &Place, lanes: u32, predicate: Option<&Expr>, cache: CacheHint) {
        let (dtype, bytes) = (place.dtype, lanes * place.dtype.size() as u32);
        let shared = matches!(place.space, Space::Shared(_));
        if self.has_matrix_units && shared && (dtype, lanes) == (DType::F32, 2) && predicate.is_none() {
            return self.load_pair(var, at, place);
        }
        let vector = self.vector(dtype, bytes);
        let address = self.address(place, vector, true);
        let value = match cache {
            CacheHint::Streaming if matches!(place.space, Space::Global(_)) && bytes <= 16 => format!("__ldcs({address})"),
            CacheHint::Kept if self.may_be_kept(place, bytes) => self.load_kept(&address),
            CacheHint::Once if self.may_be_loaded_once(place, bytes) => self.load_once(&address),
            _ => dereferenced(address),
        };
        let target = self.fragment(var, at, vector, false);
        match predicate {
            None => self.line(format!("{target} = {value};")),
            Some(p) => {
                let p = self.condition(p);
                self.line(format!("{target} = {p} ? {value} : {};", vector_zero(dtype, bytes)));
            }
        }
    }

    /// Whether loads of so many bytes may ask the L2 to keep their lines: such a load may move across others and across barriers, so nobody
    /// writes there; words and vectors of words have the instruction.
    pub fn may_be_kept(&self, place: &Place, bytes: u32) -> bool {
        let Space::Global(param) = place.space else { return false };
        matches!(self.kernel.params[param].kind, ParamKind::Pointer { writable: false, restrict: true, .. }) && matches!(bytes, 4 | 8 | 16)
    }

    /// A load whose lines the L2 is asked to keep.
    pub fn load_kept(&mut self, address: &str) -> String {
        self.uses(Helper::LoadKept);
        format!("load_kept({address})")
    }

    /// Whether loads of so many bytes may leave nothing in the L1: words and vectors of words of tensors have the instruction.
    pub fn may_be_loaded_once(&self, place: &Place, bytes: u32) -> bool {
        matches!(place.space, Space::Global(_)) && matches!(bytes, 4 | 8 | 16)
    }

    /// A load that leaves nothing in the L1.
    pub fn load_once(&mut self, address: &str) -> String {
        self.uses(Helper::LoadOnce);
        format!("load_once({address})")
    }

    pub fn store_vector(&mut self, place: &Place, var: VarId, at: &Expr, lanes: u32, predicate: Option<&Expr>, cache: CacheHint) {
        let (dtype, bytes) = (place.dtype, lanes * place.dtype.size() as u32);
        let vector = self.vector(dtype, bytes);
        let address = self.address(place, vector, false);
        let value = self.fragment(var, at, vector, true);
        let text = match cache {
            CacheHint::Streaming if matches!(place.space, Space::Global(_)) && bytes <= 16 => format!("__stcs({address}, {value});"),
            _ => format!("{} = {value};", dereferenced(address)),
        };
        self.guarded(predicate, text);
    }

    fn vector(&mut self, dtype: DType, bytes: u32) -> &'static str {
        if bytes == 32 {
            self.uses(Helper::Vector32);
        }
        vector_type(dtype, bytes)
    }

    pub fn store(&mut self, place: &Place, value: &Expr, predicate: Option<&Expr>, cache: CacheHint) {
        let streaming = cache == CacheHint::Streaming && matches!(place.space, Space::Global(_)) && place.dtype != DType::Bool;
        let text = if streaming {
            let address = self.address(place, c_type(place.dtype), false);
            // The overload is chosen by the pointer; the value is converted to it.
            let value = self.expr(value);
            format!("__stcs({address}, {value});")
        } else {
            let target = self.element(place, false);
            let value = match value {
                Expr::Load { predicate: Some(_), .. } => unwrapped(self.expr(value)),
                _ => self.value(value),
            };
            format!("{target} = {value};")
        };
        self.guarded(predicate, text);
    }

    pub fn store_relaxed(&mut self, place: &Place, value: &Expr, predicate: Option<&Expr>) {
        self.uses(Helper::Words);
        let (word, value) = (self.pointer(place, false), self.expr(value));
        self.guarded(predicate, format!("store_relaxed({word}, {value});"));
    }

    pub fn load_relaxed(&mut self, var: VarId, place: &Place, wait: bool, predicate: Option<&Expr>) {
        self.uses(Helper::Words);
        let word = self.pointer(place, true);
        let call = if wait { format!("wait_nonzero({word}, {})", self.var_name(var)) } else { format!("load_relaxed({word})") };
        let value = match predicate {
            None => call,
            Some(p) => format!("{} ? {call} : 0ull", self.expr(p)),
        };
        self.receive(var, value);
    }

    pub fn guarded(&mut self, predicate: Option<&Expr>, text: String) {
        match predicate {
            None => self.line(text),
            Some(p) => {
                let p = self.expr(p);
                self.line(format!("if ({p}) {text}"));
            }
        }
    }
}

/// `*a`, or `*(a + i)`.
fn dereferenced(address: String) -> String {
    let simple = address.starts_with("reinterpret_cast") || !address.contains(' ');
    if simple { format!("*{address}") } else { format!("*({address})") }
}

/// Without the parentheses around a whole predicated load.
pub(super) fn unwrapped(text: String) -> String {
    match text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
        Some(inner) if text.contains(" ? ") => inner.to_string(),
        _ => text,
    }
}
