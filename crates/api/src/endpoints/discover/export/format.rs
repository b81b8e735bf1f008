//! File formats of an export.

use firn_engine::Error;
use firn_query::search::Hit;
use serde_json::{Value, json};

use super::super::csv::{self, Table};
use crate::wire::error::ApiError;

/// Prefix of a CSV line that is no event.
const REMARK: &str = "# ";

/// Columns of the file.
pub(super) struct Columns {
    pub(super) table: Table,
    /// Columns that the source of an event may not contain.
    pub(super) looked_up: Vec<String>,
}

/// File format.
pub(super) enum Format {
    /// CSV with a header line.
    Csv(Columns),
    /// NDJSON: each event as sent, but on one line.
    Ndjson,
}

impl Format {
    pub(super) fn content_type(&self) -> &'static str {
        match self {
            Self::Csv(_) => "text/csv; charset=utf-8; header=present",
            Self::Ndjson => "application/x-ndjson",
        }
    }

    pub(super) fn extension(&self) -> &'static str {
        match self {
            Self::Csv(_) => "csv",
            Self::Ndjson => "ndjson",
        }
    }

    /// Returns the lines before the first event.
    pub(super) fn head(&self) -> Vec<u8> {
        match self {
            Self::Csv(columns) => columns.table.head(),
            Self::Ndjson => Vec::new(),
        }
    }

    /// Appends the line of an event.
    pub(super) fn write(&self, output: &mut Vec<u8>, hit: &Hit) -> Result<(), Error> {
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

    /// Appends the line that says why the file ends after `written` of `total` events.
    pub(super) fn write_failure(&self, output: &mut Vec<u8>, error: &ApiError, written: u64, total: u64) {
        let mut body = error.body(None, false);
        let error_object = body["error"].take();
        match self {
            Self::Csv(_) => {
                // The cause of the failed shards of a search.
                let cause = error_object["root_cause"].get(0).unwrap_or(&error_object);
                let (kind, reason) = (&cause["type"], &cause["reason"]);
                let (kind, reason) = (kind.as_str().unwrap_or_default(), reason.as_str().unwrap_or_default());
                let remark =
                    format!("{REMARK}the export broke off after {written} of {total} events: {kind}: {reason}");
                csv::text(output, &remark.replace(['\r', '\n'], " "));
                output.extend_from_slice(b"\r\n");
            }
            Self::Ndjson => {
                let line = json!({
                    "event": "failed",
                    "status": error.status().as_u16(),
                    "error": error_object,
                    "events": written,
                    "total": total,
                });
                output.extend_from_slice(Value::to_string(&line).as_bytes());
                output.push(b'\n');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use firn_engine::ErrorKind;

    use super::*;

    fn last_line(format: &Format) -> String {
        let error = Error::new(ErrorKind::Unavailable, "no \"answer\",\nnone");
        let mut output = Vec::new();
        format.write_failure(&mut output, &error.into(), 3, 7);
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn a_failure_is_one_line_in_the_form_of_the_file() {
        let line = last_line(&Format::Ndjson);
        assert_eq!(line.matches('\n').count(), 1);
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&line["event"], &line["status"], &line["events"], &line["total"]),
            (&json!("failed"), &json!(503), &json!(3), &json!(7))
        );
        assert_eq!(line["error"]["reason"], "no \"answer\",\nnone");
        let columns = Columns {
            table: Table::new(vec!["a".to_owned(), "b".to_owned()]),
            looked_up: Vec::new(),
        };
        assert_eq!(
            last_line(&Format::Csv(columns)),
            "\"# the export broke off after 3 of 7 events: repository_exception: no \"\"answer\"\", none\"\r\n"
        );
    }
}
