//! Queries of every layout: the measures of the published tables, for one tenant.

use firn_tools::generate::{Random, mix};
use serde::Serialize;
use serde_json::{Value, json};

const HOUR_MS: i64 = 60 * 60 * 1000;
/// Maximum by which the bounds of a moved window move inwards.
const MOVED_MS_MAX: u64 = 6 * HOUR_MS as u64;
/// Hits of a sample.
pub(super) const SAMPLE_HITS: usize = 100;
/// Buckets of a top list.
pub(super) const TOP_BUCKETS: usize = 5;

/// A kind of query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Measure {
    /// The latest events, with their sources.
    Sample,
    /// Events by day and class.
    Histogram,
    /// Distinct source addresses.
    Cardinality,
    /// The most frequent source addresses.
    HighTop,
    /// The most frequent severities.
    LowTop,
}

/// Use of caches between requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// Caches are cleared before each request.
    First,
    /// Other bounds of the window each time.
    Moved,
    /// The same request repeated, with the server's default caches.
    Repeated,
}

/// A tenant by its volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Size {
    Large,
    Middle,
    Small,
}

pub(super) const MEASURES: [Measure; 5] = [
    Measure::Sample,
    Measure::Histogram,
    Measure::Cardinality,
    Measure::HighTop,
    Measure::LowTop,
];
pub(super) const MODES: [Mode; 3] = [Mode::First, Mode::Moved, Mode::Repeated];
pub(super) const SIZES: [Size; 3] = [Size::Large, Size::Middle, Size::Small];
/// Lengths of the windows.
pub(super) const WINDOW_WEEKS: [u32; 2] = [2, 3];

impl Measure {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Sample => "Sample (100)",
            Self::Histogram => "Histogram",
            Self::Cardinality => "Cardinality",
            Self::HighTop => "High-cardinality top 5",
            Self::LowTop => "Low-cardinality top 5",
        }
    }
}

impl Mode {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Moved => "moved window",
            Self::Repeated => "repeated",
        }
    }
}

impl Size {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Large => "large",
            Self::Middle => "middle",
            Self::Small => "small",
        }
    }
}

/// From the first instant on and before the second, ms.
pub(super) type Window = (i64, i64);

/// Returns the window with different bounds for each `number`, the same ones for the same number.
pub(super) fn moved(window: Window, number: u64) -> Window {
    let mut random = Random::new(mix(number));
    let mut part = || 1 + random.below(MOVED_MS_MAX) as i64;
    (window.0 + part(), window.1 - part())
}

/// Returns the request body.
pub(super) fn body(measure: Measure, tenant: &str, window: Window) -> Vec<u8> {
    let mut body = json!({
        "query": {"bool": {"filter": [
            {"term": {"tenant": tenant}},
            {"range": {"@timestamp": {"gte": window.0, "lt": window.1, "format": "epoch_millis"}}},
        ]}},
    });
    match aggregation(measure) {
        Some(aggregation) => {
            body["size"] = 0.into();
            body["aggs"] = json!({"measured": aggregation});
        }
        None => {
            body["size"] = SAMPLE_HITS.into();
            body["sort"] = json!([{"@timestamp": "desc"}]);
        }
    }
    body.to_string().into_bytes()
}

fn aggregation(measure: Measure) -> Option<Value> {
    Some(match measure {
        Measure::Sample => return None,
        Measure::Histogram => json!({
            "date_histogram": {"field": "@timestamp", "calendar_interval": "day"},
            "aggs": {"classes": {"terms": {"field": "event_class"}}},
        }),
        Measure::Cardinality => json!({"cardinality": {"field": "src_ip"}}),
        Measure::HighTop => json!({"terms": {"field": "src_ip", "size": TOP_BUCKETS}}),
        Measure::LowTop => json!({"terms": {"field": "severity", "size": TOP_BUCKETS}}),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_windows_differ_and_lie_within() {
        let window = (0, 14 * 24 * HOUR_MS);
        let all: std::collections::BTreeSet<_> = (0..500).map(|number| moved(window, number)).collect();
        assert_eq!(all.len(), 500);
        assert!(all.iter().all(|moved| moved.0 > window.0 && moved.1 < window.1));
        assert_eq!(moved(window, 7), moved(window, 7));
    }
}
