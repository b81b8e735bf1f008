//! Report as Markdown.

use std::collections::BTreeSet;
use std::fmt::Write;

use firn_tools::ingest::grouped;

use super::measure::Cost;
use super::published::{RECORD, REMOTE_SNAPSHOT_BYTES, quickwit};
use super::report::Report;
use super::tiers::{Question, Tier};
use crate::markdown_table::Grid;
use crate::report::digits;

/// A part of the report: a heading, a table, and notes about it.
pub(super) struct Section {
    pub(super) title: String,
    pub(super) grid: Grid,
    pub(super) note: String,
}

fn grid(head: &[&str]) -> Grid {
    Grid::new(head.iter().map(|cell| (*cell).to_owned()))
}

fn kilobytes(bytes: u64) -> String {
    digits(bytes as f64 / 1000.0)
}

fn seconds(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), digits)
}

/// Returns `ms (requests, KB)`; without the parentheses if nothing was fetched.
fn cell(cost: &Cost) -> String {
    let traffic = cost.traffic;
    match traffic.requests {
        0 => digits(cost.ms),
        requests => format!(
            "{} ({requests}, {} KB)",
            digits(cost.ms),
            kilobytes(traffic.downloaded_bytes)
        ),
    }
}

impl Report {
    /// Describes the run in a sentence or two.
    pub(super) fn about(&self) -> String {
        let mut text = format!(
            "{}, {} ms a request to the object store. ",
            self.version, self.latency_ms
        );
        if let Some(loaded) = &self.loaded {
            let _ = write!(
                text,
                "{} web logs (seed {}, {} MB of NDJSON) in {} shards of one segment, {} MB stored. ",
                grouped(loaded.amount.events),
                loaded.amount.seed,
                digits(loaded.ndjson_bytes as f64 / 1e6),
                loaded.amount.shards,
                digits(loaded.stored_bytes as f64 / 1e6),
            );
        }
        let _ = write!(text, "{}. {}", self.hardware.line(), self.time);
        text
    }

    /// Returns all tables, in order.
    pub(super) fn sections(&self) -> Vec<Section> {
        let mut sections: Vec<Section> = [Question::Needle, Question::Dashboard]
            .into_iter()
            .filter_map(|question| self.tier_section(question))
            .collect();
        sections.extend(self.discover_samples());
        sections.extend(self.getting_there());
        sections.extend(self.kinds());
        sections.extend(self.many_section());
        sections.extend(self.splits.iter().map(split_section));
        sections.extend(self.peer_section());
        sections.extend(self.model_section());
        sections
    }

    fn tier_section(&self, question: Question) -> Option<Section> {
        let mut grid = grid(&[
            "ms (requests, bytes fetched)",
            "first",
            "repeated",
            "similar",
            "CPU of the first, ms",
        ]);
        for report in &self.tiers {
            let timing = report.timings.iter().find(|timing| timing.question == question)?;
            grid.rows.push(vec![
                report.tier.title(),
                cell(&timing.first),
                cell(&timing.repeated),
                cell(&timing.similar),
                digits(timing.first.cpu_ms),
            ]);
        }
        if grid.rows.is_empty() {
            return None;
        }
        let record = |title: &str, values: [String; 3]| {
            let mut row = vec![title.to_owned()];
            row.extend(values);
            row.push("–".to_owned());
            row
        };
        let of_seconds = |values: [f64; 3]| values.map(|seconds| digits(seconds * 1000.0));
        match question {
            Question::Needle => {
                let [first, repeated] = RECORD.needle_ms.map(digits);
                grid.rows
                    .push(record("the record, 4 TB", [first, repeated, "–".to_owned()]));
            }
            Question::Dashboard => {
                grid.rows
                    .push(record("the record, cache 5 %", of_seconds(RECORD.dashboard_s)));
                let small = of_seconds(RECORD.dashboard_small_cache_s);
                grid.rows.push(record("the record, cache 0.5 %", small));
            }
        }
        Some(Section {
            title: format!("Tiers: {}", question.title()),
            grid,
            note: match question {
                Question::Needle => {
                    "The first is the first question to a node that has just mounted; similar ones are \
                                     needles that were not searched before. The record's data are a thousand times larger: what \
                                     compares is the requests and rounds, not the bytes."
                        .to_owned()
                }
                Question::Dashboard => format!(
                    "Five searches in one `_msearch` over all of the time; the similar one is about its second half. The \
                     record fetched {} % of its data.",
                    RECORD.dashboard_fetched_percent
                ),
            },
        })
    }

    fn discover_samples(&self) -> Option<Section> {
        let mut grid = grid(&["ms (requests, bytes fetched)", "first", "CPU, ms"]);
        for report in &self.tiers {
            if let Some(sample) = &report.discover_sample {
                grid.rows
                    .push(vec![report.tier.title(), cell(sample), digits(sample.cpu_ms)]);
            }
        }
        (!grid.rows.is_empty()).then(|| Section {
            title: "Tiers: Discover's first page".to_owned(),
            grid,
            note: "The newest hundred events of all and their exact number, from a node that has just mounted."
                .to_owned(),
        })
    }

    fn getting_there(&self) -> Option<Section> {
        let mut grid = grid(&["to be searchable", "seconds", "whole after, s", "requests", "KB"]);
        for report in &self.tiers {
            let Some(traffic) = report.mount_traffic else {
                continue;
            };
            grid.rows.push(vec![
                format!("mount, {}", report.tier.title()),
                seconds(report.mount_seconds),
                seconds(report.copied_seconds),
                traffic.requests.to_string(),
                kilobytes(traffic.downloaded_bytes),
            ]);
        }
        if grid.rows.is_empty() {
            return None;
        }
        let restore = seconds(self.restore_seconds);
        let dash = || "–".to_owned();
        grid.rows
            .push(vec!["restore".to_owned(), restore.clone(), restore, dash(), dash()]);
        grid.rows.push(vec![
            "the record: mount, restore".to_owned(),
            digits(RECORD.mount_s),
            digits(RECORD.restore_s),
            dash(),
            dash(),
        ]);
        Some(Section {
            title: "Mount, copy, restore".to_owned(),
            grid,
            note: String::new(),
        })
    }

    fn kinds(&self) -> Option<Section> {
        let mounted: Vec<_> = self
            .tiers
            .iter()
            .filter(|report| !report.fetched_by_kind.is_empty())
            .collect();
        let kinds: BTreeSet<&String> = mounted
            .iter()
            .flat_map(|report| report.fetched_by_kind.keys())
            .collect();
        if kinds.is_empty() {
            return None;
        }
        let titles = mounted.iter().map(|report| report.tier.title());
        let mut grid = Grid::new(["fetched, KB".to_owned()].into_iter().chain(titles));
        for kind in kinds {
            let bytes = |report: &&super::tiers::TierReport| {
                let bytes = report.fetched_by_kind.get(kind);
                bytes.map_or("–".to_owned(), |bytes| kilobytes(*bytes))
            };
            let cells = mounted.iter().map(bytes);
            grid.rows.push([kind.clone()].into_iter().chain(cells).collect());
        }
        Some(Section {
            title: "Bytes by kind of file".to_owned(),
            grid,
            note: "Of all questions of the two tables above together, as the node's cache counts them.".to_owned(),
        })
    }

    fn many_section(&self) -> Option<Section> {
        let many = self.many?;
        let mut grid = grid(&[
            "mounted shards",
            "mounting, s",
            "needle first, s",
            "repeated, s",
            "requests first",
            "resident, MB",
        ]);
        grid.rows.push(vec![
            grouped(many.shards),
            digits(many.mount_seconds),
            digits(many.first.ms / 1000.0),
            digits(many.repeated.ms / 1000.0),
            many.first.traffic.requests.to_string(),
            digits(many.resident_bytes as f64 / 1e6),
        ]);
        let [first, repeated] = RECORD.many_s.map(digits);
        let dash = || "–".to_owned();
        grid.rows.push(vec![
            "the record: 12,500".to_owned(),
            dash(),
            first,
            repeated,
            dash(),
            dash(),
        ]);
        Some(Section {
            title: "Very many mounts".to_owned(),
            grid,
            note: format!("{} mounts of one snapshot under different names.", grouped(many.mounts)),
        })
    }

    fn peer_section(&self) -> Option<Section> {
        let peer = self.peer.as_ref()?;
        let mut grid = grid(&["", "seconds or ms", "requests", "KB"]);
        let mut push = |what: &str, time: String, traffic: super::proxy::Traffic| {
            grid.rows.push(vec![
                what.to_owned(),
                time,
                traffic.requests.to_string(),
                kilobytes(traffic.downloaded_bytes),
            ]);
        };
        push(
            "mount (remote_snapshot)",
            format!("{} s", digits(peer.mount_seconds)),
            peer.mount,
        );
        let questions = [
            ("needle", Some(&peer.needle)),
            ("dashboard", peer.dashboard.as_ref().ok()),
        ];
        for (name, timing) in questions {
            let Some(timing) = timing else { continue };
            push(
                &format!("{name}, first"),
                format!("{} ms", digits(timing.first_ms)),
                timing.first,
            );
            push(
                &format!("{name}, repeated"),
                format!("{} ms", digits(timing.repeated_ms)),
                timing.repeated,
            );
        }
        let failed = peer.dashboard.as_ref().err();
        Some(Section {
            title: format!("{}: the same events, store and latency", peer.version),
            grid,
            note: format!(
                "{} MB stored.{}",
                digits(peer.stored_bytes as f64 / 1e6),
                failed.map_or(String::new(), |error| format!(" The dashboard failed: {error}."))
            ),
        })
    }

    fn model_section(&self) -> Option<Section> {
        let first = self.model.first()?;
        let mut grid = grid(&[
            "cold, first",
            "bytes",
            "CPU",
            "KB at sizes of the run",
            "ms at them",
            "such a shard, MB",
            "s",
        ]);
        let line = |line: &super::model::Line, unit: &str, per: f64| {
            format!(
                "{} + {} {unit}/M events",
                digits(line.at_none / per),
                digits(line.per_million / per)
            )
        };
        for modelled in &self.model {
            let checks = |cells: &dyn Fn(&super::model::Check) -> (f64, f64)| {
                let one = |check| {
                    let (modelled, measured) = cells(check);
                    format!("{} → {}", digits(modelled), digits(measured))
                };
                modelled.checks.iter().map(one).collect::<Vec<_>>().join(", ")
            };
            grid.rows.push(vec![
                modelled.question.title().to_owned(),
                line(&modelled.bytes, "KB", 1000.0),
                line(&modelled.cpu_ms, "ms", 1.0),
                checks(&|check| (check.bytes_modelled / 1000.0, check.bytes_measured / 1000.0)),
                checks(&|check| (check.ms_modelled, check.ms_measured)),
                digits(modelled.extrapolated.bytes / 1e6),
                digits(modelled.extrapolated.ms / 1000.0),
            ]);
        }
        Some(Section {
            title: format!("Modelled: a shard of {} GB", digits(first.extrapolated.shard_bytes as f64 / 1e9)),
            grid,
            note: "Bytes and CPU are lines through the two smallest splits of the run; the larger ones check them (modelled → \
                   measured). Rounds stay what they are; a shard of that size is several splits, which are read at the same \
                   time."
                .to_owned(),
        })
    }

    /// Returns the whole report.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!("{}\n\n    {}\n", self.about(), self.command);
        for section in self.sections() {
            let _ = write!(text, "\n### {}\n\n{}", section.title, section.grid.markdown());
            if !section.note.is_empty() {
                let _ = writeln!(text, "\n{}", section.note);
            }
        }
        if !self.figures.is_empty() {
            text.push_str("\n### To reach\n\n");
            for figure in &self.figures {
                let _ = writeln!(text, "- {}", figure.verdict());
            }
        }
        if !self.notes.is_empty() {
            text.push_str("\n### Notes\n\n");
            for note in &self.notes {
                let _ = writeln!(text, "- {note}");
            }
        }
        text
    }
}

fn split_section(split: &super::split::SplitReport) -> Section {
    let mut grid = grid(&[
        "cold",
        "requests",
        "KB",
        "ms",
        "repeated, ms (requests)",
        "Quickwit 0.9, published",
    ]);
    for timing in &split.timings {
        let (requests, bytes, ms) = quickwit(timing.question);
        grid.rows.push(vec![
            timing.question.title().to_owned(),
            timing.first.traffic.requests.to_string(),
            kilobytes(timing.first.traffic.downloaded_bytes),
            digits(timing.first.ms),
            format!("{} ({})", digits(timing.repeated.ms), timing.repeated.traffic.requests),
            format!("{requests}, {} KB, {} ms", kilobytes(bytes), digits(ms)),
        ]);
    }
    let remote: Vec<String> = REMOTE_SNAPSHOT_BYTES
        .iter()
        .map(|bytes| digits(*bytes as f64 / 1e6))
        .collect();
    Section {
        title: format!("One split of {} events", grouped(split.loaded.amount.events)),
        grid,
        note: format!(
            "{} MB stored; mounting fetched {} KB in {} requests. Each question is the first to a node of its own. What is \
             published of Quickwit is about a million events. OpenSearch's `remote_snapshot` fetched {} MB to mount and \
             {} MB for the first needle of the same million.",
            digits(split.loaded.stored_bytes as f64 / 1e6),
            kilobytes(split.mount.traffic.downloaded_bytes),
            split.mount.traffic.requests,
            remote[0],
            remote[1],
        ),
    }
}

/// Returns the bars of a chart: the time of each tier, ms.
pub(super) fn bars(report: &Report, question: Question) -> (Vec<String>, Vec<Vec<f64>>) {
    let (mut groups, mut values) = (Vec::new(), Vec::new());
    for tier in &report.tiers {
        if let Some(timing) = tier.timings.iter().find(|timing| timing.question == question) {
            groups.push(tier.tier.title());
            values.push(vec![timing.first.ms, timing.repeated.ms, timing.similar.ms]);
        }
    }
    let record = match question {
        Question::Needle => {
            let [first, repeated] = RECORD.needle_ms;
            vec![("the record".to_owned(), vec![first, repeated])]
        }
        Question::Dashboard => [(5.0, RECORD.dashboard_s), (0.5, RECORD.dashboard_small_cache_s)]
            .map(|(cache_percent, seconds)| {
                let tier = Tier::Frozen { cache_percent };
                let ms = seconds.map(|seconds| seconds * 1000.0).to_vec();
                (format!("the record, {}", tier.title()), ms)
            })
            .to_vec(),
    };
    for (name, ms) in record {
        groups.push(name);
        values.push(ms);
    }
    (groups, values)
}

#[cfg(test)]
mod tests {
    use crate::frozen::report::tests::example;

    #[test]
    fn a_report_reads_as_tables() {
        let text = example(301.0).markdown();
        for part in [
            "### Tiers: needle",
            "| frozen, cache 5 %",
            "301 (60, 1,000 KB)",
            "| the record, 4 TB",
            "### Tiers: Discover's first page",
            "400 (55, 900 KB)",
            "### Mount, copy, restore",
            "| restore",
            "### Bytes by kind of file",
            "### Very many mounts",
            "| 12,500",
            "### One split of 1,000,000 events",
            "6, 284 KB, 153 ms",
            "### Modelled: a shard of 80.0 GB",
            "missed: needle over 50 frozen shards, first: 301 ms, at most 300 ms to reach",
            "- a < b & c",
        ] {
            assert!(text.contains(part), "[{part}] is not in\n{text}");
        }
    }

    #[test]
    fn what_was_left_out_has_no_table() {
        let mut report = example(1.0);
        (report.tiers, report.many, report.peer) = (Vec::new(), None, None);
        (report.splits, report.model) = (Vec::new(), Vec::new());
        assert!(report.sections().is_empty());
    }
}
