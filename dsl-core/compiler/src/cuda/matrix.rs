//! Matrix instructions as CUDA C: a call, and the helper with the PTX that it calls, one per atom and form of `ldmatrix` in use.

use super::helpers::Helper;
use super::literal::c_type;
use super::writer::Writer;
use girih_ir::fragments::{Atom, LoadMatrix, Operand};
use girih_ir::simt::{Expr, Fragment, Place, VarId};
use girih_ir::types::DType;

impl Writer<'_> {
    /// `mma_m16n8k16_f16(&acc[0], &a[0], &b[0], &acc[0]);`
    pub fn mma(&mut self, atom: Atom, fragments: [&Fragment; 4]) {
        self.uses(Helper::Mma(atom));
        let fragments = fragments.map(|f| self.elements(f.var, &f.at)).join(", ");
        self.line(format!("{}({fragments});", mma_name(atom)));
    }

    /// `load_matrix_x4(&a[0], tile, i);`
    pub fn load_matrix(&mut self, load: LoadMatrix, var: VarId, at: &Expr, place: &Place) {
        self.uses(Helper::LoadMatrix(load));
        let to = self.elements(var, at);
        let from = self.in_array(place);
        self.line(format!("{}({to}, {from});", load_name(load)));
    }

    /// `load_pair(&a[0], tile, i);`: two f32 of a fragment that `ldmatrix` cannot load.
    pub fn load_pair(&mut self, var: VarId, at: &Expr, place: &Place) {
        self.uses(Helper::LoadPair);
        let (to, from) = (self.elements(var, at), self.in_array(place));
        self.line(format!("load_pair({to}, {from});"));
    }

    /// A pointer to elements of an array: its name where they are the first.
    pub(super) fn elements(&mut self, var: VarId, at: &Expr) -> String {
        let name = self.var_name(var);
        match at {
            Expr::Literal(l) if l.to_i64() == 0 => name,
            _ => format!("&{name}[{}]", self.index(at)),
        }
    }
}

/// The helper's name for an atom.
pub(super) fn mma_name(atom: Atom) -> String {
    format!("mma_{atom}")
}

/// The helper's name for a form of `ldmatrix`.
pub(super) fn load_name(load: LoadMatrix) -> String {
    format!("load_matrix_{load}")
}

/// The CUDA C of an atom. Operands are words of packed elements; accumulators of 32 bits are taken as they are.
pub(super) fn mma_text(atom: Atom) -> String {
    let Atom { m, n, k, accumulator, .. } = atom;
    let [ty_d, ty_a, ty_b] = [Operand::Accumulator, Operand::A, Operand::B].map(|o| c_type(atom.dtype(o)));
    let operands = [("d", Operand::Accumulator), ("a", Operand::A), ("b", Operand::B), ("c", Operand::Accumulator)];
    let packed = |operand| operand != Operand::Accumulator || accumulator == DType::F16;

    let numbers = if atom.a == atom.b { atom.a.name().to_string() } else { format!("{} by {}", atom.a.name(), atom.b.name()) };
    let mut text = format!("// d = a b + c by one warp: {m} x {k} by {k} x {n}, {numbers}, accumulated in {accumulator}.\n");
    let name = mma_name(atom);
    text += &format!("__device__ __forceinline__ void {name}({ty_d}* d, const {ty_a}* a, const {ty_b}* b, const {ty_d}* c)\n{{\n");
    for (name, _) in operands.into_iter().filter(|(_, operand)| packed(*operand)) {
        let ty = if name == "d" { "unsigned int" } else { "const unsigned int" };
        text += &format!("    {ty}* {name}_words = reinterpret_cast<{ty}*>({name});\n");
    }
    let mut next = 0;
    let places = operands.map(|(_, operand)| {
        let first = next;
        next += atom.words(operand);
        format!("{{{}}}", joined(first..next, |i| format!("%{i}")))
    });
    let types = [accumulator_type(atom), atom.a.ptx_name(), atom.b.ptx_name(), accumulator_type(atom)].join(".");
    let head = format!("mma.sync.aligned.m{m}n{n}k{k}.row.col.{types}");
    let [d, a, b, c] = operands.map(|(name, operand)| {
        let constraint = if operand == Operand::Accumulator && accumulator == DType::F32 { "f" } else { "r" };
        let (output, words) = (if name == "d" { "=" } else { "" }, if packed(operand) { "_words" } else { "" });
        joined(0..atom.words(operand), |i| format!("\"{output}{constraint}\"({name}{words}[{i}])"))
    });
    text += &format!("    asm volatile(\n        \"{head} \"\n        \"{};\"\n", places.join(", "));
    text += &format!("        : {d}\n        : {a},\n          {b},\n          {c});\n}}\n");
    text
}

fn joined(range: std::ops::Range<u32>, item: impl Fn(u32) -> String) -> String {
    range.map(item).collect::<Vec<_>>().join(", ")
}

/// The CUDA C of a form of `ldmatrix`.
pub(super) fn load_text(load: LoadMatrix) -> String {
    let LoadMatrix { count, transposed } = load;
    let form = if transposed { ".trans" } else { "" };
    let matrices = if count == 1 { "one matrix of 8 rows".to_string() } else { format!("{count} matrices of 8 rows") };
    let way = if transposed { ", transposed on their way," } else { "" };
    format!(
        "// Loads {matrices} of 16 bytes{way} into one word per lane and matrix.
// Lane l says where in the array row l % 8 of matrix l / 8 begins.
template <typename T> __device__ __forceinline__ void {}(void* fragment, const T* array, int row)
{{
    unsigned int* words = reinterpret_cast<unsigned int*>(fragment);
    const unsigned int from = (unsigned int)__cvta_generic_to_shared(array) + row * (int)sizeof(T);
    asm volatile(\"ldmatrix.sync.aligned.m8n8.x{count}{form}.shared.b16 {{{}}}, [%{count}];\"
        : {}
        : \"r\"(from)
        : \"memory\");
}}
",
        load_name(load),
        joined(0..count, |i| format!("%{i}")),
        joined(0..count, |i| format!("\"=r\"(words[{i}])"))
    )
}

/// Two neighbours of a shared array, whose address is counted in 32 bits as in [`Writer::in_array`]. (A vector access takes 8 % more machine
/// instructions in the loop of a tf32 product.)
pub(super) const LOAD_PAIR: &str = "\
// Loads two neighbours from a shared array, the first at a multiple of 8 bytes.
__device__ __forceinline__ void load_pair(float* pair, const float* array, int at)
{
    const unsigned int from = (unsigned int)__cvta_generic_to_shared(array) + at * (int)sizeof(float);
    asm volatile(\"ld.shared.v2.f32 {%0, %1}, [%2];\" : \"=f\"(pair[0]), \"=f\"(pair[1]) : \"r\"(from) : \"memory\");
}
";

fn accumulator_type(atom: Atom) -> &'static str {
    match atom.accumulator {
        DType::I32 => "s32",
        other => other.name(),
    }
}
