//! Measurement of searches for single tenants in the current layout.

use std::time::Instant;

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::{Value, json};

use super::advice::{Costs, SMALL_EVENTS_MIN, sizes};
use super::cost::{Cost, Point};
use super::gather::{MeasuredIndices, Volumes};
use crate::client::encode_segment;

const SAMPLE_HITS: u64 = 100;
const DAY_MS: i64 = 86_400_000;
/// Lengths of windows besides the usual one: the differences show how the costs depend on shards and events.
const WINDOW_DAYS: [i64; 2] = [1, 7];

/// A measured search for a tenant.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Measured {
    /// `large`, `middle`, `small`.
    pub(super) size: &'static str,
    pub(super) tenant: String,
    pub(super) days: i64,
    /// Whether only one shard of each index was searched, that of the tenant's `routing`. In data without routing the
    /// result is then incomplete, but it shows the cost of shards.
    pub(super) narrowed: bool,
    /// Events of the tenant that were found.
    pub(super) events: u64,
    /// Shards that took part.
    pub(super) shards: u64,
    /// Medians.
    pub(super) sample_ms: f64,
    pub(super) histogram_ms: f64,
}

/// The searches to measure.
pub(super) struct Questions<'a> {
    pub(super) place: &'a MeasuredIndices<'a>,
    /// The field that splits the histogram, if any.
    pub(super) by: Option<&'a str>,
    /// Usual time range of searches.
    pub(super) question_days: u32,
    pub(super) repeats: usize,
}

/// One of the searches.
struct TenantSearch<'a> {
    size: &'static str,
    tenant: &'a str,
    days: i64,
    narrowed: bool,
}

/// Measurements of one response.
struct SearchTiming {
    seconds: f64,
    shards: u64,
    events: u64,
}

impl Questions<'_> {
    /// Measures a large, a middle and a small tenant, or as many as there are.
    pub(super) fn run(&self, volumes: &Volumes) -> anyhow::Result<Vec<Measured>> {
        let chosen = sizes(&volumes.tenants);
        match chosen.len() {
            0 => bail!("there is no tenant"),
            1 | 2 => eprintln!(
                "fewer than three tenants have at least {SMALL_EVENTS_MIN} events: results of {} are less reliable",
                if chosen.len() == 1 { "one" } else { "two" }
            ),
            _ => {}
        }
        let usual = i64::from(self.question_days);
        let windows = WINDOW_DAYS.into_iter().filter(|days| *days != usual).chain([usual]);
        let mut measured = Vec::new();
        for narrowed in [false, true] {
            for &(size, tenant) in &chosen {
                let tenant = &tenant.tenant;
                eprintln!(
                    "measuring [{tenant}]{}",
                    if narrowed { ", one shard of each index" } else { "" }
                );
                for days in windows.clone() {
                    let search = TenantSearch {
                        size,
                        tenant,
                        days,
                        narrowed,
                    };
                    measured.push(self.measure(&search, volumes.time_ms.1)?);
                }
            }
        }
        Ok(measured)
    }

    fn measure(&self, search: &TenantSearch<'_>, last_ms: i64) -> anyhow::Result<Measured> {
        let (mut samples, mut histograms) = (Vec::new(), Vec::new());
        let (mut events, mut shards) = (0, 0);
        // The first search of each kind is a warm-up.
        for number in 0..=self.repeats {
            // Every window differs, so that no cached result answers it.
            let window = (last_ms + 1 - search.days * DAY_MS - number as i64, last_ms + 1);
            let sample = self.ask(search, window, false)?;
            let histogram = self.ask(search, window, true)?;
            (events, shards) = (histogram.events, histogram.shards);
            if number > 0 {
                samples.push(sample.seconds);
                histograms.push(histogram.seconds);
            }
        }
        Ok(Measured {
            size: search.size,
            tenant: search.tenant.to_owned(),
            days: search.days,
            narrowed: search.narrowed,
            events,
            shards,
            sample_ms: median_ms(samples),
            histogram_ms: median_ms(histograms),
        })
    }

    fn ask(&self, search: &TenantSearch<'_>, window: (i64, i64), histogram: bool) -> anyhow::Result<SearchTiming> {
        let (place, time) = (self.place, self.place.time_field);
        let mut body = json!({"query": {"bool": {"filter": [
            {"term": {place.tenant_field: search.tenant}},
            {"range": {time: {"gte": window.0, "lt": window.1, "format": "epoch_millis"}}},
        ]}}});
        if histogram {
            let mut days = json!({"date_histogram": {"field": time, "calendar_interval": "day"}});
            if let Some(by) = self.by {
                days["aggs"] = json!({"by": {"terms": {"field": by}}});
            }
            body["size"] = 0.into();
            body["track_total_hits"] = true.into();
            body["aggs"] = json!({"days": days});
        } else {
            body["size"] = SAMPLE_HITS.into();
            body["sort"] = json!([{time: "desc"}]);
        }
        let (mut path, body) = (place.search_path(), body.to_string());
        if search.narrowed {
            path.push_str("&routing=");
            path.push_str(&encode_segment(search.tenant));
        }
        let started = Instant::now();
        let answer = place
            .client
            .send("POST", &path, Some(("application/json", body.as_bytes())));
        let seconds = started.elapsed().as_secs_f64();
        let answer = answer.map_err(|failure| anyhow::anyhow!("{path}: {failure}"))?;
        if answer.status != 200 {
            bail!("{path}: {}: {body}", answer.problem());
        }
        let answer: Value = serde_json::from_slice(&answer.body).with_context(|| format!("{path}: not JSON"))?;
        let shards = |name: &str| answer["_shards"][name].as_u64().unwrap_or(0);
        Ok(SearchTiming {
            seconds,
            shards: shards("total") - shards("skipped").min(shards("total")),
            events: answer.pointer("/hits/total/value").and_then(Value::as_u64).unwrap_or(0),
        })
    }
}

impl Measured {
    pub(super) fn sample(&self) -> Point {
        self.point(self.sample_ms)
    }

    pub(super) fn histogram(&self) -> Point {
        self.point(self.histogram_ms)
    }

    fn point(&self, ms: f64) -> Point {
        Point {
            shards: self.shards as f64,
            events: self.events as f64,
            ms,
        }
    }
}

/// Returns the costs that explain the measurements.
pub(super) fn costs(measured: &[Measured]) -> Option<Costs> {
    let fit = |point: fn(&Measured) -> Point| Cost::fit(&measured.iter().map(point).collect::<Vec<_>>());
    Some(Costs {
        sample: fit(Measured::sample)?,
        histogram: fit(Measured::histogram)?,
    })
}

fn median_ms(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).map_or(0.0, |seconds| seconds * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median_ms(vec![0.003, 0.001, 0.002]), 2.0);
        assert_eq!(median_ms(Vec::new()), 0.0);
    }
}
