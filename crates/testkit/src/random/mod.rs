//! Random documents, queries, aggregations and searches for [`crate::reference`], deterministic for a seed. Values come
//! from small sets, so that queries find documents and keys coincide.

mod aggregations;
mod documents;
mod pipelines;
mod queries;
mod search;

use fastrand::Rng;

/// Random generator.
#[derive(Debug)]
pub struct Random {
    rng: Rng,
}

impl Random {
    /// Creates a generator, deterministic for a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::with_seed(seed),
        }
    }

    /// Returns true in `percent` of all cases.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(0..100) < percent
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.rng.usize(0..end)
    }

    /// Returns one of several values.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Returns a multiple of a quarter, so that sums are exact in every order.
    fn quarters(&mut self) -> f64 {
        self.rng.i32(-80..80) as f64 / 4.0
    }
}
