//! Results of a run, for programs and for the printed forms ([`crate::frozen::table`], [`crate::frozen::html`]), and comparison with
//! the targets.

use firn_tools::process::Hardware;
use serde::Serialize;

use super::data::Loaded;
use super::many::ManyReport;
use super::model::Modelled;
use super::peer::PeerReport;
use super::published::{REMOTE_SNAPSHOT_BYTES, to_reach};
use super::split::SplitReport;
use super::tiers::{Question, QuestionTiming, Tier, TierReport};
use crate::report::digits;

/// Number of events for which the targets of one split are stated.
pub(super) const SPLIT_EVENTS: u64 = 1_000_000;
/// Number of mounts for which the targets of very many mounts are stated.
pub(super) const MANY_SHARDS: u64 = 12_500;
/// Number of shards for which the targets of the tiers are stated.
pub(super) const TIER_SHARDS: u32 = 50;

/// All results of a run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) command: String,
    pub(super) time: String,
    pub(super) hardware: Hardware,
    pub(super) version: String,
    pub(super) latency_ms: u64,
    /// The index with many shards; `None`: the run skipped it and all its queries.
    pub(super) loaded: Option<Loaded>,
    pub(super) tiers: Vec<TierReport>,
    pub(super) restore_seconds: Option<f64>,
    pub(super) many: Option<ManyReport>,
    /// In ascending size.
    pub(super) splits: Vec<SplitReport>,
    pub(super) model: Vec<Modelled>,
    pub(super) peer: Option<PeerReport>,
    pub(super) figures: Vec<Figure>,
    pub(super) notes: Vec<String>,
}

/// A target and its result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figure {
    pub(super) what: String,
    pub(super) unit: &'static str,
    /// Maximum.
    pub(super) to_reach: f64,
    pub(super) found: f64,
    pub(super) reached: bool,
}

impl Figure {
    fn new(what: impl Into<String>, unit: &'static str, to_reach: f64, found: f64) -> Self {
        Self {
            what: what.into(),
            unit,
            to_reach,
            found,
            reached: found <= to_reach,
        }
    }

    /// Returns the result in a line.
    pub(super) fn verdict(&self) -> String {
        let outcome = if self.reached { "reached" } else { "missed" };
        let Self { what, unit, .. } = self;
        format!(
            "{outcome}: {what}: {} {unit}, at most {} {unit} to reach",
            digits(self.found),
            digits(self.to_reach)
        )
    }
}

impl Report {
    /// Returns the results of a query on a tier.
    pub(super) fn timing(&self, of: impl Fn(Tier) -> bool, question: Question) -> Option<&QuestionTiming> {
        let tier = self.tiers.iter().find(|report| of(report.tier))?;
        tier.timings.iter().find(|timing| timing.question == question)
    }

    /// Compares the results with the targets, if the run has the size for which they are stated.
    pub(super) fn judge(&mut self) {
        let mut figures = Vec::new();
        self.judge_tiers(&mut figures);
        self.judge_many(&mut figures);
        self.judge_split(&mut figures);
        self.figures = figures;
    }

    fn judge_tiers(&self, figures: &mut Vec<Figure>) {
        let Some(loaded) = self
            .loaded
            .as_ref()
            .filter(|loaded| loaded.amount.shards == TIER_SHARDS)
        else {
            return;
        };
        let frozen = |tier| matches!(tier, Tier::Frozen { cache_percent } if cache_percent >= 5.0);
        if let Some(needle) = self.timing(frozen, Question::Needle) {
            let what = |mode: &str| format!("needle over {TIER_SHARDS} frozen shards, {mode}");
            figures.push(Figure::new(what("first"), "ms", 300.0, needle.first.ms));
            figures.push(Figure::new(what("repeated"), "ms", 20.0, needle.repeated.ms));
        }
        if let Some(dashboard) = self.timing(frozen, Question::Dashboard) {
            let percent = dashboard.first.traffic.downloaded_bytes as f64 * 100.0 / loaded.stored_bytes as f64;
            figures.push(Figure::new("dashboard, bytes fetched of the data", "%", 1.5, percent));
            if let Some(hot) = self.timing(|tier| tier == Tier::Hot, Question::Dashboard) {
                let times = dashboard.repeated.ms / hot.repeated.ms;
                figures.push(Figure::new("dashboard repeated, against hot", "×", 1.1, times));
            }
        }
        let sample = self
            .tiers
            .iter()
            .filter(|report| frozen(report.tier))
            .find_map(|report| report.discover_sample);
        if let Some(sample) = sample {
            let what = format!("Discover's first page over {TIER_SHARDS} frozen shards, cold");
            figures.push(Figure::new(what, "ms", 1000.0, sample.ms));
        }
    }

    fn judge_many(&self, figures: &mut Vec<Figure>) {
        let Some(many) = self.many.filter(|many| many.shards >= MANY_SHARDS) else {
            return;
        };
        let what = |mode: &str| {
            format!(
                "needle over {} mounted shards, {mode}",
                firn_tools::ingest::grouped(many.shards)
            )
        };
        figures.push(Figure::new(what("first"), "s", 10.0, many.first.ms / 1000.0));
        figures.push(Figure::new(what("repeated"), "s", 1.0, many.repeated.ms / 1000.0));
        let gigabytes = many.resident_bytes as f64 / (1u64 << 30) as f64;
        figures.push(Figure::new("resident memory with them", "GB", 4.0, gigabytes));
        figures.push(Figure::new("time to mount them", "s", 60.0, many.mount_seconds));
    }

    fn judge_split(&self, figures: &mut Vec<Figure>) {
        let Some(split) = self
            .splits
            .iter()
            .find(|split| split.loaded.amount.events == SPLIT_EVENTS)
        else {
            return;
        };
        for timing in &split.timings {
            let (requests, bytes, ms) = to_reach(timing.question);
            let what = |mode: &str| format!("one split of a million, {}, {mode}", timing.question.title());
            let first = timing.first.traffic;
            figures.push(Figure::new(
                what("first"),
                "requests",
                requests as f64,
                first.requests as f64,
            ));
            let kilobytes = |bytes: u64| bytes as f64 / 1000.0;
            let found = kilobytes(first.downloaded_bytes);
            figures.push(Figure::new(what("first"), "KB", kilobytes(bytes), found));
            figures.push(Figure::new(what("first"), "ms", ms, timing.first.ms));
            let again = timing.repeated.traffic.requests as f64;
            figures.push(Figure::new(what("repeated"), "requests", 0.0, again));
        }
        if let Some(needle) = split.timings.first() {
            let own = split.mount.traffic.downloaded_bytes + needle.first.traffic.downloaded_bytes;
            let theirs = match &self.peer {
                Some(peer) => peer.mount.downloaded_bytes + peer.needle.first.downloaded_bytes,
                None => REMOTE_SNAPSHOT_BYTES.iter().sum(),
            };
            let percent = own as f64 * 100.0 / theirs.max(1) as f64;
            let what = "bytes of mount and first needle, of what `remote_snapshot` fetches";
            figures.push(Figure::new(what, "%", 1.0, percent));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::frozen::data::Amount;
    use crate::frozen::measure::Cost;
    use crate::frozen::proxy::Traffic;
    use crate::frozen::{model, split};

    fn cost(ms: f64, requests: u64, downloaded_bytes: u64) -> Cost {
        Cost {
            ms,
            traffic: Traffic {
                requests,
                downloaded_bytes,
                uploaded_bytes: 0,
            },
            cpu_ms: 2.0,
        }
    }

    fn loaded(events: u64, shards: u32) -> Loaded {
        Loaded {
            index: "i".to_owned(),
            snapshot: "s".to_owned(),
            amount: Amount {
                events,
                shards,
                seed: 1,
            },
            ndjson_bytes: events * 465,
            stored_bytes: events * 160,
            load_seconds: 10.0,
            merge_seconds: 5.0,
            snapshot_seconds: 3.0,
            needles: vec!["1.2.3.4".to_owned()],
        }
    }

    /// A split that meets the targets.
    pub(in crate::frozen) fn split(events: u64) -> SplitReport {
        SplitReport {
            loaded: loaded(events, 1),
            mount: cost(90.0, 3, 100_000),
            timings: split::QUESTIONS
                .into_iter()
                .map(|question| split::QuestionTiming {
                    question,
                    first: cost(100.0, 3, 10_000 + events / 100),
                    repeated: cost(2.0, 0, 0),
                })
                .collect(),
        }
    }

    /// A report with all parts, and the given time of the needle query.
    pub(in crate::frozen) fn example(needle_ms: f64) -> Report {
        let timing = |first_ms: f64| {
            [Question::Needle, Question::Dashboard].map(|question| QuestionTiming {
                question,
                first: cost(first_ms, 60, 1_000_000),
                repeated: cost(5.0, 0, 0),
                similar: cost(30.0, 10, 50_000),
            })
        };
        let tier = |tier, first_ms| TierReport {
            tier,
            mount_seconds: (tier != Tier::Hot).then_some(0.4),
            mount_traffic: (tier != Tier::Hot).then(|| cost(0.0, 5, 90_000).traffic),
            copied_seconds: (tier == Tier::Cold).then_some(7.0),
            timings: timing(first_ms).to_vec(),
            discover_sample: matches!(tier, Tier::Frozen { .. }).then(|| cost(400.0, 55, 900_000)),
            fetched_by_kind: BTreeMap::from([("postings".to_owned(), 40_000)]),
        };
        let splits = vec![split(SPLIT_EVENTS), split(2_000_000), split(4_000_000)];
        let mut report = Report {
            command: "firn bench frozen --events <N>".to_owned(),
            time: "2026-01-01 00:00 UTC".to_owned(),
            hardware: Hardware::read(),
            version: "firn 0.1.0".to_owned(),
            latency_ms: 30,
            loaded: Some(loaded(1_000_000, TIER_SHARDS)),
            tiers: vec![
                tier(Tier::Hot, 4.0),
                tier(Tier::Cold, 6.0),
                tier(Tier::Frozen { cache_percent: 5.0 }, needle_ms),
                tier(Tier::Frozen { cache_percent: 0.5 }, needle_ms),
            ],
            restore_seconds: Some(20.0),
            many: Some(ManyReport {
                mounts: 250,
                shards: MANY_SHARDS,
                mount_seconds: 30.0,
                first: cost(9000.0, 300, 2_000_000),
                repeated: cost(800.0, 0, 0),
                resident_bytes: 1 << 30,
            }),
            model: model::model(&splits, 80_000_000_000, 100.0),
            splits,
            peer: None,
            figures: Vec::new(),
            notes: vec!["a < b & c".to_owned()],
        };
        report.judge();
        report
    }

    #[test]
    fn figures_are_reached_or_missed() {
        let missed = |report: &Report| {
            let missed = report.figures.iter().filter(|figure| !figure.reached);
            missed.map(|figure| figure.what.clone()).collect::<Vec<_>>()
        };
        assert_eq!(missed(&example(250.0)), Vec::<String>::new());
        assert_eq!(missed(&example(301.0)), ["needle over 50 frozen shards, first"]);
        assert_eq!(example(250.0).figures.len(), 5 + 4 + 4 * 4 + 1);
    }

    #[test]
    fn runs_of_other_sizes_are_not_judged() {
        let mut report = example(250.0);
        report.loaded = Some(loaded(1000, 2));
        report.many.as_mut().unwrap().shards = 10;
        report.splits.clear();
        report.judge();
        assert!(report.figures.is_empty());
    }
}
