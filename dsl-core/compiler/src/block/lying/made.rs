//! What operations, combinations and reads at computed positions make of tiles.

use super::{Lying, Walk};
use crate::block::layouts::{by_lanes, projected, renumbered, with_rows};
use crate::block::mask::{Mask, Test};
use crate::block::{Combine, Form, Op, SharedId, SharedKind, Update, ValueId, ViewId, operands};
use girih_ir::layout::{Digit, Layout, Source};

/// What computed positions are positions of.
#[derive(Clone, Copy)]
pub(super) enum Memory {
    View(ViewId),
    Shared(SharedId),
}

impl Walk<'_> {
    /// What an operation makes.
    pub fn made(&self, value: ValueId, op: &Op) -> Lying {
        match op {
            Op::Dot { acc, .. } => Lying { layout: self.own(*acc), mask: self.tile(*acc).mask },
            Op::Near(window, _) => {
                let Lying { layout, mut mask } = self.tile(*window);
                mask.and(&self.sides_of(self.page.value(value).form));
                Lying { layout, mask }
            }
            Op::Gather(view, indices) | Op::GatherInside(view, indices) => self.met(value, indices, Memory::View(*view), indices.len()),
            Op::Or { tile, .. } => {
                let Lying { layout, mask } = self.tile(*tile);
                let filled = || if mask == Mask::default() { None } else { self.layout_of(*tile) };
                Lying { layout: layout.or_else(filled), mask: Mask::default() }
            }
            Op::Total { scan, axis } => {
                let kept = |l: &Layout| (0..l.axes.len()).filter(|k| k != axis).map(|k| l.axes[k].clone()).collect();
                Lying { layout: self.layout_of(*scan).map(|l| renumbered(kept(&l), l.threads)), mask: Mask::default() }
            }
            Op::Shuffle { value: of, .. } | Op::Vote(_, of) => {
                let threads = self.team().threads;
                Lying { layout: self.layout_of(*of).and_then(|own| by_lanes(own, threads)), mask: Mask::default() }
            }
            Op::Stack(parts) => {
                let layout = parts.iter().find_map(|v| self.tile(*v).layout).or_else(|| self.natural(parts[0]));
                let mut mask = self.tile(parts[0]).mask;
                parts.iter().for_each(|v| mask = mask.without(&mask.without(&self.tile(*v).mask)));
                if parts.iter().any(|v| self.tile(*v).mask != mask) {
                    let rank = self.page.ty(value).shape().map_or(0, <[_]>::len);
                    mask.sides.extend(self.page.value(value).found.map(|found| vec![Test::of(found, true, rank)]));
                }
                Lying { layout: layout.map(|l| l.with_register_axis(l.axes.len(), parts.len() as i64)), mask }
            }
            Op::Pick { tile, axis, .. } => self.picked(value, *tile, *axis),
            Op::Transpose(tile, perm) => {
                let Lying { layout, mut mask } = self.tile(*tile);
                mask.renumber(|axis| perm.iter().position(|k| *k == axis));
                Lying { layout: layout.or_else(|| self.natural(*tile)).map(|l| l.permuted(perm)), mask }
            }
            Op::Like { model, .. } => Lying { layout: None, mask: self.tile(*model).mask },
            Op::Splat(_) | Op::Iota | Op::Coordinates(_) => Lying::default(),
            _ => self.elementwise(value, op),
        }
    }

    /// Whether a tile whose axis `k` is axis `axes[k]` of a layout lies so, or is computed so, without a change of hands.
    pub fn fits(&self, value: ValueId, layout: &Layout, axes: &[usize]) -> bool {
        if !self.is_tile(value) {
            return true;
        }
        match (&self.tile(value).layout, self.ops.get(&value)) {
            (Some(own), _) => {
                let wanted = projected(layout, axes);
                *own == wanted || self.page.can_exchange(own, &wanted)
            }
            (None, Some(Op::Broadcast(of, from))) => {
                let mut inner = vec![0; from.iter().flatten().count()];
                from.iter().enumerate().for_each(|(k, f)| f.iter().for_each(|f| inner[*f] = axes[k]));
                self.fits(*of, layout, &inner)
            }
            (None, Some(op)) => operands(op).into_iter().all(|v| self.fits(v, layout, axes)),
            (None, None) => true,
        }
    }

    fn elementwise(&self, value: ValueId, op: &Op) -> Lying {
        let of: Vec<ValueId> = operands(op).into_iter().filter(|v| self.is_tile(*v)).collect();
        let none = Mask::default();
        let mut mask = self.page.mask_of(op, &of, &|v| self.tiles.get(&v).map_or(&none, |t| &t.mask));
        if let Some(found) = self.page.value(value).found.filter(|_| mask.tests() > 4) {
            let rank = self.page.ty(value).shape().map_or(0, <[_]>::len);
            mask.sides = vec![vec![Test::of(found, true, rank)]];
        }
        let layout = match op {
            Op::Broadcast(..) => None,
            _ => of.iter().find_map(|v| self.tile(*v).layout),
        };
        // Where an operand came from memory in longer runs than accumulators have, the result goes there, too.
        let longer = |own: &Layout| {
            let last = own.axes.len() - 1;
            let all = of.iter().filter_map(|v| self.tile(*v).layout);
            all.into_iter().find(|l| own.run(last) < l.run(last)).filter(|l| self.page.can_exchange(own, l))
        };
        let layout = layout.map(|own| longer(&own).unwrap_or(own));
        Lying { layout, mask }
    }

    fn picked(&self, value: ValueId, tile: ValueId, axis: usize) -> Lying {
        let Lying { layout, mut mask } = self.tile(tile);
        mask.renumber(|k| (k != axis).then_some(k - usize::from(k > axis)));
        let Some(extent) = self.page.ty(tile).shape().map(|s| s[axis]) else { return Lying::default() };
        let whole = [Digit { source: Source::Register, stride: 1, extent, place: 1 }];
        let own = layout.filter(|l| extent == 1 || l.axes[axis] == whole);
        let layout = own.or_else(|| Some(self.natural(value)?.with_register_axis(axis, extent)));
        let rest = layout.map(|l| {
            let kept = (0..l.axes.len()).filter(|k| *k != axis).map(|k| l.axes[k].clone()).collect();
            renumbered(kept, l.threads)
        });
        Lying { layout: rest, mask }
    }

    /// Where tiles of positions in a tensor meet, and which of their elements exist.
    pub fn meeting(&self, view: ViewId, positions: &[ValueId]) -> Lying {
        self.meeting_at(positions, Memory::View(view))
    }

    /// Where tiles of positions in a shared array meet, with the value that is stored there.
    pub fn meeting_in_array(&self, array: SharedId, values: &[ValueId]) -> Lying {
        self.meeting_at(values, Memory::Shared(array))
    }

    fn meeting_at(&self, values: &[ValueId], memory: Memory) -> Lying {
        let tiles: Vec<ValueId> = values.iter().copied().filter(|v| self.is_tile(*v)).collect();
        let mut mask = self.sides_of(tiles.first().and_then(|v| self.page.value(*v).form));
        tiles.iter().for_each(|v| mask.and(&self.tile(*v).mask));
        let known = tiles.iter().find_map(|v| self.tile(*v).layout);
        let known = known.or_else(|| self.rows_at(*tiles.first()?)).or_else(|| self.natural(*tiles.first()?));
        let by_hand = matches!(memory, Memory::Shared(id) if self.page.shared_array(id).by_hand);
        let threads = self.team().threads;
        Lying { layout: known.map(|l| if by_hand { by_lanes(l.clone(), threads).unwrap_or(l) } else { l }), mask }
    }

    /// Where positions lie that are repeated for the elements of short rows.
    fn rows_at(&self, positions: ValueId) -> Option<Layout> {
        let Some(Op::Broadcast(of, from)) = self.ops.get(&positions) else { return None };
        with_rows(&self.tile(*of).layout?, from, self.page.ty(positions).shape()?)
    }

    /// Tiles that are read or updated at computed positions: where these meet. Elements at positions out of range are absent.
    fn met(&self, value: ValueId, values: &[ValueId], memory: Memory, positions: usize) -> Lying {
        let Lying { layout, mut mask } = self.meeting_at(values, memory);
        if mask.tests() >= 4 {
            mask.sides.clear();
        }
        if !self.surely_found(&values[..positions], memory) {
            let rank = self.page.ty(value).shape().map_or(0, <[_]>::len);
            mask.sides.extend(self.page.value(value).found.map(|found| vec![Test::of(found, true, rank)]));
        }
        Lying { layout, mask }
    }

    /// Whether all positions are surely in range.
    pub(super) fn surely_found(&self, positions: &[ValueId], memory: Memory) -> bool {
        let lens: Vec<Option<i64>> = match memory {
            Memory::Shared(id) => self.page.shared_array(id).shape.iter().map(|n| Some(*n)).collect(),
            Memory::View(id) => self.page.view(id).axes.iter().map(|axis| self.page.constant(axis.len)).collect(),
        };
        positions.iter().zip(lens).all(|(at, len)| len.is_some_and(|len| self.ranges.lies_below(*at, len)))
    }

    pub(super) fn updated(&mut self, update: &Update, memory: Memory) {
        if let Some(result) = update.result {
            let lying = self.met(result, &update.uses(), memory, update.indices.len());
            self.set(result, lying);
        }
    }

    pub(super) fn shared(&mut self, array: SharedId, kind: &SharedKind) {
        match kind {
            SharedKind::Gather { indices, result, .. } => {
                let lying = self.met(*result, indices, Memory::Shared(array), indices.len());
                self.set(*result, lying);
            }
            SharedKind::GatherRun { indices, result } => {
                let run = self.page.ty(*result).shape().map_or(1, |s| s[0]);
                let layout = self.met(*result, indices, Memory::Shared(array), indices.len()).layout.map(|l| l.with_register_axis(0, run));
                self.set(*result, Lying { layout, mask: Mask::default() });
            }
            SharedKind::Atomic(update) => self.updated(update, Memory::Shared(array)),
            SharedKind::Take { result } => self.set(*result, Lying::default()),
            SharedKind::Fill(_) | SharedKind::Empty | SharedKind::Scatter { .. } | SharedKind::ScatterRun { .. } => {}
            SharedKind::Copy { .. } | SharedKind::Start(_) | SharedKind::Leave(_) => {}
        }
    }

    pub(super) fn combined(&mut self, c: &Combine) {
        let layout = c.inputs.iter().find_map(|v| self.tile(*v).layout).or_else(|| self.layout_of(c.inputs[0]));
        for (result, input) in c.results.iter().zip(&c.inputs) {
            let lying = match &c.form {
                Form::Reduce { axes } => {
                    let kept = |l: &Layout| (0..l.axes.len()).filter(|k| !axes.contains(k)).collect::<Vec<_>>();
                    Lying {
                        layout: layout.as_ref().map(|l| renumbered(kept(l).iter().map(|k| l.axes[*k].clone()).collect(), l.threads)),
                        mask: Mask::default(),
                    }
                }
                Form::Scan { .. } => Lying { layout: layout.clone(), mask: self.tile(*input).mask },
                Form::Before | Form::Grid => Lying { layout: layout.clone(), mask: Mask::default() },
            };
            self.set(*result, lying);
        }
    }
}
