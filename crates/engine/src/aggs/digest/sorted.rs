//! Questions to a digest.

use super::Centroid;

/// A digest that no more values come to.
///
/// Every centroid stands for the rank in the middle of its values, and values between two such
/// ranks lie on the line between them. Where all centroids are single values this is the usual
/// exact interpolation.
#[derive(Debug, Clone)]
pub struct SortedDigest {
    /// Ascending in both.
    points: Vec<Point>,
    centroids: Vec<Centroid>,
    count: f64,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    /// From 0.
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

    /// The value below which this part (0 to 1) of all values lies; `None` of nothing.
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

    /// Which part (0 to 1) of all values lies below `value`, equal ones counted half; `None` of
    /// nothing.
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

    /// The smallest value; `None` of nothing.
    pub fn min(&self) -> Option<f64> {
        self.points.first().map(|point| point.value)
    }

    /// The largest value; `None` of nothing.
    pub fn max(&self) -> Option<f64> {
        self.points.last().map(|point| point.value)
    }

    /// The means of neighbouring values, ascending, each with how many they are.
    pub fn centroids(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.centroids.iter().map(|centroid| (centroid.mean, centroid.weight))
    }

    /// The median of how far values are from their median; `None` of nothing.
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
