//! Facts: what a launch promises about its arguments. Cubins are compiled for facts, never for exact shapes.

use crate::lengths::round_up;
use crate::schedule::Schedule;
use crate::schedule::words::{ConstantPath, Words};
use crate::simt::CONSTANT_BYTES;
use crate::tile::access::{constant_params, dim_constants, walked_tiles};
use crate::tile::{Kernel, ParamKind};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The largest alignment (bytes) that facts speak of.
pub const MAX_ALIGN: u32 = 16;
/// The largest divisibility (elements) that facts speak of.
pub const MAX_DIVISOR: u32 = 16;
/// How far indices may run beyond the end of a tensor: a tile's overhang, and tiles whose loads a pipeline starts ahead.
pub const INDEX32_OVERHANG: i64 = 1 << 27;
/// The longest axis whose length facts bound: no tile is longer.
pub const MAX_BOUND: i64 = 1 << 16;
/// [`Facts::index32`] holds where lengths and offsets of last elements lie below this.
pub const INDEX32_LIMIT: i64 = i32::MAX as i64 - INDEX32_OVERHANG;

/// What is known of a tensor argument.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct TensorFacts {
    /// The pointer is a multiple of this many bytes: a power of two from the element size to [`MAX_ALIGN`].
    pub align: u32,
    /// Row-major without gaps.
    pub packed: bool,
    /// Elements of a row are neighbours: the last axis' stride is 1. So it is of all packed tensors.
    #[serde(default)]
    pub rows: bool,
    /// Each length is a multiple of this power of two, at most [`MAX_DIVISOR`].
    pub lens: Vec<u32>,
    /// Each stride (elements) is a multiple of this power of two, at most [`MAX_DIVISOR`]; says nothing of packed tensors' last axis.
    pub strides: Vec<u32>,
    /// Each length is at least 1 and at most this number, 0 where nothing is known; empty where that is so of every axis. Only axes
    /// that a block walks tile by tile are bounded (see [`Facts::bounded`]): a row that fits one tile needs no loop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub most: Vec<u32>,
}

/// What a launch promises. `compile` may use nothing else of the arguments.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// One entry per parameter, `None` for scalars.
    pub tensors: Vec<Option<TensorFacts>>,
    /// Every element offset, with a tile's overhang, fits an i32.
    pub index32: bool,
    /// No tensor that is stored to overlaps another tensor argument.
    pub noalias: bool,
}

/// Shape, strides (elements) and pointer of a tensor argument, as [`Facts::of_launch`] reads them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorArg {
    /// The pointer as a number (or any number with the same alignment).
    pub address: u64,
    /// Lengths.
    pub lens: Vec<i64>,
    /// Strides in elements.
    pub strides: Vec<i64>,
}

impl TensorArg {
    /// A row-major tensor without gaps.
    pub fn packed(address: u64, lens: &[i64]) -> TensorArg {
        TensorArg { address, lens: lens.to_vec(), strides: packed_strides(lens) }
    }
    /// Row-major without gaps (axes of length ≤ 1 may have any stride).
    pub fn is_packed(&self) -> bool {
        self.lens.iter().zip(&self.strides).zip(packed_strides(&self.lens)).all(|((l, s), p)| *l <= 1 || *s == p)
    }
    /// Elements of a row are neighbours.
    pub fn has_rows(&self) -> bool {
        self.is_packed() || self.lens.last().is_none_or(|l| *l <= 1) || self.strides.last() == Some(&1)
    }
    /// Elements.
    pub fn numel(&self) -> i64 {
        self.lens.iter().product()
    }
}

/// Strides of a row-major tensor without gaps.
pub fn packed_strides(lens: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; lens.len()];
    for k in (0..lens.len().saturating_sub(1)).rev() {
        strides[k] = strides[k + 1] * lens[k + 1];
    }
    strides
}

impl Facts {
    /// Nothing is promised (but natural alignment). Every kernel compiles with this.
    pub fn none(kernel: &Kernel) -> Facts {
        Facts::uniform(
            kernel,
            |size, rank| TensorFacts { align: size, packed: false, rows: false, lens: vec![1; rank], strides: vec![1; rank], most: vec![] },
            false,
        )
    }

    /// The most that can be promised: aligned, packed, divisible, small, not aliased. A length that the kernel fixes is as divisible
    /// as it is.
    pub fn best(kernel: &Kernel) -> Facts {
        let (lens, strides) = (|rank| vec![MAX_DIVISOR; rank], |rank| vec![MAX_DIVISOR; rank]);
        let tensor =
            |_, rank| TensorFacts { align: MAX_ALIGN, packed: true, rows: true, lens: lens(rank), strides: strides(rank), most: vec![] };
        let mut facts = Facts { noalias: true, ..Facts::uniform(kernel, tensor, true) };
        for ((p, k), len) in dim_constants(kernel) {
            let tensor = facts.tensors[p].as_mut().expect("facts: a length belongs to a tensor");
            tensor.lens[k] = power_within(len as u64, MAX_DIVISOR);
        }
        for tensor in facts.tensors.iter_mut().flatten() {
            let mut stride = 1;
            for (own, len) in tensor.strides.iter_mut().zip(&tensor.lens).rev() {
                *own = stride;
                stride = (stride * len).min(MAX_DIVISOR);
            }
        }
        facts
    }

    /// Packed tensors of any length and natural alignment: what a judge's `solve` may be called with.
    pub fn packed(kernel: &Kernel, index32: bool) -> Facts {
        let tensor =
            |size, rank| TensorFacts { align: size, packed: true, rows: true, lens: vec![1; rank], strides: vec![1; rank], most: vec![] };
        Facts { noalias: true, ..Facts::uniform(kernel, tensor, index32) }
    }

    fn uniform(kernel: &Kernel, tensor: impl Fn(u32, usize) -> TensorFacts, index32: bool) -> Facts {
        let tensors = kernel
            .params
            .iter()
            .map(|p| match p.kind {
                ParamKind::Tensor { dtype, rank, .. } => Some(tensor(dtype.size() as u32, rank)),
                ParamKind::Scalar(_) => None,
            })
            .collect();
        Facts { tensors, index32, noalias: false }
    }

    /// Everything that holds for these arguments (`None` for scalars). `noalias` is decided by the caller, who knows extents in bytes.
    pub fn of_launch(args: &[Option<TensorArg>], noalias: bool) -> Facts {
        let reach = |a: &TensorArg| {
            a.lens.iter().zip(&a.strides).map(|(l, s)| (l - 1).max(0).saturating_mul(s.abs())).fold(0i64, i64::saturating_add)
        };
        let index32 = args.iter().flatten().all(|a| reach(a) < INDEX32_LIMIT && a.lens.iter().all(|l| *l < INDEX32_LIMIT));
        let tensors = args.iter().map(|a| a.as_ref().map(TensorFacts::of)).collect();
        Facts { tensors, index32, noalias }
    }

    /// These facts with the bounds of the axes (parameter, axis) that decide what the code is: see [`crate::tile::access::bounded_axes`].
    pub fn bounded(mut self, walked: &[(usize, usize)], args: &[Option<TensorArg>]) -> Facts {
        for (p, k) in walked {
            let (Some(facts), Some(arg)) = (&mut self.tensors[*p], &args[*p]) else { continue };
            facts.bound(*k, arg.lens[*k]);
        }
        self
    }

    /// These facts, and that under this schedule one tile spans each axis that a block walks, and what it puts into constant memory has room
    /// there, as far as facts can say so.
    pub fn fitting(mut self, kernel: &Kernel, schedule: &Schedule) -> Facts {
        let walked = walked_tiles(kernel);
        for ((p, k), _) in &walked {
            let sizes = walked.iter().filter(|(axis, _)| axis == &(*p, *k)).map(|(_, size)| size.value(|knob| schedule.int(knob)));
            let most = sizes.min().filter(|most| *most <= MAX_BOUND);
            if let (Some(most), Some(facts)) = (most, &mut self.tensors[*p]) {
                facts.most.resize(facts.lens.len(), 0);
                facts.most[*k] = most as u32;
            }
        }
        let constants = constant_params(kernel).into_iter();
        let chosen: Vec<usize> =
            constants.filter(|(id, _)| ConstantPath::chosen(schedule, *id) == Some(ConstantPath::On)).map(|(_, p)| p).collect();
        for p in &chosen {
            if let (Some(facts), ParamKind::Tensor { dtype, .. }) = (&mut self.tensors[*p], kernel.params[*p].kind) {
                facts.room_for(i64::from(CONSTANT_BYTES) / (chosen.len() * dtype.size()) as i64);
            }
        }
        self
    }

    /// The largest length that an axis (parameter, axis) surely has; `None` where nothing is known or it may be empty.
    pub fn most(&self, p: usize, k: usize) -> Option<i64> {
        let most = *self.tensors.get(p)?.as_ref()?.most.get(k)?;
        (most > 0).then_some(most as i64)
    }

    /// Whatever has these facts also has `other`'s: code compiled for `other` may be launched.
    pub fn imply(&self, other: &Facts) -> bool {
        let tensor = |a: &TensorFacts, b: &TensorFacts| {
            a.align.is_multiple_of(b.align)
                && (a.packed || !b.packed)
                && (a.packed || a.rows || !b.rows)
                && a.lens.iter().zip(&b.lens).all(|(x, y)| x.is_multiple_of(*y))
                && b.most.iter().enumerate().all(|(k, b)| *b == 0 || a.most.get(k).is_some_and(|a| *a > 0 && a <= b))
                && (b.packed || a.strides.iter().zip(&b.strides).all(|(x, y)| x.is_multiple_of(*y)))
        };
        self.tensors.len() == other.tensors.len()
            && self.tensors.iter().zip(&other.tensors).all(|(a, b)| match (a, b) {
                (Some(a), Some(b)) => tensor(a, b),
                (None, None) => true,
                _ => false,
            })
            && (self.index32 || !other.index32)
            && (self.noalias || !other.noalias)
    }
}

impl TensorFacts {
    /// Whether an axis' stride is surely 1: the last one's, of a tensor that has rows.
    pub fn is_unit_stride(&self, axis: usize) -> bool {
        self.rows && axis + 1 == self.lens.len()
    }

    /// Everything that holds for this argument.
    pub fn of(arg: &TensorArg) -> TensorFacts {
        TensorFacts {
            align: power_within(arg.address, MAX_ALIGN),
            packed: arg.is_packed(),
            rows: arg.has_rows(),
            lens: arg.lens.iter().map(|l| power_within(*l as u64, MAX_DIVISOR)).collect(),
            strides: arg.strides.iter().map(|s| power_within(s.unsigned_abs(), MAX_DIVISOR)).collect(),
            most: vec![],
        }
    }

    /// Bounds the axes of which nothing is known, all alike, so that the tensor has no more than so many elements.
    fn room_for(&mut self, elements: i64) {
        let known: i64 = self.most.iter().filter(|most| **most > 0).map(|most| i64::from(*most)).product();
        let open = self.lens.len() as u32 - self.most.iter().filter(|most| **most > 0).count() as u32;
        let fits = |most: &i64| most.checked_pow(open).and_then(|n| n.checked_mul(known)).is_some_and(|n| n <= elements);
        let Some(most) = (0..=MAX_BOUND.ilog2()).rev().map(|power| 1i64 << power).find(fits) else { return };
        self.most.resize(self.lens.len(), 0);
        self.most.iter_mut().filter(|own| **own == 0).for_each(|own| *own = most as u32);
    }

    /// Bounds an axis whose length is from 1 to [`MAX_BOUND`] by [`round_up`].
    pub fn bound(&mut self, axis: usize, len: i64) {
        if (1..=MAX_BOUND).contains(&len) {
            self.most.resize(self.lens.len(), 0);
            self.most[axis] = round_up(len) as u32;
        }
    }
}

/// The largest power of two, at most `max`, that divides a number.
pub fn power_within(x: u64, max: u32) -> u32 {
    if x == 0 { max } else { (1u32 << x.trailing_zeros().min(31)).min(max) }
}

/// The key text of caches and stores: `16p/16 4p/1x16<0x512 - i32 noalias`.
impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for t in &self.tensors {
            match t {
                None => write!(f, "- ")?,
                Some(t) => {
                    let list = |v: &[u32]| v.iter().map(u32::to_string).collect::<Vec<_>>().join("x");
                    let kind = match (t.packed, t.rows) {
                        (true, _) => "p",
                        (_, true) => "r",
                        _ => "s",
                    };
                    write!(f, "{}{kind}/{}", t.align, list(&t.lens))?;
                    if !t.packed {
                        write!(f, "@{}", list(&t.strides))?;
                    }
                    if !t.most.is_empty() {
                        write!(f, "<{}", list(&t.most))?;
                    }
                    write!(f, " ")?;
                }
            }
        }
        write!(f, "{}{}", if self.index32 { "i32" } else { "i64" }, if self.noalias { " noalias" } else { "" })
    }
}
