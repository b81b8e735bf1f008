//! Report of results, printed for people and for programs.

use std::fmt::Write;

use firn_tools::generate::Profile;
use firn_tools::process::Hardware;
use serde::Serialize;

/// Whether a high or a low value is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Better {
    /// The ratio is A divided by B.
    Higher,
    /// The ratio is B divided by A.
    Lower,
}

/// One measure of both servers; `None` if it could not be taken.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) measure: &'static str,
    pub(super) unit: &'static str,
    pub(super) better: Better,
    pub(super) a: Option<f64>,
    pub(super) b: Option<f64>,
    /// How many times better A is than B.
    pub(super) ratio: Option<f64>,
}

impl Row {
    /// Creates a row with its ratio.
    pub(super) fn new(
        measure: &'static str,
        unit: &'static str,
        better: Better,
        a: Option<f64>,
        b: Option<f64>,
    ) -> Self {
        let ratio = a.zip(b).and_then(|(a, b)| {
            let (over, under) = match better {
                Better::Higher => (a, b),
                Better::Lower => (b, a),
            };
            (under > 0.0).then(|| over / under)
        });
        Self {
            measure,
            unit,
            better,
            a,
            b,
            ratio,
        }
    }
}

/// Time of one query on one server.
#[derive(Debug, Clone, Serialize)]
pub(super) struct QuestionTiming {
    pub(super) runs: usize,
    pub(super) median_ms: f64,
    pub(super) p99_ms: f64,
    /// Of the server's process, per request on average.
    pub(super) cpu_ms: Option<f64>,
}

/// One query on both servers.
#[derive(Debug, Clone, Serialize)]
pub(super) struct QuestionRow {
    pub(super) question: String,
    /// Always the same values.
    pub(super) repeated: bool,
    pub(super) a: QuestionTiming,
    pub(super) b: Option<QuestionTiming>,
    /// How many times less A needs: by the median, and by CPU time.
    pub(super) ratio_median: Option<f64>,
    pub(super) ratio_cpu: Option<f64>,
    /// Number of different responses; `None`: there is no second server.
    pub(super) differences: Option<usize>,
}

impl QuestionRow {
    /// Creates a row with its ratios.
    pub(super) fn new(
        question: String,
        repeated: bool,
        a: QuestionTiming,
        b: Option<QuestionTiming>,
        differences: Option<usize>,
    ) -> Self {
        let ratio = |a: Option<f64>, b: Option<f64>| a.zip(b).filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a);
        Self {
            ratio_median: ratio(Some(a.median_ms), b.as_ref().map(|b| b.median_ms)),
            ratio_cpu: ratio(a.cpu_ms, b.as_ref().and_then(|b| b.cpu_ms)),
            question,
            repeated,
            a,
            b,
            differences,
        }
    }
}

/// A server that took part.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Server {
    pub(super) url: String,
    /// `firn 0.1.0`, `opensearch 3.6.0`.
    pub(super) version: String,
}

/// All results of a run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The command line, to run it again.
    pub(super) command: String,
    /// RFC 3339, UTC.
    pub(super) time: String,
    pub(super) hardware: Hardware,
    pub(super) a: Server,
    pub(super) b: Option<Server>,
    /// `weblog`, `weblog-PROFILE`, or the file's name.
    pub(super) what: String,
    /// Cardinality and text of the web logs; `None`: the plain ones, or other events.
    pub(super) profile: Option<Profile>,
    pub(super) events: u64,
    pub(super) ndjson_bytes: u64,
    /// Notes for the interpretation of the results.
    pub(super) notes: Vec<String>,
    pub(super) rows: Vec<Row>,
    pub(super) questions: Vec<QuestionRow>,
}

impl Report {
    /// Returns a Markdown section.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "{} events ({}), {:.1} MB of NDJSON ({} bytes each on average). {}. {}\n\n    {}\n\n",
            firn_tools::ingest::grouped(self.events),
            self.what,
            self.ndjson_bytes as f64 / 1e6,
            self.ndjson_bytes.checked_div(self.events).unwrap_or(0),
            self.hardware.line(),
            self.time,
            self.command,
        );
        match &self.b {
            Some(b) => {
                let _ = writeln!(
                    text,
                    "| measure | {} | {} | ratio |\n| --- | ---: | ---: | ---: |",
                    self.a.version, b.version
                );
            }
            None => {
                let _ = writeln!(text, "| measure | {} |\n| --- | ---: |", self.a.version);
            }
        }
        for row in &self.rows {
            let _ = write!(text, "| {} | {} |", row.measure, cell(row.a, row.unit));
            if self.b.is_some() {
                let ratio = row.ratio.map_or("–".to_owned(), |ratio| format!("{} ×", digits(ratio)));
                let _ = write!(text, " {} | {ratio} |", cell(row.b, row.unit));
            }
            text.push('\n');
        }
        for (repeated, title) in [
            (false, "question, other values each time"),
            (true, "the same question again, about all time where it has no tenant"),
        ] {
            let rows: Vec<_> = self.questions.iter().filter(|row| row.repeated == repeated).collect();
            if !rows.is_empty() {
                self.questions_table(title, &rows, &mut text);
            }
        }
        for note in &self.notes {
            let _ = write!(text, "\n- {note}");
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        text
    }
}

impl Report {
    /// Adds median, 99th percentile and CPU time of each query.
    fn questions_table(&self, title: &str, rows: &[&QuestionRow], text: &mut String) {
        let heads = |server: &Server| format!(" {} median | p99 | CPU |", server.version);
        let _ = write!(text, "\n| {title} |{}", heads(&self.a));
        if let Some(b) = &self.b {
            let _ = write!(text, "{} ratio | by CPU |", heads(b));
        }
        let columns = if self.b.is_some() { 8 } else { 3 };
        let _ = writeln!(text, "\n| --- |{}", " ---: |".repeat(columns));
        let cells = |timing: &QuestionTiming| {
            format!(
                " {} | {} | {} |",
                cell(Some(timing.median_ms), "ms"),
                cell(Some(timing.p99_ms), "ms"),
                cell(timing.cpu_ms, "ms")
            )
        };
        let times = |ratio: Option<f64>| ratio.map_or("–".to_owned(), |ratio| format!("{} ×", digits(ratio)));
        for row in rows {
            let _ = write!(text, "| {} |{}", row.question, cells(&row.a));
            if let Some(b) = &row.b {
                let _ = write!(
                    text,
                    "{} {} | {} |",
                    cells(b),
                    times(row.ratio_median),
                    times(row.ratio_cpu)
                );
            }
            text.push('\n');
        }
    }
}

fn cell(value: Option<f64>, unit: &str) -> String {
    value.map_or("–".to_owned(), |value| format!("{} {unit}", digits(value)))
}

/// Prints three significant digits, or all before the point.
pub(super) fn digits(value: f64) -> String {
    match value.abs() {
        n if n >= 1000.0 => firn_tools::ingest::grouped(value.round() as u64),
        n if n >= 100.0 => format!("{value:.0}"),
        n if n >= 10.0 => format!("{value:.1}"),
        n if n >= 1.0 || n == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_says_how_much_better_a_is() {
        let check = |better, a, b, expect| assert_eq!(Row::new("m", "u", better, a, b).ratio, expect);
        check(Better::Higher, Some(24.0), Some(8.0), Some(3.0));
        check(Better::Lower, Some(100.0), Some(200.0), Some(2.0));
        check(Better::Lower, Some(1.0), None, None);
        check(Better::Higher, Some(1.0), Some(0.0), None);
    }

    #[test]
    fn figures_have_three_digits() {
        let check = |value: f64, expect: &str| assert_eq!(digits(value), expect);
        check(123_456.7, "123,457");
        check(465.6, "466");
        check(24.31, "24.3");
        check(2.0, "2.00");
        check(0.1234, "0.123");
    }
}
