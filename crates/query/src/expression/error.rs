//! Elasticsearch's `script_exception`: what failed, its position, and the cause.

use firn_model::{Error, ErrorKind};
use serde_json::{Map, json};

use super::Lang;

/// Bytes of source shown before and after the position.
const AROUND: usize = 25;

/// `what` is `compile error` or `runtime error`, `at` the byte offset in `source`.
pub(super) fn script_error(what: &str, source: &str, lang: Lang, at: u32, reason: impl Into<String>) -> Error {
    let offset = (at as usize).min(source.len());
    let start = source.floor_char_boundary(offset.saturating_sub(AROUND));
    let end = source.ceil_char_boundary((offset + AROUND).min(source.len()));
    let (before, after) = (
        if start > 0 { "... " } else { "" },
        if end < source.len() { " ..." } else { "" },
    );
    let column = before.len()
        + source[start..source.floor_char_boundary(offset).max(start)]
            .chars()
            .count();
    let mut details = Map::new();
    details.insert(
        "script_stack".into(),
        json!([
            format!("{before}{}{after}", &source[start..end]),
            format!("{}^---- HERE", " ".repeat(column)),
        ]),
    );
    details.insert("script".into(), json!(source));
    details.insert("lang".into(), json!(lang.name()));
    details.insert("position".into(), json!({"offset": offset, "start": start, "end": end}));
    Error::new(ErrorKind::Script, what)
        .with_details(details)
        .caused_by(Error::illegal_argument(reason))
}
