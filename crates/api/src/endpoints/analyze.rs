//! `_analyze`: the tokens that an analyzer produces from a text.

use std::sync::Arc;

use firn_engine::Error;
use firn_engine::admin::AnalyzeRequest;
use firn_model::mapping::{Analyzer, FieldType, Resolved};
use firn_model::metadata::IndexMetadata;
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// Elasticsearch's `index.analyze.max_token_count`.
const MAX_TOKENS: usize = 10_000;

/// `GET /_analyze` and `GET /{index}/_analyze`.
pub(crate) async fn analyze(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let body = call.object()?;
    let mut text = None;
    let mut analyzer_name = None;
    let mut field = None;
    let mut tokenizer = None;
    let mut lowercase = false;
    for (name, value) in body {
        match (name.as_str(), value) {
            ("text", Value::String(one)) => text = Some(vec![one]),
            ("text", Value::Array(many)) => {
                let many: Option<Vec<String>> = many.into_iter().map(|one| one.as_str().map(str::to_owned)).collect();
                text = Some(many.ok_or_else(|| Error::parsing("[text] must be a string or an array of strings"))?);
            }
            ("analyzer", Value::String(name)) => analyzer_name = Some(name),
            ("field", Value::String(name)) => field = Some(name),
            ("tokenizer", Value::String(name)) => tokenizer = Some(name),
            ("normalizer", Value::String(name)) if name == "lowercase" => {
                tokenizer = Some("keyword".to_owned());
                lowercase = true;
            }
            ("explain", Value::Bool(false)) => {}
            ("filter" | "token_filter", Value::Array(filters)) => {
                for filter in filters {
                    match filter.as_str() {
                        Some("lowercase") => lowercase = true,
                        _ => {
                            return Err(
                                Error::not_implemented(format!("the token filter [{filter}] of [_analyze]")).into(),
                            );
                        }
                    }
                }
            }
            ("char_filter", Value::Array(filters)) if filters.is_empty() => {}
            ("normalizer" | "filter" | "token_filter" | "char_filter" | "explain" | "attributes", value) => {
                return Err(Error::not_implemented(format!("[{name}] of [_analyze] with the value [{value}]")).into());
            }
            ("text" | "analyzer" | "field" | "tokenizer", _) => {
                return Err(Error::parsing(format!("[{name}] of [_analyze] must be a string")).into());
            }
            (other, _) => return Err(Error::parsing(format!("[AnalyzeRequest] unknown field [{other}]")).into()),
        }
    }
    let text = text
        .filter(|text| !text.is_empty())
        .ok_or_else(|| ApiError::validation(&["text is missing".to_owned()]))?;
    let metadata = edge.metadata_with_mappings(&call).await?;
    let index_name = call.captured("index").or_else(|| call.params.get("index"));
    let index = match index_name {
        None => None,
        Some(name) => {
            let target = call.params.target(Some(name), Default::default())?;
            match edge.resolve(&target, &metadata)?.as_slice() {
                [index] => Some(Arc::clone(index)),
                _ => {
                    return Err(Error::illegal_argument(format!(
                        "[_analyze] needs one index, but [{name}] names several or none"
                    ))
                    .into());
                }
            }
        }
    };
    let (analyzer, field_lowercase) = match (analyzer_name, tokenizer, field) {
        (Some(name), None, _) => (by_name(&name, index.is_some())?, false),
        (None, Some(name), _) => match name.as_str() {
            "keyword" => (Analyzer::Keyword, false),
            "whitespace" => (Analyzer::Whitespace, false),
            // These analyzers equal their tokenizer plus lower case.
            "standard" if lowercase => (Analyzer::Standard, false),
            "letter" | "lowercase" if lowercase || name == "lowercase" => (Analyzer::Simple, false),
            _ => return Err(Error::not_implemented(format!("the tokenizer [{name}] of [_analyze]")).into()),
        },
        (Some(_), Some(_), _) => {
            return Err(Error::illegal_argument("[_analyze] takes [analyzer] or [tokenizer], not both").into());
        }
        (None, None, Some(field)) => {
            let index = index
                .as_deref()
                .ok_or_else(|| Error::illegal_argument("analysis based on a specific field requires an index"))?;
            of_field(index, &field)?
        }
        (None, None, None) => (Analyzer::Standard, false),
    };
    let request = AnalyzeRequest { analyzer, text };
    let tokens = edge.engine.analyze(&call.ctx, request).await?;
    if tokens.len() > MAX_TOKENS {
        return Err(Error::illegal_argument(format!(
            "The number of tokens produced by calling _analyze has exceeded the allowed maximum of [{MAX_TOKENS}]"
        ))
        .into());
    }
    let lowercase = lowercase || field_lowercase;
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
