//! Report as Markdown.

use std::fmt::Write;

use super::questions::{MODES, SIZES, Size, WINDOW_WEEKS};
use super::report::{Report, Row, find};
use super::subjects::Layout;
use crate::markdown_table::Grid;
use crate::report::digits;

/// Returns a time with its difference to another in percent: `1.23 (−87 %)`.
pub(super) fn with_difference(ms: f64, base_ms: f64) -> String {
    let percent = (ms / base_ms - 1.0) * 100.0;
    let sign = if percent < 0.0 { '−' } else { '+' };
    format!("{} ({sign}{:.0} %)", digits(ms), percent.abs())
}

impl Report {
    /// Returns the rows for a tenant and a window.
    pub(super) fn rows_of(&self, size: Size, weeks: u32) -> impl Iterator<Item = &Row> {
        self.rows
            .iter()
            .filter(move |row| row.tenant == size && row.weeks == weeks)
    }

    /// Returns the measured tenant in words.
    pub(super) fn tenant_title(&self, size: Size) -> String {
        match self.tenants.iter().find(|tenant| tenant.size == size) {
            Some(tenant) => format!(
                "{} tenant ({}, {} events, {} %)",
                size.title(),
                tenant.tenant,
                firn_tools::ingest::grouped(tenant.events),
                digits(tenant.share_percent)
            ),
            None => format!("{} tenant", size.title()),
        }
    }

    /// Returns a subject's name in a table's head, with the server if there are two.
    pub(super) fn subject_title(&self, subject: usize) -> String {
        let of = &self.subjects[subject];
        match self.servers.len() {
            1 => of.layout.title().to_owned(),
            _ => {
                let version = &self.servers[of.server].version;
                let name = version.split(' ').next().unwrap_or(version);
                format!("{name}: {}", of.layout.title())
            }
        }
    }

    /// Returns medians by subject with the difference to `daily×3` of the same server.
    pub(super) fn medians(&self, size: Size, weeks: u32) -> Grid {
        let titles = (0..self.subjects.len()).map(|subject| self.subject_title(subject));
        let mut grid = Grid::new(["median, ms".to_owned()].into_iter().chain(titles));
        for mode in MODES {
            for row in self.rows_of(size, weeks).filter(|row| row.mode == mode) {
                let mut cells = vec![format!("{}, {}", row.measure.title(), mode.title())];
                for (subject, times) in row.times.iter().enumerate() {
                    let base = find(&self.subjects, self.subjects[subject].server, Layout::Daily);
                    cells.push(match base {
                        Some(base) if base != subject => with_difference(times.median_ms, row.times[base].median_ms),
                        _ => digits(times.median_ms),
                    });
                }
                grid.rows.push(cells);
            }
        }
        grid
    }

    /// Returns firn's layout compared with those of the other server; `None` if one of them took no part.
    pub(super) fn ratios(&self, size: Size, weeks: u32) -> Option<Grid> {
        let own = find(&self.subjects, 0, Layout::Own)?;
        let others: Vec<usize> = (0..self.subjects.len())
            .filter(|subject| self.subjects[*subject].server == 1)
            .collect();
        if others.is_empty() {
            return None;
        }
        let mut head = vec!["median / p99, ms".to_owned(), self.subject_title(own)];
        for other in &others {
            head.extend([self.subject_title(*other), "ratio".to_owned()]);
        }
        let mut grid = Grid::new(head);
        let cell = |row: &Row, subject: usize| {
            let times = &row.times[subject];
            format!("{} / {}", digits(times.median_ms), digits(times.p99_ms))
        };
        for mode in MODES {
            for row in self.rows_of(size, weeks).filter(|row| row.mode == mode) {
                let mut cells = vec![format!("{}, {}", row.measure.title(), mode.title()), cell(row, own)];
                for other in &others {
                    cells.extend([cell(row, *other), format!("{} ×", digits(row.ratio(own, *other)))]);
                }
                grid.rows.push(cells);
            }
        }
        Some(grid)
    }

    /// Returns the stored form of all subjects.
    pub(super) fn stored(&self) -> Grid {
        let head = ["layout", "indices", "shards", "segments", "stored, MB", "loaded in, s"];
        let mut grid = Grid::new(head.map(str::to_owned));
        for (number, subject) in self.subjects.iter().enumerate() {
            let stored = &subject.stored;
            let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
            grid.rows.push(vec![
                self.subject_title(number),
                stored.indices.to_string(),
                stored.shards.to_string(),
                or_dash(stored.segments.map(|segments| segments.to_string())),
                or_dash(stored.bytes.map(|bytes| digits(bytes as f64 / 1e6))),
                or_dash(subject.load_seconds.map(digits)),
            ]);
        }
        grid
    }

    /// Describes the run in a sentence or two.
    pub(super) fn about(&self) -> String {
        let servers: Vec<&str> = self.servers.iter().map(|server| server.version.as_str()).collect();
        format!(
            "{} events of {} tenants over {} weeks (seed {}, {} MB of NDJSON) on {}. {}. {}",
            firn_tools::ingest::grouped(self.source.events),
            self.source.tenants,
            self.source.weeks,
            self.source.seed,
            digits(self.ndjson_bytes as f64 / 1e6),
            servers.join(" and "),
            self.hardware.line(),
            self.time,
        )
    }

    /// Returns each target with its result in a line.
    pub(super) fn verdicts(&self) -> Vec<String> {
        let verdict = |figure: &super::report::Figure| {
            let outcome = if figure.reached { "reached" } else { "missed" };
            let mut line = format!(
                "{outcome}: at least {} ×, {}: {} × at least",
                digits(figure.to_reach),
                figure.what,
                digits(figure.found)
            );
            if !figure.reached {
                let _ = write!(line, " ({})", figure.missed.join("; "));
            }
            line
        };
        self.figures.iter().map(verdict).collect()
    }

    /// Returns the whole report.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "{}\n\n    {}\n\n{}",
            self.about(),
            self.command,
            self.stored().markdown()
        );
        for size in SIZES {
            for weeks in WINDOW_WEEKS {
                if self.rows_of(size, weeks).next().is_none() {
                    continue;
                }
                let _ = write!(
                    text,
                    "\n### {}, {weeks} weeks\n\n{}",
                    capitalised(&self.tenant_title(size)),
                    self.medians(size, weeks).markdown()
                );
                if let Some(ratios) = self.ratios(size, weeks) {
                    let _ = write!(text, "\n{}", ratios.markdown());
                }
            }
        }
        if !self.figures.is_empty() {
            text.push_str("\n### To reach\n\n");
            for verdict in self.verdicts() {
                let _ = writeln!(text, "- {verdict}");
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

/// Capitalises the first letter.
pub(super) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::report::tests::example;

    #[test]
    fn differences_are_those_of_the_published_tables() {
        let check = |ms, base_ms, expect: &str| assert_eq!(with_difference(ms, base_ms), expect);
        check(4.06, 46.55, "4.06 (−91 %)");
        check(2.0, 1.0, "2.00 (+100 %)");
        check(1.0, 1.0, "1.00 (+0 %)");
    }

    #[test]
    fn a_report_reads_as_tables() {
        let text = example(1.0, 19.0).markdown();
        for part in [
            "| Sample (100), first |",
            "1.00 (−50 %)",
            "1.00 / 2.00",
            "| 19.0 × |",
            "### Middle tenant (tenant-006, 50 events, 5.00 %), 3 weeks",
            "missed: at least 20.0 ×",
            "reached: at least 1.00 ×",
        ] {
            assert!(text.contains(part), "[{part}] is not in\n{text}");
        }
        let table = text.lines().skip_while(|line| !line.starts_with("| median, ms"));
        let widths: Vec<usize> = table
            .take_while(|line| line.starts_with('|'))
            .map(|line| line.chars().count())
            .collect();
        assert!(
            widths.len() == 3 && widths.iter().all(|width| *width == widths[0]),
            "{widths:?}"
        );
    }
}
