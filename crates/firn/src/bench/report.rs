//! Rows of figures, printed for people and for programs.

use std::fmt::Write;

use serde::Serialize;

use crate::process::Hardware;

/// Which way a figure is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Better {
    /// The ratio says how many times more A does.
    Higher,
    /// The ratio says how many times less A needs.
    Lower,
}

/// One measure of both servers; `None` where it could not be taken.
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
    /// A row with its ratio.
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

/// A server that took part.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Server {
    pub(super) url: String,
    /// `firn 0.1.0`, `opensearch 3.6.0`.
    pub(super) version: String,
}

/// All of a run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The command line, to run it again.
    pub(super) command: String,
    /// RFC 3339, UTC.
    pub(super) time: String,
    pub(super) hardware: Hardware,
    pub(super) a: Server,
    pub(super) b: Option<Server>,
    pub(super) events: u64,
    pub(super) ndjson_bytes: u64,
    /// What to know when reading the figures.
    pub(super) notes: Vec<String>,
    pub(super) rows: Vec<Row>,
}

impl Report {
    /// A Markdown section.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "{} events, {:.1} MB of NDJSON ({} bytes each on average). {}. {}\n\n    {}\n\n",
            crate::ingest::grouped(self.events),
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
        for note in &self.notes {
            let _ = write!(text, "\n- {note}");
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        text
    }
}

fn cell(value: Option<f64>, unit: &str) -> String {
    value.map_or("–".to_owned(), |value| format!("{} {unit}", digits(value)))
}

/// Three significant digits, or all before the point.
fn digits(value: f64) -> String {
    match value.abs() {
        n if n >= 1000.0 => crate::ingest::grouped(value.round() as u64),
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
