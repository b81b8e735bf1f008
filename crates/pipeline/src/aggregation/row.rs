//! Row: what is known of one key in one window.

use firn_query::aggs::cardinality::Sketch;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::definition::{AggregateDefinition, MetricDefinition};
use super::sample::Measured;

/// Values that are counted exactly.
const EXACT: u64 = 256;

/// See the module. Merging does not depend on the order, but for the last bits of sums.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Number of events.
    #[serde(rename = "n")]
    pub(crate) events: u64,
    #[serde(rename = "v")]
    cells: Vec<Cell>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Cell {
    #[serde(rename = "s")]
    Sum(Option<f64>),
    #[serde(rename = "l")]
    Min(Option<f64>),
    #[serde(rename = "g")]
    Max(Option<f64>),
    #[serde(rename = "c")]
    Cardinality(Sketch),
}

impl Row {
    /// Creates a row without events.
    pub(crate) fn new(definition: &AggregateDefinition) -> Self {
        let cells = definition.metrics.values().map(|metric| match metric {
            MetricDefinition::Sum(_) => Cell::Sum(None),
            MetricDefinition::Min(_) => Cell::Min(None),
            MetricDefinition::Max(_) => Cell::Max(None),
            MetricDefinition::Cardinality(_) => Cell::Cardinality(Sketch::new(EXACT)),
        });
        Self {
            events: 0,
            cells: cells.collect(),
        }
    }

    /// Adds an event.
    pub(crate) fn add(&mut self, measured: &[Measured]) {
        self.events += 1;
        for (cell, measured) in self.cells.iter_mut().zip(measured) {
            match (cell, measured) {
                (Cell::Cardinality(sketch), Measured::Hashes(hashes)) => {
                    for hash in hashes.iter() {
                        sketch.insert(*hash);
                    }
                }
                (Cell::Cardinality(_), _) | (_, Measured::Nothing | Measured::Hashes(_)) => {}
                (cell, Measured::Number(number)) => cell.merge_number(Some(*number)),
            }
        }
    }

    /// Adds another row.
    pub(crate) fn merge(&mut self, other: &Row) {
        self.events += other.events;
        for (cell, other) in self.cells.iter_mut().zip(&other.cells) {
            match (cell, other) {
                (Cell::Cardinality(sketch), Cell::Cardinality(other)) => sketch.merge(other),
                (cell, Cell::Sum(number) | Cell::Min(number) | Cell::Max(number)) => cell.merge_number(*number),
                (_, Cell::Cardinality(_)) => {}
            }
        }
    }

    /// Returns the values in the order of the metrics; `None`: no event had one.
    pub(crate) fn values(&self) -> impl Iterator<Item = Option<Value>> {
        self.cells.iter().map(|cell| match cell {
            Cell::Sum(number) | Cell::Min(number) | Cell::Max(number) => number.and_then(print),
            Cell::Cardinality(sketch) => Some(sketch.estimate().into()),
        })
    }
}

impl Cell {
    fn merge_number(&mut self, number: Option<f64>) {
        let Some(number) = number else { return };
        match self {
            Self::Sum(sum) => *sum = Some(sum.map_or(number, |sum| add(sum, number))),
            Self::Min(least) => *least = Some(least.map_or(number, |least| least.min(number))),
            Self::Max(greatest) => *greatest = Some(greatest.map_or(number, |greatest| greatest.max(number))),
            Self::Cardinality(_) => {}
        }
    }
}

/// Adds two numbers. A sum beyond the range of a double is the greatest or least number: JSON has no infinity.
pub(super) fn add(one: f64, other: f64) -> f64 {
    (one + other).clamp(f64::MIN, f64::MAX)
}

/// Prints whole numbers as such: a field that is mapped as `long` refuses `1.0`.
pub(super) fn print(number: f64) -> Option<Value> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match number.fract() == 0.0 && number.abs() <= EXACT_MAX {
        true => Some(Value::from(number as i64)),
        false => Number::from_f64(number).map(Value::Number),
    }
}
