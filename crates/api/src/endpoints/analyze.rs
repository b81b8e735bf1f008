//! `_analyze`: the tokens that an analyzer produces from a text.

use std::sync::Arc;

use firn_engine::Error;
use firn_engine::admin::AnalyzeRequest;
use firn_model::mapping::{Analyzer, FieldType, Resolved};
use firn_model::metadata::{IndexMetadata, Metadata};
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// Elasticsearch's `index.analyze.max_token_count`.
const MAX_TOKENS: usize = 10_000;

/// `GET /_analyze` and `GET /{index}/_analyze`.
pub(crate) async fn analyze(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let body = AnalyzeBody::parse(call.object()?)?;
    let metadata = edge.metadata_with_mappings(&call).await?;
    let index = index_of(&edge, &call, &metadata)?;
    let (analyzer, field_lowercase) = body.analyzer(index.as_deref())?;
    let request = AnalyzeRequest {
        analyzer,
        text: body.text,
    };
    let tokens = edge.engine.analyze(&call.ctx, request).await?;
    if tokens.len() > MAX_TOKENS {
        return Err(Error::illegal_argument(format!(
            "The number of tokens produced by calling _analyze has exceeded the allowed maximum of [{MAX_TOKENS}]"
        ))
        .into());
    }
    let lowercase = body.lowercase || field_lowercase;
    let tokens: Vec<Value> = tokens
        .into_iter()
        .map(|token| {
            json!({
                "token": if lowercase { token.token.to_lowercase() } else { token.token },
                "start_offset": token.start_offset,
                "end_offset": token.end_offset,
                "type": token.token_type,
                "position": token.position,
            })
        })
        .collect();
    Ok(Reply::ok(&json!({"tokens": tokens})))
}

/// Parsed body.
#[derive(Default)]
struct AnalyzeBody {
    text: Vec<String>,
    analyzer: Option<String>,
    field: Option<String>,
    tokenizer: Option<String>,
    /// The tokens are converted to lower case.
    lowercase: bool,
}

impl AnalyzeBody {
    fn parse(body: Map<String, Value>) -> Result<Self, ApiError> {
        let mut parsed = Self::default();
        for (name, value) in body {
            match (name.as_str(), value) {
                ("text", Value::String(one)) => parsed.text = vec![one],
                ("text", Value::Array(many)) => {
                    let many: Option<Vec<String>> =
                        many.into_iter().map(|one| one.as_str().map(str::to_owned)).collect();
                    parsed.text =
                        many.ok_or_else(|| Error::parsing("[text] must be a string or an array of strings"))?;
                }
                ("analyzer", Value::String(name)) => parsed.analyzer = Some(name),
                ("field", Value::String(name)) => parsed.field = Some(name),
                ("tokenizer", Value::String(name)) => parsed.tokenizer = Some(name),
                ("normalizer", Value::String(name)) if name == "lowercase" => {
                    parsed.tokenizer = Some("keyword".to_owned());
                    parsed.lowercase = true;
                }
                ("explain", Value::Bool(false)) => {}
                ("filter" | "token_filter", Value::Array(filters)) => {
                    if let Some(other) = filters.iter().find(|filter| filter.as_str() != Some("lowercase")) {
                        return Err(Error::not_implemented(format!("the token filter [{other}] of [_analyze]")).into());
                    }
                    parsed.lowercase |= !filters.is_empty();
                }
                ("char_filter", Value::Array(filters)) if filters.is_empty() => {}
                ("normalizer" | "filter" | "token_filter" | "char_filter" | "explain" | "attributes", value) => {
                    return Err(
                        Error::not_implemented(format!("[{name}] of [_analyze] with the value [{value}]")).into(),
                    );
                }
                ("text" | "analyzer" | "field" | "tokenizer", _) => {
                    return Err(Error::parsing(format!("[{name}] of [_analyze] must be a string")).into());
                }
                (other, _) => return Err(Error::parsing(format!("[AnalyzeRequest] unknown field [{other}]")).into()),
            }
        }
        match parsed.text.is_empty() {
            true => Err(ApiError::validation(&["text is missing".to_owned()])),
            false => Ok(parsed),
        }
    }

    /// Returns the analyzer, and whether a normalizer of the field converts its tokens to lower case.
    fn analyzer(&self, index: Option<&IndexMetadata>) -> Result<(Analyzer, bool), Error> {
        match (&self.analyzer, &self.tokenizer, &self.field) {
            (Some(name), None, _) => Ok((by_name(name, index.is_some())?, false)),
            (None, Some(name), _) => Ok((by_tokenizer(name, self.lowercase)?, false)),
            (Some(_), Some(_), _) => Err(Error::illegal_argument(
                "[_analyze] takes [analyzer] or [tokenizer], not both",
            )),
            (None, None, Some(field)) => {
                let index = index
                    .ok_or_else(|| Error::illegal_argument("analysis based on a specific field requires an index"))?;
                of_field(index, field)
            }
            (None, None, None) => Ok((Analyzer::Standard, false)),
        }
    }
}

/// Returns the index of the request; `None`: it names none.
fn index_of(edge: &Edge, call: &Call, metadata: &Metadata) -> Result<Option<Arc<IndexMetadata>>, ApiError> {
    let Some(name) = call.captured("index").or_else(|| call.params.get("index")) else {
        return Ok(None);
    };
    let target = call.params.target(Some(name), Default::default())?;
    match edge.resolve(&target, metadata)?.as_slice() {
        [index] => Ok(Some(Arc::clone(index))),
        _ => Err(Error::illegal_argument(format!(
            "[_analyze] needs one index, but [{name}] names several or none"
        ))
        .into()),
    }
}

/// Returns the analyzer that equals a tokenizer, with the filter to lower case or without it.
fn by_tokenizer(name: &str, lowercase: bool) -> Result<Analyzer, Error> {
    match name {
        "keyword" => Ok(Analyzer::Keyword),
        "whitespace" => Ok(Analyzer::Whitespace),
        // These analyzers equal their tokenizer plus lower case.
        "standard" if lowercase => Ok(Analyzer::Standard),
        "letter" | "lowercase" if lowercase || name == "lowercase" => Ok(Analyzer::Simple),
        _ => Err(Error::not_implemented(format!("the tokenizer [{name}] of [_analyze]"))),
    }
}

fn by_name(name: &str, in_index: bool) -> Result<Analyzer, Error> {
    match name {
        "standard" | "default" => Ok(Analyzer::Standard),
        "simple" => Ok(Analyzer::Simple),
        "whitespace" => Ok(Analyzer::Whitespace),
        "keyword" => Ok(Analyzer::Keyword),
        "stop" | "english" | "pattern" | "fingerprint" => Err(Error::not_implemented(format!("the analyzer [{name}]"))),
        other => Err(Error::illegal_argument(format!(
            "failed to find {}analyzer [{other}]",
            if in_index { "" } else { "global " }
        ))),
    }
}

/// Returns the analyzer of a field, and whether its normalizer converts values to lower case.
fn of_field(index: &IndexMetadata, field: &str) -> Result<(Analyzer, bool), Error> {
    match index.mapping.resolve(field) {
        Some(Resolved::Field(_, mapping)) => match mapping.field_type {
            FieldType::Text | FieldType::MatchOnlyText => Ok((mapping.analyzer, false)),
            FieldType::Keyword | FieldType::Wildcard | FieldType::ConstantKeyword => {
                Ok((Analyzer::Keyword, mapping.lowercase))
            }
            other => Err(Error::illegal_argument(format!(
                "Can't process field [{field}], Analysis requests are only supported on tokenized fields (it is [{}])",
                other.name()
            ))),
        },
        Some(Resolved::Flattened(..)) => Ok((Analyzer::Keyword, false)),
        // As in Elasticsearch, an unmapped field has the index's default analyzer.
        Some(Resolved::Object(_)) | None => Ok((Analyzer::Standard, false)),
    }
}
