//! `reroute`: sends the document to another index or data stream; the pipelines of that index follow.

use super::prelude::*;

/// Characters of a data set or namespace, at most.
const LEN_MAX: usize = 100;

const DISALLOWED: &str = "\\/*?\"<>| ,#:";

#[derive(Debug)]
struct Reroute {
    destination: Option<String>,
    /// Type of the data stream; without one, that of the current index.
    kind: Vec<Source>,
    dataset: Vec<Source>,
    namespace: Vec<Source>,
}

#[derive(Debug)]
enum Source {
    Text(String),
    Field(Path),
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Type,
    Dataset,
    Namespace,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let kind = sources(options, "type", Part::Type)?;
    let dataset = sources(options, "dataset", Part::Dataset)?;
    let namespace = sources(options, "namespace", Part::Namespace)?;
    let destination = options.optional_text("destination")?;
    let has_parts = [&kind, &dataset, &namespace].iter().any(|sources| !sources.is_empty());
    if destination.is_some() && has_parts {
        let reason = "can only be set if type, dataset, and namespace are not set";
        return Err(options.error(Some("destination"), reason));
    }
    let or_field = |sources: Vec<Source>, field: &str| -> Result<Vec<Source>> {
        match sources.is_empty() {
            true => Ok(vec![Source::Field(options.parse_path("field", field)?)]),
            false => Ok(sources),
        }
    };
    boxed(Reroute {
        destination,
        kind: or_field(kind, "data_stream.type")?,
        dataset: or_field(dataset, "data_stream.dataset")?,
        namespace: or_field(namespace, "data_stream.namespace")?,
    })
}

fn sources(options: &mut Options, name: &str, part: Part) -> Result<Vec<Source>> {
    let texts = options.texts_or_text(name)?;
    let sources = texts.into_iter().map(|text| {
        if !text.contains("{{") && !text.contains("}}") {
            if sanitize(&text, part) != text {
                return Err(options.error(Some(name), format!("'{text}' contains disallowed characters")));
            }
            return Ok(Source::Text(text));
        }
        let field = text.strip_prefix("{{").and_then(|text| text.strip_suffix("}}"));
        let field = field.map(|field| {
            field
                .strip_prefix('{')
                .and_then(|field| field.strip_suffix('}'))
                .unwrap_or(field)
        });
        match field.filter(|field| !field.contains(['{', '}'])) {
            Some(field) => Ok(Source::Field(options.parse_path(name, field)?)),
            None => Err(options.error(Some(name), format!("'{text}' is not a valid field reference"))),
        }
    });
    sources.collect()
}

/// Makes a text fit for a part of a data stream's name.
fn sanitize(text: &str, part: Part) -> String {
    let lower = text.to_lowercase();
    let is_disallowed = |c: char| DISALLOWED.contains(c) || (c == '-' && !matches!(part, Part::Namespace));
    lower
        .chars()
        .take(LEN_MAX)
        .map(|c| if is_disallowed(c) { '_' } else { c })
        .collect()
}

fn resolve(sources: &[Source], part: Part, current: &str, document: &Document) -> String {
    let found = sources.iter().find_map(|source| match source {
        Source::Text(text) => Some(text.clone()),
        Source::Field(path) => document.find(path)?.as_str().map(|text| sanitize(text, part)),
    });
    found.unwrap_or_else(|| current.to_owned())
}

impl Processor for Reroute {
    fn run(&self, document: &mut Document, _run: &mut Run<'_>) -> Result<Flow, Failure> {
        let index = Path::parse("_index")?;
        if let Some(destination) = &self.destination {
            document.set(&index, destination.as_str().into())?;
            return Ok(Flow::Reroute);
        }
        let current = document.index().to_owned();
        let mut parts = current.splitn(3, '-');
        let (Some(kind), Some(dataset), Some(namespace)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(Failure::illegal(format!(
                "invalid data stream name: [{current}]; must follow naming scheme <type>-<dataset>-<namespace>"
            )));
        };
        let kind = resolve(&self.kind, Part::Type, kind, document);
        let dataset = resolve(&self.dataset, Part::Dataset, dataset, document);
        let namespace = resolve(&self.namespace, Part::Namespace, namespace, document);
        document.set(&index, format!("{kind}-{dataset}-{namespace}").into())?;
        document.set(&Path::parse("data_stream.type")?, kind.into())?;
        document.set(&Path::parse("data_stream.dataset")?, dataset.as_str().into())?;
        document.set(&Path::parse("data_stream.namespace")?, namespace.into())?;
        // ECS: both have the same value.
        let event_dataset = Path::parse("event.dataset")?;
        if document.find(&event_dataset).is_some() {
            document.set(&event_dataset, dataset.into())?;
        }
        Ok(Flow::Reroute)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::processors::tests::{NOW_MS, fails, parse, refused};
    use crate::processors::{Context, Document, Outcome};

    fn reroutes(options: Value, index: &str, source: Value, expected: &str) -> Document {
        let pipeline = parse(&json!({"reroute": options})).unwrap();
        let mut document = Document::new(index, None, source.as_object().unwrap().clone());
        assert_eq!(
            pipeline.run(&mut document, &Context::new(NOW_MS)),
            Ok(Outcome::Rerouted)
        );
        assert_eq!(document.index(), expected);
        document
    }

    #[test]
    fn refuses_to_parse() {
        refused(
            json!({"reroute": {"destination": "a", "dataset": "b"}}),
            "[destination] can only be set if type, dataset, and namespace are not set",
        );
        refused(
            json!({"reroute": {"dataset": "a-b"}}),
            "[dataset] 'a-b' contains disallowed characters",
        );
        refused(
            json!({"reroute": {"dataset": "x{{a}}"}}),
            "[dataset] 'x{{a}}' is not a valid field reference",
        );
        refused(
            json!({"reroute": {"namespace": "{{a}}{{b}}"}}),
            "[namespace] '{{a}}{{b}}' is not a valid field reference",
        );
    }

    #[test]
    fn results() {
        reroutes(json!({"destination": "x"}), "anything", json!({}), "x");
        let document = reroutes(
            json!({"dataset": "nginx"}),
            "logs-generic-default",
            json!({"event": {"dataset": "a"}}),
            "logs-nginx-default",
        );
        let stream = json!({"type": "logs", "dataset": "nginx", "namespace": "default"});
        assert_eq!(
            Value::Object(document.source),
            json!({"event": {"dataset": "nginx"}, "data_stream": stream})
        );
        let source = json!({"service": {"name": "My App-1"}, "env": "EU-1"});
        let options = json!({"dataset": ["{{missing}}", "{{service.name}}"], "namespace": "{{{env}}}"});
        reroutes(options, "logs-a-b", source, "logs-my_app_1-eu-1");
        reroutes(
            json!({}),
            "logs-a-b",
            json!({"data_stream": {"dataset": "x", "namespace": 1}}),
            "logs-x-b",
        );
        reroutes(json!({"type": "metrics"}), "logs-a-b-c", json!({}), "metrics-a-b-c");
    }

    #[test]
    fn failures() {
        let reason = "invalid data stream name: [index]; must follow naming scheme <type>-<dataset>-<namespace>";
        fails(json!({"reroute": {}}), json!({}), reason);
    }
}
