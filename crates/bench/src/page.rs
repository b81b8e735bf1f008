//! HTML page of results: one file, no script, nothing from the network.

use std::fmt::Write;

use super::chart::escape;
use super::markdown_table::Grid;

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

/// Returns a whole page around a body, with rules that colour the bars of its charts.
pub(super) fn wrapped(title: &str, colours: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width\"/>\n<title>{title}</title>\n\
         <style>\n{STYLE}{colours}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
    )
}

/// Adds the targets, each with whether it was met.
pub(super) fn push_verdicts(verdicts: impl Iterator<Item = (bool, String)>, page: &mut String) {
    let lines: Vec<(bool, String)> = verdicts.collect();
    if lines.is_empty() {
        return;
    }
    page.push_str("<h2>To reach</h2>\n<ul>\n");
    for (reached, verdict) in lines {
        let class = if reached { "reached" } else { "missed" };
        let _ = writeln!(page, "<li class=\"{class}\">{}</li>", escape(&verdict));
    }
    page.push_str("</ul>\n");
}

/// Adds lines under a heading; nothing if there are no lines.
pub(super) fn push_list(title: &str, lines: &[String], page: &mut String) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(page, "<h2>{}</h2>\n<ul>", escape(title));
    for line in lines {
        let _ = writeln!(page, "<li>{}</li>", escape(line));
    }
    page.push_str("</ul>\n");
}

/// Adds the legend of the bar colours.
pub(super) fn push_legend(series: &[String], page: &mut String) {
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

/// Adds a table.
pub(super) fn push_grid(grid: &Grid, page: &mut String) {
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
