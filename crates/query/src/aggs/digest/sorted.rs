//! Sorted digest that answers queries for quantiles and ranks.

use super::Centroid;

/// Sorted digest, which accepts no more values.
///
/// Every centroid has the rank in the middle of its values; between two such ranks, values are interpolated linearly.
/// If all centroids are single values, this is the usual exact interpolation.
#[derive(Debug, Clone)]
pub struct SortedDigest {
    /// Ascending by rank and value.
    points: Vec<Point>,
    centroids: Vec<Centroid>,
    count: f64,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    /// Counted from 0.
    rank: f64,
    value: f64,
}

impl SortedDigest {
    pub(super) fn new(centroids: Vec<Centroid>, min: f64, max: f64) -> Self {
        let mut points = Vec::with_capacity(centroids.len() + 2);
        let mut before = 0.0;
        for (number, centroid) in centroids.iter().enumerate() {
            let middle = before + (centroid.weight - 1.0) / 2.0;
            if number == 0 && centroid.weight > 1.0 {
                points.push(Point { rank: 0.0, value: min });
            }
            points.push(Point {
                rank: middle,
                value: centroid.mean,
            });
            before += centroid.weight;
            if number + 1 == centroids.len() && centroid.weight > 1.0 {
                points.push(Point {
                    rank: before - 1.0,
                    value: max,
                });
            }
        }
        Self {
            points,
            centroids,
            count: before,
        }
    }

    /// Returns the value below which this part (0 to 1) of all values lies; `None` if the digest is empty.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let rank = part * (self.count - 1.0);
        let after = self.points.partition_point(|point| point.rank < rank);
        let Some(right) = self.points.get(after) else {
            return self.points.last().map(|point| point.value);
        };
        let left = match after.checked_sub(1) {
            Some(left) => self.points[left],
            None => return Some(right.value),
        };
        let fraction = (rank - left.rank) / (right.rank - left.rank);
        Some(left.value + fraction * (right.value - left.value))
    }

    /// Returns the part (0 to 1) of all values below `value`, equal ones counted half; `None` if the digest is empty.
    pub fn rank(&self, value: f64) -> Option<f64> {
        let (first, last) = (self.points.first()?, self.points.last()?);
        if value < first.value {
            return Some(0.0);
        }
        if value > last.value {
            return Some(1.0);
        }
        let start = self.points.partition_point(|point| point.value < value);
        let end = self.points.partition_point(|point| point.value <= value);
        let rank = if start < end {
            f64::midpoint(self.points[start].rank, self.points[end - 1].rank)
        } else {
            let (left, right) = (self.points[start - 1], self.points[start]);
            let fraction = (value - left.value) / (right.value - left.value);
            left.rank + fraction * (right.rank - left.rank)
        };
        Some((rank + 0.5) / self.count)
    }

    /// Returns the smallest value; `None` if the digest is empty.
    pub fn min(&self) -> Option<f64> {
        self.points.first().map(|point| point.value)
    }

    /// Returns the largest value; `None` if the digest is empty.
    pub fn max(&self) -> Option<f64> {
        self.points.last().map(|point| point.value)
    }

    /// Returns the means of adjacent values, ascending, each with the number of values.
    pub fn centroids(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.centroids.iter().map(|centroid| (centroid.mean, centroid.weight))
    }

    /// Returns the median distance of the values from their median; `None` if the digest is empty.
    pub fn median_absolute_deviation(&self) -> Option<f64> {
        let median = self.quantile(0.5)?;
        let mut deviations: Vec<Centroid> = self
            .centroids
            .iter()
            .map(|centroid| Centroid {
                mean: (centroid.mean - median).abs(),
                weight: centroid.weight,
            })
            .collect();
        deviations.sort_unstable_by(|left, right| left.mean.total_cmp(&right.mean));
        let (min, max) = (deviations.first()?.mean, deviations.last()?.mean);
        Self::new(deviations, min, max).quantile(0.5)
    }
}
