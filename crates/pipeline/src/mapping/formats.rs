//! Parsers that packs can name.

use super::extract::Pattern;
use super::pack::{Format, Parse};
use super::pack_file::{ParserFile, ParserOptions};
use super::raw_fields::RawFields;
use crate::event::{FieldSink, Value};
use crate::parsers::{self, ParseError};

/// Returns the parser of a pack. Fails with what is wrong.
pub(crate) fn format(file: &ParserFile) -> Result<Format, String> {
    let named;
    let options = match file {
        ParserFile::Name(name) => {
            named = ParserOptions::named(name);
            &named
        }
        ParserFile::Options(options) => options,
    };
    let simple = match options.format.as_str() {
        "json" => return Ok(Format::Json),
        "cef" => Simple::Cef,
        "leef" => Simple::Leef,
        "syslog" => Simple::Syslog,
        "access_log" => Simple::AccessLog,
        "windows_xml" => Simple::WindowsXml,
        "csv" => return csv(options),
        "key_value" => return key_value(options),
        "dissect" => return dissect(options),
        "grok" => return grok(options),
        other => return Err(format!("[{other}] is no format")),
    };
    Ok(Format::Parser(Box::new(simple)))
}

impl ParserOptions {
    fn named(name: &str) -> Self {
        Self {
            format: name.to_owned(),
            patterns: Vec::new(),
            definitions: std::collections::BTreeMap::new(),
            columns: Vec::new(),
            separator: None,
            assign: None,
        }
    }
}

/// Formats without options.
#[derive(Debug, Clone, Copy)]
enum Simple {
    Cef,
    Leef,
    Syslog,
    AccessLog,
    WindowsXml,
}

impl Parse for Simple {
    fn parse<'a>(&'a self, record: &'a str, sink: &mut RawFields<'a, '_>) -> Result<(), ParseError> {
        match self {
            Self::Cef => parsers::cef::parse(record, sink),
            Self::Leef => parsers::leef::parse(record, sink),
            Self::Syslog => parsers::syslog::parse(record, sink),
            Self::AccessLog => parsers::access_log::parse(record, sink),
            Self::WindowsXml => parsers::windows_xml::parse(record, sink),
        }
    }
}

#[derive(Debug)]
struct Csv(parsers::csv::Csv);

impl Parse for Csv {
    fn parse<'a>(&'a self, record: &'a str, sink: &mut RawFields<'a, '_>) -> Result<(), ParseError> {
        self.0.parse(record, sink)
    }
}

fn csv(options: &ParserOptions) -> Result<Format, String> {
    if options.columns.is_empty() {
        return Err(String::from("[columns] is missing"));
    }
    let mut parser = parsers::csv::Csv::new(options.columns.clone());
    if let Some(separator) = &options.separator {
        let mut chars = separator.chars();
        let (Some(separator), None) = (chars.next(), chars.next()) else {
            return Err(format!("[{separator}] is no single character"));
        };
        parser = parser.separator(separator);
    }
    Ok(Format::Parser(Box::new(Csv(parser))))
}

#[derive(Debug)]
struct KeyValue(parsers::key_value::KeyValue);

impl Parse for KeyValue {
    fn parse<'a>(&'a self, record: &'a str, sink: &mut RawFields<'a, '_>) -> Result<(), ParseError> {
        self.0.parse(record, sink)
    }
}

fn key_value(options: &ParserOptions) -> Result<Format, String> {
    let separator = options.separator.as_deref().unwrap_or(" +");
    let parser = parsers::key_value::KeyValue::new(separator, options.assign.as_deref().unwrap_or("="))?
        .quotes(parsers::key_value::Quotes::Group)
        .incomplete(parsers::key_value::Incomplete::Skip);
    Ok(Format::Parser(Box::new(KeyValue(parser))))
}

#[derive(Debug)]
struct Grok(parsers::grok::Grok);

impl Parse for Grok {
    fn parse<'a>(&'a self, record: &'a str, sink: &mut RawFields<'a, '_>) -> Result<(), ParseError> {
        self.0.parse(record, sink).map(|_| ())
    }
}

fn grok(options: &ParserOptions) -> Result<Format, String> {
    let patterns: Vec<&str> = options.patterns.iter().map(String::as_str).collect();
    let grok = parsers::grok::Grok::new(&patterns, &options.definitions).map_err(|error| error.to_string())?;
    Ok(Format::Parser(Box::new(Grok(grok))))
}

/// The first of several patterns that matches.
#[derive(Debug)]
struct Dissect(Vec<Pattern>);

impl Parse for Dissect {
    fn parse<'a>(&'a self, record: &'a str, sink: &mut RawFields<'a, '_>) -> Result<(), ParseError> {
        let is_match = self
            .0
            .iter()
            .any(|pattern| pattern.matches(record, |name, value| sink.field(name, Value::text(value))));
        match is_match {
            true => Ok(()),
            false => Err(ParseError {
                format: "dissect",
                expected: "a text that one of the patterns matches",
                offset: 0,
            }),
        }
    }
}

fn dissect(options: &ParserOptions) -> Result<Format, String> {
    if options.patterns.is_empty() {
        return Err(String::from("[patterns] is missing"));
    }
    let patterns: Result<Vec<_>, _> = options.patterns.iter().map(|pattern| Pattern::parse(pattern)).collect();
    Ok(Format::Parser(Box::new(Dissect(patterns?))))
}
