//! Helpers of the parsers' tests: fields as short lines of text.

use std::borrow::Cow;

use super::ParseError;
use crate::event::Value;

/// Fields as a parser pushed them.
pub(crate) type Fields<'a> = Vec<(Cow<'a, str>, Value<'a>)>;

/// Prints each field as `name=value`: text as it stands, other values with a mark of their kind.
pub(crate) fn lines(fields: &Fields<'_>) -> Vec<String> {
    fields
        .iter()
        .map(|(name, value)| format!("{name}={}", shown(value)))
        .collect()
}

fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("#{value}"),
        Value::Int(value) => format!("#{value}"),
        Value::Number(value) => format!("#{value}"),
        Value::Text(value) => value.to_string(),
        Value::Escaped(value) => format!("escaped:{value}"),
        Value::Json(value) => format!("json:{value}"),
    }
}

/// Runs `parse` on `record` and compares the pushed fields with `expect`.
#[track_caller]
pub(crate) fn check_fields<'a>(
    record: &'a str,
    parse: impl FnOnce(&'a str, &mut Fields<'a>) -> Result<(), ParseError>,
    expect: &[&str],
) {
    let mut fields = Fields::new();
    if let Err(error) = parse(record, &mut fields) {
        panic!("{record:?}: {error}");
    }
    assert_eq!(lines(&fields), expect, "{record:?}");
}

/// Runs `parse` on `record`, which must refuse it with `expect` and push nothing.
#[track_caller]
pub(crate) fn check_error<'a>(
    record: &'a str,
    parse: impl FnOnce(&'a str, &mut Fields<'a>) -> Result<(), ParseError>,
    expect: &str,
) {
    let mut fields = Fields::new();
    let error = parse(record, &mut fields).expect_err(record);
    assert_eq!(error.to_string(), expect, "{record:?}");
    assert_eq!(lines(&fields), Vec::<String>::new(), "{record:?}");
}

/// True if a value that could borrow from the record does so.
pub(crate) fn borrows(value: &Value<'_>) -> bool {
    match value {
        Value::Text(text) | Value::Number(text) | Value::Json(text) => matches!(text, Cow::Borrowed(_)),
        _ => true,
    }
}

/// The first `count` lines of a file of `../shared/data`. None, and a word about it, where the folder is absent.
pub(crate) fn shared_lines(name: &str, count: usize) -> Option<String> {
    let path = format!("{}/../../../shared/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let output = std::process::Command::new("zcat").arg(&path).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("SKIPPED: {path} is absent");
        }
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().take(count).flat_map(|line| [line, "\n"]).collect())
}
