//! Report as one HTML page: charts and tables, no script, nothing from the network.

use std::fmt::Write;

use super::report::Report;
use super::split::QUESTIONS;
use super::table::bars;
use super::tiers::Question;
use crate::chart::{Chart, escape};
use crate::page::{push_grid, push_legend, push_list, push_verdicts, wrapped};

/// Colours of the series of all charts.
const COLOURS: &str = ".s0{fill:#08519c}\n.s1{fill:#6baed6}\n.s2{fill:#74c476}\n";

impl Report {
    /// Returns the page.
    pub(super) fn html(&self) -> String {
        let mut page = format!(
            "<p>{}</p>\n<pre>{}</pre>\n",
            escape(&self.about()),
            escape(&self.command)
        );
        let verdicts = self.figures.iter().map(|figure| (figure.reached, figure.verdict()));
        push_verdicts(verdicts, &mut page);
        if !self.tiers.is_empty() {
            let series = ["first", "repeated", "similar"].map(str::to_owned);
            push_legend(&series, &mut page);
            for question in [Question::Needle, Question::Dashboard] {
                let (groups, values) = bars(self, question);
                push_chart(question.title(), groups, &series, values, "ms", &mut page);
            }
        }
        if !self.splits.is_empty() {
            let series: Vec<String> = self
                .splits
                .iter()
                .map(|split| size(split.loaded.amount.events))
                .collect();
            push_legend(&series, &mut page);
            let groups = QUESTIONS.map(|question| question.title().to_owned()).to_vec();
            let values = (0..QUESTIONS.len()).map(|number| {
                let fetched = |split: &super::split::SplitReport| split.timings[number].first.traffic.downloaded_bytes;
                self.splits.iter().map(|split| fetched(split) as f64 / 1000.0).collect()
            });
            push_chart(
                "fetched, by events of a split",
                groups,
                &series,
                values.collect(),
                "KB",
                &mut page,
            );
        }
        for section in self.sections() {
            let _ = writeln!(page, "<h2>{}</h2>", escape(&section.title));
            push_grid(&section.grid, &mut page);
            if !section.note.is_empty() {
                let _ = writeln!(page, "<p>{}</p>", escape(&section.note));
            }
        }
        push_list("Notes", &self.notes, &mut page);
        wrapped("Hot, cold and frozen", COLOURS, &page)
    }
}

/// Returns `1.00 M`.
fn size(events: u64) -> String {
    format!("{} M events", crate::report::digits(events as f64 / 1e6))
}

fn push_chart(
    title: &str,
    groups: Vec<String>,
    series: &[String],
    values: Vec<Vec<f64>>,
    unit: &'static str,
    page: &mut String,
) {
    let chart = Chart {
        title: title.to_owned(),
        groups,
        series,
        values,
        unit,
    };
    let _ = writeln!(page, "<h3>{}</h3>\n{}", escape(title), chart.svg());
}

#[cfg(test)]
mod tests {
    use crate::frozen::report::tests::example;

    #[test]
    fn the_page_holds_charts_and_verdicts_and_reaches_nothing_outside() {
        let page = example(301.0).html();
        for part in [
            "<li class=\"missed\">",
            "<li class=\"reached\">",
            "a &lt; b &amp; c",
            "<title>first, frozen, cache 5 %: 301 ms</title>",
            "<title>1.00 M events, needle: 20.0 KB</title>",
            "firn bench frozen --events &lt;N&gt;",
        ] {
            assert!(page.contains(part), "[{part}] is not in\n{page}");
        }
        for outside in ["src=", "href=", "@import", "url("] {
            assert!(!page.contains(outside), "the page has [{outside}]");
        }
    }
}
