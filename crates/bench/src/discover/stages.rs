//! Queries of the benchmark: a stage of Discover for one tenant and one time range.

use firn_tools::generate::{Random, mix};
use serde::Serialize;
use serde_json::{Value, json};

use crate::layout::period::DAY_MS;

/// Events of the sample, as the console requests them.
pub(super) const SAMPLE_HITS: usize = 100;
/// Values of a field that the console lists.
pub(super) const TOP_VALUES: usize = 10;
/// Pixels of the histogram on a laptop's screen.
const WIDTH_PX: u32 = 1200;
/// Field that splits the histogram.
pub(super) const SPLIT_BY: &str = "event_class";
/// Field of the top values: one with many distinct values.
pub(super) const TOP_FIELD: &str = "src_ip";
/// The bounds of a time range move inwards by at most 1/50 of it.
const MOVED_PART: i64 = 50;

/// A stage of Discover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    Sample,
    Histogram,
    Cardinality,
    TopValues,
}

pub(super) const STAGES: [Stage; 4] = [Stage::Sample, Stage::Histogram, Stage::Cardinality, Stage::TopValues];

/// A tenant by its volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Size {
    Large,
    Middle,
}

/// Whether the same query ran before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// Other time bounds for each request.
    First,
    /// The same request again.
    Repeated,
}

/// Days up to the end of the events.
pub(super) const DAYS: [u32; 5] = [1, 7, 14, 21, 28];

/// First and last instant, ms since the epoch, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
}

/// One query.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) stage: Stage,
    pub(super) tenant: &'a str,
    pub(super) window: Window,
    pub(super) fields: &'a [String],
}

impl Stage {
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Sample => "sample",
            Self::Histogram => "histogram",
            Self::Cardinality => "cardinality",
            Self::TopValues => "top_values",
        }
    }
}

impl Window {
    /// Returns the last days before an instant.
    pub(super) fn last(days: u32, end_ms: i64) -> Self {
        Self {
            from_ms: end_ms - i64::from(days) * DAY_MS,
            to_ms: end_ms - 1,
        }
    }

    /// Returns the window with different bounds for each number, a little inwards.
    pub(super) fn moved(self, number: u64) -> Self {
        let mut random = Random::new(mix(number));
        let part = ((self.to_ms - self.from_ms) / MOVED_PART).max(2) as u64;
        Self {
            from_ms: self.from_ms + 1 + random.below(part) as i64,
            to_ms: self.to_ms - 1 - random.below(part) as i64,
        }
    }
}

impl Question<'_> {
    /// Returns the body of `POST /_firn/discover`.
    pub(super) fn body(&self, index: &str) -> Value {
        let stage = match self.stage {
            Stage::Sample => json!({"stage": "sample", "size": SAMPLE_HITS}),
            Stage::Histogram => json!({"stage": "histogram", "split_by": SPLIT_BY, "width_px": WIDTH_PX}),
            Stage::Cardinality => json!({"stage": "cardinality", "fields": self.fields}),
            Stage::TopValues => json!({"stage": "top_values", "field": TOP_FIELD, "size": TOP_VALUES}),
        };
        json!({
            "index": index,
            "time": {"field": "@timestamp", "from": self.window.from_ms, "to": self.window.to_ms, "zone": "UTC"},
            "filters": [{"term": {"tenant": self.tenant}}],
            "stages": [stage],
            "frozen": "run",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_windows_differ_and_lie_within() {
        for days in DAYS {
            let window = Window::last(days, 1_000 * DAY_MS);
            let moved: Vec<Window> = (0..50).map(|number| window.moved(number)).collect();
            for (number, one) in moved.iter().enumerate() {
                assert!(window.from_ms < one.from_ms && one.from_ms < one.to_ms && one.to_ms < window.to_ms);
                assert!(!moved[..number].contains(one), "{days} days, number {number}");
            }
        }
    }
}
