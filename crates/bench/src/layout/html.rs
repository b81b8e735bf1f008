//! Report as one HTML page: charts and tables, no script, nothing from the network.

use std::fmt::Write;

use super::questions::{MODES, Mode, SIZES, Size, WINDOW_WEEKS};
use super::report::Report;
use super::subjects::Layout;
use super::table::capitalised;
use crate::chart::{Chart, escape};
use crate::page::{push_grid, push_legend, push_list, push_verdicts, wrapped};

/// Colours of series by server: firn's layout stands out.
const FIRST_SERVER: &[&str] = &["#9ecae1", "#6baed6", "#41ab9d", "#74c476", "#a1d99b"];
const OWN: &str = "#08519c";
const SECOND_SERVER: &[&str] = &["#f16913", "#fdae6b", "#e6550d", "#d94801", "#fdd0a2"];

impl Report {
    /// Returns the page.
    pub(super) fn html(&self) -> String {
        let series: Vec<String> = (0..self.subjects.len())
            .map(|subject| self.subject_title(subject))
            .collect();
        let mut page = format!(
            "<p>{}</p>\n<pre>{}</pre>\n",
            escape(&self.about()),
            escape(&self.command)
        );
        let reached = self.figures.iter().map(|figure| figure.reached);
        push_verdicts(reached.zip(self.verdicts()), &mut page);
        page.push_str("<h2>Stored</h2>\n");
        push_grid(&self.stored(), &mut page);
        for size in SIZES {
            for weeks in WINDOW_WEEKS {
                self.push_section(size, weeks, &series, &mut page);
            }
        }
        push_list("Notes", &self.notes, &mut page);
        wrapped("Layouts measured", &self.colours(), &page)
    }

    fn push_section(&self, size: Size, weeks: u32, series: &[String], page: &mut String) {
        if self.rows_of(size, weeks).next().is_none() {
            return;
        }
        let title = format!("{}, {weeks} weeks", capitalised(&self.tenant_title(size)));
        let _ = writeln!(page, "<h2>{}</h2>", escape(&title));
        push_legend(series, page);
        for mode in MODES {
            let _ = writeln!(page, "<h3>{}, median</h3>", capitalised(mode.title()));
            page.push_str(&self.chart(size, weeks, mode, series).svg());
        }
        push_grid(&self.medians(size, weeks), page);
        if let Some(ratios) = self.ratios(size, weeks) {
            push_grid(&ratios, page);
        }
    }

    fn chart<'a>(&self, size: Size, weeks: u32, mode: Mode, series: &'a [String]) -> Chart<'a> {
        let rows: Vec<_> = self.rows_of(size, weeks).filter(|row| row.mode == mode).collect();
        Chart {
            title: format!("{} tenant, {weeks} weeks, {}", size.title(), mode.title()),
            groups: rows.iter().map(|row| row.measure.title().to_owned()).collect(),
            series,
            values: rows
                .iter()
                .map(|row| row.times.iter().map(|times| times.median_ms).collect())
                .collect(),
            unit: "ms",
        }
    }

    /// Returns the rules that colour the bars.
    fn colours(&self) -> String {
        let (mut first, mut second) = (FIRST_SERVER.iter().cycle(), SECOND_SERVER.iter().cycle());
        let mut rules = String::new();
        for (number, subject) in self.subjects.iter().enumerate() {
            let colour = match (subject.server, subject.layout) {
                (0, Layout::Own) => Some(&OWN),
                (0, _) => first.next(),
                _ => second.next(),
            };
            let _ = writeln!(rules, ".s{number}{{fill:{}}}", colour.unwrap_or(&OWN));
        }
        rules
    }
}

#[cfg(test)]
mod tests {
    use crate::layout::report::tests::example;

    #[test]
    fn the_page_holds_charts_and_verdicts_and_reaches_nothing_outside() {
        let page = example(1.0, 19.0).html();
        for part in [
            "<li class=\"missed\">",
            "<li class=\"reached\">",
            "a &lt; b &amp; c",
            "firn bench layout --url &lt;A&gt;",
            ".s1{fill:#08519c}",
            "<title>firn: firn's own, Sample (100): 1.00 ms</title>",
        ] {
            assert!(page.contains(part), "[{part}] is not in\n{page}");
        }
        for outside in ["src=", "href=", "@import", "url("] {
            assert!(!page.contains(outside), "the page has [{outside}]");
        }
    }
}
