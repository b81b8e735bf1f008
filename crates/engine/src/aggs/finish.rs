//! From merged partial results to the answer.

use serde_json::{Map, Value};

use super::partial::Room;
use super::{
    Aggregation, AggregationKind, Aggregations, Partial, Partials, avg, cardinality, date_histogram, filter, max, min,
    stats, sum, terms, value_count,
};
use crate::{Error, Result};

/// How to print an answer.
#[derive(Debug, Clone)]
pub struct FinishOptions {
    /// Bounds the buckets of all levels together (`search.max_buckets`).
    pub max_buckets: usize,
    /// Put the type before each name: `sterms#name`.
    pub typed_keys: bool,
    /// What `now` means in the bounds of a date histogram, ms since epoch UTC. Without it such
    /// bounds are refused.
    pub now_ms: Option<i64>,
}

impl FinishOptions {
    /// Plain names, no `now`.
    pub fn new(max_buckets: usize) -> Self {
        Self {
            max_buckets,
            typed_keys: false,
            now_ms: None,
        }
    }
}

/// Prints level by level and counts buckets on the way.
pub(super) struct Finisher<'a> {
    options: &'a FinishOptions,
    room: Room,
}

impl<'a> Finisher<'a> {
    pub(super) fn new(options: &'a FinishOptions) -> Self {
        Self {
            options,
            room: Room::new(options.max_buckets),
        }
    }

    pub(super) fn now_ms(&self) -> Option<i64> {
        self.options.now_ms
    }

    /// Accounts for buckets before they are printed.
    pub(super) fn count(&mut self, buckets: usize) -> Result<()> {
        self.room.take(buckets)
    }

    /// Prints one level into `answer`, in the order of the request. What no segment reported is
    /// empty.
    pub(super) fn level(
        &mut self,
        aggregations: &Aggregations,
        mut partials: Partials,
        answer: &mut Map<String, Value>,
    ) -> Result<()> {
        for (name, aggregation) in &aggregations.0 {
            let partial = match partials.0.swap_remove(name) {
                Some(partial) => partial,
                None => aggregation.empty(),
            };
            let printed_name = if self.options.typed_keys {
                format!("{}#{name}", type_name(aggregation, &partial))
            } else {
                name.clone()
            };
            let mut printed = Map::new();
            if let Some(meta) = &aggregation.meta {
                printed.insert("meta".into(), meta.clone());
            }
            printed.extend(self.one(name, aggregation, partial)?);
            answer.insert(printed_name, Value::Object(printed));
        }
        Ok(())
    }

    fn one(&mut self, name: &str, aggregation: &Aggregation, partial: Partial) -> Result<Map<String, Value>> {
        let sub = &aggregation.sub;
        Ok(match (&aggregation.kind, partial) {
            (AggregationKind::Terms(terms), Partial::Terms(partial)) => terms::answer(self, terms, sub, partial)?,
            (AggregationKind::DateHistogram(histogram), Partial::DateHistogram(partial)) => {
                date_histogram::answer(self, name, histogram, sub, partial)?
            }
            (AggregationKind::Min(_), Partial::Metric(partial)) => min::answer(&partial),
            (AggregationKind::Max(_), Partial::Metric(partial)) => max::answer(&partial),
            (AggregationKind::Sum(_), Partial::Metric(partial)) => sum::answer(&partial),
            (AggregationKind::Avg(_), Partial::Metric(partial)) => avg::answer(&partial),
            (AggregationKind::Stats(_), Partial::Metric(partial)) => stats::answer(&partial),
            (AggregationKind::ValueCount(_), Partial::Metric(partial)) => value_count::answer(&partial),
            (AggregationKind::Cardinality(_), Partial::Cardinality(sketch)) => cardinality::answer(&sketch),
            (AggregationKind::Filter(_), Partial::Filter(bucket)) => filter::answer(self, sub, bucket)?,
            (kind, _) => {
                return Err(Error::internal(format!(
                    "partial result of aggregation [{name}] is not one of [{}]",
                    kind.name()
                )));
            }
        })
    }
}

fn type_name(aggregation: &Aggregation, partial: &Partial) -> &'static str {
    match partial {
        Partial::Terms(partial) => partial.type_name(),
        _ => aggregation.kind.name(),
    }
}
