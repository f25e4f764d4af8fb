//! Matrix instructions of warp groups as CUDA C: calls, and the helpers with the PTX that they call.

use super::helpers::Helper;
use super::literal::c_type;
use super::writer::Writer;
use girih_ir::fragments::{GroupAtom, Number};
use girih_ir::simt::{Expr, Fragment, Place, SharedMatrix, VarId};
use girih_ir::types::DType;

impl Writer<'_> {
    /// `wgmma_m64n128k16_f16<0, 1>(&acc[0], shared_matrix<128>(a, i, 1024, 0), shared_matrix<128>(b, j, 1024, 8192), true);`
    pub fn wgmma(&mut self, atom: GroupAtom, d: &Fragment, [a, b]: [&SharedMatrix; 2], accumulate: &Expr) {
        self.uses(Helper::Wgmma(atom));
        let sums = self.elements(d.var, &d.at);
        let across = if atom.takes_across() { format!("<{}, {}>", i32::from(a.across), i32::from(b.across)) } else { String::new() };
        let [left, right] = [a, b].map(|m| self.shared_matrix(m));
        let accumulate = self.expr(accumulate);
        self.line(format!("{}{across}({sums}, {left}, {right}, {accumulate});", wgmma_name(atom)));
    }

    /// `shared_matrix<128>(tile, i, 1024, 0)`
    fn shared_matrix(&mut self, matrix: &SharedMatrix) -> String {
        let SharedMatrix { place, across, row_bytes, eight_rows, next_panel } = matrix;
        let first = self.in_array(place);
        let next_panel = if *across { *next_panel } else { 0 };
        format!("shared_matrix<{row_bytes}>({first}, {eight_rows}, {next_panel})")
    }

    /// `copy_box(&tile[i], a_map, column, row, &full[stage]);`
    pub fn tensor_copy(&mut self, shared: &Place, map: usize, at: &[Expr], barrier: &Place) {
        self.uses(Helper::TensorCopy(at.len() as u32));
        let (to, barrier) = (self.pointer(shared, false), self.mbarrier(barrier));
        let at = at.iter().map(|e| self.index(e)).collect::<Vec<_>>().join(", ");
        let map = self.params[map].clone();
        self.line(format!("copy_box({to}, {map}, {at}, {barrier});"));
    }

    /// `wgmma_wait<0>(acc);`: one call for each array.
    pub fn wgmma_wait(&mut self, pending: u32, sums: &[VarId]) {
        self.uses(Helper::WgmmaGroups);
        let arrays = sums.iter().map(|var| self.var_name(*var)).collect::<Vec<_>>().join(", ");
        self.line(format!("wgmma_wait<{pending}>({arrays});"));
    }
}

/// The helper's name for an instruction.
pub(super) fn wgmma_name(atom: GroupAtom) -> String {
    format!("wgmma_{atom}")
}

/// The CUDA C of an instruction: accumulators of 16 bits are taken by words.
pub(super) fn wgmma_text(atom: GroupAtom) -> String {
    let packed = atom.accumulator == DType::F16;
    let registers = atom.registers() / if packed { 2 } else { 1 };
    let constraint = if atom.accumulator == DType::F32 { "+f" } else { "+r" };
    let (ty, from) = (c_type(atom.accumulator), if packed { "words" } else { "d" });
    let numbers = if atom.a == atom.b { atom.a.name().to_string() } else { format!("{} by {}", atom.a.name(), atom.b.name()) };
    let (m, n, k) = (GroupAtom::M, atom.n, atom.k());
    let mut text = format!(
        "// d += a b by a warp group: {m} x {k} by {k} x {n}, {numbers}, accumulated in {}; or d = a b. In flight until wgmma_wait.\n",
        atom.accumulator
    );
    if atom.takes_across() {
        text += "// An operand lies along the axis of the sum, or across it.\ntemplate <int a_across, int b_across>\n";
    }
    text += &format!(
        "__device__ __forceinline__ void {}({ty}* d, unsigned long long a, unsigned long long b, bool accumulate)\n{{\n",
        wgmma_name(atom)
    );
    if packed {
        text += "    unsigned int* words = reinterpret_cast<unsigned int*>(d);\n";
    }
    let types = [types_of(atom.accumulator), number_type(atom.a), number_type(atom.b)].join(".");
    text += &format!(
        "    WGMMA(\n        \"{{ .reg .pred added; setp.ne.b32 added, %{}, 0; \"\n        \"wgmma.mma_async.sync.aligned.m{m}n{n}k{k}.{types} \"\n",
        registers + 2
    );
    text += &listed(registers, "        \"{", |i| format!("%{i}"), " \"\n        \"", "}, \"\n");
    let (a, b) = (registers, registers + 1);
    let signs = if atom.accumulator == DType::I32 { String::new() } else { ", 1, 1".into() };
    let ways = if atom.takes_across() { format!(", %{}, %{}", b + 2, b + 3) } else { String::new() };
    text += &format!("        \"%{a}, %{b}, added{signs}{ways}; }}\"\n");
    text += &listed(registers, "        : ", |i| format!("\"{constraint}\"({from}[{i}])"), "\n          ", "\n");
    let ways = if atom.takes_across() { ", \"n\"(a_across), \"n\"(b_across)" } else { "" };
    text += &format!("        : \"l\"(a), \"l\"(b), \"r\"((int)accumulate){ways});\n}}\n");
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

fn number_type(number: Number) -> &'static str {
    match number {
        Number::I8 => "s8",
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

/// The CUDA C of a copy of boxes with so many axes.
pub(super) fn tensor_copy_text(axes: u32) -> String {
    let names = &["x", "y", "z", "u", "v"][..axes as usize];
    let coordinates = names.iter().map(|n| format!("int {n}")).collect::<Vec<_>>().join(", ");
    let places = (0..axes).map(|i| format!("%{}", i + 3)).collect::<Vec<_>>().join(", ");
    let operands = names.iter().map(|n| format!("\"r\"({n})")).collect::<Vec<_>>().join(", ");
    format!(
        "// Starts the copy of a box of a tensor, from these coordinates on, the contiguous axis first; its bytes complete on the barrier.
__device__ __forceinline__ void copy_box(void* to, const TensorMap& map, {coordinates}, unsigned long long* barrier)
{{
    asm volatile(
        \"cp.async.bulk.tensor.{axes}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {{{places}}}], [%2];\"
        :
        : \"r\"((unsigned int)__cvta_generic_to_shared(to)), \"l\"(&map), \"r\"((unsigned int)__cvta_generic_to_shared(barrier)), {operands}
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
