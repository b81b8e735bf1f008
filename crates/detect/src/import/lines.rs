//! NDJSON: each line is a rule of Kibana or of firn, or what belongs to rules.

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::collector::{Collector, Origin};
use super::exported::{COUNT, DEFINITION, ID};
use super::kibana::{self, ExceptionLists};
use super::{Import, ImportOptions, NotTaken, PipelineIndices, UnusedPart};

/// Longest line in bytes. A definition has at most 1 MB, and Kibana writes a good part more for each rule.
const LINE_BYTES_MAX: usize = 4 << 20;
/// Most lines: rules, and the exceptions of Kibana's rules.
const LINES_MAX: usize = 200_000;

/// What a line is.
enum Kind {
    /// Rule in firn's own format.
    Own,
    /// Rule of Kibana.
    Rule,
    /// List of exceptions of Kibana's rules.
    ExceptionList,
    /// Exception in such a list.
    ExceptionItem,
    /// Connector of actions.
    Connector,
    /// Last line, with counts.
    Summary,
}

/// Reads the rules of an NDJSON text: an export of Kibana's detection rules, with their exceptions, or firn's own.
///
/// # Errors
/// [`firn_model::ErrorKind::IllegalArgument`]: the text has too many lines or rules.
pub fn ndjson(text: &str, options: &ImportOptions) -> Result<Import> {
    let mut collector = Collector::new(options);
    let lists = read_parts(text, options, &mut collector)?;
    let mut lists = lists;
    for (line, text) in numbered(text) {
        // The other lines were read before: exceptions come after their rules.
        let Ok((object, kind @ (Kind::Own | Kind::Rule))) = object_of(text) else {
            continue;
        };
        match kind {
            Kind::Own => add_own(&mut collector, line, object)?,
            _ => add_kibana(&mut collector, line, &object, &mut lists, &options.pipelines)?,
        }
    }
    collector.import.unused.extend(lists.unused());
    collector.import.refused.sort_by_key(|refused| refused.line);
    collector.import.unused.sort_by_key(|part| part.line);
    Ok(collector.import)
}

/// Reads all lines that are no rules.
fn read_parts(text: &str, options: &ImportOptions, collector: &mut Collector<'_>) -> Result<ExceptionLists> {
    let mut lists = ExceptionLists::default();
    for (count, (line, text)) in numbered(text).enumerate() {
        if count == LINES_MAX {
            return Err(Error::illegal_argument(format!(
                "an import has at most [{LINES_MAX}] lines"
            )));
        }
        let (object, kind) = match object_of(text) {
            Ok(read) => read,
            Err(reason) => {
                let origin = Origin {
                    line,
                    ..Origin::default()
                };
                collector.refuse(origin, reason);
                continue;
            }
        };
        match kind {
            Kind::Own | Kind::Rule | Kind::Summary => {}
            Kind::ExceptionList => lists.add_list(line, &object),
            Kind::ExceptionItem => lists.add_item(line, &object, options.now_ms),
            Kind::Connector => collector.import.unused.push(UnusedPart {
                line,
                id: word(&object, ID),
                name: object
                    .get("attributes")
                    .and_then(Value::as_object)
                    .map_or_else(String::new, |attributes| word(attributes, "name")),
                not_taken: NotTaken::new("connector", "a channel delivers the alerts of firn's rules"),
            }),
        }
    }
    Ok(lists)
}

/// Returns the lines that have content, with their numbers.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty())
}

fn object_of(line: &str) -> Result<(Map<String, Value>, Kind), String> {
    if line.len() > LINE_BYTES_MAX {
        return Err(format!(
            "a line has at most [{LINE_BYTES_MAX}] bytes, not [{}]",
            line.len()
        ));
    }
    let object = match serde_json::from_str(line) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return Err("the line is no JSON object".to_owned()),
        Err(error) => return Err(format!("the line is no JSON: {error}")),
    };
    let has = |name: &str| object.contains_key(name);
    let kind = match object.get("type").and_then(Value::as_str) {
        _ if has(DEFINITION) && has(ID) => Kind::Own,
        _ if has("rule_id") => Kind::Rule,
        _ if has("list_id") && has("entries") => Kind::ExceptionItem,
        _ if has("list_id") => Kind::ExceptionList,
        _ if has(COUNT) => Kind::Summary,
        Some("action") if has("attributes") => Kind::Connector,
        Some(other) if has("attributes") => {
            return Err(format!(
                "the line is the saved object [{other}]: rules are exported by the page of the rules"
            ));
        }
        _ => return Err("the line is a rule neither of Kibana nor of firn".to_owned()),
    };
    Ok((object, kind))
}

fn add_own(collector: &mut Collector<'_>, line: usize, mut object: Map<String, Value>) -> Result<()> {
    let mut origin = Origin {
        line,
        id: word(&object, ID),
        name: String::new(),
    };
    match object.remove(DEFINITION) {
        Some(Value::Object(definition)) => {
            origin.name = word(&definition, "name");
            collector.add(origin, definition, Vec::new())
        }
        _ => {
            collector.refuse(origin, "[definition] is no object");
            Ok(())
        }
    }
}

fn add_kibana(
    collector: &mut Collector<'_>,
    line: usize,
    object: &Map<String, Value>,
    lists: &mut ExceptionLists,
    pipelines: &[PipelineIndices],
) -> Result<()> {
    let origin = Origin {
        line,
        id: word(object, "rule_id"),
        name: word(object, "name"),
    };
    match kibana::definition(object, lists, pipelines) {
        Ok((definition, not_taken)) => collector.add(origin, definition, not_taken),
        Err(reason) => {
            collector.refuse(origin, reason);
            Ok(())
        }
    }
}

/// Returns a text of an object; empty if there is none.
fn word(object: &Map<String, Value>, name: &str) -> String {
    object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}
