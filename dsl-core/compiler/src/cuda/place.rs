//! Places in memory as CUDA C: elements, addresses and pointers, reinterpreted where an access has another type than the memory.

use super::expr::Prec;
use super::literal::{beside, c_type};
use super::writer::Writer;
use girih_ir::simt::{Expr, Place};

impl Writer<'_> {
    /// `base[index]`, reinterpreted if the access has another type than the memory.
    pub fn element(&mut self, place: &Place, reads: bool) -> String {
        let base = self.base(place, c_type(place.dtype), reads);
        let index = self.index(&place.index);
        format!("{base}[{index}]")
    }

    /// The address of an access, as a pointer to `pointee` where that differs from the memory's type: `a + i`.
    pub fn address(&mut self, place: &Place, pointee: &str, reads: bool) -> String {
        let base = self.base(place, c_type(place.dtype), reads);
        let sum = match &place.index {
            Expr::Literal(l) if l.bits == 0 => base,
            index => match self.text(index) {
                text if text.prec >= Prec::Add => format!("{base} + {}", literal_or(index, text.text)),
                text => format!("{base} + ({})", text.text),
            },
        };
        if pointee == c_type(place.dtype) { sum } else { format!("reinterpret_cast<{}{pointee}*>({sum})", qualifier(reads)) }
    }

    /// `&tile[i]`, or `tile + i` read as bytes: any pointer will do for a copy.
    pub fn pointer(&mut self, place: &Place, reads: bool) -> String {
        format!("&{}", self.element(place, reads))
    }

    /// `tile, i`, for a helper that counts bytes of shared memory in 32 bits: what is the same in many addresses is then added once. (NVRTC,
    /// unlike nvcc, makes a 64-bit address of `&tile[i]` anew for each `i`: 13 % more instructions in a product's loop.)
    pub fn in_array(&mut self, place: &Place) -> String {
        let (name, dtype) = self.memory(place.space);
        let index = self.index(&place.index);
        if dtype == place.dtype {
            return format!("{name}, {index}");
        }
        format!("reinterpret_cast<{}*>({name}), {index}", c_type(place.dtype))
    }

    fn base(&mut self, place: &Place, pointee: &str, reads: bool) -> String {
        let (name, dtype) = self.memory(place.space);
        if c_type(dtype) == pointee { name } else { format!("reinterpret_cast<{}{pointee}*>({name})", qualifier(reads)) }
    }
}

fn qualifier(reads: bool) -> &'static str {
    if reads { "const " } else { "" }
}

fn literal_or(e: &Expr, text: String) -> String {
    match e {
        Expr::Literal(l) => beside(*l),
        _ => text,
    }
}
