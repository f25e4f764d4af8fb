//! The `__device__` functions and types that emitted kernels may use. Only those used are printed.

mod arithmetic;
mod memory;

use super::{matrix, wgmma};
use girih_ir::fragments::{ATOMS, Atom, GroupAtom, LoadMatrix};
use std::borrow::Cow;

/// A helper. The order is the order in the file: later ones may call earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Helper {
    Vector32,
    TensorMap,
    HalfToFloat,
    FloatToHalf,
    Bfloat16ToFloat,
    FloatToBfloat16,
    IntToBfloat16,
    UintToBfloat16,
    LongToBfloat16,
    UlongToBfloat16,
    NanMin,
    NanMax,
    TanhApprox,
    ExpApprox,
    Exp2Approx,
    RoundTf32,
    Moved,
    AbsWrap,
    DivInt,
    DivLong,
    DivUint,
    DivUlong,
    RemInt,
    RemLong,
    RemUint,
    RemUlong,
    FloatToChar,
    FloatToUchar,
    FloatToLong,
    FloatToUlong,
    AtomicFloatMin,
    AtomicFloatMax,
    AtomicFloatMinSystem,
    AtomicFloatMaxSystem,
    CopyAsync,
    Mbarrier,
    AsyncArrive,
    BulkCopy,
    SliceBarrier,
    Turns,
    GridBarrier,
    Words,
    /// Loads of what other blocks store.
    FetchRelaxed,
    FetchRelaxedSystem,
    FetchAcquire,
    FetchAcquireSystem,
    LoadPair,
    /// Loads whose lines the L2 is asked to keep.
    LoadKept,
    LoadMatrix(LoadMatrix),
    Mma(Atom),
    MbarrierExpect,
    Elect,
    TensorCopy(u32),
    ProxyFence,
    SharedMatrix,
    WgmmaGroups,
    /// Behind the macro that it takes.
    SetRegisters,
    Wgmma(GroupAtom),
    /// The same, the left operand in registers.
    WgmmaFed(GroupAtom),
}

impl Helper {
    /// All but those of matrix instructions.
    const PLAIN: [Helper; 54] = [
        Helper::Vector32,
        Helper::TensorMap,
        Helper::HalfToFloat,
        Helper::FloatToHalf,
        Helper::Bfloat16ToFloat,
        Helper::FloatToBfloat16,
        Helper::IntToBfloat16,
        Helper::UintToBfloat16,
        Helper::LongToBfloat16,
        Helper::UlongToBfloat16,
        Helper::NanMin,
        Helper::NanMax,
        Helper::TanhApprox,
        Helper::ExpApprox,
        Helper::Exp2Approx,
        Helper::RoundTf32,
        Helper::Moved,
        Helper::AbsWrap,
        Helper::DivInt,
        Helper::DivLong,
        Helper::DivUint,
        Helper::DivUlong,
        Helper::RemInt,
        Helper::RemLong,
        Helper::RemUint,
        Helper::RemUlong,
        Helper::FloatToChar,
        Helper::FloatToUchar,
        Helper::FloatToLong,
        Helper::FloatToUlong,
        Helper::AtomicFloatMin,
        Helper::AtomicFloatMax,
        Helper::AtomicFloatMinSystem,
        Helper::AtomicFloatMaxSystem,
        Helper::CopyAsync,
        Helper::Mbarrier,
        Helper::AsyncArrive,
        Helper::BulkCopy,
        Helper::SliceBarrier,
        Helper::Turns,
        Helper::GridBarrier,
        Helper::Words,
        Helper::FetchRelaxed,
        Helper::FetchRelaxedSystem,
        Helper::FetchAcquire,
        Helper::FetchAcquireSystem,
        Helper::LoadPair,
        Helper::LoadKept,
        Helper::MbarrierExpect,
        Helper::Elect,
        Helper::ProxyFence,
        Helper::SetRegisters,
        Helper::SharedMatrix,
        Helper::WgmmaGroups,
    ];

    /// The names that helpers define, used or not.
    pub fn all_names() -> impl Iterator<Item = String> {
        let plain = Helper::PLAIN.into_iter().flat_map(|h| h.names().iter().map(|n| n.to_string()));
        let loads = [1, 2, 4].into_iter().flat_map(|count| [false, true].map(|transposed| LoadMatrix { count, transposed }));
        let groups = ATOMS
            .into_iter()
            .flat_map(|t| (1..=GroupAtom::WIDEST / 8).map(move |n| GroupAtom { n: 8 * n, a: t.a, b: t.b, accumulator: t.accumulator }));
        let groups = groups.filter(GroupAtom::exists).flat_map(|atom| [false, true].map(|fed| wgmma::wgmma_name(atom, fed)));
        plain
            .chain(["copy_box".to_string()])
            .chain(loads.map(matrix::load_name))
            .chain(ATOMS.into_iter().map(matrix::mma_name))
            .chain(groups)
    }

    /// The names that the helper defines; those of matrix instructions are made by [`matrix`].
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Helper::Vector32 => &["Vector32"],
            Helper::TensorMap => &["TensorMap"],
            Helper::HalfToFloat => &["half_to_float"],
            Helper::FloatToHalf => &["float_to_half"],
            Helper::Bfloat16ToFloat => &["bfloat16_to_float"],
            Helper::FloatToBfloat16 => &["float_to_bfloat16"],
            Helper::IntToBfloat16 => &["int_to_bfloat16"],
            Helper::UintToBfloat16 => &["uint_to_bfloat16"],
            Helper::LongToBfloat16 => &["long_to_bfloat16"],
            Helper::UlongToBfloat16 => &["ulong_to_bfloat16"],
            Helper::NanMin => &["nan_min"],
            Helper::NanMax => &["nan_max"],
            Helper::TanhApprox => &["tanh_approx"],
            Helper::ExpApprox => &["exp_approx"],
            Helper::Exp2Approx => &["exp2_approx"],
            Helper::RoundTf32 => &["round_tf32"],
            Helper::Moved => &["moved"],
            Helper::AbsWrap => &["abs_wrap"],
            Helper::DivInt | Helper::DivLong | Helper::DivUint | Helper::DivUlong => &["divide"],
            Helper::RemInt | Helper::RemLong | Helper::RemUint | Helper::RemUlong => &["modulo"],
            Helper::FloatToChar => &["float_to_char"],
            Helper::FloatToUchar => &["float_to_uchar"],
            Helper::FloatToLong => &["float_to_long"],
            Helper::FloatToUlong => &["float_to_ulong"],
            Helper::AtomicFloatMin => &["atomic_min"],
            Helper::AtomicFloatMax => &["atomic_max"],
            Helper::AtomicFloatMinSystem => &["atomic_min_system"],
            Helper::AtomicFloatMaxSystem => &["atomic_max_system"],
            Helper::CopyAsync => &["copy_async", "copy_async_commit", "copy_async_wait"],
            Helper::AsyncArrive => &["copy_async_arrive"],
            Helper::Mbarrier => &["mbarrier_init", "mbarrier_arrive", "mbarrier_wait"],
            Helper::MbarrierExpect => &["mbarrier_arrive_expect"],
            Helper::BulkCopy => &["copy_bulk"],
            Helper::SliceBarrier => &["sync_slice"],
            Helper::Turns => &["await_turn", "pass_turn"],
            Helper::GridBarrier => &["grid_barrier"],
            Helper::Words => &["store_relaxed", "load_relaxed", "wait_nonzero"],
            Helper::FetchRelaxed => &["fetch_relaxed"],
            Helper::FetchRelaxedSystem => &["fetch_relaxed_system"],
            Helper::FetchAcquire => &["fetch_acquire"],
            Helper::FetchAcquireSystem => &["fetch_acquire_system"],
            Helper::LoadPair => &["load_pair"],
            Helper::LoadKept => &["load_kept"],
            Helper::Elect => &["elect"],
            Helper::TensorCopy(_) => &["copy_box"],
            Helper::ProxyFence => &["fence_async_proxy"],
            Helper::SetRegisters => &["more_registers", "fewer_registers"],
            Helper::SharedMatrix => &["shared_matrix"],
            Helper::WgmmaGroups => &["WGMMA", "wgmma_fence", "wgmma_commit", "summed", "wgmma_wait"],
            Helper::LoadMatrix(_) | Helper::Mma(_) | Helper::Wgmma(_) | Helper::WgmmaFed(_) => &[],
        }
    }

    /// Helpers that its text calls.
    pub fn needs(self) -> &'static [Helper] {
        match self {
            Helper::AtomicFloatMin | Helper::AtomicFloatMinSystem => &[Helper::NanMin],
            Helper::AtomicFloatMax | Helper::AtomicFloatMaxSystem => &[Helper::NanMax],
            Helper::IntToBfloat16 | Helper::UintToBfloat16 | Helper::LongToBfloat16 | Helper::UlongToBfloat16 => &[Helper::FloatToBfloat16],
            Helper::Wgmma(_) | Helper::WgmmaFed(_) => &[Helper::SharedMatrix, Helper::WgmmaGroups],
            Helper::TensorCopy(_) => &[Helper::TensorMap, Helper::Mbarrier],
            Helper::SetRegisters => &[Helper::WgmmaGroups],
            _ => &[],
        }
    }

    /// Its CUDA C.
    pub fn text(self) -> Cow<'static, str> {
        let text = match self {
            Helper::LoadMatrix(load) => return matrix::load_text(load).into(),
            Helper::Mma(atom) => return matrix::mma_text(atom).into(),
            Helper::Wgmma(atom) => return wgmma::wgmma_text(atom, false).into(),
            Helper::WgmmaFed(atom) => return wgmma::wgmma_text(atom, true).into(),
            Helper::TensorCopy(axes) => return wgmma::tensor_copy_text(axes).into(),
            Helper::Elect => wgmma::ELECT,
            Helper::ProxyFence => wgmma::PROXY_FENCE,
            Helper::SetRegisters => wgmma::SET_REGISTERS,
            Helper::SharedMatrix => wgmma::SHARED_MATRIX,
            Helper::WgmmaGroups => wgmma::WGMMA_GROUPS,
            Helper::Vector32 => memory::VECTOR_32,
            Helper::TensorMap => memory::TENSOR_MAP,
            Helper::HalfToFloat => arithmetic::HALF_TO_FLOAT,
            Helper::FloatToHalf => arithmetic::FLOAT_TO_HALF,
            Helper::Bfloat16ToFloat => arithmetic::BFLOAT16_TO_FLOAT,
            Helper::FloatToBfloat16 => arithmetic::FLOAT_TO_BFLOAT16,
            Helper::IntToBfloat16 => arithmetic::INT_TO_BFLOAT16,
            Helper::UintToBfloat16 => arithmetic::UINT_TO_BFLOAT16,
            Helper::LongToBfloat16 => arithmetic::LONG_TO_BFLOAT16,
            Helper::UlongToBfloat16 => arithmetic::ULONG_TO_BFLOAT16,
            Helper::NanMin => arithmetic::NAN_MIN,
            Helper::NanMax => arithmetic::NAN_MAX,
            Helper::TanhApprox => arithmetic::TANH_APPROX,
            Helper::ExpApprox => arithmetic::EXP_APPROX,
            Helper::Exp2Approx => arithmetic::EXP2_APPROX,
            Helper::RoundTf32 => arithmetic::ROUND_TF32,
            Helper::Moved => arithmetic::MOVED,
            Helper::AbsWrap => arithmetic::ABS_WRAP,
            Helper::DivInt => arithmetic::DIV_INT,
            Helper::DivLong => arithmetic::DIV_LONG,
            Helper::DivUint => arithmetic::DIV_UINT,
            Helper::DivUlong => arithmetic::DIV_ULONG,
            Helper::RemInt => arithmetic::REM_INT,
            Helper::RemLong => arithmetic::REM_LONG,
            Helper::RemUint => arithmetic::REM_UINT,
            Helper::RemUlong => arithmetic::REM_ULONG,
            Helper::FloatToChar => arithmetic::FLOAT_TO_CHAR,
            Helper::FloatToUchar => arithmetic::FLOAT_TO_UCHAR,
            Helper::FloatToLong => arithmetic::FLOAT_TO_LONG,
            Helper::FloatToUlong => arithmetic::FLOAT_TO_ULONG,
            Helper::AtomicFloatMin => memory::ATOMIC_FLOAT_MIN,
            Helper::AtomicFloatMax => memory::ATOMIC_FLOAT_MAX,
            Helper::AtomicFloatMinSystem => memory::ATOMIC_FLOAT_MIN_SYSTEM,
            Helper::AtomicFloatMaxSystem => memory::ATOMIC_FLOAT_MAX_SYSTEM,
            Helper::CopyAsync => memory::COPY_ASYNC,
            Helper::Mbarrier => memory::MBARRIER,
            Helper::MbarrierExpect => memory::MBARRIER_EXPECT,
            Helper::Turns => memory::TURNS,
            Helper::AsyncArrive => memory::ASYNC_ARRIVE,
            Helper::BulkCopy => memory::BULK_COPY,
            Helper::SliceBarrier => memory::SLICE_BARRIER,
            Helper::GridBarrier => memory::GRID_BARRIER,
            Helper::Words => memory::WORDS,
            Helper::FetchRelaxed => memory::FETCH_RELAXED,
            Helper::FetchRelaxedSystem => memory::FETCH_RELAXED_SYSTEM,
            Helper::FetchAcquire => memory::FETCH_ACQUIRE,
            Helper::FetchAcquireSystem => memory::FETCH_ACQUIRE_SYSTEM,
            Helper::LoadPair => matrix::LOAD_PAIR,
            Helper::LoadKept => memory::LOAD_KEPT,
        };
        text.into()
    }
}
