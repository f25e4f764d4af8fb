//! What a launch finds in memory at its true size, made where it is looked at: the inputs of a challenge, chunk by chunk; and in place of
//! what other launches have left there, what they left in a rehearsal.

use super::SEED;
use super::launches::Launch;
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use crate::subject::inputs::Elements;
use girih_core::program::Base;
use girih_core::program::walk::LaunchArg;
use girih_core::sim::counting;
use girih_core::tile::ParamKind;
use girih_core::types::{DType, Literal};
use std::collections::HashMap;
use std::sync::Arc;

/// What a launch site finds in memory, as far as that is known, by parameter of its kernel.
#[derive(Clone, Default)]
pub struct Inputs {
    before: Vec<Option<Input>>,
    /// What a launch left in a rehearsal, in tensors that it may change.
    left: Vec<Option<Arc<[u8]>>>,
    /// What is not known is made up.
    made_up: bool,
}

#[derive(Clone)]
enum Input {
    /// An input of the call, so many bytes before the launch's tensor.
    Given { elements: Elements, offset: i64 },
    /// What a launch of the site found in a call at a reduced size: again and again, as far as the large tensor goes. Where most words are
    /// the same, these stand for all: what is rare in a small call, a row that few numbers spoil, is no rule for a large one.
    Rehearsed(Arc<[u8]>),
}

/// The part of the words that must be the same to stand for all.
const MOST: f64 = 0.9;
/// Bytes of a word.
const WORD: usize = 4;

impl Inputs {
    /// Of a launch at these sizes; without those that a launch of another site may have changed before.
    pub fn of(subject: &Subject, sizes: &Sizes, launch: &Launch, all: &[Launch]) -> Inputs {
        let changed = |base: Base| all.iter().filter(|l| l.site != launch.site).any(|l| stores_to(l, base));
        let input = |arg: &LaunchArg| {
            let LaunchArg::Tensor(region) = arg else { return None };
            let Base::Param(param) = region.base else { return None };
            let elements = subject.input(param, sizes, SEED).filter(|_| !changed(region.base))?;
            Some(Input::Given { elements, offset: region.offset })
        };
        Inputs::unrehearsed(launch.args.iter().map(input).collect())
    }

    fn unrehearsed(before: Vec<Option<Input>>) -> Inputs {
        Inputs { before, ..Inputs::default() }
    }

    /// Whether a tensor's elements are known.
    pub fn knows(&self, tensor: usize) -> bool {
        self.made_up || self.before.get(tensor).is_some_and(Option::is_some)
    }

    /// Whether it is known what the launch leaves in a tensor.
    pub fn knows_left(&self, tensor: usize) -> bool {
        self.left.get(tensor).is_some_and(Option::is_some)
    }

    /// Bytes of a tensor.
    pub fn load(&self, tensor: usize, at: u64, size: usize) -> Option<u64> {
        match self.before.get(tensor)?.as_ref()? {
            Input::Given { elements, offset } => elements.word(u64::try_from(offset.checked_add_unsigned(at)?).ok()?, size),
            Input::Rehearsed(bytes) => Some(word(bytes, at, size)),
        }
    }

    /// Bytes of a tensor behind the launch.
    pub fn left(&self, tensor: usize, at: u64, size: usize) -> Option<u64> {
        Some(word(self.left.get(tensor)?.as_ref()?, at, size))
    }

    /// With ones in place of floats of which nothing is known, a row's scale or a total, and zeros in place of other elements.
    pub fn made_up(&self) -> Inputs {
        Inputs { made_up: true, ..self.clone() }
    }

    /// With what a launch of the site found in a rehearsal, where nothing is known; and with what it left there.
    pub fn rehearsed(&self, before: &[Option<Vec<u8>>], left: &[Option<Vec<u8>>]) -> Inputs {
        let some = |bytes: &Option<Vec<u8>>| -> Option<Arc<[u8]>> {
            let bytes = bytes.as_deref().filter(|b| !b.is_empty())?;
            Some(mostly(bytes).unwrap_or(bytes).into())
        };
        let found = |before| Some(Input::Rehearsed(some(before)?));
        let before = self.before.iter().zip(before).map(|(known, before)| known.clone().or_else(|| found(before))).collect();
        Inputs { before, left: left.iter().map(some).collect(), made_up: self.made_up }
    }
}

/// A word of bytes that are repeated.
fn word(bytes: &[u8], at: u64, size: usize) -> u64 {
    let byte = |i: usize| u64::from(bytes[((at + i as u64) % bytes.len() as u64) as usize]);
    (0..size).rev().fold(0, |word, i| word << 8 | byte(i))
}

/// The word that most of these are.
fn mostly(bytes: &[u8]) -> Option<&[u8]> {
    let words = || bytes.chunks_exact(WORD);
    let mut counts: HashMap<&[u8], usize> = HashMap::new();
    words().for_each(|word| *counts.entry(word).or_default() += 1);
    let (word, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    (count as f64 >= MOST * words().len() as f64).then_some(word)
}

fn stores_to(launch: &Launch, base: Base) -> bool {
    let Ok(kernel) = (launch.kernel.build)() else { return true };
    let mut mutable = kernel.params.iter().zip(&launch.args).filter(|(p, _)| matches!(p.kind, ParamKind::Tensor { mutable: true, .. }));
    mutable.any(|(_, arg)| matches!(arg, LaunchArg::Tensor(r) if r.base == base))
}

/// The same by parameter of a kernel of SIMT IR.
pub(super) struct ByParam<'a> {
    pub inputs: &'a Inputs,
    /// The tensor of each parameter that is a pointer.
    pub tensors: Vec<Option<usize>>,
    /// The element type of each parameter.
    pub dtypes: Vec<DType>,
}

impl counting::Contents for ByParam<'_> {
    fn load(&self, param: usize, at: u64, size: usize) -> Option<u64> {
        let tensor = (*self.tensors.get(param)?)?;
        let known = self.inputs.load(tensor, at, size);
        let one = || Literal::from_f64(self.dtypes[param], f64::from(self.dtypes[param].is_float())).bits;
        known.or_else(|| self.inputs.made_up.then(one))
    }

    fn left(&self, param: usize, at: u64, size: usize) -> Option<u64> {
        self.inputs.left((*self.tensors.get(param)?)?, at, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(words: &[u32]) -> Inputs {
        Inputs::unrehearsed(vec![None]).rehearsed(&[Some(words.iter().flat_map(|w| w.to_le_bytes()).collect())], &[])
    }

    #[test]
    fn what_a_rehearsal_left_goes_on_and_on() {
        let numbers = found(&[7, 8, 9]);
        assert!(numbers.knows(0) && !numbers.knows(1));
        assert_eq!([0, 4, 12, 20].map(|at| numbers.load(0, at, 4)), [7, 8, 7, 9].map(Some));
        assert_eq!(numbers.load(0, 8, 8), Some(9 | 7 << 32));
    }

    #[test]
    fn a_word_that_most_are_stands_for_all() {
        let mut flags = [0u32; 32];
        flags[5] = 1;
        assert_eq!(found(&flags).load(0, 20, 4), Some(0));
        flags[6..10].fill(1);
        assert_eq!(found(&flags).load(0, 20, 4), Some(1));
    }

    #[test]
    fn what_is_made_up_is_ones_for_floats_and_zeros_for_others() {
        use girih_core::sim::counting::Contents;
        let loaded = |inputs: &Inputs| {
            let by_param = ByParam { inputs, tensors: vec![Some(0), Some(1)], dtypes: vec![DType::F32, DType::I32] };
            [0, 1].map(|param| by_param.load(param, 8, 4))
        };
        let unknown = Inputs::unrehearsed(vec![None, None]);
        assert_eq!(loaded(&unknown), [None, None]);
        assert!(unknown.made_up().knows(0) && unknown.made_up().knows(1));
        // A word that is waited for would never come.
        assert!(!unknown.made_up().knows_left(1));
        assert_eq!(loaded(&unknown.made_up()), [Some(u64::from(1f32.to_bits())), Some(0)]);
    }

    #[test]
    fn nothing_is_known_of_what_was_not_launched() {
        let nothing = Inputs::unrehearsed(vec![None]).rehearsed(&[None], &[None]);
        assert!(!nothing.knows(0) && !nothing.knows_left(0));
    }
}
