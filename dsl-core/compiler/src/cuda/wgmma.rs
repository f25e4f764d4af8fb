//! Matrix instructions of warp groups as CUDA C: calls, and the helpers with the PTX that they call.

use super::helpers::Helper;
use super::literal::c_type;
use super::writer::Writer;
use girih_ir::fragments::{GroupAtom, Operand};
use girih_ir::simt::{Expr, Fragment, LeftMatrix, Place, SharedMatrix, VarId};
use girih_ir::types::DType;

impl Writer<'_> {
    /// `wgmma_m64n128k16_f16<0, 1>(&acc[0], shared_matrix<128>(a, i, 1024, 0), shared_matrix<128>(b, j, 1024, 8192), true);`, or with a left
    /// operand in registers `wgmma_m64n128k16_f16_fed<1>(&acc[0], &a[8], shared_matrix<128>(b, j, 1024, 8192), true);`
    pub fn wgmma(&mut self, atom: GroupAtom, d: &Fragment, (a, b): (&LeftMatrix, &SharedMatrix), accumulate: &Expr) {
        let fed = a.fragment().is_some();
        self.uses(if fed { Helper::WgmmaFed(atom) } else { Helper::Wgmma(atom) });
        let sums = self.elements(d.var, &d.at);
        let (left, mut ways) = match a {
            LeftMatrix::Shared(a) => (self.shared_matrix(a), vec![a.across]),
            LeftMatrix::Registers(a) => (self.elements(a.var, &a.at), vec![]),
        };
        ways.push(b.across);
        let ways: Vec<String> = ways.into_iter().map(|across| i32::from(across).to_string()).collect();
        let ways = if atom.takes_across() { format!("<{}>", ways.join(", ")) } else { String::new() };
        let right = self.shared_matrix(b);
        let accumulate = self.expr(accumulate);
        self.line(format!("{}{ways}({sums}, {left}, {right}, {accumulate});", wgmma_name(atom, fed)));
    }

    /// `shared_matrix<128>(tile, i, 1024, 0)`
    fn shared_matrix(&mut self, matrix: &SharedMatrix) -> String {
        let SharedMatrix { place, across, row_bytes, eight_rows, next_panel } = matrix;
        let first = self.in_array(place);
        let next_panel = if *across { *next_panel } else { 0 };
        format!("shared_matrix<{row_bytes}>({first}, {eight_rows}, {next_panel})")
    }

    /// `copy_box(&tile[i], a_map, column, row, &full[stage]);`
    pub fn tensor_copy(&mut self, shared: &Place, map: usize, at: &[Expr], barrier: &Place, to_all: bool) {
        let axes = at.len() as u32;
        self.uses(if to_all { Helper::TensorCopyToAll(axes) } else { Helper::TensorCopy(axes) });
        let (to, barrier) = (self.pointer(shared, false), self.mbarrier(barrier));
        let at = at.iter().map(|e| self.index(e)).collect::<Vec<_>>().join(", ");
        let map = self.params[map].clone();
        if to_all {
            let blocks = (1u32 << self.kernel.launch.cluster) - 1;
            self.line(format!("copy_box_to_all({to}, {map}, {at}, {barrier}, {blocks:#x});"));
        } else {
            self.line(format!("copy_box({to}, {map}, {at}, {barrier});"));
        }
    }

    /// `wgmma_wait<0>(acc);`: one call for each array.
    pub fn wgmma_wait(&mut self, pending: u32, sums: &[VarId]) {
        self.uses(Helper::WgmmaGroups);
        let arrays = sums.iter().map(|var| self.var_name(*var)).collect::<Vec<_>>().join(", ");
        self.line(format!("wgmma_wait<{pending}>({arrays});"));
    }
}

/// The helper's name for an instruction, with a left operand in registers (`fed`) or in shared memory.
pub(super) fn wgmma_name(atom: GroupAtom, fed: bool) -> String {
    format!("wgmma_{atom}{}", if fed { "_fed" } else { "" })
}

/// What stands before the instruction: its meaning, its parameters, and what is taken by words.
fn wgmma_head(atom: GroupAtom, fed: bool) -> String {
    let numbers = if atom.a == atom.b { atom.a.name().to_string() } else { format!("{} by {}", atom.a.name(), atom.b.name()) };
    let (m, n, k) = (GroupAtom::M, atom.n, atom.k());
    let mut text = format!(
        "// d += a b by a warp group: {m} x {k} by {k} x {n}, {numbers}, accumulated in {}; or d = a b. In flight until wgmma_wait.\n",
        atom.accumulator
    );
    if fed {
        text += "// a is in registers: each thread's part of its warp's 16 rows.\n";
    }
    if atom.takes_across() {
        let which = if fed { "b lies" } else { "An operand lies" };
        let names = if fed { "int b_across" } else { "int a_across, int b_across" };
        text += &format!("// {which} along the axis of the sum, or across it.\ntemplate <{names}>\n");
    }
    let left = if fed { format!("const {}* a", c_type(atom.a.dtype())) } else { "unsigned long long a".into() };
    let (name, ty) = (wgmma_name(atom, fed), c_type(atom.accumulator));
    text += &format!("__device__ __forceinline__ void {name}({ty}* d, {left}, unsigned long long b, bool accumulate)\n{{\n");
    if atom.accumulator == DType::F16 {
        text += "    unsigned int* words = reinterpret_cast<unsigned int*>(d);\n";
    }
    if fed {
        text += "    const unsigned int* a_words = reinterpret_cast<const unsigned int*>(a);\n";
    }
    text
}

/// The CUDA C of an instruction: accumulators of 16 bits are taken by words, as is a left operand in registers (`fed`).
pub(super) fn wgmma_text(atom: GroupAtom, fed: bool) -> String {
    let packed = atom.accumulator == DType::F16;
    let registers = atom.registers() / if packed { 2 } else { 1 };
    let constraint = if atom.accumulator == DType::F32 { "+f" } else { "+r" };
    let from = if packed { "words" } else { "d" };
    let (m, n, k) = (GroupAtom::M, atom.n, atom.k());
    let mut text = wgmma_head(atom, fed);
    // Operands in the order of their numbers: sums, the left one's words or its descriptor, the right one's descriptor, the predicate, ways.
    let lefts = if fed { atom.left_registers() / atom.part().per_word(Operand::A) } else { 1 };
    let (b, added) = (registers + lefts, registers + lefts + 1);
    let types = [types_of(atom.accumulator), atom.a.ptx_name(), atom.b.ptx_name()].join(".");
    text += &format!(
        "    WGMMA(\n        \"{{ .reg .pred added; setp.ne.b32 added, %{added}, 0; \"\n        \"wgmma.mma_async.sync.aligned.m{m}n{n}k{k}.{types} \"\n",
    );
    text += &listed(registers, "        \"{", |i| format!("%{i}"), " \"\n        \"", "}, \"\n");
    let signs = if atom.accumulator == DType::I32 { String::new() } else { ", 1, 1".into() };
    let ways = match (atom.takes_across(), fed) {
        (false, _) => String::new(),
        (true, false) => format!(", %{}, %{}", added + 1, added + 2),
        (true, true) => format!(", %{}", added + 1),
    };
    let words: Vec<String> = (0..lefts).map(|i| format!("%{}", registers + i)).collect();
    let left = if fed { format!("{{{}}}", words.join(", ")) } else { words.concat() };
    text += &format!("        \"{left}, %{b}, added{signs}{ways}; }}\"\n");
    text += &listed(registers, "        : ", |i| format!("\"{constraint}\"({from}[{i}])"), "\n          ", "\n");
    let words: Vec<String> = (0..lefts).map(|i| format!("\"r\"(a_words[{i}])")).collect();
    let left = if fed { words.join(", ") } else { "\"l\"(a)".into() };
    let ways = match (atom.takes_across(), fed) {
        (false, _) => "",
        (true, false) => ", \"n\"(a_across), \"n\"(b_across)",
        (true, true) => ", \"n\"(b_across)",
    };
    text += &format!("        : {left}, \"l\"(b), \"r\"((int)accumulate){ways});\n}}\n");
    text
}

/// So many items, eight in a line.
fn listed(count: u32, begin: &str, item: impl Fn(u32) -> String, next: &str, end: &str) -> String {
    let items: Vec<String> = (0..count).map(item).collect();
    let lines: Vec<String> = items.chunks(8).map(|line| line.join(", ")).collect();
    format!("{begin}{}{end}", lines.join(&format!(",{next}")))
}

fn types_of(accumulator: DType) -> &'static str {
    match accumulator {
        DType::I32 => "s32",
        other => other.name(),
    }
}

/// Descriptors: PTX ISA, "Matrix-descriptor format". The upper word holds the way of swizzling and the distance of 8 rows, the lower one the
/// distance of panels and the address; all in units of 16 bytes.
pub(super) const SHARED_MATRIX: &str = "\
// Where a matrix of a shared array lies, as wgmma takes it: in rows of 32, 64 or 128 bytes whose chunks of 16 change places by the row,
// so many bytes from 8 rows to the next 8, and from one panel of rows to the next.
template <int row_bytes, typename T>
__device__ __forceinline__ unsigned long long shared_matrix(const T* array, int first, int eight_rows, int next_panel)
{
    const unsigned int mode = row_bytes == 128 ? 1 : row_bytes == 64 ? 2 : 3;
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(array) + first * (int)sizeof(T);
    const unsigned int low = ((at & 0x3ffff) >> 4) + (next_panel >> 4 << 16);
    return (unsigned long long)(mode << 30 | eight_rows >> 4) << 32 | low;
}
";

/// Fences, groups and waits.
pub(super) const WGMMA_GROUPS: &str = "\
// With -arch=sm_90a nvcc also writes PTX for sm_90, which has no such instructions; it never runs.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define WGMMA(...) asm volatile(__VA_ARGS__)
#else
#define WGMMA(...)
#endif
// Before the first matrix instruction that follows other uses of accumulators.
__device__ __forceinline__ void wgmma_fence() { WGMMA(\"wgmma.fence.sync.aligned;\" ::: \"memory\"); }
__device__ __forceinline__ void wgmma_commit() { WGMMA(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\"); }
// Keeps what uses a sum behind the wait in front of this.
template <int count> __device__ __forceinline__ void summed(float (&sums)[count])
{
#pragma unroll
    for (int i = 0; i < count; i++) asm volatile(\"\" : \"+f\"(sums[i]) :: \"memory\");
}
template <int count> __device__ __forceinline__ void summed(int (&sums)[count])
{
#pragma unroll
    for (int i = 0; i < count; i++) asm volatile(\"\" : \"+r\"(sums[i]) :: \"memory\");
}
template <int count> __device__ __forceinline__ void summed(unsigned short (&sums)[count])
{
    unsigned int* words = reinterpret_cast<unsigned int*>(sums);
#pragma unroll
    for (int i = 0; i < count / 2; i++) asm volatile(\"\" : \"+r\"(words[i]) :: \"memory\");
}
// Waits until at most so many of the newest groups are in flight.
template <int pending, typename... Sums> __device__ __forceinline__ void wgmma_wait(Sums&... sums)
{
    WGMMA(\"wgmma.wait_group.sync.aligned %0;\" :: \"n\"(pending) : \"memory\");
    (summed(sums), ...);
}
";

/// The CUDA C of a copy of boxes with so many axes, to the blocks of a cluster that a mask names, or to this block alone.
pub(super) fn tensor_copy_text(axes: u32, to_all: bool) -> String {
    let names = &["x", "y", "z", "u", "v"][..axes as usize];
    let coordinates = names.iter().map(|n| format!("int {n}")).collect::<Vec<_>>().join(", ");
    let places = (0..axes).map(|i| format!("%{}", i + 3)).collect::<Vec<_>>().join(", ");
    let operands = names.iter().map(|n| format!("\"r\"({n})")).collect::<Vec<_>>().join(", ");
    let (what, name, mask) = if to_all {
        (
            "// The same to all blocks of a cluster whose bits are set, each at the same place of its own, where its bytes complete on the barrier.",
            "copy_box_to_all",
            ", unsigned short blocks",
        )
    } else {
        (
            "// Starts the copy of a box of a tensor, from these coordinates on, the contiguous axis first; its bytes complete on the barrier.",
            "copy_box",
            "",
        )
    };
    let (way, last, given) = match to_all {
        true => (".multicast::cluster", format!(", %{}", axes + 3), ", \"h\"(blocks)"),
        false => ("", String::new(), ""),
    };
    format!(
        "{what}
__device__ __forceinline__ void {name}(void* to, const TensorMap& map, {coordinates}, unsigned long long* barrier{mask})
{{
    asm volatile(
        \"cp.async.bulk.tensor.{axes}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{way} [%0], [%1, {{{places}}}], [%2]{last};\"
        :
        : \"r\"((unsigned int)__cvta_generic_to_shared(to)), \"l\"(&map), \"r\"((unsigned int)__cvta_generic_to_shared(barrier)), {operands}{given}
        : \"memory\");
}}
"
    )
}

/// The election of one lane: ptxas knows it to be one, so that what it starts is no loop over lanes.
pub(super) const ELECT: &str = "\
// True in one lane of the warp, always the same.
__device__ __forceinline__ bool elect()
{
    unsigned int elected;
    asm volatile(
        \"{ .reg .pred elected; elect.sync _|elected, 0xffffffff; selp.u32 %0, 1, 0, elected; }\"
        : \"=r\"(elected));
    return elected != 0;
}
";

/// The fence of the asynchronous proxy.
pub(super) const PROXY_FENCE: &str = "\
// What this thread has written to shared memory is there for matrix instructions of warp groups, once they are ordered behind this.
__device__ __forceinline__ void fence_async_proxy() { asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\"); }
";

/// Registers that go from one warp group to another.
pub(super) const SET_REGISTERS: &str = "\
// From here on each thread of the warp group has so many registers: taken as soon as others have given so many back, or given back.
template <int count> __device__ __forceinline__ void more_registers() { WGMMA(\"setmaxnreg.inc.sync.aligned.u32 %0;\" ::\"n\"(count)); }
template <int count> __device__ __forceinline__ void fewer_registers() { WGMMA(\"setmaxnreg.dec.sync.aligned.u32 %0;\" ::\"n\"(count)); }
";
