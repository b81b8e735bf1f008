//! `_firn/discover/export`: all events of a question as a file.
//!
//! The export reads ([`reading`]) from a point in time in two steps, so that memory does not grow with the number of
//! events: first the ids of some hundred events in the requested order, then as many of these events at a time as their
//! size allows. It reads only after the client has taken the previous events and, for snapshot repositories, only after
//! the client knows the cost ([`cost`]). If an error occurs, the last line says so and the connection is aborted, so
//! that no client takes a part for the whole.

mod cost;
mod format;
mod reading;

use std::sync::Arc;

use firn_engine::{Error, ErrorKind};
use firn_model::dates::{DateFormat, Zone};
use firn_model::mapping::{FieldType, Mapping, Resolved};
use firn_model::metadata::Metadata;
use firn_model::names::matches_pattern;
use futures_util::StreamExt as _;
use http::{HeaderValue, StatusCode, header};
use indexmap::IndexSet;
use serde_json::{Map, Value};

use super::csv::Table;
use super::known_fields;
use super::request::{BODY_BYTES_MAX, EventSelection, Frozen};
use crate::endpoints::call::Call;
use crate::endpoints::shared_point_in_time::SharedPointInTime;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::form_urlencoded;
use crate::wire::json_body::parse_json;
use crate::wire::json_fields::Fields;
use crate::wire::reply::{Body, Reply};
use crate::wire::streaming::Streamed;
use format::{Columns, Format};
use reading::{Export, ExportRequest};

/// Header with the number of events, for progress displays.
const TOTAL_HEADER: &str = "x-firn-total";
/// Maximum columns of a table.
const COLUMNS_MAX: usize = 5000;
/// Maximum constants of several indices.
const LOOKED_UP_MAX: usize = 100;
/// Maximum bytes of a form: URL encoding triples special characters.
const FORM_BYTES_MAX: usize = 3 * BODY_BYTES_MAX;

/// `POST /_firn/discover/export`.
pub(crate) async fn export(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let now_ms = edge.now_ms();
    let mut fields = Fields::new("discover request", request_body(&call)?);
    let format = fields.string("format")?;
    let frozen = Frozen::take(&mut fields)?;
    if frozen == Frozen::Background {
        let reason = "[frozen] of an export must be one of [ask, run], found [background]: exports need a client";
        return Err(Error::illegal_argument(reason).into());
    }
    let question = EventSelection::take(&mut fields, now_ms)?;
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
    // The export counts as a search of its tenant until it ends.
    let discover = edge.discovers.open(
        Arc::clone(&call.ctx.scope),
        call.ctx.cancel.clone(),
        None,
        &*edge.config.random,
    )?;
    let place = edge.discovers.place(discover);
    let reads_repositories = known_fields::any_mounted(&metadata, &indices);
    let allowance = cost::agree(&edge, &call.ctx, &question, frozen, reads_repositories).await?;
    let moment =
        SharedPointInTime::open(&edge, &call.ctx, &question.target, Vec::new(), question.time_query()?).await?;
    let content_type = format.content_type();
    let disposition = disposition(&question, now_ms, &format)?;
    let export = Export::begin(ExportRequest {
        edge,
        ctx: call.ctx.clone(),
        moment,
        indices,
        place,
        question,
        format,
        allowance,
        timings: Arc::clone(&call.timings),
    })
    .await?;
    let headers = vec![
        (TOTAL_HEADER, HeaderValue::from(export.total())),
        (header::CONTENT_DISPOSITION.as_str(), disposition),
    ];
    Ok(Reply {
        status: StatusCode::OK,
        body: Body::Stream(Streamed {
            content_type,
            headers,
            pieces: export.pieces().boxed(),
            endless: false,
        }),
    })
}

/// Returns the request as JSON: the body, or the field `request` of a form.
fn request_body(call: &Call) -> Result<Map<String, Value>, ApiError> {
    let first = call.body.iter().find(|byte| !byte.is_ascii_whitespace());
    if matches!(first, None | Some(b'{')) {
        return super::opening::body(call);
    }
    if call.body.len() > FORM_BYTES_MAX {
        let reason = format!(
            "a form of [{}] bytes is longer than the limit of [{FORM_BYTES_MAX}]",
            call.body.len()
        );
        return Err(Error::new(ErrorKind::TooLarge, reason).into());
    }
    let body = std::str::from_utf8(&call.body).map_err(|_| Error::illegal_argument("the form is not UTF-8"))?;
    let request = form_urlencoded::field(body, "request")?
        .ok_or_else(|| Error::illegal_argument("a form must have the request in its field [request]"))?;
    match parse_json(request.as_bytes())? {
        Value::Object(request) => Ok(request),
        other => Err(Error::parsing(format!("expected a JSON object in [request] but found [{other}]")).into()),
    }
}

/// Returns the requested columns. Patterns match fields in use; without a request all fields in use are columns.
async fn columns(
    edge: &Edge,
    call: &Call,
    question: &EventSelection,
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
        let mut in_use: Vec<String> = known_fields::in_use(edge, &call.ctx, question)
            .await?
            .into_iter()
            .collect();
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

/// Returns whether a field is neither an alias nor a subfield, which repeat the values of another field.
fn is_own(mapping: &Mapping, path: &str) -> bool {
    let parent = path.rsplit_once('.').and_then(|(parent, _)| mapping.resolve(parent));
    let is_itself = matches!(mapping.resolve(path), Some(Resolved::Field(stored, _)) if stored == path);
    is_itself && !matches!(parent, Some(Resolved::Field(..)))
}

fn is_constant(mapping: &Mapping, path: &str) -> bool {
    matches!(mapping.resolve(path), Some(Resolved::Field(_, field)) if field.field_type == FieldType::ConstantKeyword)
}

/// Builds a file name with the source and the time of the request.
fn disposition(question: &EventSelection, now_ms: i64, format: &Format) -> Result<HeaderValue, Error> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_has_a_name_that_every_system_takes() {
        let body = json!({"index": "logs-*,<é\"\r\n/>"});
        let mut fields = Fields::new("discover request", body.as_object().unwrap().clone());
        let question = EventSelection::take(&mut fields, 0).unwrap();
        let name = disposition(&question, 1_774_787_696_789, &Format::Ndjson).unwrap();
        assert_eq!(name, "attachment; filename=\"logs-_________-20260329T123456Z.ndjson\"");
    }
}
