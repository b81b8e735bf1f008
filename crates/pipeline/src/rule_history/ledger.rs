//! Coverage ledger of one rule, as it is stored.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use firn_detect::{CoverageChange, Interval, Mark, Pause, intervals};
use firn_engine::{Engine, RequestContext};
use firn_model::dates::DateFormat;
use firn_model::names::IndicesOptions;
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::{Hit, IndexTarget, SearchRequest};
use serde_json::{Value, json};

use super::open_holes::SetRules;
use crate::run_mark::RunMark;
use crate::runner::{COVERAGE_INDEX, CoverageRecord, PAUSES};

/// Records of one answer, and runs.
const RECORDS_MAX: usize = 10_000;
const RUNS_MAX: usize = 1_000;
/// Sets of rules that are read at a time, and of one answer. A set of some thousand rules takes some hundred kilobytes.
const SETS_PAGE: usize = 50;
const SETS_MAX: usize = 1_000;

/// What the ledger has of a rule.
pub struct RuleLedger {
    records: Vec<CoverageRecord>,
    /// Version of the rule by the sets that have it.
    versions: HashMap<String, String>,
    /// Sets without the rule because of the budget.
    throttled: BTreeSet<String>,
    /// Runs of the rule over stored events, the last one first.
    pub runs: Vec<Value>,
    /// Whether there is more than was read.
    pub is_partial: bool,
}

/// Coverage of a rule in one partition.
#[derive(Debug, Clone)]
pub struct PartitionCoverage {
    /// Id of the pipeline.
    pub pipeline: String,
    /// Partition; empty: the source has none.
    pub partition: String,
    /// Intervals in order, holes included.
    pub intervals: Vec<Interval>,
}

/// Hole of a partition.
#[derive(Debug, Clone)]
pub struct Hole<'a> {
    /// The hole.
    pub interval: &'a Interval,
    /// Versions of the rule that were evaluated after it, the next one first; empty: it is not evaluated yet.
    pub next_versions: Vec<&'a str>,
}

impl Hole<'_> {
    /// Whether a run of this version fills it: of any that was evaluated after it. An earlier one of them cannot run any more.
    fn takes_version(&self, version: &str) -> bool {
        self.next_versions.contains(&version)
    }
}

impl PartitionCoverage {
    /// Returns the holes in order.
    pub fn holes(&self) -> impl Iterator<Item = Hole<'_>> {
        let is_hole = |(_, interval): &(usize, &Interval)| interval.version.is_none();
        self.intervals
            .iter()
            .enumerate()
            .filter(is_hole)
            .map(|(place, interval)| {
                let after = self.intervals[place + 1..].iter();
                Hole {
                    interval,
                    next_versions: after.filter_map(|interval| interval.version.as_deref()).collect(),
                }
            })
    }
}

impl RuleLedger {
    /// Reads the ledger of a rule.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]: some shards cannot be read. Others of the engine.
    pub async fn read(engine: &dyn Engine, id: &str) -> Result<Self> {
        let ctx = RequestContext::new();
        engine.refresh(&ctx, target()).await?;
        let records = all_records(engine).await?;
        let mut is_partial = records.len() >= RECORDS_MAX;
        let runs = json!({
            "size": RUNS_MAX, "query": {"term": {"rule": id}}, "track_total_hits": false,
            "sort": [{"@timestamp": {"order": "desc", "unmapped_type": "date"}}],
        });
        let runs = search(engine, runs).await?.iter().filter_map(read_source).collect();
        let (mut versions, mut throttled) = (HashMap::new(), BTreeSet::new());
        let of_rule = json!({"term": {"ids": id}});
        let are_all = each_set(engine, &of_rule, |set| {
            let Some(name) = set["set"].as_str() else {
                return;
            };
            match set["versions"][id].as_str() {
                Some(version) => drop(versions.insert(name.to_owned(), version.to_owned())),
                None => drop(throttled.insert(name.to_owned())),
            }
        });
        is_partial |= !are_all.await?;
        Ok(Self {
            records,
            versions,
            throttled,
            runs,
            is_partial,
        })
    }

    /// Whether no pipeline has ever evaluated the rule.
    pub fn is_empty(&self) -> bool {
        self.versions.is_empty() && self.throttled.is_empty()
    }

    /// Returns the coverage of each partition, sorted by pipeline and partition.
    pub fn partitions(&self) -> Vec<PartitionCoverage> {
        let mut partitions: BTreeMap<(&str, &str), Vec<CoverageChange>> = BTreeMap::new();
        for record in &self.records {
            let change = CoverageChange {
                at: Mark {
                    offset: (!record.partition.is_empty()).then_some(record.offset),
                    received: record.received.clone(),
                },
                version: self.versions.get(&record.set).cloned(),
                is_throttled: self.throttled.contains(&record.set),
                times_before_ms: record.times_before_ms,
            };
            let partition = (record.pipeline.as_str(), record.partition.as_str());
            partitions.entry(partition).or_default().push(change);
        }
        let coverage = partitions
            .into_iter()
            .map(|((pipeline, partition), changes)| PartitionCoverage {
                pipeline: pipeline.to_owned(),
                partition: partition.to_owned(),
                intervals: intervals(&changes),
            });
        coverage.collect()
    }

    /// Whether runs of a version that follows a hole, together, have read all events of some indices with the times of its events, or, if
    /// these are not known, with times from one end of the hole to the other. They began after the hole had ended: one that goes on is not
    /// filled.
    pub fn is_filled(&self, hole: &Hole<'_>, indices: &[String]) -> bool {
        let Some(HoleTimes { ended, from, to }) = times_of(hole) else {
            return false;
        };
        let (from, to) = (RunMark::at_ms(from), RunMark::at_ms(to));
        let counts = |run: &&Value| {
            let names = names_of(run);
            let has_indices = names.contains(&"*") || indices.iter().all(|index| names.contains(&index.as_str()));
            has_indices && !indices.is_empty() && is_after(run, hole, ended) && run.get(NOT_EVALUATED).is_none()
        };
        let versions: BTreeSet<&str> = self.runs.iter().filter_map(|run| run["version"].as_str()).collect();
        let is_filled_by = |version: &str| {
            let own = self.runs.iter().filter(counts).filter(|run| run["version"] == version);
            let mut parts: Vec<(RunMark, RunMark)> = own
                .filter_map(|run| RunMark::read("from", run).zip(RunMark::read("to", run)))
                .collect();
            parts.sort_unstable();
            let mut read_until = from;
            for (start, end) in parts {
                if start <= read_until {
                    read_until = read_until.max(end);
                }
            }
            read_until >= to
        };
        versions.into_iter().any(is_filled_by)
    }

    /// Returns why the last run that read events of a hole does not fill it: it could not evaluate the rule on some events. `None`: there
    /// is no such run.
    pub fn why_not_filled(&self, hole: &Hole<'_>, indices: &[String]) -> Option<String> {
        let HoleTimes { ended, from, to } = times_of(hole)?;
        let is_of_hole = |run: &&Value| {
            let names = names_of(run);
            let has_index = names.contains(&"*") || indices.iter().any(|index| names.contains(&index.as_str()));
            let overlaps =
                member(run, "from").is_some_and(|start| start < to) && member(run, "to").is_some_and(|end| end > from);
            has_index && overlaps && is_after(run, hole, ended)
        };
        let run = self.runs.iter().find(is_of_hole)?;
        run.get(NOT_EVALUATED)?;
        run["reason"].as_str().map(str::to_owned)
    }
}

/// Member of a run that could not evaluate the rule on some events.
const NOT_EVALUATED: &str = "not_evaluated";

/// Times of a hole that has ended, ms since the epoch.
struct HoleTimes {
    /// When the first event behind it arrived.
    ended: i64,
    /// Time of its first event, and that behind its last one.
    from: i64,
    to: i64,
}

fn times_of(hole: &Hole<'_>) -> Option<HoleTimes> {
    let ms = |mark: &Mark| DateFormat::default_millis().parse_ms(&mark.received).ok();
    let (from, to) = (ms(&hole.interval.from)?, ms(hole.interval.to.as_ref()?)?);
    // The end of a run is behind its last event.
    let times = hole.interval.times_ms.map(|(first, last)| (first, last + 1));
    let (first, behind) = times.unwrap_or((from, to));
    Some(HoleTimes {
        ended: to,
        from: first,
        to: behind,
    })
}

fn member(run: &Value, name: &str) -> Option<i64> {
    run[name].as_i64()
}

fn names_of(run: &Value) -> Vec<&str> {
    run["index"].as_str().unwrap_or_default().split(',').collect()
}

/// Whether a run of a version that fills a hole began after the hole had ended.
fn is_after(run: &Value, hole: &Hole<'_>, ended: i64) -> bool {
    let version = run["version"].as_str();
    version.is_some_and(|version| hole.takes_version(version))
        && member(run, "@timestamp").is_some_and(|began| began >= ended)
}

/// Returns the ids of the rules that were ever left out because of the budget, as far as the ledger is read.
pub(super) async fn throttled_rules(engine: &dyn Engine) -> Result<BTreeSet<String>> {
    engine.refresh(&RequestContext::new(), target()).await?;
    let mut found = BTreeSet::new();
    each_set(engine, &json!({"exists": {"field": "ids"}}), |set| {
        let throttled = set["throttled"].as_object();
        found.extend(throttled.into_iter().flat_map(|throttled| throttled.keys().cloned()));
    })
    .await?;
    Ok(found)
}

async fn all_records(engine: &dyn Engine) -> Result<Vec<CoverageRecord>> {
    let records = json!({
        "size": RECORDS_MAX, "query": {"exists": {"field": "pipeline"}}, "track_total_hits": false,
        "sort": [{"order": {"order": "asc", "unmapped_type": "long"}}],
    });
    Ok(search(engine, records).await?.iter().filter_map(read_source).collect())
}

/// Returns the records of all pipelines, as many as one answer has.
pub(super) async fn records(engine: &dyn Engine) -> Result<Vec<CoverageRecord>> {
    engine.refresh(&RequestContext::new(), target()).await?;
    all_records(engine).await
}

/// Returns the rules of sets by their names.
pub(super) async fn sets(engine: &dyn Engine, names: &[&str]) -> Result<Vec<SetRules>> {
    let mut found = Vec::new();
    for names in names.chunks(SETS_PAGE) {
        let sets = json!({
            "size": SETS_PAGE, "track_total_hits": false, "_source": ["set", "ids", "throttled"],
            "query": {"ids": {"values": names.iter().map(|name| format!("set-{name}")).collect::<Vec<_>>()}},
        });
        found.extend(search(engine, sets).await?.iter().filter_map(read_source));
    }
    Ok(found)
}

/// Returns the pauses of rules that are stored.
pub(super) async fn stored_pauses(engine: &dyn Engine) -> Result<Vec<Pause>> {
    #[derive(serde::Deserialize)]
    struct Stored {
        pauses: Vec<Pause>,
    }
    engine.refresh(&RequestContext::new(), target()).await?;
    let found = search(engine, json!({"size": 1, "query": {"ids": {"values": [PAUSES]}}})).await?;
    let stored: Option<Stored> = found.first().and_then(read_source);
    Ok(stored.map(|stored| stored.pauses).unwrap_or_default())
}

/// Calls `each` with the sets that match; returns whether these are all.
async fn each_set(engine: &dyn Engine, query: &Value, mut each: impl FnMut(&Value)) -> Result<bool> {
    let (mut after, mut count): (Option<Value>, usize) = (None, 0);
    loop {
        let mut sets = json!({
            "size": SETS_PAGE, "query": query, "track_total_hits": false,
            "sort": [{"set": {"order": "asc", "unmapped_type": "keyword"}}],
        });
        if let Some(after) = after {
            sets["search_after"] = after;
        }
        let page = search(engine, sets).await?;
        page.iter().filter_map(read_source::<Value>).for_each(|set| each(&set));
        count += page.len();
        match page.last() {
            Some(_) if count >= SETS_MAX => return Ok(false),
            Some(last) if page.len() == SETS_PAGE => after = Some(last.sort.clone().into()),
            _ => return Ok(true),
        }
    }
}

async fn search(engine: &dyn Engine, body: Value) -> Result<Vec<Hit>> {
    let request = SearchRequest::parse(target(), Some(&body))?;
    let response = engine.search(&RequestContext::new(), request).await?;
    if response.timed_out || !response.shards.failures.is_empty() {
        let reason = "the coverage of rules cannot be read as a whole";
        return Err(Error::new(ErrorKind::Unavailable, reason));
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

/// Engine of a node, shared.
pub(super) type SharedEngine = Arc<dyn Engine>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_fill_a_hole_together_if_they_began_after_it() {
        let mark = |ms: i64| Mark {
            offset: None,
            received: DateFormat::default_millis().print_ms(ms, &firn_model::dates::Zone::utc()),
        };
        let interval = |from: i64, to: Option<i64>, version: Option<&str>| Interval {
            from: mark(from),
            to: to.map(mark),
            version: version.map(str::to_owned),
            is_throttled: false,
            times_ms: None,
        };
        let coverage = PartitionCoverage {
            pipeline: "p".to_owned(),
            partition: String::new(),
            intervals: vec![
                interval(0, Some(1_000), Some("a")),
                interval(1_000, Some(5_000), None),
                interval(5_000, Some(5_500), Some("b")),
                interval(5_500, None, Some("d")),
            ],
        };
        let run = |began: i64, version: &str, index: &str, from: i64, to: i64| json!({"@timestamp": began, "rule": "r", "version": version, "index": index, "from": from, "to": to});
        let ledger = |runs: &[Value]| RuleLedger {
            records: Vec::new(),
            versions: HashMap::new(),
            throttled: BTreeSet::new(),
            runs: runs.to_vec(),
            is_partial: false,
        };
        let is_filled = |runs: &[Value]| {
            let hole = coverage.holes().next().unwrap();
            ledger(runs).is_filled(&hole, &["logs".to_owned()])
        };
        let part = |from: i64, to: i64| run(6_000, "b", "logs", from, to);
        assert!(is_filled(&[part(500, 5_000)]));
        assert!(is_filled(&[part(3_000, 5_000), part(500, 2_000), part(2_000, 3_500)]));
        // A later version than the next one.
        assert!(is_filled(&[run(6_000, "d", "logs", 500, 5_000)]));
        for unknown in ["a", "c"] {
            assert!(!is_filled(&[run(6_000, unknown, "logs", 500, 5_000)]), "{unknown}");
        }
        assert!(!is_filled(&[part(3_000, 5_000), part(500, 2_999)]), "there is a gap");
        assert!(!is_filled(&[part(1_001, 5_000)]) && !is_filled(&[part(500, 4_999)]));
        // Runs that continue each other within the events of one time.
        let within = |mut run: Value, member: &str, seq_no: u64| {
            run[member] = seq_no.into();
            run
        };
        let first = within(part(500, 2_000), "to_seq_no", 7);
        for (seq_no, is_whole) in [(7, true), (6, true), (8, false), (0, true)] {
            let second = within(part(2_000, 5_000), "from_seq_no", seq_no);
            assert_eq!(is_filled(&[second, first.clone()]), is_whole, "{seq_no}");
        }
        for other in [
            run(6_000, "c", "logs", 3_000, 5_000),
            run(6_000, "d", "logs", 3_000, 5_000),
            run(6_000, "b", "others", 3_000, 5_000),
            run(4_999, "b", "logs", 3_000, 5_000),
        ] {
            assert!(!is_filled(&[part(500, 3_000), other.clone()]), "{other}");
        }
        assert!(!is_filled(&[]));

        // A run that could not evaluate the rule on some events fills nothing, and says why, until one can.
        let mut without = part(500, 5_000);
        without["not_evaluated"] = 3.into();
        without["reason"] = "3 events".into();
        let why = |runs: &[Value]| {
            let hole = coverage.holes().next().unwrap();
            ledger(runs).why_not_filled(&hole, &["logs".to_owned()])
        };
        assert!(!is_filled(&[without.clone()]));
        assert!(!is_filled(&[part(3_000, 5_000), without.clone()]));
        assert_eq!(why(&[without.clone()]).as_deref(), Some("3 events"));
        // The last run comes first.
        assert_eq!(why(&[part(3_000, 5_000), without.clone()]), None);
        assert!(is_filled(&[without.clone(), part(500, 5_000)]));
        without["index"] = "others".into();
        assert_eq!(why(&[without.clone()]), None);
        without["index"] = "*".into();
        without["from"] = 5_000.into();
        assert_eq!(why(&[without]), None);
        assert_eq!(why(&[]), None);
    }
}
