//! What the references of transformer blocks are made of, in double precision, and their weights.

use super::attention::reference;
use girih::cores::each_of;

/// Rows of numbers, one after the other.
#[derive(Clone)]
pub struct Rows {
    /// Numbers of a row.
    pub width: usize,
    /// All numbers.
    pub of: Vec<f64>,
}

impl Rows {
    /// Row `i`.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.of[i * self.width..(i + 1) * self.width]
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.of.len().checked_div(self.width).unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each row made anew, all of one width.
    pub fn map(&self, width: usize, f: impl Fn(usize, &[f64]) -> Vec<f64> + Sync) -> Rows {
        Rows { width, of: each_of(self.len(), |i| f(i, self.row(i))).concat() }
    }

    /// The sums of elements.
    pub fn plus(&self, other: &Rows) -> Rows {
        Rows { width: self.width, of: self.of.iter().zip(&other.of).map(|(a, b)| a + b).collect() }
    }

    /// The products with a matrix of `cols` columns, whose element in row `k` and column `n` is `w(k, n)`.
    pub fn times(&self, cols: usize, w: impl Fn(usize, usize) -> f64 + Sync) -> Rows {
        self.map(cols, |_, row| {
            let mut sums = vec![0.0; cols];
            for (k, factor) in row.iter().enumerate() {
                sums.iter_mut().enumerate().for_each(|(n, sum)| *sum += factor * w(k, n));
            }
            sums
        })
    }
}

/// The heads' attentions side by side: of queries, keys and values with `width` columns for each head; as many query heads as there are for
/// each head of keys share it.
pub fn attended(q: &Rows, k: &Rows, v: &Rows, width: usize, is_causal: bool) -> Rows {
    let heads = (q.width / width, k.width / width);
    q.map(q.width, |i, query| {
        let head = |h: usize| {
            let (own, of_keys) = (h * width, h * heads.1 / heads.0 * width);
            let product = |j: usize| (0..width).map(|e| query[own + e] * k.row(j)[of_keys + e]).sum::<f64>();
            let keys = 0..if is_causal { i + 1 } else { k.len() };
            reference(keys, |j| product(j) / (width as f64).sqrt(), width, |j, e| v.row(j)[of_keys + e])
        };
        (0..heads.0).flat_map(head).collect()
    })
}

/// A number between 0 and 1 (never 0) that follows from `i`: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
fn noise(i: usize) -> f64 {
    let mut z = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / 2f64.powi(53) + 2f64.powi(-54)
}

/// The `i`th of numbers that are uniform in `[low, high)`.
pub fn uniform_weight(i: usize, low: f64, high: f64) -> f64 {
    low + (high - low) * noise(2 * i)
}

/// The `i`th of normally distributed numbers around 0 (Box and Muller).
pub fn normal_weight(i: usize, deviation: f64) -> f64 {
    deviation * (-2.0 * noise(2 * i).ln()).sqrt() * (std::f64::consts::TAU * noise(2 * i + 1)).cos()
}
