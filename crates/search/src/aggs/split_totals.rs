//! Aggregations over all documents of a split, computed from stored column totals.
//!
//! A split ([`firn_segment::splits`]) stores totals of columns with few distinct values: the values, the number of
//! documents of each, and totals of other columns in those documents. If every document matches, the collectors
//! receive these counts instead of the documents, so all later steps are the same.

use std::sync::Arc;

use firn_model::Result;
use firn_query::aggs::{Bucket, MetricPartial, Partial, Partials};
use firn_segment::columns::column::NumColumn;
use firn_segment::segment::Segment;
use firn_segment::splits::{Measure, OpenSplit, StoredRuns};

use super::cardinality::CardinalityPlan;
use super::collector::{Collector, DocumentOrder, Level, Scope};
use super::known_values::{KnownValues, ReadValues};
use super::metric::MetricPlan;
use super::plan::{Kind, Node, Plan};
use super::score_table::ScoreBoard;
use super::terms::TermsPlan;
use crate::run::memory::Memory;

/// A metric below `terms`.
pub(super) struct Below<'a> {
    name: &'a str,
    plan: &'a MetricPlan,
    column: NumColumn,
    /// By the index of the counted value.
    measures: Vec<Measure>,
}

/// The stored totals for one aggregation.
enum SegmentFacts<'a> {
    Terms {
        plan: &'a TermsPlan,
        values: KnownValues,
        below: Vec<(&'a str, &'a MetricPlan, NumColumn, StoredRuns)>,
    },
    Cardinality {
        plan: &'a CardinalityPlan,
        values: KnownValues,
    },
    Done(Partial),
}

/// The same totals after reading the names of values.
enum Read<'a> {
    Terms {
        plan: &'a TermsPlan,
        values: ReadValues,
        without: u64,
        below: Vec<Below<'a>>,
    },
    Cardinality {
        plan: &'a CardinalityPlan,
        values: ReadValues,
        without: u64,
    },
    Done(Partial),
}

/// The results of a plan over all documents of a segment, not yet assembled.
pub(crate) struct SplitTotals<'a>(Vec<(&'a str, Read<'a>)>);

impl Plan {
    /// Computes the plan from stored totals; `None`: some aggregation must read documents. Reads the names of
    /// values, which are mostly local.
    pub(crate) fn of_whole(&self, segment: &Segment) -> Result<Option<SplitTotals<'_>>> {
        let has_totals = segment.derived.split().is_some_and(OpenSplit::has_totals);
        if !has_totals || self.is_empty() {
            return Ok(None);
        }
        let mut known = Vec::with_capacity(self.0.len());
        for node in &self.0 {
            match SegmentFacts::find(node, segment)? {
                Some(found) => known.push((node.name.as_str(), found)),
                None => return Ok(None),
            }
        }
        let (mut read, mut failure) = (Vec::with_capacity(known.len()), None);
        for (name, known) in known {
            match known.read(segment) {
                Ok(found) => read.push((name, found)),
                // In a dry-run prefetch, the reads of the other aggregations must be recorded as well.
                Err(error) => drop(failure.get_or_insert(error)),
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(Some(SplitTotals(read))),
        }
    }
}

impl<'a> SegmentFacts<'a> {
    fn find(node: &'a Node, segment: &Segment) -> Result<Option<Self>> {
        if let Kind::Terms(plan) = &node.kind {
            return Self::find_terms(plan, &node.sub, segment);
        }
        if !node.sub.is_empty() {
            return Ok(None);
        }
        Ok(match &node.kind {
            Kind::Metric(plan) => plan.of_whole(segment)?.map(|found| Self::Done(Partial::Metric(found))),
            Kind::Missing(plan) => plan.of_whole(segment)?.map(|doc_count| {
                let sub = Partials::default();
                Self::Done(Partial::Single(Bucket { doc_count, sub }))
            }),
            Kind::Cardinality(plan) => {
                let values = plan.known_of_whole(segment)?;
                values.map(|values| Self::Cardinality { plan, values })
            }
            _ => None,
        })
    }

    fn find_terms(plan: &'a TermsPlan, sub: &'a Plan, segment: &Segment) -> Result<Option<Self>> {
        let Some(values) = plan.known_of_whole(segment)? else {
            return Ok(None);
        };
        // The totals do not cover other columns of documents without a value.
        if !sub.is_empty() && plan.has_missing() && values.without(segment) > 0 {
            return Ok(None);
        }
        let mut below = Vec::with_capacity(sub.0.len());
        for node in &sub.0 {
            let Kind::Metric(metric) = &node.kind else {
                return Ok(None);
            };
            match metric.known_by(segment, values.runs())? {
                Some((column, runs)) => below.push((node.name.as_str(), metric, column, runs)),
                None => return Ok(None),
            }
        }
        Ok(Some(Self::Terms { plan, values, below }))
    }

    fn read(self, segment: &Segment) -> Result<Read<'a>> {
        Ok(match self {
            Self::Terms { plan, values, below } => {
                let by = values.runs().clone();
                let without = values.without(segment);
                let values = values.read(segment);
                let measured = below.into_iter().map(|(name, plan, column, runs)| {
                    let measures = by.measures_of(&runs)?.unwrap_or_default();
                    Ok(Below {
                        name,
                        plan,
                        column,
                        measures,
                    })
                });
                // In a dry-run prefetch, the reads of all metrics must be recorded.
                let measured: Vec<Result<Below>> = measured.collect();
                Read::Terms {
                    plan,
                    values: values?,
                    without,
                    below: measured.into_iter().collect::<Result<_>>()?,
                }
            }
            Self::Cardinality { plan, values } => Read::Cardinality {
                plan,
                without: values.without(segment),
                values: values.read(segment)?,
            },
            Self::Done(partial) => Read::Done(partial),
        })
    }
}

impl SplitTotals<'_> {
    /// Assembles the result. `whole_shard`: the segment is the only one of its shard.
    pub(crate) fn finish(self, segment: &Segment, order: u32, memory: &Memory, whole_shard: bool) -> Result<Partials> {
        let scores = Arc::new(ScoreBoard::default());
        let scope = Scope {
            segment,
            memory,
            manner: DocumentOrder {
                whole_shard,
                newest_first: false,
            },
            order,
            scores: &scores,
        };
        let mut partials = Partials::default();
        for (name, read) in self.0 {
            let partial = match read {
                Read::Terms {
                    plan,
                    values,
                    without,
                    below,
                } => terms(scope, plan, values, without, below)?,
                Read::Cardinality { plan, values, without } => {
                    Some(Partial::Cardinality(plan.of_whole(values, without)?))
                }
                Read::Done(partial) => Some(partial),
            };
            if let Some(partial) = partial {
                partials.0.insert(name.to_owned(), partial);
            }
        }
        Ok(partials)
    }
}

fn terms(
    scope: Scope,
    plan: &TermsPlan,
    values: ReadValues,
    without: u64,
    below: Vec<Below>,
) -> Result<Option<Partial>> {
    let counts = values.counts;
    let mut collector = plan.collector(scope, plan.keys_of(values.column), Level::none(), !below.is_empty())?;
    let slots = collector.take_counts(&counts, without)?;
    let mut level = Vec::with_capacity(below.len());
    for below in below {
        scope.memory.take(slots.len() * size_of::<MetricPartial>())?;
        let mut states = vec![MetricPartial::default(); slots.len()];
        for &(value, slot) in &slots {
            if let (Some(state), Some(measure)) = (states.get_mut(slot as usize), below.measures.get(value)) {
                *state = below.plan.measured(&below.column, measure);
            }
        }
        level.push((below.name.to_owned(), below.plan.finished(states, scope.memory)));
    }
    collector.sub = Level::new(level, scope);
    Ok(Box::new(collector).finish(1)?.pop())
}
