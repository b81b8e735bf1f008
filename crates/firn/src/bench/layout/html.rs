//! The report as one HTML page: charts and tables, no script, nothing from the network.

use std::fmt::Write;

use super::chart::{Chart, escape};
use super::questions::{MODES, Mode, SIZES, Size, WINDOW_WEEKS};
use super::report::Report;
use super::subjects::Layout;
use super::table::{Grid, capitalised};

/// One for each subject that a run can have: those of firn in blues and greens, its own layout in
/// the strongest colour, the other server's in warm ones.
const STYLE: &str = "\
:root{color-scheme:light dark;--text:#1c2430;--soft:#5b6675;--line:#d9dee5;--back:#fff;--head:#f4f6f8}
@media(prefers-color-scheme:dark){:root{--text:#e6eaf0;--soft:#9aa5b4;--line:#333c48;--back:#14181e;--head:#1d232b}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--text);background:var(--back);max-width:1040px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{margin-top:2.5rem;font-size:1.2rem}h3{font-size:1rem;margin-bottom:.2rem}
p,li{color:var(--soft)}code,pre{font-size:.85em}pre{overflow-x:auto;background:var(--head);padding:.6rem}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.82rem;margin:.5rem 0 1.5rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{background:var(--head)}th:first-child,td:first-child{text-align:left}
svg{width:100%;height:auto}.grid{stroke:var(--line)}.axis,.group{font-size:12px;fill:var(--soft)}
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;list-style:none;padding:0;font-size:.85rem}
.legend svg{width:12px;height:12px;margin-right:.4rem}
.reached::marker{content:'✓ ';color:#1a9850}.missed::marker{content:'✗ ';color:#d73027}.missed{color:var(--text)}
";

/// Colours of series by server: the first one's own layout stands out.
const FIRST_SERVER: &[&str] = &["#9ecae1", "#6baed6", "#41ab9d", "#74c476", "#a1d99b"];
const OWN: &str = "#08519c";
const SECOND_SERVER: &[&str] = &["#f16913", "#fdae6b", "#e6550d", "#d94801", "#fdd0a2"];

impl Report {
    /// The page.
    pub(super) fn html(&self) -> String {
        let series: Vec<String> = (0..self.subjects.len())
            .map(|subject| self.subject_title(subject))
            .collect();
        let mut page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width\"/>\n<title>Layouts measured</title>\n\
             <style>\n{STYLE}{}</style>\n</head>\n<body>\n<h1>Layouts measured</h1>\n<p>{}</p>\n<pre>{}</pre>\n",
            self.colours(),
            escape(&self.about()),
            escape(&self.command)
        );
        if !self.figures.is_empty() {
            page.push_str("<h2>To reach</h2>\n<ul>\n");
            for (figure, verdict) in self.figures.iter().zip(self.verdicts()) {
                let class = if figure.reached { "reached" } else { "missed" };
                let _ = writeln!(page, "<li class=\"{class}\">{}</li>", escape(&verdict));
            }
            page.push_str("</ul>\n");
        }
        page.push_str("<h2>Stored</h2>\n");
        push_grid(&self.stored(), &mut page);
        for size in SIZES {
            for weeks in WINDOW_WEEKS {
                self.push_section(size, weeks, &series, &mut page);
            }
        }
        if !self.notes.is_empty() {
            page.push_str("<h2>Notes</h2>\n<ul>\n");
            for note in &self.notes {
                let _ = writeln!(page, "<li>{}</li>", escape(note));
            }
            page.push_str("</ul>\n");
        }
        page.push_str("</body>\n</html>\n");
        page
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
        }
    }

    /// The rules that colour the bars.
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

fn push_legend(series: &[String], page: &mut String) {
    page.push_str("<ul class=\"legend\">\n");
    for (number, name) in series.iter().enumerate() {
        let _ = writeln!(
            page,
            "<li><svg viewBox=\"0 0 12 12\"><rect class=\"s{number}\" width=\"12\" height=\"12\"/></svg>{}</li>",
            escape(name)
        );
    }
    page.push_str("</ul>\n");
}

fn push_grid(grid: &Grid, page: &mut String) {
    page.push_str("<div class=\"wide\">\n<table>\n<thead><tr>");
    for cell in &grid.head {
        let _ = write!(page, "<th>{}</th>", escape(cell));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &grid.rows {
        page.push_str("<tr>");
        for cell in row {
            let _ = write!(page, "<td>{}</td>", escape(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table>\n</div>\n");
}

#[cfg(test)]
mod tests {
    use crate::bench::layout::report::tests::example;

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
