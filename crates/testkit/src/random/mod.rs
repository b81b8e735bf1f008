//! Random documents, queries, aggregations and searches for [`crate::reference`], the same ones
//! for the same seed. Values come from small sets, so that questions find something and keys meet.

mod aggregations;
mod documents;
mod pipelines;
mod queries;
mod search;

use fastrand::Rng;

/// A source of random things.
#[derive(Debug)]
pub struct Random {
    rng: Rng,
}

impl Random {
    /// The same things for the same seed.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::with_seed(seed),
        }
    }

    /// True in `percent` of all cases.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(0..100) < percent
    }

    /// From 0 up to `end`, exclusive.
    pub fn below(&mut self, end: usize) -> usize {
        self.rng.usize(0..end)
    }

    /// One of several.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// A number of quarters, so that sums are exact in every order.
    fn quarters(&mut self) -> f64 {
        self.rng.i32(-80..80) as f64 / 4.0
    }
}
