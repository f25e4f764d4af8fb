//! Complex numbers of threads, and the transforms of few of them, which [`fourier`](crate::fourier) is made of.

use girih::prelude::*;
use std::f64::consts::{FRAC_1_SQRT_2, PI};
use std::ops::{Add, Mul, Sub};

/// Complex numbers, one for each thread.
#[derive(Clone, Copy)]
pub struct Complex {
    /// The real parts.
    pub re: Tile<f32>,
    /// The imaginary parts.
    pub im: Tile<f32>,
}

impl Complex {
    /// The numbers of some words: the real part is in the lower half.
    pub fn of_words(words: Tile<u64>) -> Complex {
        Complex { re: words.cast::<u32>().bitcast::<f32>(), im: (words >> 32).cast::<u32>().bitcast::<f32>() }
    }

    /// The words of these numbers.
    pub fn words(self) -> Tile<u64> {
        self.re.bitcast::<u32>().cast::<u64>() | (self.im.bitcast::<u32>().cast::<u64>() << 32)
    }

    /// exp(-2πi turns).
    pub fn root(turns: Tile<f32>) -> Complex {
        let halves = turns * -2.0;
        Complex { re: halves.cos_pi(), im: halves.sin_pi() }
    }

    /// The number with the sign of the imaginary part changed.
    pub fn conjugate(self) -> Complex {
        Complex { re: self.re, im: -self.im }
    }

    /// The number times a real one.
    pub fn scaled(self, by: Tile<f32>) -> Complex {
        Complex { re: self.re * by, im: self.im * by }
    }

    /// exp(-2πi k / n) times this, for n up to 16 and k below n / 2.
    fn turned(self, k: usize, n: usize) -> Complex {
        let Complex { re, im } = self;
        let half = FRAC_1_SQRT_2 as f32;
        match 16 * k / n {
            0 => self,
            2 => Complex { re: (re + im) * half, im: (im - re) * half },
            4 => Complex { re: im, im: -re },
            6 => Complex { re: (im - re) * half, im: (re + im) * -half },
            odd => {
                let (sin, cos) = (odd as f64 * PI / 8.0).sin_cos();
                let (sin, cos) = (sin as f32, cos as f32);
                Complex { re: re * cos + im * sin, im: im * cos - re * sin }
            }
        }
    }

    /// The powers 0 to `count` - 1, each by as few products as possible. The first is not used.
    pub fn powers(self, count: usize) -> Vec<Complex> {
        let mut all = vec![self, self];
        for k in 2..count {
            all.push(all[k / 2] * all[k - k / 2]);
        }
        all
    }
}

impl Add for Complex {
    type Output = Complex;
    fn add(self, b: Complex) -> Complex {
        Complex { re: self.re + b.re, im: self.im + b.im }
    }
}

impl Sub for Complex {
    type Output = Complex;
    fn sub(self, b: Complex) -> Complex {
        Complex { re: self.re - b.re, im: self.im - b.im }
    }
}

impl Mul for Complex {
    type Output = Complex;
    fn mul(self, b: Complex) -> Complex {
        Complex { re: self.re * b.re - self.im * b.im, im: self.re * b.im + self.im * b.re }
    }
}

/// The transform of 2, 4, 8 or 16 numbers of a thread.
pub fn butterfly(v: &[Complex]) -> Vec<Complex> {
    let n = v.len();
    if n == 1 {
        return v.to_vec();
    }
    let every_other = |first| butterfly(&v.iter().copied().skip(first).step_by(2).collect::<Vec<_>>());
    let (even, odd) = (every_other(0), every_other(1));
    let odd: Vec<Complex> = odd.into_iter().enumerate().map(|(k, o)| o.turned(k, n)).collect();
    let sums = even.iter().zip(&odd).map(|(e, o)| *e + *o);
    let differences = even.iter().zip(&odd).map(|(e, o)| *e - *o);
    sums.chain(differences).collect()
}
