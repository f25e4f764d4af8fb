//! Where the rows of an operand's copy lie in shared memory. For matrix units they are swizzled. For multiply-adds, where the contiguous axis
//! is that of the sum, a thread reads neighbours along it, and rows are moved apart, or swizzled where that is better, until the lanes of
//! a warp meet in as few banks as they can.

use super::context::Expander;
use super::index::Index as Ix;
use super::window::{CopyAxis, WindowCopy};
use crate::block::Reader;
use crate::block::gcd;
use girih_ir::fragments::Operand as Role;
use girih_ir::layout::{SharedLayout, bank_wavefronts};
use girih_ir::simt::SharedId;
use girih_ir::types::DType;

/// Index arithmetic in shared memory.
const LOCAL: Ix = Ix { dtype: DType::I32 };
/// Neighbours along the axis of the sum that a thread reads at once, at most.
const MOST_INNER: i64 = 4;

/// A copy of an operand, before it has its place.
pub(crate) struct Rows {
    pub dtype: DType,
    /// Elements along every axis.
    pub extents: Vec<i64>,
    /// The axis along which rows lie, and the one across them.
    pub fast: usize,
    pub slow: usize,
    /// The axis that the result has, too, is the one along the rows.
    pub outer_is_fast: bool,
    /// The tensor is contiguous along the other axis: copies write down the columns.
    pub transposed: bool,
    /// Copies go by `cp.async`.
    pub asynchronous: bool,
}

impl Expander<'_> {
    /// Room in shared memory for rows, swizzled or moved apart so that the reads of a warp meet in few banks, so many copies one after the
    /// other.
    pub fn place_rows(&mut self, reader: Reader, rows: &Rows, name: &str, copies: i64) -> WindowCopy {
        if self.kernel.launch.units.as_ref().is_some_and(|units| units.group.is_some()) {
            return self.place_panels(rows, name, copies);
        }
        let Rows { dtype, ref extents, fast, slow, .. } = *rows;
        let bytes = dtype.size() as i64;
        let unit = 16 / bytes;
        let row = (extents[fast] + unit - 1) / unit * unit;
        let swizzle = self.swizzled_rows(reader, rows, name);
        let pitch = row + if swizzle.is_some() { 0 } else { unit * self.padding(reader, rows, row) };
        let axis = |k: usize| CopyAxis { before: 0, extent: extents[k], pitch: if k == slow { pitch } else { 1 } };
        let stage = (extents[slow] * pitch + unit - 1) / unit * unit;
        let mut copy = WindowCopy {
            id: SharedId(0),
            first: LOCAL.lit(0),
            stage,
            axes: (0..extents.len()).map(axis).collect(),
            fast,
            run: extents[fast],
            gap: 0,
            width: unit,
            swizzle: swizzle.map(|layout| (slow, layout)),
        };
        copy.id = self.new_shared(name, dtype, copies * stage);
        copy
    }

    /// How rows are swizzled that matrix units read: `ldmatrix` reads 16 bytes of 8 rows; lanes that read element by element lie in 4 rows,
    /// as many apart as elements share a register, or 2 beside accumulators, with 8 neighbours in each.
    fn swizzled_rows(&mut self, reader: Reader, rows: &Rows, name: &str) -> Option<SharedLayout> {
        let Some(form) = self.kernel.launch.units.as_ref().map(|m| m.form) else { return self.swizzled_for_threads(reader, rows, name) };
        let role = if reader.left { Role::A } else { Role::B };
        let contiguous = usize::from(rows.outer_is_fast != reader.left);
        let fed = self.is_beside_sums(reader);
        let by_matrices = form.matrices_read(role, contiguous, fed).is_some() && form.dtype(role) == rows.dtype;
        let bytes = rows.dtype.size() as i64;
        let apart = if fed { 2 } else { form.atom.per_word(form.role(role)) as i64 };
        let (together, meeting) = if by_matrices { (16, [8, 1]) } else { (8 * bytes.max(2), [4, apart]) };
        let layout = SharedLayout::swizzled(rows.extents[rows.fast], bytes, together, meeting)?;
        self.comment(described(&layout, name, together));
        Some(layout)
    }

    /// How rows are swizzled from which threads read neighbours along the axis of the sum, where that makes them meet in fewer banks than rows
    /// moved apart do: threads that own neighbouring rows begin some rows apart, whose distance in banks stays even however wide the gap.
    fn swizzled_for_threads(&mut self, reader: Reader, rows: &Rows, name: &str) -> Option<SharedLayout> {
        let (columns, bytes) = (rows.extents[rows.fast], rows.dtype.size() as i64);
        let (width, depth) = self.read_widths(reader, columns, rows.outer_is_fast, bytes);
        let together = width.max(depth) * bytes;
        let segment = (1i64 << (columns * bytes).trailing_zeros()).min(128);
        // Copies write up to 16 bytes at once, which stay together.
        if rows.outer_is_fast || together != 16 || segment <= together {
            return None;
        }
        let positions = self.row_positions(reader, false);
        let waves = |layout: &SharedLayout| {
            let starts: Vec<i64> = positions.iter().map(|(r, c)| layout.address(*r, *c) * bytes).collect();
            bank_wavefronts(&starts, together)
        };
        let unit = 16 / bytes;
        let row = (columns + unit - 1) / unit * unit;
        let apart = SharedLayout::plain(row + unit * self.padding(reader, rows, row));
        let chunk = (together / bytes).ilog2();
        let swizzles = (0..6).map(|shift| SharedLayout { pitch: columns, chunk, shift, mask: segment / together - 1 });
        let best = swizzles.min_by_key(|s| (waves(s), s.shift)).filter(|s| columns == row && waves(s) < waves(&apart))?;
        self.comment(described(&best, name, together));
        Some(best)
    }

    /// By how many units of 16 bytes rows are moved apart until the reads of a warp meet in as few banks as they can. What matrix units
    /// read is swizzled where that is needed.
    fn padding(&self, reader: Reader, rows: &Rows, row: i64) -> i64 {
        if self.kernel.launch.units.is_some() {
            return 0;
        }
        let bytes = rows.dtype.size() as i64;
        let unit = 16 / bytes;
        let positions = self.row_positions(reader, rows.outer_is_fast);
        let inner = rows.extents[if rows.outer_is_fast { rows.slow } else { rows.fast }];
        let (width, depth) = self.read_widths(reader, inner, rows.outer_is_fast, bytes);
        let written = if rows.transposed { self.written_positions(rows) } else { vec![] };
        let waves = |positions: &[(i64, i64)], extra: i64, bytes_each: i64| {
            let starts: Vec<i64> = positions.iter().map(|(r, c)| (r * (row + extra * unit) + c) * bytes).collect();
            bank_wavefronts(&starts, bytes_each)
        };
        let cost = |extra: i64| (waves(&positions, extra, width.max(depth) * bytes), waves(&written, extra, bytes), extra);
        (0..4).min_by_key(|extra| cost(*extra)).unwrap_or(0)
    }

    /// Row and column in a transposed copy at which the first warp writes the first elements of what it read: items lie along the rows of the
    /// tensor, which are the columns of the copy.
    fn written_positions(&self, rows: &Rows) -> Vec<(i64, i64)> {
        let (inner, bytes) = (rows.extents[rows.slow], rows.dtype.size() as i64);
        let width = if rows.asynchronous { 1 } else { gcd(inner, self.kernel.launch.vector.min(16 / bytes)) };
        (0..self.team.threads.min(32)).map(|lane| (lane * width % inner, lane * width / inner)).collect()
    }

    /// Row and column in the copy at which the lanes of the first warp begin to read.
    fn row_positions(&self, reader: Reader, outer_is_fast: bool) -> Vec<(i64, i64)> {
        let (layout, axis) = (self.own_layout(reader.acc), usize::from(!reader.left));
        let lanes = (0..layout.threads.min(32)).map(|lane| layout.coordinates(lane, 0)[axis]);
        lanes.map(|p| if outer_is_fast { (0, p) } else { (p, 0) }).collect()
    }

    /// Elements per read along the outer and the inner axis.
    pub fn read_widths(&self, reader: Reader, inner: i64, outer_is_fast: bool, bytes: i64) -> (i64, i64) {
        let digits = self.outer_digits(reader);
        let run = digits.first().filter(|d| d.place == 1).map_or(1, |d| d.extent);
        let most = |n: i64, limit: i64| [16, 8, 4, 2].into_iter().find(|w| *w <= limit && n % w == 0).unwrap_or(1);
        if outer_is_fast { (most(run, 16 / bytes), 1) } else { (1, most(inner, MOST_INNER.min(16 / bytes))) }
    }
}

/// A swizzle in words.
fn described(layout: &SharedLayout, name: &str, together: i64) -> String {
    let row = if layout.shift == 0 { "row".to_string() } else { format!("row / {}", 1 << layout.shift) };
    format!("{name} is swizzled: chunk c of {together} bytes of a row lies at chunk c ^ {row} % {}", layout.mask + 1)
}
