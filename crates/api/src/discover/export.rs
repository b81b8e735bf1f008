//! `_firn/discover/export`: all events of a question as a file.
//!
//! They are read from a point in time, in two steps so that memory does not grow with them: some hundred places in the
//! order that is asked for, then the events at some of these, as many at a time as their size allows. Nothing is read
//! before the client has taken what came before. If something fails on the way, the connection breaks off, so that
//! nobody takes a part for the whole.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use firn_engine::search::Hit;
use firn_engine::{Error, ErrorKind};
use firn_model::dates::{DateFormat, Zone};
use firn_model::mapping::{FieldType, Mapping, Resolved};
use firn_model::metadata::Metadata;
use firn_model::names::matches_pattern;
use futures_util::{Stream, StreamExt as _, stream};
use http::{HeaderValue, StatusCode, header};
use indexmap::IndexSet;
use serde_json::{Map, Value, json};

use super::csv::Table;
use super::known;
use super::moment::Moment;
use super::request::{BODY_BYTES_MAX, Question};
use super::store::Place;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::form;
use crate::record::{StageTiming, Timings};
use crate::reply::{Body, Reply};
use crate::request::{Call, Edge, parse_json};
use crate::streaming::Streamed;

/// How many events there are, for whoever shows how far it is.
const TOTAL_HEADER: &str = "x-firn-total";
/// Places that are read ahead: each search goes over all that match.
const PLACES: usize = 2000;
/// Events that are read at once: what they may take is bounded by the longest that may be sent.
const BATCH_MAX: usize = 64;
const BATCH_FIRST: usize = 8;
/// Bytes of events that are read at once, about.
const BATCH_BYTES: usize = 1 << 20;
/// Columns of a table.
const COLUMNS_MAX: usize = 5000;
/// Constants of several indices.
const LOOKED_UP_MAX: usize = 100;
/// Bytes of a form: what is no letter takes three times as many.
const FORM_BYTES_MAX: usize = 3 * BODY_BYTES_MAX;

/// What is told of each event.
struct Columns {
    table: Table,
    /// Those that may be in no event as it was sent.
    looked_up: Vec<String>,
}

/// How events are written.
enum Format {
    /// With a line of names.
    Csv(Columns),
    /// Each as it was sent, but on one line.
    Ndjson,
}

impl Format {
    fn content_type(&self) -> &'static str {
        match self {
            Self::Csv(_) => "text/csv; charset=utf-8; header=present",
            Self::Ndjson => "application/x-ndjson",
        }
    }

    fn extension(&self) -> &'static str {
        match self {
            Self::Csv(_) => "csv",
            Self::Ndjson => "ndjson",
        }
    }

    fn write(&self, output: &mut Vec<u8>, hit: &Hit) -> Result<(), Error> {
        match self {
            Self::Csv(columns) => columns.table.write(output, hit),
            Self::Ndjson => {
                let source = hit.source.as_deref().unwrap_or(b"{}");
                let on_one_line = source.iter().map(|byte| match byte {
                    b'\n' | b'\r' => b' ',
                    other => *other,
                });
                output.extend(on_one_line);
                output.push(b'\n');
                Ok(())
            }
        }
    }
}

/// `POST /_firn/discover/export`.
pub(crate) async fn export(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let now_ms = edge.now_ms();
    let mut fields = Fields::new("discover request", asked(&call)?);
    let format = fields.string("format")?;
    let question = Question::take(&mut fields, now_ms)?;
    fields.finish()?;
    let metadata = edge.metadata_with_mappings(&call).await?;
    let indices = edge.resolve_names(&question.target, &metadata)?;
    let format = match format.as_deref() {
        None | Some("ndjson") => Format::Ndjson,
        Some("csv") => Format::Csv(columns(&edge, &call, &question, &metadata, &indices).await?),
        Some(other) => {
            let reason = format!("[format] must be one of [csv, ndjson], found [{other}]");
            return Err(Error::illegal_argument(reason).into());
        }
    };
    // Counted as one of its tenant for as long as it runs.
    let discover = edge.discovers.open(
        Arc::clone(&call.ctx.scope),
        call.ctx.cancel.clone(),
        None,
        &*edge.config.random,
    )?;
    let place = edge.discovers.place(discover);
    let moment = Moment::open(&edge, &call.ctx, &question, question.time_query()?).await?;
    let total = count(&moment, &question).await?;
    let headers = vec![
        (TOTAL_HEADER, HeaderValue::from(total)),
        (
            header::CONTENT_DISPOSITION.as_str(),
            disposition(&question, now_ms, &format)?,
        ),
    ];
    let mut export = Export {
        head: match &format {
            Format::Csv(columns) => columns.table.head(),
            Format::Ndjson => Vec::new(),
        },
        moment,
        place,
        question,
        total,
        told: 0,
        places: VecDeque::new(),
        after: None,
        batch: BATCH_FIRST,
        is_over: false,
        timings: Arc::clone(&call.timings),
        started: call.ctx.started,
        format,
    };
    // What is wrong with the order is told while that can still be told.
    export.read_places().await?;
    Ok(Reply {
        status: StatusCode::OK,
        body: Body::Stream(Streamed {
            content_type: export.format.content_type(),
            headers,
            pieces: export.pieces().boxed(),
            endless: false,
        }),
    })
}

/// The request: the body, or of a form its field of that name.
fn asked(call: &Call) -> Result<Map<String, Value>, ApiError> {
    let first = call.body.iter().find(|byte| !byte.is_ascii_whitespace());
    if matches!(first, None | Some(b'{')) {
        return super::body(call);
    }
    if call.body.len() > FORM_BYTES_MAX {
        let reason = format!(
            "a form of [{}] bytes is longer than the limit of [{FORM_BYTES_MAX}]",
            call.body.len()
        );
        return Err(Error::new(ErrorKind::TooLarge, reason).into());
    }
    let body = std::str::from_utf8(&call.body).map_err(|_| Error::illegal_argument("the form is not UTF-8"))?;
    let request = form::field(body, "request")?
        .ok_or_else(|| Error::illegal_argument("a form must have the request in its field [request]"))?;
    match parse_json(request.as_bytes())? {
        Value::Object(request) => Ok(request),
        other => Err(Error::parsing(format!("expected a JSON object in [request] but found [{other}]")).into()),
    }
}

/// The columns that are asked for, patterns as what is in use; all that is in use if none are.
async fn columns(
    edge: &Edge,
    call: &Call,
    question: &Question,
    metadata: &Metadata,
    indices: &[String],
) -> Result<Columns, ApiError> {
    let is_pattern = |name: &String| name.contains('*');
    let patterns = match question.columns.is_empty() {
        true => vec!["*".to_owned()],
        false => question.columns.clone(),
    };
    let mut looked_up: Vec<String> = patterns.iter().filter(|name| !is_pattern(name)).cloned().collect();
    let mut columns: Vec<String> = Vec::new();
    if looked_up.len() < patterns.len() {
        let mappings = || {
            let indices = indices.iter().filter_map(|name| metadata.indices.get(name));
            indices.map(|index| &index.mapping)
        };
        let mut in_use: Vec<String> = known::in_use(edge, &call.ctx, question).await?.into_iter().collect();
        in_use.retain(|path| mappings().any(|mapping| is_own(mapping, path)));
        let time = question.time.as_ref().map(|time| &time.field);
        in_use.sort_by_key(|path| Some(path) != time);
        let is_constant = |path: &&String| mappings().any(|mapping| is_constant(mapping, path));
        looked_up.extend(in_use.iter().filter(is_constant).take(LOOKED_UP_MAX).cloned());
        columns = in_use;
    }
    let meant = patterns.iter().flat_map(|pattern| match is_pattern(pattern) {
        true => columns
            .iter()
            .filter(|path| matches_pattern(pattern, path))
            .cloned()
            .collect(),
        false => vec![pattern.clone()],
    });
    let columns: IndexSet<String> = meant.collect();
    match columns.len() <= COLUMNS_MAX {
        true => Ok(Columns {
            table: Table::new(columns.into_iter().collect()),
            looked_up,
        }),
        false => Err(Error::illegal_argument(format!(
            "a table may have at most [{COLUMNS_MAX}] columns, found [{}]: name those that are wanted in [columns]",
            columns.len()
        ))
        .into()),
    }
}

/// Not an alias, nor a field of a field, which say again what another says.
fn is_own(mapping: &Mapping, path: &str) -> bool {
    let parent = path.rsplit_once('.').and_then(|(parent, _)| mapping.resolve(parent));
    let is_itself = matches!(mapping.resolve(path), Some(Resolved::Field(stored, _)) if stored == path);
    is_itself && !matches!(parent, Some(Resolved::Field(..)))
}

fn is_constant(mapping: &Mapping, path: &str) -> bool {
    matches!(mapping.resolve(path), Some(Resolved::Field(_, field)) if field.field_type == FieldType::ConstantKeyword)
}

async fn count(moment: &Moment, question: &Question) -> Result<u64, ApiError> {
    let mut request = moment.request(&question.query_dsl, json!({"size": 0, "track_total_hits": true}))?;
    request.allow_partial_results = false;
    let response = moment.search(request).await?;
    Ok(response.total.map_or(0, |total| total.value))
}

/// A name of a file that says what is in it and when it was asked for.
fn disposition(question: &Question, now_ms: i64, format: &Format) -> Result<HeaderValue, Error> {
    const NAME_CHARS_MAX: usize = 100;
    let source: String = question
        .target
        .expression
        .join("_")
        .chars()
        .map(|letter| match letter {
            letter if letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_') => letter,
            _ => '_',
        })
        .take(NAME_CHARS_MAX)
        .collect();
    let at = DateFormat::new("yyyyMMdd'T'HHmmss'Z'")?.print_ms(now_ms, &Zone::utc());
    let value = format!("attachment; filename=\"{source}-{at}.{}\"", format.extension());
    HeaderValue::from_str(&value).map_err(|error| Error::internal(error.to_string()))
}

/// Where an event stands.
struct Key {
    index: String,
    id: String,
    sort: Vec<Value>,
}

/// A file on its way.
struct Export {
    moment: Moment,
    /// Also says whether somebody ended it.
    place: Place,
    question: Question,
    format: Format,
    /// What was not sent yet of what stands before the first event.
    head: Vec<u8>,
    total: u64,
    /// Events so far.
    told: u64,
    /// Of the next events.
    places: VecDeque<Key>,
    /// Where the last event stood that was told.
    after: Option<Vec<Value>>,
    /// Events that are read next.
    batch: usize,
    /// No more places follow.
    is_over: bool,
    timings: Arc<Timings>,
    started: Instant,
}

impl Export {
    fn pieces(self) -> impl Stream<Item = std::io::Result<Bytes>> + Send {
        stream::unfold(Some(self), |export| async move {
            let mut export = export?;
            match export.next().await {
                Ok(Some(piece)) => Some((Ok(piece), Some(export))),
                Ok(None) => {
                    export.ended("done");
                    None
                }
                Err(error) => {
                    tracing::warn!(?error, told = export.told, total = export.total, "an export broke off");
                    export.ended("failed");
                    Some((Err(std::io::Error::other("the export failed")), None))
                }
            }
        })
    }

    fn ended(&self, outcome: &'static str) {
        self.timings.push(StageTiming {
            stage: "export",
            outcome,
            took: self.started.elapsed(),
        });
    }

    /// The next lines; `None`: that was all.
    async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        if self.place.is_over() {
            return Err(Error::new(ErrorKind::Cancelled, "the export was cancelled").into());
        }
        let mut output = std::mem::take(&mut self.head);
        if self.places.is_empty() && !self.is_over {
            self.read_places().await?;
        }
        let count = self.batch.min(self.places.len());
        if count == 0 {
            return match (output.is_empty(), self.told == self.total) {
                (false, _) => Ok(Some(output.into())),
                (true, true) => Ok(None),
                (true, false) => Err(self.lost()),
            };
        }
        let keys: Vec<Key> = self.places.drain(..count).collect();
        let hits = self.read(&keys).await?;
        let mut bytes = 0;
        for hit in &hits {
            bytes += hit.source.as_ref().map_or(0, Bytes::len);
            self.format.write(&mut output, hit)?;
        }
        self.told += hits.len() as u64;
        self.batch = next_batch(count, bytes);
        self.after = keys.into_iter().next_back().map(|key| key.sort);
        Ok(Some(output.into()))
    }

    /// Finds where the next events stand, without reading them.
    async fn read_places(&mut self) -> Result<(), ApiError> {
        let mut body = self.body(PLACES);
        body["_source"] = false.into();
        let hits = self.search(&self.question.query_dsl, body).await?;
        self.is_over = hits.len() < PLACES;
        self.places = hits
            .into_iter()
            .map(|hit| Key {
                index: hit.index,
                id: hit.id,
                sort: hit.sort,
            })
            .collect();
        Ok(())
    }

    /// Reads the events of the next places.
    async fn read(&self, keys: &[Key]) -> Result<Vec<Hit>, ApiError> {
        let mut indices: Vec<&str> = keys.iter().map(|key| key.index.as_str()).collect();
        indices.sort_unstable();
        indices.dedup();
        let ids: Vec<&str> = keys.iter().map(|key| key.id.as_str()).collect();
        // What is no place of these, by the query or by the order, is not among them though it may have one's id.
        let query = json!({"bool": {"filter": [
            {"terms": {"_index": indices}},
            {"ids": {"values": ids}},
            self.question.query_dsl,
        ]}});
        let mut body = self.body(keys.len());
        if let Format::Csv(columns) = &self.format
            && !columns.looked_up.is_empty()
        {
            body["fields"] = json!(columns.looked_up);
        }
        let hits = self.search(&query, body).await?;
        let is_same = |(hit, key): (&Hit, &Key)| hit.id == key.id && hit.index == key.index;
        match hits.len() == keys.len() && hits.iter().zip(keys).all(is_same) {
            true => Ok(hits),
            false => Err(self.lost()),
        }
    }

    fn body(&self, size: usize) -> Value {
        let mut body = json!({"size": size, "sort": self.question.sort, "track_total_hits": false});
        if let Some(after) = &self.after {
            body["search_after"] = after.clone().into();
        }
        body
    }

    async fn search(&self, query: &Value, body: Value) -> Result<Vec<Hit>, ApiError> {
        let mut request = self.moment.request(query, body)?;
        request.allow_partial_results = false;
        Ok(self.moment.search(request).await?.hits)
    }

    fn lost(&self) -> ApiError {
        let (told, total) = (self.told, self.total);
        Error::internal(format!("a bug: [{told}] events of [{total}] were found again")).into()
    }
}

/// How many events are read next after so many of so many bytes: soon fewer if they are long, slowly more if they are short.
fn next_batch(count: usize, bytes: usize) -> usize {
    let each = (bytes / count.max(1)).max(1);
    (BATCH_BYTES / each)
        .clamp(1, BATCH_MAX)
        .min(2 * count.max(BATCH_FIRST / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_events_are_read_one_by_one() {
        assert_eq!(next_batch(8, 8 * 500), 16);
        assert_eq!(next_batch(64, 64 * 500), 64);
        assert_eq!(next_batch(64, 64 << 20), 1);
        assert_eq!(next_batch(1, 500), 8);
        assert_eq!(next_batch(1, 4 << 20), 1);
    }

    #[test]
    fn a_file_has_a_name_that_every_system_takes() {
        let body = json!({"index": "logs-*,<é\"\r\n/>"});
        let mut fields = Fields::new("discover request", body.as_object().unwrap().clone());
        let question = Question::take(&mut fields, 0).unwrap();
        let name = disposition(&question, 1_774_787_696_789, &Format::Ndjson).unwrap();
        assert_eq!(name, "attachment; filename=\"logs-_________-20260329T123456Z.ndjson\"");
    }
}
