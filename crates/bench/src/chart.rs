//! Bar charts as inline SVG: groups of bars, one bar per subject, on a logarithmic axis.

use std::fmt::Write;

use crate::report::digits;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 280.0;
/// Space for the longest label of the axis.
const LEFT: f64 = 84.0;
const TOP: f64 = 12.0;
/// Space for names of groups, in at most [`NAME_LINES`] lines.
const BOTTOM: f64 = 52.0;
/// Maximum of lines below a group; longer text is cut.
const NAME_LINES: usize = 2;
const LINE_HEIGHT: f64 = 15.0;
/// Approximate width of a character.
const CHARACTER_WIDTH: f64 = 6.6;
/// Empty part of a group's width.
const GAP: f64 = 0.18;

/// Escapes text for an element or a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, char| {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            char => out.push(char),
        }
        out
    })
}

/// A chart with one bar for each group and series.
pub(super) struct Chart<'a> {
    pub(super) title: String,
    pub(super) groups: Vec<String>,
    pub(super) series: &'a [String],
    /// By group and series.
    pub(super) values: Vec<Vec<f64>>,
    /// Unit of the values.
    pub(super) unit: &'static str,
}

impl Chart<'_> {
    /// Returns the drawing. Bars of series `n` have the class `s{n}`.
    pub(super) fn svg(&self) -> String {
        let (low, high) = self.decades();
        let height_of = |value: f64| {
            let part = (value.log10() - f64::from(low)) / f64::from(high - low);
            part.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
        };
        let base = HEIGHT - BOTTOM;
        let unit = self.unit;
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
            escape(&self.title)
        );
        for decade in low..=high {
            let value = 10f64.powi(decade);
            let y = base - height_of(value);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{} {unit}</text>",
                LEFT - 6.0,
                y + 4.0,
                label(value)
            );
        }
        let group_width = (WIDTH - LEFT) / self.groups.len().max(1) as f64;
        let bar_width = group_width * (1.0 - GAP) / self.series.len().max(1) as f64;
        for (group, (name, values)) in self.groups.iter().zip(&self.values).enumerate() {
            let start = LEFT + group_width * (group as f64 + GAP / 2.0);
            for (number, (series, value)) in self.series.iter().zip(values).enumerate() {
                let height = height_of(*value);
                let _ = writeln!(
                    svg,
                    "<rect class=\"s{number}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\">\
                     <title>{}, {}: {} {unit}</title></rect>",
                    start + bar_width * number as f64,
                    base - height,
                    (bar_width - 1.0).max(1.0),
                    escape(series),
                    escape(name),
                    digits(*value)
                );
            }
            let fitting = (group_width / CHARACTER_WIDTH) as usize;
            for (line, text) in lines(name, fitting).iter().take(NAME_LINES).enumerate() {
                let _ = writeln!(
                    svg,
                    "<text class=\"group\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    start + group_width * (1.0 - GAP) / 2.0,
                    base + 20.0 + LINE_HEIGHT * line as f64,
                    escape(text)
                );
            }
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Returns the powers of ten that enclose all values: the lower one leaves space for the smallest bar.
    fn decades(&self) -> (i32, i32) {
        let values = || self.values.iter().flatten().copied().filter(|value| *value > 0.0);
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(0.0, f64::max);
        if high == 0.0 {
            return (0, 1);
        }
        let low = (low.log10() - 0.1).floor() as i32;
        (low, (high.log10().ceil() as i32).max(low + 1))
    }
}

/// Breaks text into lines of at most `width` characters, if no word is longer.
fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns `0.1`, `1`, `1000`.
fn label(value: f64) -> String {
    match value {
        value if value < 1.0 => format!("{value}"),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_broken_between_words() {
        assert_eq!(lines("the record, cache 5 %", 12), ["the record,", "cache 5 %"]);
        assert_eq!(lines("Cardinality", 4), ["Cardinality"]);
    }

    #[test]
    fn every_value_is_a_bar_within_the_frame() {
        let series = ["one".to_owned(), "two <2>".to_owned()];
        let chart = Chart {
            title: "t & t".to_owned(),
            groups: vec!["a".to_owned(), "b".to_owned()],
            series: &series,
            values: vec![vec![0.3, 12.0], vec![1.0, 480.0]],
            unit: "ms",
        };
        assert_eq!(chart.decades(), (-1, 3));
        let svg = chart.svg();
        assert_eq!(svg.matches("<rect ").count(), 4);
        assert!(svg.contains("two &lt;2&gt;, b: 480 ms") && svg.contains("aria-label=\"t &amp; t\""));
        let heights = svg
            .split("height=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok());
        let heights: Vec<f64> = heights.collect();
        assert!(
            heights
                .iter()
                .all(|height| *height > 0.0 && *height <= HEIGHT - TOP - BOTTOM)
        );
        assert!(heights.is_sorted_by(|a, b| a != b));
    }

    #[test]
    fn nothing_measured_is_an_empty_frame() {
        let chart = Chart {
            title: String::new(),
            groups: Vec::new(),
            series: &[],
            values: Vec::new(),
            unit: "ms",
        };
        assert_eq!(chart.decades(), (0, 1));
        assert!(chart.svg().ends_with("</svg>\n"));
    }
}
