//! Placement and execution order of pipelines.

use firn_model::{Error, Result};

use super::common::validation;
use super::{Needs, Pipeline, of};
use crate::aggs::finished::{Buckets, Finished, Level};
use crate::aggs::{AggregationKind, Aggregations};
use crate::expression::Steps;

/// Refuses pipelines in the wrong place, and paths that do not exist. `level` are the aggregations below `parent`, or
/// the top level.
pub(in crate::aggs) fn check(parent: Option<&AggregationKind>, level: &Aggregations) -> Result<()> {
    for (name, aggregation) in &level.0 {
        let Some(pipeline) = of(&aggregation.kind) else {
            continue;
        };
        let kind = pipeline.name();
        if let Some(part) = pipeline.as_parent() {
            check_parent(kind, name, part.needs(), parent)?;
            for path in pipeline.paths() {
                path.bind(level).map_err(|error| validation(error.reason()))?;
            }
        }
        if pipeline.as_sibling().is_some() {
            for path in pipeline.paths() {
                path.bind_beside(name, level)
                    .map_err(|error| validation(error.reason()))?;
            }
        }
    }
    order(level).map(drop).map_err(|error| validation(error.reason()))
}

fn check_parent(kind: &str, name: &str, needs: Needs, parent: Option<&AggregationKind>) -> Result<()> {
    let sequence = parent.and_then(AggregationKind::sequence_min_doc_count);
    match (needs, parent) {
        (Needs::Sequence, _) if sequence == Some(0) => Ok(()),
        (Needs::Sequence, _) if sequence.is_some() => Err(validation(format!(
            "parent histogram of {kind} aggregation [{name}] must have min_doc_count of 0"
        ))),
        (Needs::Sequence, parent) => Err(validation(format!(
            "{kind} aggregation [{name}] must have a histogram, date_histogram or auto_date_histogram as parent{}",
            if parent.is_none() {
                " but doesn't have a parent"
            } else {
                ""
            }
        ))),
        (Needs::Buckets, None) => Err(validation(format!(
            "{kind} aggregation [{name}] must be declared inside of another aggregation"
        ))),
        (Needs::Buckets, Some(parent)) if !parent.has_buckets() => Err(validation(format!(
            "{kind} aggregation [{name}] must have a multi-bucket aggregation as parent, but [{}] has one bucket",
            parent.name()
        ))),
        (Needs::Buckets, Some(_)) => Ok(()),
    }
}

/// Returns the indices of the level's pipelines, each after those that it reads.
fn order(level: &Aggregations) -> Result<Vec<usize>> {
    let mut order = Vec::new();
    let mut states = vec![State::New; level.0.len()];
    for place in 0..level.0.len() {
        visit(level, place, &mut states, &mut order)?;
    }
    Ok(order)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Done,
}

/// Visits depth first; the recursion is at most as deep as the level has pipelines, and their number is limited.
fn visit(level: &Aggregations, place: usize, states: &mut [State], order: &mut Vec<usize>) -> Result<()> {
    let Some((name, aggregation)) = level.0.get_index(place) else {
        return Ok(());
    };
    let Some(pipeline) = of(&aggregation.kind).filter(|_| states[place] != State::Done) else {
        return Ok(());
    };
    if states[place] == State::Open {
        return Err(Error::illegal_argument(format!(
            "Cyclical dependency found with pipeline aggregator [{name}]"
        )));
    }
    states[place] = State::Open;
    for path in pipeline.paths() {
        if let Some((before, _)) = path.first(level) {
            visit(level, before, states, order)?;
        }
    }
    states[place] = State::Done;
    order.push(place);
    Ok(())
}

fn has_pipelines(level: &Aggregations) -> bool {
    level.0.values().any(|aggregation| of(&aggregation.kind).is_some())
}

/// Runs the pipelines inside an aggregation with several buckets.
pub(in crate::aggs) fn in_buckets(sub: &Aggregations, buckets: &mut Buckets, steps: &mut Steps) -> Result<()> {
    if !has_pipelines(sub) {
        return Ok(());
    }
    for place in order(sub)? {
        let Some(pipeline) = sub
            .0
            .get_index(place)
            .and_then(|(_, aggregation)| of(&aggregation.kind))
        else {
            continue;
        };
        match pipeline.as_parent() {
            Some(part) => part.apply(place, sub, buckets, steps)?,
            None => {
                for bucket in &mut buckets.buckets {
                    beside(pipeline, place, sub, &mut bucket.sub)?;
                }
            }
        }
    }
    Ok(())
}

/// Runs the pipelines of a level that belongs to one bucket or is the top level.
pub(in crate::aggs) fn in_level(aggregations: &Aggregations, level: &mut Level) -> Result<()> {
    if !has_pipelines(aggregations) {
        return Ok(());
    }
    for place in order(aggregations)? {
        let found = aggregations
            .0
            .get_index(place)
            .and_then(|(_, aggregation)| of(&aggregation.kind));
        if let Some(pipeline) = found {
            beside(pipeline, place, aggregations, level)?;
        }
    }
    Ok(())
}

/// Runs a sibling pipeline.
fn beside(pipeline: &Pipeline, place: usize, aggregations: &Aggregations, level: &mut Level) -> Result<()> {
    let Some(summary) = pipeline.as_sibling() else {
        return Ok(());
    };
    let common = summary.common();
    let beside = common.path.bind_beside("", aggregations)?;
    let (mut values, mut numbers) = (Vec::new(), Vec::new());
    let buckets = beside.buckets(level).map_or(&[][..], |buckets| &buckets.buckets);
    for (number, bucket) in buckets.iter().enumerate() {
        if let Some(value) = common.gap_policy.read(&beside.bound, bucket)?
            && !value.is_nan()
        {
            values.push(value);
            numbers.push(number);
        }
    }
    let name = |index: usize| {
        numbers
            .get(index)
            .map_or_else(String::new, |number| buckets[*number].name())
    };
    let answer = summary.answer(&values, &name);
    if let Some(own) = level.0.get_mut(place) {
        *own = Finished::Metric(answer);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::aggs::test_support::{check_refused, parsed};

    fn inside(parent: Value, pipelines: Value) -> Value {
        let mut aggs = json!({"m": {"max": {"field": "n"}}});
        aggs.as_object_mut()
            .unwrap()
            .extend(pipelines.as_object().unwrap().clone());
        let mut definition = parent;
        definition.as_object_mut().unwrap().insert("aggs".into(), aggs);
        json!({"x": definition})
    }

    fn histogram() -> Value {
        json!({"date_histogram": {"field": "t", "fixed_interval": "1d"}})
    }

    #[test]
    fn pipelines_need_the_right_parent() {
        let derivative = json!({"d": {"derivative": {"buckets_path": "m"}}});
        parsed(inside(histogram(), derivative.clone()));
        parsed(inside(
            json!({"auto_date_histogram": {"field": "t"}}),
            derivative.clone(),
        ));
        parsed(inside(
            json!({"histogram": {"field": "n", "interval": 1}}),
            derivative.clone(),
        ));
        check_refused(
            inside(json!({"terms": {"field": "a"}}), derivative.clone()),
            "Validation Failed: 1: derivative aggregation [d] must have a histogram, date_histogram or auto_date_histogram \
             as parent;",
        );
        check_refused(
            derivative.clone(),
            "Validation Failed: 1: derivative aggregation [d] must have a histogram, date_histogram or auto_date_histogram \
             as parent but doesn't have a parent;",
        );
        check_refused(
            inside(
                json!({"date_histogram": {"field": "t", "fixed_interval": "1d", "min_doc_count": 1}}),
                derivative,
            ),
            "Validation Failed: 1: parent histogram of derivative aggregation [d] must have min_doc_count of 0;",
        );
        let script = json!({"s": {"bucket_script": {"buckets_path": "m", "script": "params._value"}}});
        parsed(inside(json!({"terms": {"field": "a"}}), script.clone()));
        check_refused(
            script.clone(),
            "Validation Failed: 1: bucket_script aggregation [s] must be declared inside of another aggregation;",
        );
        check_refused(
            inside(json!({"filter": {"match_all": {}}}), script),
            "Validation Failed: 1: bucket_script aggregation [s] must have a multi-bucket aggregation as parent, but \
             [filter] has one bucket;",
        );
    }

    #[test]
    fn paths_exist() {
        check_refused(
            inside(histogram(), json!({"d": {"derivative": {"buckets_path": "nothing"}}})),
            "Validation Failed: 1: No aggregation found for path [nothing];",
        );
        check_refused(
            json!({"a": {"avg_bucket": {"buckets_path": "nothing>m"}}}),
            "Validation Failed: 1: No aggregation found for path [nothing>m];",
        );
        check_refused(
            inside(
                histogram(),
                json!({"a": {"derivative": {"buckets_path": "b"}}, "b": {"derivative": {"buckets_path": "a"}}}),
            ),
            "Validation Failed: 1: Cyclical dependency found with pipeline aggregator [a];",
        );
        check_refused(
            inside(
                histogram(),
                json!({"a": {"derivative": {"buckets_path": "m"}, "aggs": {"b": {"min": {"field": "n"}}}}}),
            ),
            "Aggregation [a] cannot define sub-aggregations",
        );
    }
}
