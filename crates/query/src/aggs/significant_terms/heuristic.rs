//! Significance heuristics: how much more frequent a value is in the foreground than in the background.

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::NAME;
use crate::aggs::parse::{self, unknown_field};

/// A measure of significance. Formulas follow Elasticsearch's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Heuristic {
    /// The change of probability times its ratio.
    Jlh,
    /// Share of the background's documents that are in the foreground.
    Percentage,
    /// Pearson's test of independence.
    ChiSquare(Sets),
    /// Information about the foreground that the presence of the value gives.
    MutualInformation(Sets),
    /// Google normalized distance, inverted.
    Gnd(Sets),
}

/// Relation of foreground and background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sets {
    /// The background includes the foreground (default).
    pub background_is_superset: bool,
    /// Values that are rarer in the foreground count too.
    pub include_negatives: bool,
}

/// Documents with a value and all documents, in the foreground and in the background.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counts {
    pub(super) subset: f64,
    pub(super) subset_size: f64,
    pub(super) superset: f64,
    pub(super) superset_size: f64,
}

/// Documents by whether they have the value (first digit) and are in the foreground (second).
struct Table {
    n00: f64,
    n01: f64,
    n10: f64,
    n11: f64,
    with: f64,
    without: f64,
    inside: f64,
    outside: f64,
    all: f64,
}

impl Heuristic {
    /// Parses the heuristic named `kind`; `None`: unknown name.
    pub(super) fn parse(kind: &str, body: &Map<String, Value>) -> Result<Option<Self>> {
        let mut sets = Sets {
            background_is_superset: true,
            include_negatives: false,
        };
        let takes: &[&str] = match kind {
            "jlh" | "percentage" => &[],
            "gnd" => &["background_is_superset"],
            "chi_square" | "mutual_information" => &["background_is_superset", "include_negatives"],
            "script_heuristic" | "p_value" => {
                return Err(Error::not_implemented(format!(
                    "parameter [{kind}] of aggregation [{NAME}]"
                )));
            }
            _ => return Ok(None),
        };
        for (key, value) in body {
            match key.as_str() {
                key if !takes.contains(&key) => return Err(unknown_field(kind, key)),
                "background_is_superset" => sets.background_is_superset = parse::flag(kind, key, value)?,
                _ => sets.include_negatives = parse::flag(kind, key, value)?,
            }
        }
        Ok(Some(match kind {
            "jlh" => Self::Jlh,
            "percentage" => Self::Percentage,
            "gnd" => Self::Gnd(sets),
            "chi_square" => Self::ChiSquare(sets),
            _ => Self::MutualInformation(sets),
        }))
    }

    pub(super) fn print(&self) -> (&'static str, Value) {
        let both = |sets: &Sets| {
            json!({
                "background_is_superset": sets.background_is_superset, "include_negatives": sets.include_negatives
            })
        };
        match self {
            Self::Jlh => ("jlh", json!({})),
            Self::Percentage => ("percentage", json!({})),
            Self::ChiSquare(sets) => ("chi_square", both(sets)),
            Self::MutualInformation(sets) => ("mutual_information", both(sets)),
            Self::Gnd(sets) => ("gnd", json!({"background_is_superset": sets.background_is_superset})),
        }
    }

    /// Returns the score; a value is significant only if its score is above 0.
    pub(super) fn score(&self, counts: Counts) -> f64 {
        match self {
            Self::Jlh => jlh(counts),
            Self::Percentage if counts.superset == 0.0 => 0.0,
            Self::Percentage => counts.subset / counts.superset,
            Self::ChiSquare(sets) => chi_square(&Table::new(counts, *sets), *sets),
            Self::MutualInformation(sets) => mutual_information(&Table::new(counts, *sets), *sets),
            Self::Gnd(sets) => gnd(&Table::new(counts, *sets)),
        }
    }
}

fn jlh(counts: Counts) -> f64 {
    if counts.subset_size == 0.0 || counts.superset_size == 0.0 {
        return 0.0;
    }
    let inside = counts.subset / counts.subset_size;
    let outside = counts.superset.max(1.0) / counts.superset_size;
    let change = inside - outside;
    if change <= 0.0 {
        0.0
    } else {
        change * (inside / outside)
    }
}

impl Table {
    fn new(counts: Counts, sets: Sets) -> Self {
        let Counts {
            subset,
            subset_size,
            superset,
            superset_size,
        } = counts;
        if sets.background_is_superset {
            return Self {
                n00: superset_size - superset - (subset_size - subset),
                n01: subset_size - subset,
                n10: superset - subset,
                n11: subset,
                with: superset,
                without: superset_size - superset,
                inside: subset_size,
                outside: superset_size - subset_size,
                all: superset_size,
            };
        }
        Self {
            n00: superset_size - superset,
            n01: subset_size - subset,
            n10: superset,
            n11: subset,
            with: superset + subset,
            without: superset_size - superset + subset_size - subset,
            inside: subset_size,
            outside: superset_size,
            all: superset_size + subset_size,
        }
    }

    /// Whether the value is rarer in the foreground than elsewhere.
    fn is_negative(&self) -> bool {
        self.n11 / self.inside < self.n10 / self.outside
    }
}

fn chi_square(table: &Table, sets: Sets) -> f64 {
    if !sets.include_negatives && table.is_negative() {
        return f64::NEG_INFINITY;
    }
    let difference = table.n11 * table.n00 - table.n01 * table.n10;
    table.all * difference * difference / (table.inside * table.with * table.without * table.outside)
}

fn mutual_information(table: &Table, sets: Sets) -> f64 {
    let term = |both: f64, value: f64, side: f64| {
        let numerator = (table.all * both).abs();
        let denominator = (value * side).abs();
        let factor = (both / table.all).abs();
        if numerator < 1e-7 && factor < 1e-7 {
            0.0
        } else {
            factor * (numerator / denominator).ln()
        }
    };
    let sum = term(table.n00, table.without, table.outside)
        + term(table.n01, table.without, table.inside)
        + term(table.n10, table.with, table.outside)
        + term(table.n11, table.with, table.inside);
    let score = sum / std::f64::consts::LN_2;
    if score.is_nan() || !sets.include_negatives && table.is_negative() {
        return f64::NEG_INFINITY;
    }
    score
}

fn gnd(table: &Table) -> f64 {
    let (value, side, both) = (table.with, table.inside, table.n11);
    if both == 0.0 {
        return 0.0;
    }
    if value == side && value == both {
        return 1.0;
    }
    let distance = (value.ln().max(side.ln()) - both.ln()) / (table.all.ln() - value.ln().min(side.ln()));
    (-distance).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_of_elasticsearch() {
        let counts = |subset, subset_size, superset, superset_size| Counts {
            subset,
            subset_size,
            superset,
            superset_size,
        };
        let superset = Sets {
            background_is_superset: true,
            include_negatives: false,
        };
        let near = |heuristic: Heuristic, counts: Counts, expected: f64| {
            let score = heuristic.score(counts);
            assert!((score - expected).abs() < 1e-9, "{heuristic:?} {counts:?}: {score}");
        };
        near(Heuristic::Jlh, counts(2.0, 2.0, 2.0, 7.0), 2.5);
        near(Heuristic::Jlh, counts(1.0, 4.0, 3.0, 7.0), 0.0);
        near(Heuristic::Percentage, counts(1.0, 4.0, 2.0, 7.0), 0.5);
        near(
            Heuristic::ChiSquare(superset),
            counts(1.0, 2.0, 1.0, 7.0),
            2.916_666_666_666_666_5,
        );
        near(Heuristic::Gnd(superset), counts(2.0, 2.0, 2.0, 7.0), 1.0);
        near(Heuristic::Gnd(superset), counts(0.0, 2.0, 2.0, 7.0), 0.0);
        // A value that is rarer in the foreground is significant only with `include_negatives`.
        let rarer = counts(1.0, 5.0, 4.0, 10.0);
        assert_eq!(Heuristic::ChiSquare(superset).score(rarer), f64::NEG_INFINITY);
        assert_eq!(Heuristic::MutualInformation(superset).score(rarer), f64::NEG_INFINITY);
        let negatives = Sets {
            include_negatives: true,
            ..superset
        };
        assert!(Heuristic::ChiSquare(negatives).score(rarer) > 0.0);
        assert!(Heuristic::MutualInformation(negatives).score(rarer) > 0.0);
        // A value of all foreground documents and no others gives complete information.
        near(Heuristic::MutualInformation(superset), counts(5.0, 5.0, 5.0, 10.0), 1.0);
    }
}
