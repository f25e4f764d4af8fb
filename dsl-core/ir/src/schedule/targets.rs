//! What a knob is for, where it is not for all of a kernel: `stages(S of k = ..)`, `copy(P of a = ..)`.

use super::{Knob, KnobKind};
use crate::tile::{Kernel, KnobId, TileLoop, ValueId};

/// The loops or the tensor that a knob names.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Of {
    /// The loops over tiles with a variable of this name.
    Loop(String),
    /// The tensor parameter of this name.
    Tensor(String),
}

impl Of {
    /// The author's name.
    pub fn name(&self) -> &str {
        match self {
            Of::Loop(name) | Of::Tensor(name) => name,
        }
    }
}

/// Where a kernel asks for the choice of a knob. The default is nowhere in particular: there only knobs for all count.
#[derive(Clone, Default, Debug)]
pub struct Site<'k> {
    /// The tensor at hand: the number of its parameter.
    pub tensor: Option<usize>,
    /// The tile indices of each loop around, outermost first.
    pub loops: Vec<&'k [ValueId]>,
}

impl<'k> Site<'k> {
    /// A loop itself.
    pub fn of_loop(l: &'k TileLoop) -> Site<'k> {
        Site { tensor: None, loops: vec![&l.vars] }
    }

    /// How near a knob's target is: lower is nearer, `None` for a knob that is for something else.
    fn distance(&self, kernel: &Kernel, knob: &Knob) -> Option<usize> {
        let named = |v: &ValueId, name: &str| kernel.value(*v).name.as_deref() == Some(name);
        match &knob.of {
            Some(Of::Tensor(name)) => self.tensor.filter(|p| kernel.params[*p].name == *name).map(|_| 0),
            Some(Of::Loop(name)) => self.loops.iter().rev().position(|vars| vars.iter().any(|v| named(v, name))).map(|at| 1 + at),
            None => Some(usize::MAX),
        }
    }
}

impl Kernel {
    /// The knob of a kind that counts at a site: the one for its tensor, else for the innermost loop, else for all.
    pub fn knob_at(&self, kind: KnobKind, site: &Site) -> Option<KnobId> {
        let of_kind = self.knobs.iter().enumerate().filter(|(_, knob)| knob.kind == kind);
        let near = of_kind.filter_map(|(i, knob)| Some((site.distance(self, knob)?, i)));
        near.min().map(|(_, i)| KnobId(i as u32))
    }

    /// All knobs of a kind, in the author's order.
    pub fn knobs_of(&self, kind: KnobKind) -> impl Iterator<Item = KnobId> + '_ {
        (0..self.knobs.len()).filter(move |i| self.knobs[*i].kind == kind).map(|i| KnobId(i as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loc::SourceLoc;
    use crate::schedule::{Choice, Schedule, attribute_of};
    use crate::tile::Stmt;
    use crate::tile::by_hand::{Builder, add_one};

    /// `y[t] = x[t] + 1` with copies for all, for the loop and for one tensor.
    fn kernel() -> Kernel {
        let knob = |name: &str, of| {
            let choices = vec![Choice::Word("Registers".into())];
            Knob { name: name.into(), kind: KnobKind::Copy, of, choices, loc: SourceLoc::NONE }
        };
        let mut builder = Builder::tiled("k", &[64]);
        let of = [Some(Of::Loop("t".into())), Some(Of::Tensor("x".into())), None];
        builder.kernel.knobs.extend(["L", "X", "P"].iter().zip(of).map(|(name, of)| knob(name, of)));
        let mut kernel = add_one(builder);
        let var = kernel.grid_loop().expect("a grid").vars[0];
        kernel.values[var.0 as usize].name = Some("t".into());
        kernel
    }

    #[test]
    fn the_nearest_knob_counts() {
        let kernel = kernel();
        let Some(Stmt::Tiles(grid)) = kernel.body.last() else { panic!("the kernel ends with its loop") };
        let name = |site: Site| kernel.knob(kernel.knob_at(KnobKind::Copy, &site).expect("a knob")).name.as_str();
        let inside = |p| Site { tensor: Some(p), ..Site::of_loop(grid) };
        assert_eq!([name(inside(0)), name(inside(1)), name(Site::default())], ["X", "L", "P"]);
        assert!(kernel.knob_at(KnobKind::Stages, &inside(0)).is_none());
    }

    #[test]
    fn knobs_say_what_they_are_for() {
        let kernel = kernel();
        let pinned = Schedule::default_of(&kernel).attribute(&kernel);
        assert_eq!(pinned, "#[kernel(tile(T = 64), copy(L of t = Registers, X of x = Registers, P = Registers))]");
        let mut knobs = kernel.knobs[1..].to_vec();
        knobs[2].name = "copy".into();
        let alone = attribute_of(&knobs, &Schedule::default_of(&kernel).choices[1..]);
        assert_eq!(alone, "#[kernel(copy(L of t = Registers, X of x = Registers), copy = Registers)]");
        assert!(kernel.to_string().contains("knob X = copy of x [Registers]"), "{kernel}");
    }
}
