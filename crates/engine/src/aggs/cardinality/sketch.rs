//! Counting distinct values: exact up to a threshold, then HyperLogLog.

/// Distinct values seen, by a 64-bit hash of each. Merging is order-independent.
#[derive(Debug, Clone, PartialEq)]
pub struct Sketch {
    _todo: (),
}

impl Sketch {
    /// Counts exactly up to about `precision_threshold`.
    pub fn new(_precision_threshold: u64) -> Self {
        todo!()
    }
    /// Adds a hash (of well-mixed bits).
    pub fn insert(&mut self, _hash: u64) {
        todo!()
    }
    /// Distinct hashes, estimated.
    pub fn estimate(&self) -> u64 {
        todo!()
    }
    /// Adds another sketch.
    pub fn merge(&mut self, _other: &Sketch) {
        todo!()
    }
}
