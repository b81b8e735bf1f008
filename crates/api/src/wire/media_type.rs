//! Content negotiation: `Content-Type` of requests, `Accept` and `format` of answers.
//!
//! Elasticsearch's clients since version 7.11 send a vendored type with `compatible-with=N`. The answer repeats it, so
//! that clients of version 7, 8 or 9 accept the answer.

use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::wire::error::ApiError;

const VENDORED: &str = "application/vnd.elasticsearch+";

/// Format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON.
    Json,
    /// JSON lines.
    Ndjson,
    /// Plain text, only for `_cat`.
    Text,
    /// Protocol buffers, only for OTLP.
    Protobuf,
    /// Server-sent events, for streamed answers; other endpoints answer with JSON.
    EventStream,
}

/// Requested format of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accept {
    /// `None`: any format.
    pub(crate) format: Option<Format>,
    /// `compatible-with` of a vendored type.
    pub(crate) compatible_with: Option<u8>,
}

/// Media type that firn supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MediaType {
    format: Option<Format>,
    compatible_with: Option<u8>,
}

enum Problem {
    Unsupported,
    Version,
}

fn parse(text: &str) -> Result<MediaType, Problem> {
    let mut parts = text.split(';');
    let essence = parts.next().unwrap_or("").trim().to_ascii_lowercase();
    let mut compatible_with = None;
    let vendored = essence.strip_prefix(VENDORED);
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            "compatible-with" if vendored.is_some() => {
                compatible_with = match value.trim().trim_matches('"') {
                    "7" => Some(7),
                    "8" => Some(8),
                    "9" => Some(9),
                    _ => return Err(Problem::Version),
                };
            }
            // Everything is UTF-8, and the order of types is their preference.
            "charset" | "q" => {
                if name.trim().eq_ignore_ascii_case("charset")
                    && !value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
                {
                    return Err(Problem::Unsupported);
                }
            }
            _ => return Err(Problem::Unsupported),
        }
    }
    let format = match vendored.unwrap_or(&essence) {
        "json" if vendored.is_some() => Some(Format::Json),
        "x-ndjson" if vendored.is_some() => Some(Format::Ndjson),
        "application/json" => Some(Format::Json),
        "application/x-ndjson" => Some(Format::Ndjson),
        "text/plain" => Some(Format::Text),
        "application/x-protobuf" => Some(Format::Protobuf),
        "text/event-stream" => Some(Format::EventStream),
        "*/*" | "application/*" => None,
        _ => return Err(Problem::Unsupported),
    };
    if vendored.is_some() && compatible_with.is_none() {
        // A vendored type without a version means the server's version.
        compatible_with = Some(8);
    }
    Ok(MediaType {
        format,
        compatible_with,
    })
}

/// Parses `Accept` and the `format` parameter.
pub(crate) fn accept(headers: &HeaderMap, format: Option<&str>) -> Result<Accept, ApiError> {
    let mut accept = Accept {
        format: None,
        compatible_with: None,
    };
    let header = headers.get(header::ACCEPT).map(header_text).transpose()?;
    if let Some(header) = header.filter(|header| !header.trim().is_empty()) {
        let mut found = false;
        for part in header.split(',') {
            match parse(part) {
                Ok(media_type) => {
                    found = true;
                    accept.format = media_type.format;
                    accept.compatible_with = media_type.compatible_with;
                    break;
                }
                Err(Problem::Version) => return Err(invalid_version("Accept")),
                Err(Problem::Unsupported) => {}
            }
        }
        // A browser prefers text/html but accepts any type.
        if !found {
            return Err(not_acceptable(format!("Accept header [{header}] is not supported")));
        }
    }
    match format {
        None => {}
        Some("json") => accept.format = Some(Format::Json),
        Some("text" | "txt") => accept.format = Some(Format::Text),
        Some(other) => {
            return Err(not_acceptable(format!(
                "format [{other}] is not supported, only [json] and [text] are"
            )));
        }
    }
    Ok(accept)
}

/// Returns whether a body is a form that browsers send natively.
pub(crate) fn is_form(headers: &HeaderMap) -> bool {
    let header = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = header.and_then(|header| header.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded"))
}

/// Parses the `Content-Type` of a request with a body.
pub(crate) fn content_type(headers: &HeaderMap, source_content_type: Option<&str>) -> Result<Format, ApiError> {
    let text = match (headers.get(header::CONTENT_TYPE), source_content_type) {
        (Some(header), _) => header_text(header)?,
        (None, Some(text)) => text,
        (None, None) => return Err(not_acceptable("Content-Type header is missing".to_owned())),
    };
    match parse(text) {
        Ok(MediaType {
            format: Some(format @ (Format::Json | Format::Ndjson)),
            ..
        }) => Ok(format),
        Err(Problem::Version) => Err(invalid_version("Content-Type")),
        _ => Err(not_acceptable(format!("Content-Type header [{text}] is not supported"))),
    }
}

/// Returns the format of a body in a protocol that does not insist on its `Content-Type`; `None`: unknown or absent.
pub(crate) fn stated_format(headers: &HeaderMap) -> Option<Format> {
    let header = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    parse(header).ok()?.format
}

impl Accept {
    /// Returns the `Content-Type` of a JSON answer.
    pub(crate) fn json_content_type(&self) -> HeaderValue {
        HeaderValue::from_static(match self.compatible_with {
            Some(7) => "application/vnd.elasticsearch+json;compatible-with=7",
            Some(8) => "application/vnd.elasticsearch+json;compatible-with=8",
            Some(_) => "application/vnd.elasticsearch+json;compatible-with=9",
            None => "application/json",
        })
    }
}

fn header_text(header: &HeaderValue) -> Result<&str, ApiError> {
    header
        .to_str()
        .map_err(|_| not_acceptable("a media type header is not ASCII".to_owned()))
}

fn not_acceptable(sentence: String) -> ApiError {
    ApiError::Plain {
        status: StatusCode::NOT_ACCEPTABLE,
        sentence,
        allow: None,
    }
}

fn invalid_version(header: &str) -> ApiError {
    ApiError::bad_request(
        "media_type_header_exception",
        format!("Invalid media-type value on headers [{header}]: compatible-with must be 7, 8 or 9"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &'static str) -> Result<Accept, StatusCode> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(value));
        accept(&headers, None).map_err(|error| error.status())
    }

    #[test]
    fn accepts_what_clients_send() {
        let vendored = |version| Accept {
            format: Some(Format::Json),
            compatible_with: Some(version),
        };
        assert_eq!(
            check("application/vnd.elasticsearch+json; compatible-with=8"),
            Ok(vendored(8))
        );
        assert_eq!(
            check("application/vnd.elasticsearch+json;compatible-with=9"),
            Ok(vendored(9))
        );
        assert_eq!(check("text/plain,application/json").unwrap().format, Some(Format::Text));
        assert_eq!(check("*/*").unwrap().format, None);
        assert_eq!(check("text/html,*/*;q=0.8").unwrap().format, None);
        assert_eq!(check("text/event-stream").unwrap().format, Some(Format::EventStream));
        assert_eq!(check("application/yaml"), Err(StatusCode::NOT_ACCEPTABLE));
        assert_eq!(
            check("application/vnd.elasticsearch+json;compatible-with=6"),
            Err(StatusCode::BAD_REQUEST)
        );
    }
}
