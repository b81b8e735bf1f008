//! Sorting of hits.

use std::cmp::Ordering;

use serde_json::{Value as Json, json};

use super::query::only;
use super::schema::{self, Document, Kind, Value};

/// Value of a document for a sort key; `None`: missing.
type SortValue = Option<Value>;

/// One key of `sort` as generated: `{"field": {"order": …, "missing": …, "mode": …}}`.
pub(crate) struct Key<'j> {
    field: &'j str,
    descending: bool,
    missing: &'j Json,
    mode: Option<&'j str>,
}

impl<'j> Key<'j> {
    /// Parses `sort`.
    pub(crate) fn list(sort: &'j Json) -> Vec<Self> {
        let keys = sort.as_array().expect("a list of keys");
        assert!(!keys.is_empty(), "a sort without keys");
        let keys = keys.iter();
        keys.map(|key| {
            let (field, options) = only(key);
            Self {
                field,
                descending: options["order"] == "desc",
                missing: &options["missing"],
                mode: options["mode"].as_str(),
            }
        })
        .collect()
    }

    fn kind(&self) -> Kind {
        schema::kind(self.field)
    }

    fn value(&self, document: &Document) -> SortValue {
        let values = document.values(self.field);
        let mode = self.mode.unwrap_or(if self.descending { "max" } else { "min" });
        let found = match mode {
            "min" => values.first().cloned(),
            "max" => values.last().cloned(),
            mode => self.combined(values, mode),
        };
        found.or_else(|| match self.missing {
            Json::Null => None,
            Json::String(text) if text.starts_with('_') => None,
            value => self.kind().coerce(value),
        })
    }

    /// Applies `sum`, `avg` or `median`; integer fields round half up.
    fn combined(&self, values: &[Value], mode: &str) -> SortValue {
        if values.is_empty() {
            return None;
        }
        let whole = !matches!(self.kind(), Kind::Double | Kind::Float | Kind::Scaled(_));
        let numbers: Vec<f64> = values
            .iter()
            .map(|value| match value {
                Value::Int(number) => *number as f64,
                other => other.number(self.kind()),
            })
            .collect();
        let sum: f64 = numbers.iter().sum();
        let middle = numbers.len() / 2;
        let combined = match mode {
            "sum" => sum,
            "avg" => sum / numbers.len() as f64,
            "median" if numbers.len() % 2 == 1 => numbers[middle],
            "median" => (numbers[middle - 1] + numbers[middle]) / 2.0,
            _ => panic!("the reference has no mode [{mode}]"),
        };
        Some(match whole {
            true => Value::Int((combined + 0.5).floor() as i128),
            false => Value::Float(combined),
        })
    }

    fn missing_first(&self) -> bool {
        self.missing == "_first"
    }

    /// Returns the integer that stands for a missing value in Elasticsearch; it ties with real values that equal it.
    fn extreme(&self) -> SortValue {
        let (min, max) = match self.kind() {
            Kind::Integer("unsigned_long", ..) => (0, u64::MAX.into()),
            Kind::Integer(..) => (i64::MIN.into(), i64::MAX.into()),
            _ => return None,
        };
        let is_largest = self.missing_first() == self.descending;
        Some(Value::Int(if is_largest { max } else { min }))
    }

    fn compare(&self, left: &SortValue, right: &SortValue) -> Ordering {
        let extreme = self.extreme();
        let (left, right) = (left.as_ref().or(extreme.as_ref()), right.as_ref().or(extreme.as_ref()));
        let missing = |absent: Ordering| if self.missing_first() { absent.reverse() } else { absent };
        match (left, right) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => missing(Ordering::Greater),
            (Some(_), None) => missing(Ordering::Less),
            (Some(left), Some(right)) if self.descending => right.compare(left),
            (Some(left), Some(right)) => left.compare(right),
        }
    }

    fn print(&self, value: &SortValue) -> Json {
        match (value, self.kind()) {
            (None, _) => Json::Null,
            (Some(Value::Text(text)), _) => json!(text),
            (Some(Value::Ip(bits)), _) => json!(schema::print_address(*bits)),
            (Some(Value::Float(number)), _) => json!(number),
            (Some(Value::Int(number)), _) => match u64::try_from(*number) {
                Ok(number) => json!(number),
                Err(_) => json!(*number as i64),
            },
        }
    }
}

/// Sorts documents, and returns each with its printed sort values (null: missing).
pub(crate) fn sorted<'d>(documents: &[&'d Document], keys: &[Key<'_>]) -> Vec<(&'d Document, Vec<Json>)> {
    let mut valued: Vec<(&Document, Vec<SortValue>)> = documents
        .iter()
        .map(|document| (*document, keys.iter().map(|key| key.value(document)).collect()))
        .collect();
    valued.sort_by(|(_, left), (_, right)| {
        let pairs = keys.iter().zip(left.iter().zip(right));
        let mut orders = pairs.map(|(key, (left, right))| key.compare(left, right));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    let print = |values: Vec<SortValue>| keys.iter().zip(&values).map(|(key, value)| key.print(value)).collect();
    valued
        .into_iter()
        .map(|(document, values)| (document, print(values)))
        .collect()
}
