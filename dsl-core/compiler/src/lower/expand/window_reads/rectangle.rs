//! The registers that a group of reads fills: every element that a thread needs, once.

use super::Origin;
use crate::block::Group;
use crate::block::{Boundary, ValueId};
use crate::lower::expand::context::Expander;
use crate::lower::expand::window::{WindowRep, own_run};
use std::collections::BTreeMap;

/// The registers that a group of reads fills.
pub(super) struct Rectangle {
    /// Neighbours that a thread owns, per axis.
    pub(super) runs: Vec<i64>,
    /// Register digits beside those: axis, place, extent, and registers of the rectangle from one to the next.
    pub(super) outer: Vec<(usize, i64, i64, i64)>,
    /// First offset, one past the last, and registers from one to the next, per axis.
    pub(super) axes: Vec<(i64, i64, i64)>,
    /// The axis whose elements are neighbours.
    pub(super) fast: usize,
    /// Elements per access.
    pub(super) width: i64,
    /// Registers before the first one of a row, which stay empty: wide accesses begin at multiples of their width.
    pub(super) lead: i64,
    /// Rows are read in whole accesses, beyond what is needed.
    whole: bool,
    pub(super) registers: i64,
}

impl Expander<'_> {
    /// The rectangle of a group, its rows in accesses as wide as the place they come from allows.
    pub(super) fn rectangle(&mut self, group: &Group, window: &WindowRep, origin: &Origin) -> Rectangle {
        let rank = window.index.len();
        let runs: Vec<i64> = (0..rank).map(|k| if group.scalar { 1 } else { own_run(&window.layout, k) }).collect();
        let fast = match &window.copy {
            Some(copy) => copy.fast,
            None => self.contiguous_axis(window),
        };
        let bound = |k: usize| {
            let all = group.members.iter().map(|(_, o)| o[k]);
            (all.clone().min().unwrap_or(0), all.max().unwrap_or(0) + runs[k])
        };
        let mut axes: Vec<(i64, i64, i64)> = (0..rank).map(|k| (bound(k).0, bound(k).1, 0)).collect();
        let width = match (&window.copy, origin) {
            (Some(copy), Origin::Copy { along, .. }) => {
                let mut width = if axes[fast].1 - axes[fast].0 == 1 { 1 } else { copy.width };
                while width > 1 && along.as_ref().is_some_and(|b| self.multiple(b) % width != 0) {
                    width /= 2;
                }
                // The copy has room for whole accesses at both ends.
                axes[fast].0 = axes[fast].0.div_euclid(width) * width;
                axes[fast].1 = (axes[fast].1 + width - 1).div_euclid(width) * width;
                width
            }
            (_, Origin::Global(_)) if axes[fast].1 - axes[fast].0 == 1 => 1,
            (_, Origin::Global(_)) if !self.is_packed(window, fast) => 1,
            (_, Origin::Global(_)) => {
                self.begin_copy_of(window.view, fast);
                if window.boundary != Boundary::Clamp {
                    self.window_len(window, fast);
                }
                group.width
            }
            _ => panic!("near: a copy without its window"),
        };
        let lead = axes[fast].0.rem_euclid(width);
        axes[fast].2 = 1;
        let mut registers = (lead + axes[fast].1 - axes[fast].0 + width - 1) / width * width;
        for k in (0..rank).rev().filter(|k| *k != fast) {
            axes[k].2 = registers;
            registers *= axes[k].1 - axes[k].0;
        }
        let mut outer = Vec::new();
        if !group.scalar {
            for (axis, d) in window.layout.register_digits() {
                if d.place != 1 {
                    outer.push((axis, d.place, d.extent, registers));
                    registers *= d.extent;
                }
            }
        }
        Rectangle { runs, outer, axes, fast, width, lead, whole: window.copy.is_some(), registers }
    }

    fn is_packed(&mut self, window: &WindowRep, axis: usize) -> bool {
        let stride = self.kernel.view(window.view).axes[axis].stride;
        self.constant(stride) == Some(1)
    }

    /// The view's axis whose elements are neighbours in memory; the last one if none is.
    fn contiguous_axis(&mut self, window: &WindowRep) -> usize {
        let strides: Vec<ValueId> = self.kernel.view(window.view).axes.iter().map(|a| a.stride).collect();
        (0..strides.len()).rev().find(|k| self.constant(strides[*k]) == Some(1)).unwrap_or(strides.len() - 1)
    }
}

impl Rectangle {
    /// Registers from one to the next, for each register digit of the window's tile.
    pub fn digits(&self, window: &WindowRep) -> Vec<(usize, i64, i64)> {
        let step = |axis: usize, place: i64| {
            let outer = self.outer.iter().find(|(k, p, ..)| *k == axis && *p == place);
            (axis, place, outer.map_or(self.axes[axis].2, |(.., step)| *step))
        };
        window.layout.register_digits().into_iter().map(|(axis, d)| step(axis, d.place)).collect()
    }

    /// The rows that are needed, by their coordinates along all axes but the fast one, and which elements of each.
    pub fn rows(&self, group: &Group) -> BTreeMap<Vec<i64>, (i64, i64)> {
        let mut rows: BTreeMap<Vec<i64>, (i64, i64)> = BTreeMap::new();
        let slow: Vec<usize> = (0..self.axes.len()).filter(|k| *k != self.fast).collect();
        for (_, offsets) in &group.members {
            let mut starts = vec![vec![]];
            for k in &slow {
                let more = |row: Vec<i64>| (0..self.runs[*k]).map(move |e| (row.clone(), e));
                starts = starts.into_iter().flat_map(more).map(|(row, e)| row.into_iter().chain([offsets[*k] + e]).collect()).collect();
            }
            let (low, high) = (offsets[self.fast], offsets[self.fast] + self.runs[self.fast]);
            for row in starts {
                let range = rows.entry(row).or_insert((low, high));
                *range = (range.0.min(low), range.1.max(high));
            }
        }
        for range in rows.values_mut().filter(|_| self.whole) {
            let low = range.0.div_euclid(self.width) * self.width;
            let high = (range.1 + self.width - 1).div_euclid(self.width) * self.width;
            *range = (low, high);
        }
        rows
    }
}
