//! `_firn/rules/_import` and `_export`: detection rules as texts.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use firn_detect::check_selection;
use firn_detect::import::{self, Import, ImportOptions, NotTaken, PipelineIndices, TEXT_BYTES_MAX};
use firn_engine::{Error, ErrorKind};
use firn_model::dates::{DateFormat, Zone};
use firn_model::metadata::{Command, DetectionCommand};
use firn_pipeline::definition::Definition;
use futures_util::{StreamExt as _, stream};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::rule_run::typed_body;
use crate::state::edge::Edge;
use crate::wire::blocking;
use crate::wire::error::ApiError;
use crate::wire::media_type::Format;
use crate::wire::reply::{Body, Reply};
use crate::wire::streaming::Streamed;

pub(crate) const IMPORT_PARAMS: &[&str] = &["enabled", "tenant", "channels", "overwrite"];

/// Bytes of an export that are printed at a time; a longer rule is printed as a whole.
const PIECE_BYTES: usize = 64 << 10;

/// `POST /_firn/rules/_import`: stores the rules of a text under their own ids: Sigma rules in YAML, or rules of Kibana or firn in
/// NDJSON. The answer names what was not taken, and why; the others are stored all or none.
pub(crate) async fn import(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let body = call.required_body()?;
    if body.len() > TEXT_BYTES_MAX {
        let reason = format!(
            "the rules of one import have at most [{TEXT_BYTES_MAX}] bytes, not [{}]",
            body.len()
        );
        return Err(Error::new(ErrorKind::TooLarge, reason).into());
    }
    let text = String::from_utf8(body.to_vec()).map_err(|_| Error::parsing("the rules are not UTF-8"))?;
    let is_ndjson = call.content_format == Some(Format::Ndjson);
    // Kibana does not overwrite existing rules by default; Sigma rules are files that are imported again and again.
    let overwrite = call.params.bool("overwrite", !is_ndjson)?;
    let mut options = options(&edge, &call)?;
    options.pipelines = pipelines(&edge, &call).await?;
    let read = move || match is_ndjson {
        true => import::ndjson(&text, &options),
        false => import::sigma_yaml(&text, &options),
    };
    let mut import = blocking::print(read).await??;
    if !overwrite {
        refuse_existing(&edge, &call, &mut import).await?;
    }
    let imported: Vec<String> = import.rules.iter().map(|rule| rule.id.clone()).collect();
    let refused: Vec<Value> = import
        .refused
        .iter()
        .map(|rule| json!({"line": rule.line, "id": rule.id, "name": rule.name, "reason": rule.reason}))
        .collect();
    let [not_taken, notes] = [false, true].map(|are_notes| parts(&import, are_notes));
    if !import.rules.is_empty() {
        let rules = import.rules.into_iter().map(|rule| (rule.id, rule.definition));
        let command = Command::Detection(DetectionCommand::PutRules(rules.collect()));
        edge.engine.execute(&call.ctx, command).await?;
    }
    let answer = json!({"imported": imported, "refused": refused, "not_taken": not_taken, "notes": notes});
    Ok(blocking::print(move || Reply::ok(&answer)).await?)
}

fn options(edge: &Edge, call: &Call) -> Result<ImportOptions, ApiError> {
    let mut members = Map::new();
    if let Some(enabled) = call.params.flag("enabled")? {
        members.insert("enabled".to_owned(), enabled.into());
    }
    if let Some(tenant) = call.params.get("tenant") {
        members.insert("tenant".to_owned(), tenant.into());
    }
    if let Some(channels) = call.params.get("channels") {
        let channels: Vec<&str> = channels.split(',').collect();
        members.insert("channels".to_owned(), channels.into());
    }
    Ok(ImportOptions {
        members,
        now_ms: edge.now_ms(),
        pipelines: Vec::new(),
    })
}

/// Returns the pipelines, and where their events are.
async fn pipelines(edge: &Edge, call: &Call) -> Result<Vec<PipelineIndices>, ApiError> {
    let metadata = edge.metadata(call).await?;
    let pipelines = metadata.event_pipelines.by_id.iter().filter_map(|(id, body)| {
        let definition = Definition::parse(id, body).ok()?;
        Some(PipelineIndices {
            id: id.clone(),
            indices: definition.event_indices().to_vec(),
        })
    });
    Ok(pipelines.collect())
}

/// Refuses the rules whose ids are taken.
async fn refuse_existing(edge: &Edge, call: &Call, import: &mut Import) -> Result<(), ApiError> {
    let metadata = edge.metadata(call).await?;
    let stored = &metadata.detection_rules.by_id;
    let rules = std::mem::take(&mut import.rules);
    let (existing, new): (Vec<_>, Vec<_>) = rules.into_iter().partition(|rule| stored.contains_key(&rule.id));
    import.rules = new;
    let refused = existing.into_iter().map(|rule| import::RefusedRule {
        line: rule.line,
        reason: format!("a rule [{}] exists; [overwrite=true] replaces it", rule.id),
        id: rule.id,
        name: rule.name,
    });
    import.refused.extend(refused);
    import.refused.sort_by_key(|rule| rule.line);
    Ok(())
}

/// Returns what the text says and firn does not take over, or takes over in another way, by its lines.
fn parts(import: &Import, are_notes: bool) -> Vec<Value> {
    let print = |line: usize, id: &str, name: &str, members: &[NotTaken]| {
        let members = members.iter().filter(|part| part.is_note == are_notes);
        let members: Vec<Value> = members
            .map(|part| json!({"member": part.member, "reason": part.reason}))
            .collect();
        let part = json!({"line": line, "id": id, "name": name, "members": members});
        (!members.is_empty()).then_some((line, part))
    };
    let of_rules = import.rules.iter();
    let of_rules = of_rules.map(|rule| print(rule.line, &rule.id, &rule.name, &rule.not_taken));
    let others = import.unused.iter();
    let others = others.map(|part| print(part.line, &part.id, &part.name, std::slice::from_ref(&part.not_taken)));
    let mut parts: Vec<(usize, Value)> = of_rules.chain(others).flatten().collect();
    parts.sort_by_key(|(line, _)| *line);
    parts.into_iter().map(|(_, part)| part).collect()
}

/// Body of `POST /_firn/rules/_export`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Selection {
    #[serde(default)]
    ids: Option<BTreeSet<String>>,
}

/// Text of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExportFormat {
    Ndjson,
    Sigma,
}

type StoredRule = (String, Arc<Map<String, Value>>);

/// `GET /_firn/rules/_export`, and `POST` with `{"ids": […]}`: the definitions as NDJSON, which an import stores again as they are, or
/// the Sigma rules as YAML.
pub(crate) async fn export(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let format = match call.params.get("format") {
        None | Some("ndjson") => ExportFormat::Ndjson,
        Some("sigma") => ExportFormat::Sigma,
        Some(other) => {
            let reason = format!("[format] of an export of rules is one of [ndjson, sigma], not [{other}]");
            return Err(Error::illegal_argument(reason).into());
        }
    };
    let selection: Selection = typed_body(Value::Object(call.object()?), check_selection)?;
    let metadata = edge.metadata(&call).await?;
    let stored = &metadata.detection_rules.by_id;
    let (mut rules, mut missing): (Vec<StoredRule>, Vec<String>) = (Vec::new(), Vec::new());
    match selection.ids {
        None => rules.extend(stored.iter().map(|(id, rule)| (id.clone(), Arc::clone(rule)))),
        Some(ids) => {
            for id in ids {
                match stored.get(&id) {
                    Some(rule) => rules.push((id, Arc::clone(rule))),
                    None => missing.push(id),
                }
            }
        }
    }
    let (content_type, extension) = match format {
        ExportFormat::Ndjson => ("application/x-ndjson", "ndjson"),
        ExportFormat::Sigma => ("application/yaml", "yml"),
    };
    let at = DateFormat::new("yyyyMMdd'T'HHmmss'Z'")?.print_ms(edge.now_ms(), &Zone::utc());
    let name = format!("attachment; filename=\"rules-{at}.{extension}\"");
    let name = HeaderValue::from_str(&name).map_err(|error| Error::internal(error.to_string()))?;
    Ok(Reply {
        status: StatusCode::OK,
        body: Body::Stream(Streamed {
            content_type,
            headers: vec![(header::CONTENT_DISPOSITION.as_str(), name)],
            pieces: stream::iter(pieces(rules, &missing, format).map(Ok)).boxed(),
            endless: false,
        }),
    })
}

/// Returns an iterator over the text in pieces, each printed when the client has taken the one before.
fn pieces(
    rules: Vec<StoredRule>,
    missing: &[String],
    format: ExportFormat,
) -> impl Iterator<Item = Bytes> + Send + use<> {
    let is_exported = |rule: &Map<String, Value>| format == ExportFormat::Ndjson || import::sigma_text(rule).is_some();
    let exported = rules.iter().filter(|(_, rule)| is_exported(rule)).count();
    let (head, tail) = match format {
        ExportFormat::Ndjson => (String::new(), import::summary_line(exported, missing)),
        // In a document of its own, which has no content.
        ExportFormat::Sigma => (
            format!(
                "# {exported} Sigma rules; rules of other types: {}; missing: {}\n",
                rules.len() - exported,
                missing.len()
            ),
            String::new(),
        ),
    };
    let lines = rules.into_iter().filter_map(move |(id, rule)| match format {
        ExportFormat::Ndjson => Some(import::rule_line(&id, &rule)),
        ExportFormat::Sigma => import::sigma_text(&rule),
    });
    let mut texts = std::iter::once(head).chain(lines).chain(std::iter::once(tail));
    std::iter::from_fn(move || {
        let mut piece = String::new();
        while piece.len() < PIECE_BYTES {
            match texts.next() {
                Some(text) => piece += &text,
                None => break,
            }
        }
        (!piece.is_empty()).then(|| Bytes::from(piece))
    })
}
