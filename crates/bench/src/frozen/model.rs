//! Model of shards that are too large for the run, from measurements of smaller ones.
//!
//! A query on a split of `n` events fetches `a + b·n` bytes, in a number of requests and rounds that does not depend on
//! `n` (columns grow with the events; the path to a needle does not), and takes `c + d·n` of CPU. `a` to `d` are a line
//! through the two smallest splits of the run. The modelled time is that of the smallest split, plus the additional CPU
//! time, plus the time of the additional bytes at the given bandwidth. The larger splits of the run show the error of
//! the model.

use serde::Serialize;

use super::split::{QUESTIONS, Question, SplitReport};

/// The model of one query.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Modelled {
    pub(super) question: Question,
    pub(super) bytes: Line,
    pub(super) cpu_ms: Line,
    /// Comparison with the splits that the lines do not come from.
    pub(super) checks: Vec<Check>,
    /// Extrapolation to a shard of the given bytes.
    pub(super) extrapolated: Extrapolated,
}

/// A line over the number of events.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Line {
    pub(super) at_none: f64,
    pub(super) per_million: f64,
}

/// Modelled and measured values.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Check {
    pub(super) events: u64,
    pub(super) bytes_modelled: f64,
    pub(super) bytes_measured: f64,
    pub(super) ms_modelled: f64,
    pub(super) ms_measured: f64,
}

/// Modelled values of a shard.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Extrapolated {
    pub(super) shard_bytes: u64,
    pub(super) events: u64,
    pub(super) bytes: f64,
    pub(super) ms: f64,
}

impl Line {
    /// Returns the line through two points; not below zero anywhere.
    fn through(first: (f64, f64), second: (f64, f64)) -> Self {
        let per_event = ((second.1 - first.1) / (second.0 - first.0)).max(0.0);
        Self {
            at_none: (first.1 - per_event * first.0).max(0.0),
            per_million: per_event * 1e6,
        }
    }

    fn at(&self, events: f64) -> f64 {
        self.at_none + self.per_million * events / 1e6
    }
}

/// Returns the model of each query; empty with fewer than two splits. `splits` are in ascending size.
pub(super) fn model(splits: &[SplitReport], shard_bytes: u64, megabytes_per_second: f64) -> Vec<Modelled> {
    let [first, second, rest @ ..] = splits else {
        return Vec::new();
    };
    QUESTIONS
        .into_iter()
        .enumerate()
        .map(|(number, question)| {
            let events = |split: &SplitReport| split.loaded.amount.events as f64;
            let cost = |split: &SplitReport| split.timings[number].first;
            let fetched = |split: &SplitReport| cost(split).traffic.downloaded_bytes as f64;
            let bytes = Line::through((events(first), fetched(first)), (events(second), fetched(second)));
            let cpu_ms = Line::through(
                (events(first), cost(first).cpu_ms),
                (events(second), cost(second).cpu_ms),
            );
            let ms_at = |count: f64| {
                let more_bytes = (bytes.at(count) - fetched(first)).max(0.0);
                let more_cpu = (cpu_ms.at(count) - cost(first).cpu_ms).max(0.0);
                cost(first).ms + more_cpu + more_bytes / (megabytes_per_second * 1e6) * 1000.0
            };
            let per_event = second.loaded.stored_bytes as f64 / events(second);
            let of_shard = shard_bytes as f64 / per_event;
            Modelled {
                question,
                bytes,
                cpu_ms,
                checks: rest
                    .iter()
                    .map(|split| Check {
                        events: split.loaded.amount.events,
                        bytes_modelled: bytes.at(events(split)),
                        bytes_measured: fetched(split),
                        ms_modelled: ms_at(events(split)),
                        ms_measured: cost(split).ms,
                    })
                    .collect(),
                extrapolated: Extrapolated {
                    shard_bytes,
                    events: of_shard as u64,
                    bytes: bytes.at(of_shard),
                    ms: ms_at(of_shard),
                },
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frozen::report::tests::split;

    #[test]
    fn lines_go_through_their_points() {
        let line = Line::through((1e6, 30.0), (2e6, 50.0));
        assert_eq!((line.at_none, line.per_million), (10.0, 20.0));
        assert_eq!(line.at(4e6), 90.0);
        assert_eq!(
            Line::through((1e6, 30.0), (2e6, 20.0)).per_million,
            0.0,
            "nothing shrinks as data grows"
        );
    }

    #[test]
    fn larger_splits_check_what_smaller_ones_say() {
        let splits = [split(1_000_000), split(2_000_000), split(4_000_000)];
        let modelled = model(&splits, 80_000_000_000, 100.0);
        let needle = &modelled[0];
        assert_eq!(needle.checks.len(), 1);
        assert_eq!(needle.checks[0].bytes_modelled, needle.checks[0].bytes_measured);
        assert!(needle.extrapolated.events > 4_000_000);
        assert!(model(&splits[..1], 1, 1.0).is_empty());
    }
}
