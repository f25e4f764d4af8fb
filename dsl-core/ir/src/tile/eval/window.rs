//! Windows: read from the tensor where they are used.

use super::EvalError;
use super::memory::{ABSENT, extend};
use super::run::Machine;
use super::value::{TileVal, Val};
use crate::loc::SourceLoc;
use crate::tile::{Boundary, Ty, ValueId, ViewId};
use std::rc::Rc;

/// A window with its numbers.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    view: ViewId,
    boundary: Boundary,
    axes: Vec<FrameAxis>,
}

/// One axis of a [`Frame`].
#[derive(Clone, Copy, Debug)]
struct FrameAxis {
    /// First coordinate of the tile in the loop that its index counts.
    first: i64,
    /// The positions that this loop walks, the end excluded.
    walked: (i64, i64),
    /// What is added to reach the view's coordinate.
    shift: i64,
    size: i64,
    before: i64,
    after: i64,
}

impl Machine<'_, '_> {
    /// Makes a window.
    pub(super) fn frame(
        &self,
        id: ValueId,
        view: ViewId,
        index: &[ValueId],
        shift: &[Option<ValueId>],
        boundary: Boundary,
        loc: SourceLoc,
    ) -> Result<Val, EvalError> {
        let Ty::Window(_, reach) = self.kernel.ty(id) else { panic!("eval: %{} is no window", id.0) };
        let mut axes = Vec::new();
        for ((index, shift), r) in index.iter().zip(shift).zip(reach) {
            let shift = match shift {
                Some(s) => self.integer(*s, "the place of the window", loc)?,
                None => 0,
            };
            let walked = self.walked(*index, loc)?;
            let (size, before, after) = (self.size(&r.size), self.size(&r.before), self.size(&r.after));
            axes.push(FrameAxis { first: self.first(*index), walked, shift, size, before, after });
        }
        Ok(Val::Window(Rc::new(Frame { view, boundary, axes })))
    }

    /// A window at an offset.
    pub(super) fn near(&mut self, id: ValueId, window: ValueId, offsets: &[ValueId], loc: SourceLoc) -> Result<Val, EvalError> {
        let Val::Window(frame) = self.val(window).clone() else { panic!("eval: %{} is no window", window.0) };
        let scalar = matches!(self.kernel.ty(id), Ty::Scalar(_));
        let tensor = self.window(frame.view, loc)?;
        let mut addresses = vec![tensor.start];
        // Which elements the tile has, and which of them the boundary gives.
        let (mut own, mut outside) = (vec![0], vec![0]);
        for (axis, (f, offset)) in frame.axes.iter().zip(offsets).enumerate() {
            let offset = self.integer(*offset, "the offset", loc)?;
            let last = if scalar { f.size - 1 + f.after } else { f.after };
            if !(-f.before..=last).contains(&offset) {
                return Err(EvalError::BeyondHalo { axis, offset, before: f.before, after: last, loc });
            }
            let len = tensor.lens[axis];
            let place = |i: i64| match frame.boundary {
                Boundary::Clamp if len > 0 => tensor.step(axis, (f.first + f.shift + offset + i).clamp(0, len - 1)),
                _ => tensor.step(axis, f.first + f.shift + offset + i),
            };
            let elements = 0..if scalar { 1 } else { f.size };
            let exists = |i: i64| if scalar || (f.walked.0..f.walked.1).contains(&(f.first + i)) { 0 } else { ABSENT };
            let steps: Vec<i64> = elements.clone().map(|i| if place(i) == ABSENT { 0 } else { place(i) }).collect();
            let beyond: Vec<i64> = elements.clone().map(|i| if place(i) == ABSENT { ABSENT } else { 0 }).collect();
            addresses = extend(&addresses, &steps);
            own = extend(&own, &elements.map(exists).collect::<Vec<_>>());
            outside = extend(&outside, &beyond);
        }
        let shape: Vec<usize> = if scalar { vec![] } else { self.extents(id) };
        self.hide(&[id], &mut own);
        let numbers = self.numbers;
        let dtype = self.kernel.view(frame.view).dtype;
        let data: Vec<u64> = (0..addresses.len())
            .map(
                |i| if outside[i] == ABSENT || own[i] == ABSENT { 0 } else { numbers.load(dtype, tensor.read(self.buffers, addresses[i])) },
            )
            .collect();
        let present = |i: usize| own[i] != ABSENT && (outside[i] != ABSENT || frame.boundary != Boundary::Valid);
        if scalar {
            return Ok(Val::Scalar(present(0).then_some(data[0])));
        }
        let mask: Vec<bool> = (0..data.len()).map(present).collect();
        let mask = mask.contains(&false).then_some(mask);
        Ok(TileVal { shape, data, mask }.into())
    }
}
