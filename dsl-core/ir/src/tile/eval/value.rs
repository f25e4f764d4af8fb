//! Values while a kernel runs: scalars, tiles with their masks, tile indices.

use std::rc::Rc;

/// A value of the tile IR. Elements are cells: see [`super::number`].
#[derive(Clone, Debug)]
pub(super) enum Val {
    /// A scalar; `None` where it was read from outside of its view.
    Scalar(Option<u64>),
    /// A tile.
    Tile(Rc<TileVal>),
    /// Which tile along an axis.
    Index(i64),
    /// A tile with what lies around it.
    Window(Rc<super::window::Frame>),
}

/// A tile in row-major order.
#[derive(Clone, Debug)]
pub(super) struct TileVal {
    /// Extents.
    pub shape: Vec<usize>,
    /// One cell per element; of absent ones anything.
    pub data: Vec<u64>,
    /// Which elements are present; all of them if `None`.
    pub mask: Option<Vec<bool>>,
}

impl TileVal {
    /// Every element the same.
    pub fn splat(shape: Vec<usize>, cell: Option<u64>) -> TileVal {
        let n = shape.iter().product();
        let mask = if cell.is_none() { Some(vec![false; n]) } else { None };
        TileVal { shape, data: vec![cell.unwrap_or(0); n], mask }
    }

    /// The element, if it is present.
    pub fn at(&self, i: usize) -> Option<u64> {
        match &self.mask {
            Some(mask) if !mask[i] => None,
            _ => Some(self.data[i]),
        }
    }

    /// A tile whose element `i` is this one's element `from(i)`.
    pub fn rearranged(&self, shape: Vec<usize>, from: impl Iterator<Item = usize> + Clone) -> TileVal {
        let data = from.clone().map(|i| self.data[i]).collect();
        let mask = self.mask.as_ref().map(|m| from.map(|i| m[i]).collect());
        TileVal { shape, data, mask }
    }
}

impl Val {
    /// As a tile of the shape, scalars repeated.
    pub fn to_tile(&self, shape: &[usize]) -> Rc<TileVal> {
        match self {
            Val::Tile(t) => t.clone(),
            Val::Scalar(cell) => Rc::new(TileVal::splat(shape.to_vec(), *cell)),
            Val::Index(_) | Val::Window(_) => panic!("eval: a tile index or window is no operand"),
        }
    }

    /// Whether both hold the same: the same bits, absent where the other one is.
    pub fn same(&self, other: &Val) -> bool {
        match (self, other) {
            (Val::Scalar(a), Val::Scalar(b)) => a == b,
            (Val::Tile(a), Val::Tile(b)) => Rc::ptr_eq(a, b) || (0..a.data.len()).all(|i| a.at(i) == b.at(i)),
            _ => false,
        }
    }

    /// The next value of what a loop carries, given the one before: where this is absent the old element, and nothing where that is absent.
    pub fn after(&self, other: &Val) -> Val {
        match (self, other) {
            (Val::Scalar(None), Val::Scalar(_)) => other.clone(),
            (Val::Tile(new), Val::Tile(old)) if new.mask != old.mask => {
                let data = (0..new.data.len()).map(|i| if new.at(i).is_some() { new.data[i] } else { old.data[i] }).collect();
                TileVal { shape: new.shape.clone(), data, mask: old.mask.clone() }.into()
            }
            _ => self.clone(),
        }
    }
}

impl From<TileVal> for Val {
    fn from(tile: TileVal) -> Val {
        Val::Tile(Rc::new(tile))
    }
}

/// The mask of an elementwise result: present where all operands are.
pub(super) fn meet(a: &Option<Vec<bool>>, b: &Option<Vec<bool>>) -> Option<Vec<bool>> {
    match (a, b) {
        (None, m) | (m, None) => m.clone(),
        (Some(a), Some(b)) => Some(a.iter().zip(b).map(|(x, y)| *x && *y).collect()),
    }
}

/// Row-major strides of a shape.
pub(super) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for k in (0..shape.len().saturating_sub(1)).rev() {
        strides[k] = strides[k + 1] * shape[k + 1];
    }
    strides
}

/// Linear positions, in row-major order over `shape`, of elements whose axis `k` advances by `strides[k]`.
pub(super) fn positions(shape: &[usize], strides: &[usize]) -> Vec<usize> {
    let mut all = vec![0];
    for (n, stride) in shape.iter().zip(strides) {
        all = all.iter().flat_map(|p| (0..*n).map(move |i| p + i * stride)).collect();
    }
    all
}
