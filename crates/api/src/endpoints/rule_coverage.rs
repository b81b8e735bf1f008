//! `GET /_firn/rules/{id}/_coverage`: on which events of which pipelines a rule was evaluated, and where it has holes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use firn_detect::{CoverageChange, DetectionRule, Mark, intervals};
use firn_engine::{Error, ErrorKind, RequestContext};
use firn_model::dates::DateFormat;
use firn_model::names::IndicesOptions;
use firn_pipeline::runner::{COVERAGE_INDEX, CoverageRecord};
use firn_query::search::{Hit, IndexTarget, SearchRequest};
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::event_pipelines;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// Records of one answer, and runs.
const RECORDS_MAX: usize = 10_000;
const RUNS_MAX: usize = 1_000;
/// Sets of rules that are read at a time, and of one answer. A set of some thousand rules takes some hundred kilobytes.
const SETS_PAGE: usize = 50;
const SETS_MAX: usize = 1_000;

/// What the ledger has of a rule.
struct Ledger {
    records: Vec<CoverageRecord>,
    /// Version of the rule by the sets that have it.
    versions: HashMap<String, String>,
    runs: Vec<Value>,
    is_partial: bool,
}

pub(crate) async fn coverage(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let id = call.capture("id").to_owned();
    let metadata = edge.metadata(&call).await?;
    let definition = metadata.detection_rules.by_id.get(&id);
    let ledger = Ledger::read(&edge, &id).await?;
    if definition.is_none() && ledger.versions.is_empty() {
        let reason = format!("detection rule [{id}] is missing");
        return Err(Error::new(ErrorKind::ResourceNotFound, reason).into());
    }
    let mut partitions: BTreeMap<(&str, &str), Vec<CoverageChange>> = BTreeMap::new();
    for record in &ledger.records {
        let change = CoverageChange {
            at: Mark {
                offset: (!record.partition.is_empty()).then_some(record.offset),
                received: record.received.clone(),
            },
            version: ledger.versions.get(&record.set).cloned(),
        };
        let partition = (record.pipeline.as_str(), record.partition.as_str());
        partitions.entry(partition).or_default().push(change);
    }
    let (mut covered, mut holes) = (Vec::new(), Vec::new());
    for ((pipeline, partition), changes) in &partitions {
        let found = intervals(changes);
        for (place, interval) in found.iter().enumerate() {
            let mut printed = json!({"pipeline": pipeline, "from": print_mark(&interval.from)});
            if !partition.is_empty() {
                printed["partition"] = (*partition).into();
            }
            if let Some(to) = &interval.to {
                printed["to"] = print_mark(to);
            }
            match &interval.version {
                Some(version) => {
                    printed["version"] = version.as_str().into();
                    covered.push(printed);
                }
                None => {
                    match &interval.to {
                        Some(to) => {
                            let indices = indices_of(&edge, pipeline);
                            let next = found.get(place + 1).and_then(|next| next.version.as_deref());
                            printed["filled"] = ledger.has_run(&indices, next, (&interval.from, to)).into();
                        }
                        None => printed["reason"] = reason(&id, definition.map(|body| &**body), pipeline).into(),
                    }
                    holes.push(printed);
                }
            }
        }
    }
    Ok(Reply::ok(&json!({
        "coverage": covered, "holes": holes, "runs": ledger.runs, "partial": ledger.is_partial,
    })))
}

fn print_mark(mark: &Mark) -> Value {
    let mut printed = json!({"received": mark.received});
    if let Some(offset) = mark.offset {
        printed["offset"] = offset.into();
    }
    printed
}

/// Returns why a pipeline does not evaluate a rule now.
fn reason(id: &str, definition: Option<&serde_json::Map<String, Value>>, pipeline: &str) -> String {
    let Some(body) = definition else {
        return "the rule was deleted".to_owned();
    };
    match DetectionRule::parse(id, body) {
        Err(error) => error.reason().to_owned(),
        Ok(rule) if !rule.enabled => "the rule is disabled".to_owned(),
        Ok(rule) if !rule.is_for_pipeline(pipeline) => "the rule is not for this pipeline".to_owned(),
        Ok(_) => "no event has come since the rule is evaluated again, or the pack has no log source for it".to_owned(),
    }
}

impl Ledger {
    async fn read(edge: &Edge, id: &str) -> Result<Self, ApiError> {
        let ctx = RequestContext::new();
        edge.engine.refresh(&ctx, target()).await?;
        let records = json!({
            "size": RECORDS_MAX, "query": {"exists": {"field": "pipeline"}}, "track_total_hits": false,
            "sort": [{"order": {"order": "asc", "unmapped_type": "long"}}],
        });
        let records = search(edge, records).await?;
        let mut is_partial = records.len() >= RECORDS_MAX;
        let records: Vec<CoverageRecord> = records.iter().filter_map(read_source).collect();
        let runs = json!({
            "size": RUNS_MAX, "query": {"term": {"rule": id}}, "track_total_hits": false,
            "sort": [{"@timestamp": {"order": "desc", "unmapped_type": "date"}}],
        });
        let runs = search(edge, runs).await?.iter().filter_map(read_source).collect();
        let mut versions = HashMap::new();
        let mut after: Option<Value> = None;
        loop {
            let mut sets = json!({
                "size": SETS_PAGE, "query": {"term": {"ids": id}}, "track_total_hits": false,
                "sort": [{"set": {"order": "asc", "unmapped_type": "keyword"}}],
            });
            if let Some(after) = after {
                sets["search_after"] = after;
            }
            let page = search(edge, sets).await?;
            for set in page.iter().filter_map(read_source::<Value>) {
                if let (Some(name), Some(version)) = (set["set"].as_str(), set["versions"][id].as_str()) {
                    versions.insert(name.to_owned(), version.to_owned());
                }
            }
            is_partial |= versions.len() >= SETS_MAX;
            match page.last() {
                Some(last) if page.len() == SETS_PAGE && !is_partial => after = Some(last.sort.clone().into()),
                _ => break,
            }
        }
        Ok(Self {
            records,
            versions,
            runs,
            is_partial,
        })
    }

    /// Whether one run of a version has read all events of some indices with times from one arrival to the other.
    fn has_run(&self, indices: &[String], version: Option<&str>, (from, to): (&Mark, &Mark)) -> bool {
        let ms = |mark: &Mark| DateFormat::default_millis().parse_ms(&mark.received).ok();
        let (Some(from), Some(to)) = (ms(from), ms(to)) else {
            return false;
        };
        let member = |run: &Value, name: &str| run[name].as_i64();
        let covers = |run: &Value| {
            let names: Vec<&str> = run["index"].as_str().unwrap_or_default().split(',').collect();
            let has_indices = names.contains(&"*") || indices.iter().all(|index| names.contains(&index.as_str()));
            has_indices
                && run["version"].as_str() == version
                && !indices.is_empty()
                && member(run, "from").is_some_and(|start| start <= from)
                && member(run, "to").is_some_and(|end| end >= to)
        };
        self.runs.iter().any(covers)
    }
}

/// Returns the indices of the events of a pipeline; empty: there is no such pipeline any more.
fn indices_of(edge: &Edge, pipeline: &str) -> Vec<String> {
    let runner = event_pipelines::runner(edge).ok();
    let definition = runner.and_then(|runner| runner.definition(pipeline));
    definition.map_or_else(Vec::new, |definition| definition.event_indices().to_vec())
}

async fn search(edge: &Edge, body: Value) -> Result<Vec<Hit>, ApiError> {
    let request = SearchRequest::parse(target(), Some(&body))?;
    let response = edge.engine.search(&RequestContext::new(), request).await?;
    if response.timed_out || !response.shards.failures.is_empty() {
        let reason = "the coverage of rules cannot be read as a whole";
        return Err(Error::new(ErrorKind::Unavailable, reason).into());
    }
    Ok(response.hits)
}

fn read_source<T: serde::de::DeserializeOwned>(hit: &Hit) -> Option<T> {
    serde_json::from_slice(hit.source.as_deref()?).ok()
}

fn target() -> IndexTarget {
    IndexTarget {
        expression: vec![COVERAGE_INDEX.to_owned()],
        options: IndicesOptions {
            ignore_unavailable: true,
            expand_hidden: true,
            ..IndicesOptions::default()
        },
    }
}
