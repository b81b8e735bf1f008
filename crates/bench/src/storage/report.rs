//! Report: a table, a page with charts, and all figures as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::StorageArgs;
use super::measure::Figures;
use crate::chart::{Chart, escape};
use crate::markdown_table::Grid;
use crate::page::{push_grid, push_legend, push_verdicts, wrapped};
use crate::report::digits;

const COLOURS: &str = ".s0{fill:#08519c}\n.s1{fill:#6baed6}\n.s2{fill:#74c476}\n.s3{fill:#fd8d3c}\n";
/// Parts of the percentiles that are shown.
const PERCENTILES: [(&str, f64); 5] = [
    ("50 %", 0.5),
    ("90 %", 0.9),
    ("99 %", 0.99),
    ("99.9 %", 0.999),
    ("longest", 1.0),
];
/// Slices of time of the charts.
const SLICES: usize = 12;
/// To reach, for a firn.
const TOOK_MS_MAX: f64 = 20.0;
const INTAKE_CORES_MAX: f64 = 0.3;

/// See the module.
pub(super) struct Report {
    about: String,
    seconds: f64,
    subjects: Vec<Figures>,
}

impl Report {
    pub(super) fn new(args: &StorageArgs) -> Self {
        Self {
            about: format!(
                "{} CEF events/s while {} searches/s by a leading wildcard run over the last {} events, for {} s",
                args.rate, args.searches, args.events, args.seconds
            ),
            seconds: args.seconds as f64,
            subjects: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, figures: Figures) {
        self.subjects.push(figures);
    }

    fn grid(&self) -> Grid {
        let head = [
            "data path",
            "searches/s",
            "took 50 % ms",
            "took 99 % ms",
            "took 99.9 % ms",
            "took longest ms",
            "latency 99 % ms",
            "events/s",
            "lost",
            "cores, intake",
            "cores, both",
            "stored before in s",
        ];
        let mut grid = Grid::new(head.map(str::to_owned));
        for figures in &self.subjects {
            let took = |part: f64| digits(percentile(&took(figures), part));
            let latencies: Vec<f64> = figures.searches.iter().map(|search| search.latency_ms).collect();
            let rates = figures.rates.iter().map(|(_, rate)| rate);
            let rate = rates.fold(0.0, |sum, rate| sum + rate) / figures.rates.len().max(1) as f64;
            grid.rows.push(vec![
                figures.name.clone(),
                digits(figures.searches.len() as f64 / self.seconds),
                took(0.5),
                took(0.99),
                took(0.999),
                took(1.0),
                digits(percentile(&latencies, 0.99)),
                digits(rate),
                figures.lost.to_string(),
                format!("{:.2}", figures.intake_cores),
                format!("{:.2}", figures.cores),
                digits(figures.preload_seconds),
            ]);
        }
        grid
    }

    pub(super) fn markdown(&self) -> String {
        format!("{}\n\n{}", self.about, self.grid().markdown())
    }

    /// Returns the page with the charts.
    pub(super) fn html(&self) -> String {
        let mut page = format!("<p>{}</p>\n", escape(&self.about));
        let own = self.subjects.iter().filter(|figures| figures.name != "peer");
        let verdicts = own.flat_map(|figures| {
            let (p99, name) = (percentile(&took(figures), 0.99), &figures.name);
            [
                (
                    figures.lost == 0,
                    format!("{name}: {} events lost of {}", figures.lost, figures.sent),
                ),
                (
                    p99 <= TOOK_MS_MAX,
                    format!("{name}: 99 % of took {p99} ms, at most {TOOK_MS_MAX} ms"),
                ),
                (
                    figures.intake_cores <= INTAKE_CORES_MAX,
                    format!(
                        "{name}: {:.2} cores for the intake, at most {INTAKE_CORES_MAX}",
                        figures.intake_cores
                    ),
                ),
            ]
        });
        push_verdicts(verdicts, &mut page);
        let series: Vec<String> = self.subjects.iter().map(|figures| figures.name.clone()).collect();
        push_legend(&series, &mut page);
        let percentiles = PERCENTILES.map(|(name, part)| {
            let values = self
                .subjects
                .iter()
                .map(|figures| percentile(&took(figures), part).max(0.5));
            (name.to_owned(), values.collect())
        });
        self.push_chart("took, by share of the searches", percentiles.into(), "ms", &mut page);
        self.push_chart(
            "99 % of took, over time",
            self.over_time(slice_of_took),
            "ms",
            &mut page,
        );
        self.push_chart(
            "searchable events per second, over time",
            self.over_time(slice_of_rates),
            "",
            &mut page,
        );
        push_grid(&self.grid(), &mut page);
        wrapped("Searches while events come in", COLOURS, &page)
    }

    fn over_time(&self, value: fn(&Figures, f64, f64) -> f64) -> Vec<(String, Vec<f64>)> {
        let slice = self.seconds / SLICES as f64;
        (0..SLICES)
            .map(|number| {
                let (from, to) = (slice * number as f64, slice * (number + 1) as f64);
                let values = self.subjects.iter().map(|figures| value(figures, from, to));
                (format!("{to:.0} s"), values.collect())
            })
            .collect()
    }

    fn push_chart(&self, title: &str, groups: Vec<(String, Vec<f64>)>, unit: &'static str, page: &mut String) {
        let series: Vec<String> = self.subjects.iter().map(|figures| figures.name.clone()).collect();
        let (groups, values) = groups.into_iter().unzip();
        let chart = Chart {
            title: title.to_owned(),
            groups,
            series: &series,
            values,
            unit,
        };
        let _ = writeln!(page, "<h3>{}</h3>\n{}", escape(title), chart.svg());
    }

    /// Returns all figures.
    pub(super) fn json(&self) -> Value {
        let subjects = self.subjects.iter().map(|figures| {
            json!({
                "name": figures.name, "sent": figures.sent, "lost": figures.lost, "intake_cores": figures.intake_cores,
                "cores": figures.cores, "preload_seconds": figures.preload_seconds, "rates": figures.rates,
                "searches": figures.searches.iter().map(|search| json!([search.at, search.took_ms, search.latency_ms])).collect::<Vec<_>>(),
            })
        });
        json!({"about": self.about, "subjects": subjects.collect::<Vec<_>>()})
    }
}

fn took(figures: &Figures) -> Vec<f64> {
    figures.searches.iter().map(|search| search.took_ms as f64).collect()
}

fn slice_of_took(figures: &Figures, from: f64, to: f64) -> f64 {
    let within = figures.searches.iter().filter(|search| (from..to).contains(&search.at));
    let took: Vec<f64> = within.map(|search| search.took_ms as f64).collect();
    // The axis is logarithmic, and `took` has whole milliseconds.
    percentile(&took, 0.99).max(0.5)
}

fn slice_of_rates(figures: &Figures, from: f64, to: f64) -> f64 {
    let within = figures.rates.iter().filter(|(at, _)| (from..to).contains(at));
    let rates: Vec<f64> = within.map(|(_, rate)| *rate).collect();
    rates.iter().sum::<f64>() / rates.len().max(1) as f64
}

/// Returns a percentile; 0 if there are no values.
fn percentile(values: &[f64], part: f64) -> f64 {
    let in_seconds: Vec<f64> = values.iter().map(|value| value / 1000.0).collect();
    crate::writing::percentile(&in_seconds, part).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::searches::Search;
    use super::*;

    #[test]
    fn the_report_says_what_was_lost_and_how_long_searches_took() {
        let searches = (0..1000).map(|number| Search {
            at: number as f64 / 100.0,
            took_ms: if number % 50 == 0 { 30 } else { 2 },
            latency_ms: 3.0,
        });
        let report = Report {
            about: "about".to_owned(),
            seconds: 10.0,
            subjects: vec![Figures {
                name: "disk".to_owned(),
                preload_seconds: 1.0,
                intake_cores: 0.1,
                cores: 0.5,
                sent: 16_000,
                lost: 3,
                searches: searches.collect(),
                rates: vec![(5.0, 1600.0)],
            }],
        };
        let table = report.markdown();
        assert!(
            table.contains("| disk") && table.contains(" 3 |") && table.contains(" 30"),
            "{table}"
        );
        let page = report.html();
        assert_eq!(page.matches("<svg viewBox=\"0 0 960").count(), 3);
        assert!(page.contains("class=\"missed\">disk: 3 events lost of 16000"), "{page}");
        assert!(page.contains("class=\"missed\">disk: 99 % of took 30 ms"), "{page}");
        assert!(page.contains("class=\"reached\">disk: 0.10 cores"), "{page}");
        assert_eq!(report.json()["subjects"][0]["searches"].as_array().unwrap().len(), 1000);
    }
}
