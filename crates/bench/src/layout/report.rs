//! Results of a run, for programs and for the printed forms ([`crate::layout::table`], [`crate::layout::html`]).

use firn_tools::process::Hardware;
use serde::Serialize;

use super::loading::Stored;
use super::questions::{Measure, Mode, Size};
use super::subjects::Layout;
use super::volumes::Source;
use crate::report::Server;

/// Times of one subject in a row, at the client.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Times {
    pub(super) runs: usize,
    pub(super) median_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) min_ms: f64,
}

/// A query for one tenant in one mode.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) tenant: Size,
    pub(super) weeks: u32,
    pub(super) measure: Measure,
    pub(super) mode: Mode,
    /// By subject.
    pub(super) times: Vec<Times>,
}

/// A layout that took part.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SubjectReport {
    /// Position in the list of servers.
    pub(super) server: usize,
    #[serde(serialize_with = "id")]
    pub(super) layout: Layout,
    pub(super) name: String,
    /// Seconds to load it; `None`: an earlier run did.
    pub(super) load_seconds: Option<f64>,
    pub(super) stored: Stored,
}

/// A measured tenant.
#[derive(Debug, Clone, Serialize)]
pub(super) struct MeasuredTenant {
    pub(super) size: Size,
    pub(super) tenant: String,
    pub(super) events: u64,
    /// Of all events, in percent.
    pub(super) share_percent: f64,
}

/// A target and its result.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figure {
    pub(super) what: String,
    /// Minimum ratio by which it must be faster.
    pub(super) to_reach: f64,
    /// The smallest measured ratio.
    pub(super) found: f64,
    pub(super) reached: bool,
    /// Rows that miss it.
    pub(super) missed: Vec<String>,
}

/// All results of a run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) command: String,
    pub(super) time: String,
    pub(super) hardware: Hardware,
    pub(super) servers: Vec<Server>,
    pub(super) source: Source,
    pub(super) ndjson_bytes: u64,
    pub(super) tenants: Vec<MeasuredTenant>,
    pub(super) subjects: Vec<SubjectReport>,
    pub(super) rows: Vec<Row>,
    pub(super) figures: Vec<Figure>,
    pub(super) notes: Vec<String>,
}

fn id<S: serde::Serializer>(layout: &Layout, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(layout.id())
}

/// Definition of a target: firn's layout against a layout of the other server.
struct Goal {
    against: Layout,
    to_reach: f64,
    /// The rows that count, in words and as a predicate.
    what: &'static str,
    counts: fn(&Row) -> bool,
}

/// Targets of firn's layout against those of the other server: the rows of the published story, and no losses
/// elsewhere.
const GOALS: &[Goal] = &[
    Goal {
        against: Layout::Daily,
        to_reach: 20.0,
        what: "histogram and sample of the middle tenant, three weeks",
        counts: is_story,
    },
    Goal {
        against: Layout::RoutedWeekly,
        to_reach: 5.0,
        what: "histogram and sample of the middle tenant, three weeks",
        counts: is_story,
    },
    Goal {
        against: Layout::Daily,
        to_reach: 1.0,
        what: "every measure",
        counts: |_| true,
    },
    Goal {
        against: Layout::RoutedWeekly,
        to_reach: 1.0,
        what: "every measure",
        counts: |_| true,
    },
];

fn is_story(row: &Row) -> bool {
    row.tenant == Size::Middle && row.weeks == 3 && matches!(row.measure, Measure::Histogram | Measure::Sample)
}

impl Row {
    /// Returns the row in words.
    pub(super) fn title(&self) -> String {
        format!(
            "{}, {}, {} tenant, {} weeks",
            self.measure.title(),
            self.mode.title(),
            self.tenant.title(),
            self.weeks
        )
    }

    /// Returns how many times faster one subject was than another, by the median.
    pub(super) fn ratio(&self, subject: usize, other: usize) -> f64 {
        self.times[other].median_ms / self.times[subject].median_ms
    }
}

/// Returns the position of a layout among the subjects of a server.
pub(super) fn find(subjects: &[SubjectReport], server: usize, layout: Layout) -> Option<usize> {
    subjects
        .iter()
        .position(|subject| subject.server == server && subject.layout == layout)
}

/// Compares the results with the targets; empty if the run has no subjects for them.
pub(super) fn figures(subjects: &[SubjectReport], rows: &[Row]) -> Vec<Figure> {
    let Some(own) = find(subjects, 0, Layout::Own) else {
        return Vec::new();
    };
    let mut figures = Vec::new();
    for goal in GOALS {
        let Some(other) = find(subjects, 1, goal.against) else {
            continue;
        };
        let ratios: Vec<(f64, &Row)> = rows
            .iter()
            .filter(|row| (goal.counts)(row))
            .map(|row| (row.ratio(own, other), row))
            .collect();
        let found = ratios.iter().map(|(ratio, _)| *ratio).fold(f64::INFINITY, f64::min);
        let missed: Vec<String> = ratios
            .iter()
            .filter(|(ratio, _)| *ratio < goal.to_reach)
            .map(|(ratio, row)| format!("{}: {}×", row.title(), crate::report::digits(*ratio)))
            .collect();
        figures.push(Figure {
            what: format!("{} beside {} there", goal.what, goal.against.title()),
            to_reach: goal.to_reach,
            found,
            reached: missed.is_empty() && found.is_finite(),
            missed,
        });
    }
    figures
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A report with two servers, three subjects and one row.
    pub(in crate::layout) fn example(own_ms: f64, daily_ms: f64) -> Report {
        let subject = |server, layout: Layout| SubjectReport {
            server,
            layout,
            name: format!("b-{}", layout.id()),
            load_seconds: (server == 0).then_some(1.5),
            stored: Stored {
                indices: 3,
                shards: 6,
                segments: Some(6),
                bytes: Some(1_000_000),
            },
        };
        let subjects = vec![
            subject(0, Layout::Daily),
            subject(0, Layout::Own),
            subject(1, Layout::Daily),
        ];
        let times = |median_ms| Times {
            runs: 15,
            median_ms,
            p99_ms: median_ms * 2.0,
            min_ms: median_ms / 2.0,
        };
        let rows = vec![Row {
            tenant: Size::Middle,
            weeks: 3,
            measure: Measure::Sample,
            mode: Mode::First,
            times: vec![times(2.0), times(own_ms), times(daily_ms)],
        }];
        let server = |version: &str| Server {
            url: "http://127.0.0.1:9200".to_owned(),
            version: version.to_owned(),
        };
        Report {
            command: "firn bench layout --url <A>".to_owned(),
            time: "2026-01-01 00:00 UTC".to_owned(),
            hardware: Hardware::read(),
            servers: vec![server("firn 0.1.0"), server("opensearch 3.6.0")],
            source: Source {
                seed: 1,
                events: 1000,
                tenants: 12,
                weeks: 3,
            },
            ndjson_bytes: 700_000,
            tenants: vec![MeasuredTenant {
                size: Size::Middle,
                tenant: "tenant-006".to_owned(),
                events: 50,
                share_percent: 5.0,
            }],
            figures: figures(&subjects, &rows),
            subjects,
            rows,
            notes: vec!["a < b & c".to_owned()],
        }
    }

    #[test]
    fn figures_are_reached_or_missed() {
        let check = |own_ms: f64, daily_ms: f64, reached: &[bool]| {
            let figures = example(own_ms, daily_ms).figures;
            let found: Vec<bool> = figures.iter().map(|figure| figure.reached).collect();
            assert_eq!(found, reached);
            assert!(figures.iter().all(|figure| figure.reached == figure.missed.is_empty()));
        };
        // Twenty times, and never slower, compared with daily×3; weekly×7 took no part.
        check(1.0, 20.0, &[true, true]);
        check(1.0, 19.0, &[false, true]);
        check(1.0, 0.9, &[false, false]);
        assert_eq!(example(1.0, 19.0).figures[0].missed.len(), 1);
    }
}
