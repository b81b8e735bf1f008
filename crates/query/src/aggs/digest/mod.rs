//! Digest of many numbers, for quantiles and ranks.
//!
//! A small number of values is stored unchanged, and their quantiles are exact. More values become a merging t-digest
//! after T. Dunning and O. Ertl, "Computing extremely accurate quantiles using t-digests"
//! (<https://arxiv.org/abs/1902.04023>): centroids of adjacent values, small at both ends and larger in the middle, so
//! that extreme percentiles stay exact. Its size is bounded by the compression alone, and digests merge.

mod method;
mod sorted;

pub(super) use method::{COMPRESSION, compression, execution_hint};
pub use method::{DigestMethod, DigestPartial};
pub use sorted::SortedDigest;

/// Values stored exactly, per unit of compression, and the limits of that number: the default compression of 100 gives
/// 2,000 values, 16 KB.
const EXACT_PER_COMPRESSION: f64 = 20.0;
const EXACT_MIN: f64 = 1_000.0;
const EXACT_MAX: f64 = 10_000.0;

/// Maximum compression: more would cost memory only, because the errors are already below any visible digit.
const COMPRESSION_MAX: f64 = 10_000.0;

/// A group of adjacent values: their mean and number.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Centroid {
    mean: f64,
    weight: f64,
}

/// Digest of numbers; see the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Digest {
    compression: f64,
    /// Values that are not in a centroid yet, unordered. While they are few, these are all values.
    values: Vec<f64>,
    /// Ascending.
    centroids: Vec<Centroid>,
    min: f64,
    max: f64,
}

impl Digest {
    /// Creates an empty digest. The compression is clamped to its limits.
    pub fn new(compression: f64) -> Self {
        Self {
            compression: compression.clamp(1.0, COMPRESSION_MAX),
            values: Vec::new(),
            centroids: Vec::new(),
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }

    /// Adds a value; NaN is ignored. Returns the bytes by which the digest grew.
    pub fn add(&mut self, value: f64) -> usize {
        if !value.is_finite() {
            return 0;
        }
        let before = self.values.capacity();
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.values.push(value);
        if self.values.len() >= self.buffer_max() {
            self.compress();
        }
        self.values.capacity().saturating_sub(before) * size_of::<f64>()
    }

    /// Adds another digest. The result does not depend on order and split at all while the values are few, and only
    /// slightly afterwards.
    pub fn merge(&mut self, other: Self) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.values.extend(other.values);
        if !other.centroids.is_empty() {
            self.centroids.extend(other.centroids);
            self.compress();
        } else if self.values.len() >= self.buffer_max() {
            self.compress();
        }
    }

    /// Returns the digest in sorted form, for queries.
    pub fn sorted(mut self) -> SortedDigest {
        let singles = self.values.iter().map(|value| Centroid {
            mean: *value,
            weight: 1.0,
        });
        self.centroids.extend(singles);
        self.centroids
            .sort_unstable_by(|left, right| left.mean.total_cmp(&right.mean));
        SortedDigest::new(self.centroids, self.min, self.max)
    }

    fn buffer_max(&self) -> usize {
        let exact = (EXACT_PER_COMPRESSION * self.compression).clamp(EXACT_MIN, EXACT_MAX);
        exact as usize
    }

    /// Merges adjacent centroids as far as the scale function allows.
    fn compress(&mut self) {
        let singles = self.values.drain(..).map(|value| Centroid {
            mean: value,
            weight: 1.0,
        });
        self.centroids.extend(singles);
        self.centroids
            .sort_unstable_by(|left, right| left.mean.total_cmp(&right.mean));
        let total: f64 = self.centroids.iter().map(|centroid| centroid.weight).sum();
        let scale = Scale::new(self.compression);
        let mut merged: Vec<Centroid> = Vec::new();
        let mut before = 0.0;
        let mut limit = scale.next(0.0);
        for centroid in self.centroids.drain(..) {
            match merged.last_mut() {
                Some(last) if (before + last.weight + centroid.weight) / total <= limit => {
                    let weight = last.weight + centroid.weight;
                    last.mean += (centroid.mean - last.mean) * centroid.weight / weight;
                    last.weight = weight;
                }
                last => {
                    if let Some(last) = last {
                        before += last.weight;
                        limit = scale.next(before / total);
                    }
                    merged.push(centroid);
                }
            }
        }
        self.centroids = merged;
    }
}

/// Scale function k1 of the paper: limits the rank range of a centroid by its start.
struct Scale {
    /// Radians of the arc sine per unit of k.
    unit: f64,
}

impl Scale {
    fn new(compression: f64) -> Self {
        // Twice the requested compression, so that it bounds the error instead of the size.
        Self {
            unit: std::f64::consts::TAU / (2.0 * compression),
        }
    }

    /// Returns the last allowed quantile of a centroid that starts at `quantile`.
    fn next(&self, quantile: f64) -> f64 {
        let angle = (2.0 * quantile - 1.0).clamp(-1.0, 1.0).asin() + self.unit;
        if angle >= std::f64::consts::FRAC_PI_2 {
            1.0
        } else {
            f64::midpoint(angle.sin(), 1.0)
        }
    }
}

#[cfg(test)]
mod tests;
