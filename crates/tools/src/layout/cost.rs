//! Cost model of a search, fitted to measured times: `base + shards · a + events · b`.

use serde::Serialize;

/// A measured search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// Shards that took part.
    pub(super) shards: f64,
    /// Events in its range.
    pub(super) events: f64,
    pub(super) ms: f64,
}

/// Cost of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Cost {
    /// Independent of its range.
    pub(super) base_ms: f64,
    /// For each shard that takes part.
    pub(super) shard_ms: f64,
    /// For each event in its range.
    pub(super) event_ms: f64,
}

/// Parts of the cost.
const PARTS: usize = 3;

impl Cost {
    /// Fits the cost to the points: least squares of the relative errors, with no part below 0. `None`: there are no
    /// measurements.
    pub(super) fn fit(points: &[Point]) -> Option<Self> {
        let points: Vec<&Point> = points.iter().filter(|point| point.ms > 0.0).collect();
        let mut best: Option<(f64, Self)> = None;
        // With three parts, trying which of them are 0 is simpler than any other way to keep them from falling below
        // it.
        for used in 1..1_usize << PARTS {
            let Some(cost) = Self::fit_parts(&points, used) else {
                continue;
            };
            let error: f64 = points
                .iter()
                .map(|point| (cost.of(point.shards, point.events) / point.ms - 1.0).powi(2))
                .sum();
            // Of two equally good fits the simpler one wins.
            if best.is_none_or(|(least, _)| error < least - 1e-9) {
                best = Some((error, cost));
            }
        }
        best.map(|(_, cost)| cost)
    }

    /// Returns the expected time of a search.
    pub(super) fn of(&self, shards: f64, events: f64) -> f64 {
        self.base_ms + self.shard_ms * shards + self.event_ms * events
    }

    /// Returns the expected time of a measured search if it used `shards`, in proportion, so that the residual of the
    /// fit stays. Fewer shards never make it slower.
    pub(super) fn with_shards(&self, measured: Point, shards: f64) -> f64 {
        let now = self.of(measured.shards, measured.events);
        let then = self.of(shards.min(measured.shards), measured.events);
        if now > 0.0 {
            measured.ms * then / now
        } else {
            measured.ms
        }
    }

    /// Fits the parts whose bit is set in `used`; `None` if one of them would be below 0, or if the points do not
    /// separate them.
    fn fit_parts(points: &[&Point], used: usize) -> Option<Self> {
        let parts: Vec<usize> = (0..PARTS).filter(|part| used & 1 << part != 0).collect();
        let count = parts.len();
        // Normal equations, each with its right side as last column.
        let mut rows = vec![vec![0.0; count + 1]; count];
        for point in points {
            let values = [1.0 / point.ms, point.shards / point.ms, point.events / point.ms];
            for (row, own) in rows.iter_mut().zip(&parts) {
                for (cell, other) in row.iter_mut().zip(&parts) {
                    *cell += values[*own] * values[*other];
                }
                row[count] += values[*own];
            }
        }
        let solved = solve(rows)?;
        if solved.iter().any(|value| *value < 0.0) {
            return None;
        }
        let mut found = [0.0; PARTS];
        for (part, value) in parts.iter().zip(solved) {
            found[*part] = value;
        }
        let [base_ms, shard_ms, event_ms] = found;
        Some(Self {
            base_ms,
            shard_ms,
            event_ms,
        })
    }
}

/// Solves linear equations whose right side is the last column; `None` if there is no unique solution.
fn solve(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let count = rows.len();
    for step in 0..count {
        let pivot = (step..count).max_by(|a, b| rows[*a][step].abs().total_cmp(&rows[*b][step].abs()))?;
        let scale = rows[pivot].iter().fold(0.0_f64, |most, cell| most.max(cell.abs()));
        if rows[pivot][step].abs() <= scale * 1e-12 || rows[pivot][step] == 0.0 {
            return None;
        }
        rows.swap(step, pivot);
        let leader = rows[step].clone();
        for (number, row) in rows.iter_mut().enumerate() {
            if number != step {
                let factor = row[step] / leader[step];
                for (cell, lead) in row.iter_mut().zip(&leader) {
                    *cell -= factor * lead;
                }
            }
        }
    }
    Some(
        rows.iter()
            .enumerate()
            .map(|(number, row)| row[count] / row[number])
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(of: impl Fn(f64, f64) -> f64, places: &[(f64, f64)]) -> Vec<Point> {
        let point = |(shards, events): &(f64, f64)| Point {
            shards: *shards,
            events: *events,
            ms: of(*shards, *events),
        };
        places.iter().map(point).collect()
    }

    fn check(points: &[Point], base_ms: f64, shard_ms: f64, event_ms: f64) {
        let cost = Cost::fit(points).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * (1.0 + b);
        assert!(
            near(cost.base_ms, base_ms) && near(cost.shard_ms, shard_ms) && near(cost.event_ms, event_ms),
            "{cost:?}"
        );
    }

    #[test]
    fn the_parts_are_found() {
        let places = [
            (3.0, 100.0),
            (21.0, 2000.0),
            (63.0, 5000.0),
            (3.0, 90_000.0),
            (63.0, 500.0),
        ];
        check(&points(|s, e| 0.2 + 0.05 * s + 0.0001 * e, &places), 0.2, 0.05, 0.0001);
        check(&points(|s, _| 0.1 * s, &places), 0.0, 0.1, 0.0);
        check(&points(|_, _| 0.4, &places), 0.4, 0.0, 0.0);
    }

    #[test]
    fn fewer_shards_cost_less_in_proportion() {
        let cost = Cost {
            base_ms: 1.0,
            shard_ms: 0.5,
            event_ms: 0.0,
        };
        let measured = Point {
            shards: 18.0,
            events: 7.0,
            ms: 20.0,
        };
        assert_eq!(cost.with_shards(measured, 4.0), 6.0);
        assert_eq!(cost.with_shards(measured, 99.0), 20.0);
    }

    #[test]
    fn no_part_falls_below_zero() {
        let points = points(
            |s, e| 5.0 - 0.01 * s + 0.001 * e,
            &[(3.0, 10.0), (63.0, 10.0), (3.0, 900.0), (63.0, 900.0)],
        );
        let cost = Cost::fit(&points).unwrap();
        assert!(
            cost.base_ms > 0.0 && cost.shard_ms == 0.0 && cost.event_ms > 0.0,
            "{cost:?}"
        );
    }

    #[test]
    fn what_always_has_the_same_shards_tells_nothing_about_them() {
        let cost = Cost::fit(&points(
            |_, e| 2.0 + 0.01 * e,
            &[(7.0, 0.0), (7.0, 100.0), (7.0, 400.0)],
        ))
        .unwrap();
        assert!((cost.of(7.0, 200.0) - 4.0).abs() < 1e-6, "{cost:?}");
        assert_eq!(Cost::fit(&[]), None);
    }
}
