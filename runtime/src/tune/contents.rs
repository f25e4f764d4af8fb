//! What a launch finds in memory at its true size, made where it is looked at: the inputs of a challenge, chunk by chunk.

use super::SEED;
use super::launches::Launch;
use crate::subject::Subject;
use crate::subject::challenge::Sizes;
use crate::subject::inputs::Elements;
use girih_core::program::Base;
use girih_core::program::walk::LaunchArg;
use girih_core::sim::counting;
use girih_core::tile::ParamKind;

/// The inputs that a launch site finds as the call brought them, by parameter of its kernel.
#[derive(Default)]
pub struct Inputs(Vec<Option<Input>>);

struct Input {
    elements: Elements,
    /// Bytes of the input before the launch's tensor.
    offset: i64,
}

impl Inputs {
    /// Of a launch at these sizes; without those that a launch of another site may have changed before.
    pub fn of(subject: &Subject, sizes: &Sizes, launch: &Launch, all: &[Launch]) -> Inputs {
        let changed = |base: Base| all.iter().filter(|l| l.site != launch.site).any(|l| stores_to(l, base));
        let input = |arg: &LaunchArg| {
            let LaunchArg::Tensor(region) = arg else { return None };
            let Base::Param(param) = region.base else { return None };
            let elements = subject.input(param, sizes, SEED).filter(|_| !changed(region.base))?;
            Some(Input { elements, offset: region.offset })
        };
        Inputs(launch.args.iter().map(input).collect())
    }

    /// Whether a tensor's elements are known.
    pub fn knows(&self, tensor: usize) -> bool {
        self.0.get(tensor).is_some_and(Option::is_some)
    }

    /// Bytes of a tensor.
    pub fn load(&self, tensor: usize, at: u64, size: usize) -> Option<u64> {
        let input = self.0.get(tensor)?.as_ref()?;
        input.elements.word(u64::try_from(input.offset.checked_add_unsigned(at)?).ok()?, size)
    }
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
}

impl counting::Contents for ByParam<'_> {
    fn load(&self, param: usize, at: u64, size: usize) -> Option<u64> {
        self.inputs.load((*self.tensors.get(param)?)?, at, size)
    }
}
