//! Parsed Discover request: which events, and which stages. Everything parsed here is translated to Query DSL.

use std::time::Duration;

use firn_engine::{Error, Result};
use firn_model::dates::parse_duration_ms;
use firn_model::names::IndicesOptions;
use firn_query::query::Query;
use firn_query::search::{HighlightBudget, Hit, IndexTarget, SearchRequest};
use serde_json::{Map, Value, json};

use super::language::{self, Typed};
use super::time_range::TimeRange;
use crate::wire::error::ApiError;
use crate::wire::json_fields::Fields;
use crate::wire::params::split_list;

/// Highlighting must not delay the page. Per field it covers as much text as a page shows at first, and it covers all
/// ordinary events of a page. On a page of long texts the last ones have no marks: 2 million are some 50 ms of one
/// core.
const HIGHLIGHT_BUDGET: HighlightBudget = HighlightBudget {
    field_chars: 4_000,
    spent_max: 2_000_000,
};
/// Maximum stages of one request: each is one or more searches.
pub(super) const STAGES_MAX: usize = 16;
/// Maximum filters next to the query, which is the clause limit of Elasticsearch's bool queries.
pub(super) const FILTERS_MAX: usize = 1024;
/// Maximum columns: each is read from every hit.
pub(super) const COLUMNS_MAX: usize = 200;
/// Maximum hits of a sample: a page of the table. `search_after` requests further ones.
pub(super) const SAMPLE_SIZE_MAX: u64 = 1000;
/// Maximum named fields whose values are counted.
pub(super) const FIELDS_MAX: usize = 500;
/// Maximum values of a field in the answer.
pub(super) const VALUES_MAX: u64 = 1000;
/// Maximum values of the breakdown over time: more colours cannot be distinguished.
pub(super) const SPLITS_MAX: u64 = 20;
/// Total width of the widest screens.
pub(super) const WIDTH_PX_MAX: u64 = 16_384;
/// Maximum bytes of a request: 1,024 filters of 1 KB.
pub(super) const BODY_BYTES_MAX: usize = 1 << 20;

/// Maximum source bytes in one result. Further hits are omitted, and the answer says so.
const SOURCE_BYTES_MAX: usize = 16 << 20;

const SAMPLE_SIZE: u64 = 100;
const VALUES: u64 = 10;
const SPLITS: u64 = 5;
const WIDTH_PX: u64 = 1200;

/// Selection and order of events.
#[derive(Debug, Clone)]
pub(crate) struct EventSelection {
    pub(crate) target: IndexTarget,
    /// `None`: all times.
    pub(crate) time: Option<TimeRange>,
    /// Time range, query and filters combined.
    pub(crate) query_dsl: Value,
    /// In the form of `sort` in a search.
    pub(crate) sort: Value,
    /// Query as typed; `None`: there is none, or it is Query DSL.
    pub(super) typed: Option<Typed>,
    /// Displayed fields.
    pub(crate) columns: Vec<String>,
    /// Highlight matches in all fields of a hit, not only in the columns.
    pub(super) highlight: bool,
    /// Timeout of each search.
    pub(crate) timeout: Option<Duration>,
    /// [`EventSelection::query_dsl`] without the time range.
    conditions: Vec<Value>,
}

/// Request of `_firn/discover`.
#[derive(Debug)]
pub(super) struct DiscoverRequest {
    pub(super) question: EventSelection,
    /// Cheapest first.
    pub(super) stages: Vec<Stage>,
    pub(super) frozen: Frozen,
}

/// Policy for stages that would fetch much from snapshot repositories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frozen {
    /// Return the estimate instead of the result.
    Ask,
    Run,
    /// Run, even after the client has disconnected.
    Background,
}

/// Independently computed part of the answer. In the order of their cost.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stage {
    Sample {
        size: u64,
        search_after: Option<Value>,
        highlight: bool,
    },
    Histogram {
        split_by: SplitBy,
        splits: u64,
        width_px: u64,
        interval: Option<String>,
    },
    Cardinality {
        /// `None`: the fields in use.
        fields: Option<Vec<String>>,
    },
    TopValues {
        field: String,
        size: u64,
    },
}

/// Breakdown of the events over time.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SplitBy {
    /// By the first configured field that is in use.
    Default,
    Nothing,
    Field(String),
}

impl Stage {
    /// Returns its name in requests and events.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Sample { .. } => "sample",
            Self::Histogram { .. } => "histogram",
            Self::Cardinality { .. } => "cardinality",
            Self::TopValues { .. } => "top_values",
        }
    }

    /// Returns the field that distinguishes it from other stages of the same name.
    pub(super) fn field(&self) -> Option<&str> {
        match self {
            Self::TopValues { field, .. } => Some(field),
            _ => None,
        }
    }

    /// Returns whether a page shows its result first.
    pub(super) fn begins_the_page(&self) -> bool {
        matches!(
            self,
            Self::Sample {
                size: 1..,
                search_after: None,
                ..
            }
        )
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Sample { .. } => 0,
            Self::Histogram { .. } => 1,
            Self::TopValues { .. } => 2,
            Self::Cardinality { .. } => 3,
        }
    }
}

impl EventSelection {
    /// Takes the selection of events from a body. `now_ms` is the time of the whole request.
    pub(crate) fn take(fields: &mut Fields, now_ms: i64) -> Result<Self, ApiError> {
        let expression = fields
            .strings("index")?
            .ok_or_else(|| Error::illegal_argument("[index] is required"))?;
        let expression: Vec<String> = expression.iter().flat_map(|names| split_list(names)).collect();
        let target = IndexTarget {
            expression,
            options: IndicesOptions::default(),
        };
        let time = fields.object("time")?;
        let time = time.map(|time| TimeRange::read(time, now_ms)).transpose()?;
        let mut conditions = Vec::new();
        let mut typed = None;
        if let Some(query) = fields.object("query")? {
            typed = Typed::of(&query);
            conditions.extend(language::translate(query, time.as_ref())?);
        }
        conditions.extend(filters(fields.take("filters"))?);
        let sort = match fields.take("sort") {
            Some(sort) => sort,
            None => default_sort(time.as_ref()),
        };
        let columns = fields.strings("columns")?.unwrap_or_default();
        bounded("columns", columns.len(), COLUMNS_MAX)?;
        let timeout = match fields.string("timeout")? {
            Some(text) => Some(Duration::from_millis(parse_duration_ms(&text)?)),
            None => None,
        };
        let question = Self {
            target,
            query_dsl: all_of(time.as_ref(), &conditions),
            time,
            sort,
            typed,
            columns,
            highlight: false,
            timeout,
            conditions,
        };
        // Invalid parts cause an error before anything starts.
        question.search(json!({"sort": question.sort}))?;
        Ok(question)
    }

    /// Builds a search of these events; `rest` is the search body without the query.
    pub(crate) fn search(&self, rest: Value) -> Result<SearchRequest> {
        self.search_for(self.query_dsl.clone(), rest)
    }

    /// Builds a search with another query over the same indices.
    pub(super) fn search_for(&self, query: Value, rest: Value) -> Result<SearchRequest> {
        let mut body = json!({"query": query});
        if let (Value::Object(body), Value::Object(rest)) = (&mut body, rest) {
            body.extend(rest);
        }
        let mut request = SearchRequest::parse(self.target.clone(), Some(&body))?;
        request.timeout = self.timeout;
        if let Some(highlight) = &mut request.shape.highlight {
            highlight.budget = Some(HIGHLIGHT_BUDGET);
        }
        // A repeated question hits the response cache: times are in ms, so the request text is the same.
        request.request_cache = Some(true);
        request.check()?;
        Ok(request)
    }

    /// Returns a query for the events that meet one more condition.
    pub(super) fn narrowed(&self, condition: Value) -> Value {
        let mut conditions = self.conditions.clone();
        conditions.push(condition);
        all_of(self.time.as_ref(), &conditions)
    }

    /// Returns the time range as a query; `None`: it is open.
    pub(super) fn time_query(&self) -> Result<Option<Query>> {
        let range = self.time.as_ref().and_then(TimeRange::query);
        range.map(|range| Query::parse(&range)).transpose()
    }

    /// Returns a query for all events of the time range.
    pub(super) fn time_dsl(&self) -> Value {
        all_of(self.time.as_ref(), &[])
    }

    /// Returns the conditions next to the time range.
    pub(super) fn conditions(&self) -> &[Value] {
        &self.conditions
    }

    /// Removes an upper time bound that only marks the time of the request, so that later events match too.
    pub(super) fn open_end(&mut self) {
        self.time = self.time.as_ref().map(TimeRange::without_end);
        self.query_dsl = all_of(self.time.as_ref(), &self.conditions);
    }

    /// Returns the same selection in the default order.
    pub(super) fn in_default_order(&self) -> Self {
        Self {
            sort: default_sort(self.time.as_ref()),
            ..self.clone()
        }
    }

    /// Sorts events by time or, without a time field, by arrival; newest first.
    pub(super) fn newest_first(&mut self) {
        self.sort = match &self.time {
            Some(_) => default_sort(self.time.as_ref()),
            None => json!([{"_seq_no": "desc"}]),
        };
    }
}

impl Frozen {
    /// Takes the policy from a body; the default is to ask.
    pub(super) fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        match fields.string("frozen")?.as_deref() {
            None | Some("ask") => Ok(Self::Ask),
            Some("run") => Ok(Self::Run),
            Some("background") => Ok(Self::Background),
            Some(other) => {
                let reason = format!("[frozen] must be one of [ask, run, background], found [{other}]");
                Err(Error::illegal_argument(reason).into())
            }
        }
    }
}

impl DiscoverRequest {
    pub(super) fn read(body: Map<String, Value>, now_ms: i64) -> Result<Self, ApiError> {
        let mut fields = Fields::new("discover request", body);
        let mut question = EventSelection::take(&mut fields, now_ms)?;
        let mut stages = match fields.take("stages") {
            None => default_stages(),
            Some(Value::Array(stages)) => {
                bounded("stages", stages.len(), STAGES_MAX)?;
                stages.into_iter().map(stage).collect::<Result<Vec<_>, _>>()?
            }
            Some(other) => {
                return Err(Error::illegal_argument(format!("[stages] must be a list, found [{other}]")).into());
            }
        };
        if stages.is_empty() {
            return Err(Error::illegal_argument("[stages] must not be empty").into());
        }
        refuse_twice(&stages)?;
        stages.sort_by_key(Stage::rank);
        question.highlight = stages
            .iter()
            .any(|stage| matches!(stage, Stage::Sample { highlight: true, .. }));
        let frozen = Frozen::take(&mut fields)?;
        fields.finish()?;
        Ok(Self {
            question,
            stages,
            frozen,
        })
    }
}

fn default_stages() -> Vec<Stage> {
    vec![
        Stage::Sample {
            size: SAMPLE_SIZE,
            search_after: None,
            highlight: false,
        },
        Stage::Histogram {
            split_by: SplitBy::Default,
            splits: SPLITS,
            width_px: WIDTH_PX,
            interval: None,
        },
        Stage::Cardinality { fields: None },
    ]
}

fn stage(value: Value) -> Result<Stage, ApiError> {
    // If the field is absent, the server chooses one; if it is null, there is no breakdown.
    let unsplit = value.get("split_by").is_some_and(Value::is_null);
    let mut fields = Fields::of("stage", value)?;
    let name = fields
        .string("stage")?
        .ok_or_else(|| Error::illegal_argument("a stage must have the name [stage]"))?;
    let stage = match name.as_str() {
        "sample" => Stage::Sample {
            size: number(&mut fields, "size", SAMPLE_SIZE, 0, SAMPLE_SIZE_MAX)?,
            search_after: fields.take("search_after"),
            highlight: fields.bool("highlight")?.unwrap_or(false),
        },
        "histogram" => Stage::Histogram {
            split_by: match fields.string("split_by")? {
                Some(field) => SplitBy::Field(field),
                None if unsplit => SplitBy::Nothing,
                None => SplitBy::Default,
            },
            splits: number(&mut fields, "split_values", SPLITS, 1, SPLITS_MAX)?,
            width_px: number(&mut fields, "width_px", WIDTH_PX, 1, WIDTH_PX_MAX)?,
            interval: fields.string("interval")?.filter(|interval| interval != "auto"),
        },
        "cardinality" => {
            let named = fields.strings("fields")?;
            bounded("fields", named.as_ref().map_or(0, Vec::len), FIELDS_MAX)?;
            Stage::Cardinality { fields: named }
        }
        "top_values" => Stage::TopValues {
            field: fields
                .string("field")?
                .filter(|field| !field.is_empty())
                .ok_or_else(|| Error::illegal_argument("[field] of stage [top_values] is required"))?,
            size: number(&mut fields, "size", VALUES, 1, VALUES_MAX)?,
        },
        other => {
            let reason = format!("unknown stage [{other}], there are [sample, histogram, cardinality, top_values]");
            return Err(Error::illegal_argument(reason).into());
        }
    };
    fields.finish()?;
    Ok(stage)
}

/// Refuses duplicate stages: the events of two equal stages could not be distinguished.
fn refuse_twice(stages: &[Stage]) -> Result<()> {
    for (number, stage) in stages.iter().enumerate() {
        let is_again = |other: &Stage| other.name() == stage.name() && other.field() == stage.field();
        if stages[..number].iter().any(is_again) {
            return Err(Error::illegal_argument(format!(
                "stage [{}] occurs twice",
                stage.name()
            )));
        }
    }
    Ok(())
}

fn filters(value: Option<Value>) -> Result<Vec<Value>> {
    let filters = match value {
        None => return Ok(Vec::new()),
        Some(Value::Array(filters)) => filters,
        Some(other) => {
            return Err(Error::illegal_argument(format!(
                "[filters] must be a list, found [{other}]"
            )));
        }
    };
    bounded("filters", filters.len(), FILTERS_MAX)?;
    for filter in &filters {
        Query::parse(filter)?;
    }
    Ok(filters)
}

/// Returns the default order: newest first; events with the same ms in one shard by arrival. Events of two shards may
/// have equal sort values, so a client continues its next page from the second-last sort values.
fn default_sort(time: Option<&TimeRange>) -> Value {
    match time {
        Some(time) => json!([
            {&time.field: {"order": "desc", "unmapped_type": "date"}},
            {"_seq_no": "desc"},
        ]),
        None => json!([{"_doc": "asc"}]),
    }
}

fn all_of(time: Option<&TimeRange>, conditions: &[Value]) -> Value {
    let mut filter: Vec<Value> = time.and_then(TimeRange::query).into_iter().collect();
    filter.extend_from_slice(conditions);
    match filter.len() {
        0 => json!({"match_all": {}}),
        _ => json!({"bool": {"filter": filter}}),
    }
}

pub(super) fn number(fields: &mut Fields, name: &str, default: u64, min: u64, max: u64) -> Result<u64, ApiError> {
    let number = fields.number(name)?.unwrap_or(default);
    match (min..=max).contains(&number) {
        true => Ok(number),
        false => {
            let reason = format!("[{name}] must be between [{min}] and [{max}], found [{number}]");
            Err(Error::illegal_argument(reason).into())
        }
    }
}

fn bounded(name: &str, count: usize, max: usize) -> Result<()> {
    match count <= max {
        true => Ok(()),
        false => Err(Error::illegal_argument(format!(
            "[{name}] may have at most [{max}] entries, found [{count}]"
        ))),
    }
}

/// Appends hits as a list, and returns how many were omitted at its end because of their size.
pub(super) fn write_hits(output: &mut Vec<u8>, hits: &[Hit]) -> usize {
    let fitting = fitting(hits);
    output.push(b'[');
    for (number, hit) in hits[..fitting].iter().enumerate() {
        if number > 0 {
            output.push(b',');
        }
        hit.write(output);
    }
    output.push(b']');
    hits.len() - fitting
}

/// Returns how many hits fit into one result. The first hit always does.
pub(super) fn fitting(hits: &[Hit]) -> usize {
    let mut bytes = 0;
    let fits = |(number, hit): &(usize, &Hit)| {
        bytes += hit.source.as_ref().map_or(0, |source| source.len());
        *number == 0 || bytes <= SOURCE_BYTES_MAX
    };
    hits.iter().enumerate().take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_700_000_000_000;

    fn read(body: Value) -> Result<DiscoverRequest, String> {
        let Value::Object(body) = body else { unreachable!() };
        DiscoverRequest::read(body, NOW_MS).map_err(|error| error.body(None, false)["error"]["reason"].to_string())
    }

    fn check_refused(rest: Value, expect: &str) {
        let mut body = json!({"index": "a"});
        body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        let error = read(body).unwrap_err();
        assert!(error.contains(expect), "{error}");
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let request = read(json!({"index": "a,b"})).unwrap();
        assert_eq!(request.question.target.expression, ["a", "b"]);
        assert_eq!(request.question.query_dsl, json!({"match_all": {}}));
        let names: Vec<_> = request.stages.iter().map(Stage::name).collect();
        assert_eq!(names, ["sample", "histogram", "cardinality"]);
        assert_eq!(request.frozen, Frozen::Ask);
    }

    #[test]
    fn everything_that_narrows_is_one_query() {
        let request = read(json!({
            "index": ["a"],
            "time": {"field": "t", "from": "now-1h", "to": "now"},
            "query": {"language": "dsl", "dsl": {"term": {"a": 1}}},
            "filters": [{"exists": {"field": "b"}}],
        }))
        .unwrap();
        let range = json!({"gte": NOW_MS - 3_600_000, "lte": NOW_MS, "format": "epoch_millis"});
        let expect = json!({"bool": {"filter": [
            {"range": {"t": range}}, {"term": {"a": 1}}, {"exists": {"field": "b"}},
        ]}});
        assert_eq!(request.question.query_dsl, expect);
        assert_eq!(
            request.question.sort[0],
            json!({"t": {"order": "desc", "unmapped_type": "date"}})
        );
    }

    #[test]
    fn stages_come_cheapest_first() {
        let request = read(json!({"index": "a", "stages": [
            {"stage": "cardinality", "fields": ["x"]},
            {"stage": "top_values", "field": "x"},
            {"stage": "top_values", "field": "y", "size": 3},
            {"stage": "histogram", "split_by": null, "interval": "auto"},
            {"stage": "sample", "size": 7},
        ]}))
        .unwrap();
        let names: Vec<_> = request
            .stages
            .iter()
            .map(|stage| (stage.name(), stage.field()))
            .collect();
        let expect = [
            ("sample", None),
            ("histogram", None),
            ("top_values", Some("x")),
            ("top_values", Some("y")),
            ("cardinality", None),
        ];
        assert_eq!(names, expect);
        assert!(matches!(
            &request.stages[1],
            Stage::Histogram {
                split_by: SplitBy::Nothing,
                interval: None,
                ..
            }
        ));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        assert!(read(json!({})).unwrap_err().contains("[index] is required"));
        check_refused(json!({"nonsense": 1}), "unexpected field [nonsense]");
        check_refused(json!({"stages": []}), "[stages] must not be empty");
        check_refused(json!({"stages": [{"stage": "x"}]}), "unknown stage [x]");
        check_refused(
            json!({"stages": [{"stage": "sample"}, {"stage": "sample"}]}),
            "occurs twice",
        );
        check_refused(
            json!({"stages": vec![json!({"stage": "sample"}); 17]}),
            "at most [16] entries",
        );
        check_refused(
            json!({"stages": [{"stage": "sample", "size": 1001}]}),
            "between [0] and [1000]",
        );
        check_refused(
            json!({"stages": [{"stage": "top_values"}]}),
            "[field] of stage [top_values] is required",
        );
        check_refused(json!({"frozen": "maybe"}), "[frozen] must be one of");
        check_refused(json!({"filters": [{"nonsense": {}}]}), "unknown query [nonsense]");
        check_refused(
            json!({"filters": vec![json!({"match_all": {}}); 1025]}),
            "at most [1024] entries",
        );
        check_refused(json!({"sort": [{"a": "sideways"}]}), "sideways");
        check_refused(json!({"timeout": "soon"}), "soon");
    }
}
