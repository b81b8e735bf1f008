//! Run of one rule over stored events: reads the events that match, and raises the alerts that no alert stands for yet.

use std::collections::HashSet;

use firn_detect::{DetectionRule, EventPlace, alert, group_of};
use firn_engine::cost::SearchCost;
use firn_engine::{Engine, Knowledge, RequestContext};
use firn_model::dates::DateFormat;
use firn_model::names::IndicesOptions;
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::{Hit, IndexTarget, SearchRequest};
use serde_json::{Map, Value, json};

use super::ledger::SharedEngine;
use super::stored_events::{MatchedEvent, PAGE, PointInTime, RecordReader};
use super::unevaluated::Unevaluated;
use crate::run_mark::RunMark;
use crate::runner::{RecordRule, RuleRun, StoredDocument, TenantEvent};

/// Most alerts that a page of events is compared with.
const ALERTS_MAX: usize = 10_000;

/// What is run over, and for which events.
pub struct StoredRun<'a> {
    /// Engine of the events.
    pub engine: &'a SharedEngine,
    /// Who may read the events.
    pub ctx: RequestContext,
    /// Indices of the events.
    pub target: IndexTarget,
    /// The rule.
    pub rule: &'a DetectionRule,
    /// Query of the events that match it; if it reads records, of all events.
    pub query: &'a Value,
    /// Evaluates the rule on the records of the events; `None`: it reads events.
    pub records: Option<&'a RecordRule>,
    /// Place of the first event.
    pub from: RunMark,
    /// Time behind the last event, ms since the epoch.
    pub to_ms: i64,
    /// Most bytes that are fetched from snapshot repositories.
    pub fetch_bytes_max: u64,
}

/// What a run has found.
#[derive(Debug, Clone, Default)]
pub struct RunReport {
    /// Events that were read.
    pub read: u64,
    /// Events that match.
    pub events: u64,
    /// New alerts.
    pub alerts: u64,
    /// Events that the rule has an alert for.
    pub existing: u64,
    /// Events in the time of an alert of their group, which may count them.
    pub in_groups: u64,
    /// Events that match and have no time; if the rule reads records, all events without a time. `None`: they cannot be counted without
    /// fetching much.
    pub without_time: Option<u64>,
    /// Events on which a pipeline evaluated the rule, or would have, and it cannot be done again.
    pub not_evaluated: Unevaluated,
    /// Events on which no pipeline evaluates the rule.
    pub not_applicable: Unevaluated,
    /// Where the next run begins, before the first event that this one has not read; `None`: it has read all events.
    pub continue_from: Option<RunMark>,
    /// Why some shards could not be read.
    pub failure: Option<String>,
}

impl RunReport {
    /// Whether an alert stands for each of the events that was read and matches.
    pub fn is_certain(&self) -> bool {
        self.not_evaluated.events == 0 && self.is_certain_but_for_records()
    }

    /// Whether the same holds for those of the events that the rule was evaluated on.
    pub fn is_certain_but_for_records(&self) -> bool {
        self.failure.is_none() && self.without_time == Some(0) && self.in_groups == 0
    }
}

/// Whether a run may start.
#[derive(Debug)]
pub enum RunOutcome {
    /// It would fetch more than it may.
    TooDear(SearchCost),
    /// It may.
    MayRun,
}

/// Event that the rule matches.
struct Match {
    hit: Hit,
    /// Index that its own was mounted from: its alert may have been raised there.
    mounted_from: Option<String>,
    /// Tenant, if its index holds events by tenant.
    tenant: Option<String>,
    /// Group of its alert; `None`: the rule has no groups.
    group: Option<String>,
    /// Time, ms since the epoch; `None`: it cannot be read.
    time_ms: Option<i64>,
}

impl Match {
    fn new(rule: &DetectionRule, matched: MatchedEvent) -> Self {
        let MatchedEvent {
            hit,
            tenant,
            mounted_from,
        } = matched;
        let event = || {
            let event: Option<Map<String, Value>> = serde_json::from_slice(hit.source.as_deref()?).ok();
            let event = event?;
            let place = EventPlace {
                pipeline: "",
                partition: None,
                offset: 0,
                tenant: tenant.as_deref(),
            };
            Some(group_of(&alert(rule, &event, place, "", &[])).to_owned())
        };
        Self {
            group: (!rule.group_by.is_empty()).then(event).flatten(),
            time_ms: hit.sort.first().and_then(time_ms),
            tenant,
            mounted_from,
            hit,
        }
    }
}

fn time_ms(value: &Value) -> Option<i64> {
    DateFormat::default_millis().parse_ms(value.as_str()?).ok()
}

/// What the alerts of a rule stand for.
#[derive(Default)]
struct Known {
    /// Index and id of events.
    events: HashSet<(String, String)>,
    /// Group, and the times of its first and last event, ms since the epoch.
    groups: Vec<(String, i64, i64)>,
}

impl Known {
    /// Reads the alerts that some of the events may have.
    async fn read(engine: &dyn Engine, rule: &DetectionRule, matches: &[Match]) -> Result<Self> {
        let ids: Vec<&str> = matches.iter().map(|found| found.hit.id.as_str()).collect();
        let groups: HashSet<&str> = matches.iter().filter_map(|found| found.group.as_deref()).collect();
        let mut should = vec![json!({"terms": {"firn.alert.event.id": ids}})];
        if !groups.is_empty() {
            let times = || matches.iter().filter_map(|found| found.time_ms);
            let bounds = json!({"gte": times().min(), "format": "epoch_millis"});
            should.push(json!({"bool": {
                "filter": [
                    {"terms": {"firn.alert.group": groups}},
                    {"range": {"firn.alert.event.time": {"lte": times().max(), "format": "epoch_millis"}}},
                ],
                "should": [
                    {"range": {"firn.alert.last_event_time": bounds}}, {"range": {"firn.alert.event.time": bounds}},
                ],
                "minimum_should_match": 1,
            }}));
        }
        let target = IndexTarget {
            expression: vec![".alerts-*".to_owned()],
            options: IndicesOptions {
                ignore_unavailable: true,
                expand_hidden: true,
                ..IndicesOptions::default()
            },
        };
        // Alerts are written by firn, whose view holds those of all tenants.
        let ctx = RequestContext::new();
        engine.refresh(&ctx, target.clone()).await?;
        let body = json!({
            "size": ALERTS_MAX, "track_total_hits": false, "_source": ["firn.alert"],
            "query": {"bool": {
                "filter": [{"term": {"rule.id": rule.rule.id}}], "should": should, "minimum_should_match": 1,
            }},
        });
        let response = engine.search(&ctx, SearchRequest::parse(target, Some(&body))?).await?;
        if response.timed_out || !response.shards.failures.is_empty() || response.hits.len() >= ALERTS_MAX {
            let reason = "the alerts that the rule has raised cannot be read as a whole: it would raise them again";
            return Err(Error::new(ErrorKind::Unavailable, reason));
        }
        let mut known = Self::default();
        for hit in response.hits {
            let source: Option<Value> = hit
                .source
                .as_deref()
                .and_then(|source| serde_json::from_slice(source).ok());
            let source = source.unwrap_or_default();
            let state = &source["firn"]["alert"];
            let text = |name: &str| state["event"][name].as_str().unwrap_or_default().to_owned();
            known.events.insert((text("index"), text("id")));
            let first = time_ms(&state["event"]["time"]);
            let last = time_ms(&state["last_event_time"]).or(first);
            if let (Some(group), Some(first), Some(last)) = (state["group"].as_str(), first, last) {
                known.groups.push((group.to_owned(), first, last));
            }
        }
        Ok(known)
    }

    fn of(&self, found: &Match) -> Standing {
        let mut indices = found.mounted_from.iter().chain([&found.hit.index]);
        if indices.any(|index| self.events.contains(&(index.clone(), found.hit.id.clone()))) {
            return Standing::Alerted;
        }
        let of_group = |(group, time_ms): (&str, i64)| {
            let mut groups = self.groups.iter();
            groups.any(|(known, first, last)| known == group && (*first..=*last).contains(&time_ms))
        };
        match found.group.as_deref().zip(found.time_ms).is_some_and(of_group) {
            true => Standing::InGroup,
            false => Standing::New,
        }
    }
}

/// What is known of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// An alert links to it.
    Alerted,
    /// It is of the time of an alert of its group, which may count it.
    InGroup,
    /// No alert stands for it.
    New,
}

impl StoredRun<'_> {
    /// Returns whether the run fetches at most what it may.
    ///
    /// # Errors
    /// Of the engine.
    pub async fn check_cost(&self) -> Result<RunOutcome> {
        let mut request = json!({"query": self.query_of_times(), "size": PAGE});
        if self.records.is_some() {
            // It reads all documents, and the estimate of such a search counts all.
            request["aggs"] = json!({"all": {"top_hits": {}}});
        }
        let request = SearchRequest::parse(self.target.clone(), Some(&request))?;
        Ok(match self.engine.search_cost(&self.ctx, request).await? {
            Knowledge::Known(cost) if cost.bytes > self.fetch_bytes_max => RunOutcome::TooDear(cost),
            _ => RunOutcome::MayRun,
        })
    }

    /// Reads the events, oldest first, and raises their alerts by `run`: at most `events_max` events, at least a page. The next run continues
    /// at a millisecond of which none was read, unless the events of one are more than a page: then those of one time by their sequence numbers.
    ///
    /// # Errors
    /// Of the engine, and of the destination of the alerts; some may be stored.
    pub async fn run(&self, run: &RuleRun, events_max: u64) -> Result<RunReport> {
        self.engine.refresh(&self.ctx, self.target.clone()).await?;
        let metadata = self.engine.metadata(&self.ctx).await?;
        let moment = PointInTime::open(self.engine, &self.ctx, &self.target).await?;
        let mut reader = match self.records {
            Some(records) => Some(RecordReader::new(&**self.engine, records).await?),
            None => None,
        };
        let query = self.query_of_times();
        let mut report = RunReport {
            without_time: self.count_without_time().await?,
            ..RunReport::default()
        };
        let mut after: Option<Vec<Value>> = None;
        loop {
            let mut response = moment.page(&query, "asc", after.as_ref()).await?;
            if response.timed_out {
                report.failure = Some("the search took too long".to_owned());
            }
            if let Some((index, _, error)) = response.shards.failures.first() {
                report.failure = Some(format!("[{index}]: {}", error.reason()));
            }
            let next_from = leave_last(&mut response.hits);
            let Some(last) = response.hits.last() else { break };
            after = Some(last.sort.clone());
            report.read += response.hits.len() as u64;
            let hits = response.hits.into_iter();
            let mut found: Vec<MatchedEvent> = hits.map(|hit| MatchedEvent::new(&metadata, hit)).collect();
            if let Some(reader) = &mut reader {
                found = reader.matches(found).await?;
            }
            report.events += found.len() as u64;
            self.raise(run, found, &mut report).await?;
            if report.read + PAGE as u64 > events_max && next_from.is_some() {
                report.continue_from = next_from;
                break;
            }
        }
        if let Some(reader) = reader {
            report.not_evaluated = reader.not_evaluated;
            report.not_applicable = reader.not_applicable;
        }
        Ok(report)
    }

    /// Raises the alerts of the events of a page that no alert stands for.
    async fn raise(&self, run: &RuleRun, found: Vec<MatchedEvent>, report: &mut RunReport) -> Result<()> {
        if found.is_empty() {
            return Ok(());
        }
        let matches: Vec<Match> = found.into_iter().map(|event| Match::new(self.rule, event)).collect();
        let known = Known::read(&**self.engine, self.rule, &matches).await?;
        let mut open: Vec<TenantEvent> = Vec::new();
        for found in matches {
            match known.of(&found) {
                Standing::Alerted => report.existing += 1,
                Standing::InGroup => report.in_groups += 1,
                Standing::New => open.push((stored_document(found.hit)?, found.tenant)),
            }
        }
        report.alerts += run.raise(open).await?;
        Ok(())
    }

    fn query_of_times(&self) -> Value {
        json!({"bool": {"filter": [self.query, self.from.query(self.to_ms)]}})
    }

    /// Counts the events that match and have no time, which no range finds. `None`: unknown, since it would fetch too much from snapshot
    /// repositories, or some shards cannot be read.
    async fn count_without_time(&self) -> Result<Option<u64>> {
        let query = json!({"bool": {"filter": [self.query], "must_not": [{"exists": {"field": "@timestamp"}}]}});
        let body = json!({"size": 0, "track_total_hits": true, "query": query});
        let request = SearchRequest::parse(self.target.clone(), Some(&body))?;
        if let Knowledge::Known(cost) = self.engine.search_cost(&self.ctx, request.clone()).await?
            && cost.bytes > self.fetch_bytes_max
        {
            return Ok(None);
        }
        let response = self.engine.search(&self.ctx, request).await?;
        let is_whole = !response.timed_out && response.shards.failures.is_empty();
        Ok(response.total.map(|total| total.value).filter(|_| is_whole))
    }
}

/// Removes the last events of a page that others may follow, and returns where they begin: those of the last millisecond, since those of
/// one group and time are one alert, and a run that continues another one reads none of its events; or, if all are of one millisecond, those
/// of the last time and sequence number. Of these there is one in each shard at most.
fn leave_last(hits: &mut Vec<Hit>) -> Option<RunMark> {
    if hits.len() < PAGE {
        return None;
    }
    let ms = |hit: &Hit| hit.sort.first().and_then(time_ms);
    let last_ms = hits.last().and_then(ms)?;
    if let Some(start) = start_of_last(hits, ms) {
        hits.truncate(start);
        return Some(RunMark::at_ms(last_ms));
    }
    let start = start_of_last(hits, |hit| hit.sort.get(..2).map(<[Value]>::to_vec))?;
    hits.truncate(start);
    let last = hits.last()?;
    RunMark::behind(last.sort.first()?.as_str()?, last.sort.get(1)?.as_u64()?)
}

/// Returns the place of the first of the last hits that have one value; `None`: all have it.
fn start_of_last<T: PartialEq>(hits: &[Hit], value: impl Fn(&Hit) -> T) -> Option<usize> {
    let of_last = value(hits.last()?);
    let before = hits.iter().rposition(|hit| value(hit) != of_last)?;
    Some(before + 1)
}

/// Returns the document of a hit that has its source and sequence number.
fn stored_document(hit: Hit) -> Result<StoredDocument> {
    let bug = |what: &str| Error::internal(format!("a bug: a hit came without its {what}"));
    Ok(StoredDocument {
        seq_no: hit.seq_no.ok_or_else(|| bug("sequence number"))?,
        source: hit.source.ok_or_else(|| bug("source"))?,
        index: hit.index,
        id: hit.id,
        routing: hit.routing,
    })
}
