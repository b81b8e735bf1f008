//! Sources of a `composite` aggregation.

use firn_model::dates::{Interval, Rounding, Zone};
use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::NAME;
use crate::aggs::date_histogram;
use crate::aggs::parse::{self, unknown_field};
use crate::json::token;

/// One source: a field, and the conversion of its values to keys.
#[derive(Debug, Clone, PartialEq)]
pub struct CompositeSource {
    /// Name in keys.
    pub name: String,
    /// Full path.
    pub field: String,
    /// Conversion of values to keys.
    pub kind: SourceKind,
    /// Default true.
    pub ascending: bool,
    /// Documents without a value have the key null; if false, they are in no bucket.
    pub missing_bucket: bool,
    /// Whether null sorts first; `None`: like the smallest value.
    pub missing_first: Option<bool>,
    /// Date format of keys.
    pub format: Option<String>,
}

/// Conversion of values to keys.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceKind {
    /// The values themselves.
    Terms,
    /// Multiples of the interval.
    Histogram {
        /// Above 0.
        interval: f64,
    },
    /// Starts of time intervals.
    DateHistogram {
        /// Bucket width.
        interval: Interval,
        /// As written; `None`: UTC.
        time_zone: Option<String>,
        /// Shift of the starts, ms.
        offset_ms: i64,
    },
}

impl CompositeSource {
    /// Parses `{"name": {"terms": {…}}}`.
    pub(super) fn parse(value: &Value) -> Result<Self> {
        let (name, definition) = only_entry(value)?;
        let (kind, body) = only_entry(definition)?;
        let Value::Object(body) = body else {
            return Err(Error::parsing(format!(
                "[{NAME}] expected [START_OBJECT] under [{kind}], but got a [{}]",
                token(body)
            )));
        };
        let mut source = Self {
            name: name.clone(),
            field: String::new(),
            kind: SourceKind::Terms,
            ascending: true,
            missing_bucket: false,
            missing_first: None,
            format: None,
        };
        match kind.as_str() {
            "terms" => source.read(kind, body, &mut |key, _| Err(unknown_field("terms", key)))?,
            "histogram" => source.read_histogram(kind, body)?,
            "date_histogram" => source.read_date_histogram(kind, body)?,
            "geotile_grid" => return Err(Error::not_implemented(format!("[{kind}] source of [{NAME}]"))),
            other => return Err(Error::parsing(format!("invalid source type: {other}"))),
        }
        Ok(source)
    }

    /// Parses the options that all kinds share; `other` parses the rest.
    fn read(
        &mut self,
        kind: &str,
        body: &Map<String, Value>,
        other: &mut dyn FnMut(&str, &Value) -> Result<()>,
    ) -> Result<()> {
        let mut missing_order = "default".to_owned();
        for (key, value) in body {
            match key.as_str() {
                "field" => self.field = parse::text(kind, key, value)?,
                "missing_bucket" => self.missing_bucket = parse::flag(kind, key, value)?,
                "missing_order" => missing_order = parse::text(kind, key, value)?.to_ascii_lowercase(),
                "order" => {
                    let text = parse::text(kind, key, value)?;
                    self.ascending = match text.to_ascii_lowercase().as_str() {
                        "asc" => true,
                        "desc" => false,
                        _ => return Err(Error::illegal_argument(format!("No enum constant SortOrder.{text}"))),
                    };
                }
                "format" if kind != "histogram" => self.format = Some(parse::text(kind, key, value)?),
                _ => other(key, value)?,
            }
        }
        if self.field.is_empty() {
            return Err(Error::illegal_argument(
                "value source config is invalid; must have either a field or a script",
            ));
        }
        self.missing_first = match missing_order.as_str() {
            "default" => None,
            "first" => Some(true),
            "last" => Some(false),
            other => return Err(Error::illegal_argument(format!("Unknown missing_order: [{other}]"))),
        };
        if self.missing_first.is_some() && !self.missing_bucket {
            return Err(Error::illegal_argument(
                "missing_order requires missing_bucket to be true",
            ));
        }
        Ok(())
    }

    fn read_histogram(&mut self, kind: &str, body: &Map<String, Value>) -> Result<()> {
        let mut interval = 0.0;
        self.read(kind, body, &mut |key, value| match key {
            "interval" => {
                interval = parse::double(kind, key, value)?;
                Ok(())
            }
            _ => Err(unknown_field(kind, key)),
        })?;
        if interval <= 0.0 {
            return Err(Error::illegal_argument(
                "[interval] must be greater than 0 for [histogram] source",
            ));
        }
        self.kind = SourceKind::Histogram { interval };
        Ok(())
    }

    fn read_date_histogram(&mut self, kind: &str, body: &Map<String, Value>) -> Result<()> {
        let (mut found, mut time_zone, mut offset_ms) = (None, None, 0);
        self.read(kind, body, &mut |key, value| {
            match key {
                "fixed_interval" | "calendar_interval" if found.is_some() => {
                    return Err(Error::illegal_argument(
                        "Cannot use [fixed_interval] with [calendar_interval] configuration option.",
                    ));
                }
                "fixed_interval" => found = Some(date_histogram::fixed_interval(&parse::text(kind, key, value)?)?),
                "calendar_interval" => {
                    let unit = date_histogram::calendar_interval(&parse::text(kind, key, value)?)?;
                    found = Some(Interval::Calendar(unit));
                }
                "time_zone" => {
                    let text = parse::text(kind, key, value)?;
                    Zone::parse(&text)?;
                    time_zone = Some(text);
                }
                "offset" => offset_ms = date_histogram::offset(value)?,
                _ => return Err(unknown_field(kind, key)),
            }
            Ok(())
        })?;
        let interval = found
            .ok_or_else(|| Error::illegal_argument("Invalid interval specified, must be non-null and non-empty"))?;
        self.kind = SourceKind::DateHistogram {
            interval,
            time_zone,
            offset_ms,
        };
        Ok(())
    }

    /// Whether the key null sorts first.
    pub fn nulls_first(&self) -> bool {
        self.missing_first.unwrap_or(self.ascending)
    }

    /// Returns the time zone of a date histogram; UTC for other kinds.
    pub fn zone(&self) -> Result<Zone> {
        match &self.kind {
            SourceKind::DateHistogram {
                time_zone: Some(text), ..
            } => Zone::parse(text),
            _ => Ok(Zone::utc()),
        }
    }

    /// Returns the rounding of a date histogram; `None` for other kinds.
    pub fn rounding(&self) -> Result<Option<Rounding>> {
        match &self.kind {
            SourceKind::DateHistogram {
                interval, offset_ms, ..
            } => Ok(Some(Rounding::new(*interval, self.zone()?, *offset_ms))),
            _ => Ok(None),
        }
    }

    pub(super) fn print(&self) -> Value {
        let mut body = parse::body_of(&self.field);
        let kind = match &self.kind {
            SourceKind::Terms => "terms",
            SourceKind::Histogram { interval } => {
                body.insert("interval".into(), json!(interval));
                "histogram"
            }
            SourceKind::DateHistogram {
                interval,
                time_zone,
                offset_ms,
            } => {
                date_histogram::print_interval(*interval, &mut body);
                parse::put(&mut body, "time_zone", time_zone.as_ref());
                if *offset_ms != 0 {
                    body.insert("offset".into(), json!(offset_ms));
                }
                "date_histogram"
            }
        };
        if !self.ascending {
            body.insert("order".into(), "desc".into());
        }
        parse::put_flag(&mut body, "missing_bucket", self.missing_bucket);
        if let Some(first) = self.missing_first {
            body.insert("missing_order".into(), if first { "first" } else { "last" }.into());
        }
        parse::put(&mut body, "format", self.format.as_ref());
        json!({ self.name.as_str(): {kind: body} })
    }
}

/// Returns the name and the value of an object with one entry.
fn only_entry(value: &Value) -> Result<(&String, &Value)> {
    let Value::Object(body) = value else {
        return Err(Error::parsing(format!(
            "[{NAME}] expected [START_OBJECT] under [sources], but got a [{}]",
            token(value)
        )));
    };
    let mut entries = body.iter();
    match (entries.next(), entries.next()) {
        (Some(entry), None) => Ok(entry),
        _ => Err(Error::parsing(format!(
            "[{NAME}] a source is an object with exactly one name, which has exactly one type"
        ))),
    }
}
