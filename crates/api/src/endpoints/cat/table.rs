//! Description of a table, and its formatter: selects columns, sorts rows, prints cells as text or JSON.

use std::cmp::Ordering;

use firn_auth::Privilege;
use firn_engine::{Error, Result};
use firn_model::dates::print_duration_ms;
use firn_model::names;
use serde_json::{Map, Value};

use crate::endpoints::call::{Call, Handler};
use crate::wire::error::ApiError;
use crate::wire::params::{Params, did_you_mean};
use crate::wire::reply::{Body, Reply};

/// Table: its paths, columns and rows.
pub(crate) struct CatTable {
    /// Name in metrics.
    pub(crate) endpoint: &'static str,
    /// Action in `_tasks`.
    pub(crate) action: &'static str,
    /// Privilege that the caller needs.
    pub(crate) privilege: Privilege,
    /// Privilege that suffices as an alternative.
    pub(crate) also: Option<Privilege>,
    pub(crate) paths: &'static [&'static str],
    pub(crate) handler: Handler,
}

/// Column of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) name: &'static str,
    /// Other names for `h` and `s`.
    pub(super) aliases: &'static [&'static str],
    pub(super) help: &'static str,
    /// Shown unless `h` selects columns.
    pub(super) shown: bool,
    pub(super) right: bool,
}

/// Value before it is printed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    /// Unknown or absent.
    Empty,
    Text(String),
    Number(u64),
    Float(f64),
    /// Bytes, in the unit of `bytes`.
    Bytes(u64),
    /// ms, in the unit of `time`.
    Millis(u64),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// Creates a column that is shown by default, aligned left.
pub(super) const fn text(name: &'static str, aliases: &'static [&'static str], help: &'static str) -> Column {
    Column {
        name,
        aliases,
        help,
        shown: true,
        right: false,
    }
}

/// Creates a column that is shown by default, aligned right.
pub(super) const fn number(name: &'static str, aliases: &'static [&'static str], help: &'static str) -> Column {
    Column {
        right: true,
        ..text(name, aliases, help)
    }
}

impl Column {
    /// Hides the column unless a request names it.
    pub(super) const fn hidden(self) -> Self {
        Self { shown: false, ..self }
    }

    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// Returns whether the request has `?help`, which lists the columns instead of the rows.
pub(super) fn wants_help(call: &Call) -> Result<bool> {
    call.params.bool("help", false)
}

/// Builds the answer of `?help`.
pub(super) fn help(columns: &[Column]) -> Reply {
    let rows: Vec<[String; 3]> = columns
        .iter()
        .map(|column| [column.name.to_owned(), column.aliases.join(","), column.help.to_owned()])
        .collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let (first, second, third) = (width(0), width(1), width(2));
    let mut output = String::new();
    for [name, aliases, help] in &rows {
        output.push_str(&format!("{name:first$} | {aliases:second$} | {help:third$} \n"));
    }
    Reply {
        status: http::StatusCode::OK,
        body: Body::Text(output),
    }
}

/// Builds the answer of a table. Each row has a cell per column.
pub(super) fn render(call: &Call, columns: &[Column], mut rows: Vec<Vec<Cell>>) -> Result<Reply, ApiError> {
    let params = &call.params;
    sort(params, columns, &mut rows)?;
    let chosen = choose(params, columns)?;
    let units = Units::param(params)?;
    if call.wants_json() {
        let array: Value = rows
            .iter()
            .map(|row| {
                let object: Map<String, Value> = chosen
                    .iter()
                    .map(|&(at, ref name)| {
                        let value = match &row[at] {
                            Cell::Empty => Value::Null,
                            cell => Value::String(units.print(cell)),
                        };
                        (name.clone(), value)
                    })
                    .collect();
                Value::Object(object)
            })
            .collect();
        return Ok(Reply::ok(&array));
    }
    let header = params.bool("v", false)?;
    Ok(Reply {
        status: http::StatusCode::OK,
        body: Body::Text(as_text(columns, &chosen, &rows, &units, header)),
    })
}

fn as_text(columns: &[Column], chosen: &[(usize, String)], rows: &[Vec<Cell>], units: &Units, header: bool) -> String {
    let printed: Vec<Vec<String>> = rows
        .iter()
        .map(|row| chosen.iter().map(|(at, _)| units.print(&row[*at])).collect())
        .collect();
    let widths: Vec<usize> = chosen
        .iter()
        .enumerate()
        .map(|(column, (_, name))| {
            let title = if header { name.chars().count() } else { 0 };
            printed
                .iter()
                .map(|row| row[column].chars().count())
                .fold(title, usize::max)
        })
        .collect();
    let mut output = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        for (column, cell) in cells.enumerate() {
            if column > 0 {
                output.push(' ');
            }
            let padding = widths[column] - cell.chars().count();
            let right = columns[chosen[column].0].right;
            if right {
                output.extend(std::iter::repeat_n(' ', padding));
            }
            output.push_str(cell);
            // The end of a line is not padded.
            if !right && column + 1 < chosen.len() {
                output.extend(std::iter::repeat_n(' ', padding));
            }
        }
        output.push('\n');
    };
    if header {
        line(&mut chosen.iter().map(|(_, name)| name.as_str()));
    }
    for row in &printed {
        line(&mut row.iter().map(String::as_str));
    }
    output
}

/// Returns the columns of `h`, with the requested names.
fn choose(params: &Params, columns: &[Column]) -> Result<Vec<(usize, String)>> {
    let Some(names) = params.list("h") else {
        return Ok(columns
            .iter()
            .enumerate()
            .filter(|(_, column)| column.shown)
            .map(|(at, column)| (at, column.name.to_owned()))
            .collect());
    };
    let mut chosen: Vec<(usize, String)> = Vec::new();
    for name in names {
        if name.contains('*') {
            for (at, column) in columns.iter().enumerate() {
                let seen = chosen.iter().any(|(other, _)| *other == at);
                if !seen && names::matches_pattern(&name, column.name) {
                    chosen.push((at, column.name.to_owned()));
                }
            }
        } else if let Some(at) = columns.iter().position(|column| column.is_called(&name)) {
            chosen.push((at, name));
        }
        // Elasticsearch also omits unknown columns.
    }
    Ok(chosen)
}

fn sort(params: &Params, columns: &[Column], rows: &mut [Vec<Cell>]) -> Result<()> {
    let mut keys = Vec::new();
    for key in params.list("s").unwrap_or_default() {
        let (name, descending) = match key.rsplit_once(':') {
            Some((name, "desc")) => (name, true),
            Some((name, "asc")) => (name, false),
            _ => (key.as_str(), false),
        };
        let at = columns
            .iter()
            .position(|column| column.is_called(name))
            .ok_or_else(|| {
                Error::illegal_argument(format!(
                    "Unable to sort by unknown sort key `{name}`{}",
                    did_you_mean(name, columns.iter().map(|column| column.name))
                ))
            })?;
        keys.push((at, descending));
    }
    rows.sort_by(|a, b| {
        keys.iter()
            .map(|(at, descending)| {
                let ordering = compare(&a[*at], &b[*at]);
                if *descending { ordering.reverse() } else { ordering }
            })
            .find(|ordering| *ordering != Ordering::Equal)
            .unwrap_or(Ordering::Equal)
    });
    Ok(())
}

fn compare(a: &Cell, b: &Cell) -> Ordering {
    match (a, b) {
        (Cell::Empty, Cell::Empty) => Ordering::Equal,
        (Cell::Empty, _) => Ordering::Less,
        (_, Cell::Empty) => Ordering::Greater,
        (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
        _ => value(a).total_cmp(&value(b)),
    }
}

fn value(cell: &Cell) -> f64 {
    match cell {
        Cell::Number(number) | Cell::Bytes(number) | Cell::Millis(number) => *number as f64,
        Cell::Float(number) => *number,
        Cell::Empty | Cell::Text(_) => 0.0,
    }
}

/// Units of `bytes` and `time`.
struct Units {
    /// `None`: the largest fitting unit.
    byte_divisor: Option<u64>,
    /// Units per ms are `time.0 / time.1`; `None`: the largest fitting unit.
    time: Option<(u64, u64)>,
}

impl Units {
    fn param(params: &Params) -> Result<Self> {
        let byte_divisor = match params.get("bytes") {
            None => None,
            Some("b") => Some(1),
            Some("k" | "kb") => Some(1 << 10),
            Some("m" | "mb") => Some(1 << 20),
            Some("g" | "gb") => Some(1 << 30),
            Some("t" | "tb") => Some(1 << 40),
            Some("p" | "pb") => Some(1 << 50),
            Some(other) => {
                return Err(Error::illegal_argument(format!("unknown value [{other}] of [bytes]")));
            }
        };
        let time = match params.get("time") {
            None => None,
            Some("nanos") => Some((1_000_000, 1)),
            Some("micros") => Some((1000, 1)),
            Some("ms") => Some((1, 1)),
            Some("s") => Some((1, 1000)),
            Some("m") => Some((1, 60_000)),
            Some("h") => Some((1, 3_600_000)),
            Some("d") => Some((1, 86_400_000)),
            Some(other) => return Err(Error::illegal_argument(format!("unknown value [{other}] of [time]"))),
        };
        Ok(Self { byte_divisor, time })
    }

    fn print(&self, cell: &Cell) -> String {
        match cell {
            Cell::Empty => String::new(),
            Cell::Text(text) => text.clone(),
            Cell::Number(number) => number.to_string(),
            Cell::Float(number) => format!("{number:.2}"),
            Cell::Bytes(bytes) => match self.byte_divisor {
                Some(divisor) => (bytes / divisor).to_string(),
                None => print_bytes(*bytes),
            },
            Cell::Millis(ms) => match self.time {
                Some((times, divisor)) => (ms * times / divisor).to_string(),
                None => print_duration_ms(*ms, 1),
            },
        }
    }
}

/// Formats one decimal, truncated (not rounded) as in Elasticsearch; no decimal if it is zero.
fn print_bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 5] = [
        (1 << 50, "pb"),
        (1 << 40, "tb"),
        (1 << 30, "gb"),
        (1 << 20, "mb"),
        (1 << 10, "kb"),
    ];
    match UNITS.into_iter().find(|(size, _)| bytes >= *size) {
        None => format!("{bytes}b"),
        Some((size, unit)) => match bytes % size * 10 / size {
            0 => format!("{}{unit}", bytes / size),
            tenth => format!("{}.{tenth}{unit}", bytes / size),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_sizes_as_elasticsearch_does() {
        let units = Units {
            byte_divisor: None,
            time: None,
        };
        for (cell, expected) in [
            (Cell::Bytes(225), "225b"),
            (Cell::Bytes(1024), "1kb"),
            (Cell::Bytes(1_700_000), "1.6mb"),
            (Cell::Millis(1500), "1.5s"),
            (Cell::Millis(59), "59ms"),
            (Cell::Float(1.0), "1.00"),
        ] {
            assert_eq!(units.print(&cell), expected);
        }
    }
}
