//! Conversion of lines to the bodies of bulk requests.

use std::sync::Arc;

use firn_model::json_depth::nests_deeper;
use serde_json::Value;

use super::rejects::Rejects;

/// Format of the bulk requests.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    /// `index` or `create`.
    pub(super) operation: &'static str,
    pub(super) timestamp_field: Option<String>,
    pub(super) tenant_field: Option<String>,
    pub(super) id_field: Option<String>,
    /// A batch is sent once it has this many bytes,
    pub(super) batch_bytes: usize,
    /// or this many events.
    pub(super) batch_docs: usize,
}

impl Shape {
    /// Whether sending an event a second time cannot create a second copy.
    pub(super) fn is_repeatable(&self) -> bool {
        self.id_field.is_some()
    }
}

/// Some events of one file, ready to send.
pub(super) struct Batch {
    /// Action and source lines.
    pub(super) body: Vec<u8>,
    pub(super) items: Vec<Item>,
    pub(super) rejects: Arc<Rejects>,
}

/// One event of a batch.
#[derive(Debug)]
pub(super) struct Item {
    /// Line of the input, from 1.
    pub(super) line: u64,
    /// Start of its action line in the body,
    start: usize,
    /// start of its source,
    source: usize,
    /// and end of the source, before its line feed.
    end: usize,
    edit: Edit,
}

/// Difference between the source and the line of the input.
#[derive(Debug)]
enum Edit {
    None,
    /// This many bytes were inserted after the opening brace.
    Inserted(usize),
    /// A value was replaced; this is the original line.
    Replaced(Box<[u8]>),
}

impl Batch {
    /// Returns the line of the input that an item came from.
    pub(super) fn raw_line(&self, item: &Item) -> Vec<u8> {
        let source = &self.body[item.source..item.end];
        match &item.edit {
            Edit::None => source.to_vec(),
            Edit::Inserted(length) => {
                let brace = source.iter().position(|&byte| byte == b'{').unwrap_or(0) + 1;
                [&source[..brace], &source[brace + length..]].concat()
            }
            Edit::Replaced(line) => line.to_vec(),
        }
    }

    /// Returns a batch of some of the items, by their position.
    pub(super) fn subset(mut self, keep: &[usize]) -> Self {
        if keep.len() == self.items.len() {
            return self;
        }
        let mut body = Vec::new();
        let mut items = Vec::with_capacity(keep.len());
        let mut all: Vec<Option<Item>> = std::mem::take(&mut self.items).into_iter().map(Some).collect();
        for &position in keep {
            let mut item = all[position].take().expect("positions are given once");
            let moved = body.len();
            body.extend_from_slice(&self.body[item.start..item.end]);
            body.push(b'\n');
            item.source = item.source - item.start + moved;
            item.end = item.end - item.start + moved;
            item.start = moved;
            items.push(item);
        }
        Self {
            body,
            items,
            rejects: self.rejects,
        }
    }

    /// Splits the batch in two halves, for a server that refuses the whole as too large.
    pub(super) fn halves(self) -> (Self, Self) {
        let middle = self.items.len() / 2;
        let second: Vec<usize> = (middle..self.items.len()).collect();
        let first: Vec<usize> = (0..middle).collect();
        let copy = Self {
            body: self.body.clone(),
            items: self.items.iter().map(Item::clone_for_split).collect(),
            rejects: Arc::clone(&self.rejects),
        };
        (self.subset(&first), copy.subset(&second))
    }
}

impl Item {
    fn clone_for_split(&self) -> Self {
        Self {
            line: self.line,
            start: self.start,
            source: self.source,
            end: self.end,
            edit: match &self.edit {
                Edit::None => Edit::None,
                Edit::Inserted(length) => Edit::Inserted(*length),
                Edit::Replaced(line) => Edit::Replaced(line.clone()),
            },
        }
    }
}

/// Collects lines into batches.
pub(super) struct Batcher<'a> {
    shape: &'a Shape,
    /// The action line of events without id and routing.
    plain_action: Vec<u8>,
    current: Batch,
}

impl<'a> Batcher<'a> {
    pub(super) fn new(shape: &'a Shape, rejects: Arc<Rejects>) -> Self {
        Self {
            shape,
            plain_action: format!("{{\"{}\":{{}}}}\n", shape.operation).into_bytes(),
            current: Batch {
                body: Vec::new(),
                items: Vec::new(),
                rejects,
            },
        }
    }

    /// Adds a line. If it does not fit, returns the batch that is full without it. The error is the reason why the line
    /// cannot be sent.
    pub(super) fn add(&mut self, number: u64, line: &[u8]) -> Result<Option<Batch>, String> {
        let fields = Fields::read(self.shape, line)?;
        let full = !self.current.items.is_empty()
            && (self.current.items.len() >= self.shape.batch_docs
                || self.current.body.len() + line.len() > self.shape.batch_bytes);
        let batch = full.then(|| self.take());
        let body = &mut self.current.body;
        let start = body.len();
        if fields.id.is_none() && fields.routing.is_none() {
            body.extend_from_slice(&self.plain_action);
        } else {
            write_action(body, self.shape.operation, &fields);
        }
        let source = body.len();
        let edit = write_source(body, line, fields.timestamp);
        let end = body.len();
        body.push(b'\n');
        self.current.items.push(Item {
            line: number,
            start,
            source,
            end,
            edit,
        });
        Ok(batch)
    }

    /// Returns the last batch.
    pub(super) fn finish(mut self) -> Option<Batch> {
        (!self.current.items.is_empty()).then(|| self.take())
    }

    fn take(&mut self) -> Batch {
        let empty = Batch {
            body: Vec::with_capacity(self.current.body.len()),
            items: Vec::with_capacity(self.current.items.len()),
            rejects: Arc::clone(&self.current.rejects),
        };
        std::mem::replace(&mut self.current, empty)
    }
}

fn write_action(body: &mut Vec<u8>, operation: &str, fields: &Fields) {
    let text = |value: &str| Value::from(value).to_string();
    body.extend_from_slice(format!("{{\"{operation}\":{{").as_bytes());
    if let Some(id) = &fields.id {
        body.extend_from_slice(format!("\"_id\":{}", text(id)).as_bytes());
    }
    if let Some(routing) = &fields.routing {
        let comma = if fields.id.is_some() { "," } else { "" };
        body.extend_from_slice(format!("{comma}\"routing\":{}", text(routing)).as_bytes());
    }
    body.extend_from_slice(b"}}\n");
}

/// Values that the options extract from an event.
#[derive(Default)]
struct Fields {
    id: Option<String>,
    routing: Option<String>,
    timestamp: Option<Timestamp>,
}

/// The value for `@timestamp`, and the range of an existing value in the line.
struct Timestamp {
    raw: Vec<u8>,
    existing: Option<std::ops::Range<usize>>,
}

impl Fields {
    fn read(shape: &Shape, line: &[u8]) -> Result<Self, String> {
        let mut fields = Self::default();
        if let Some(name) = &shape.id_field {
            let raw = find(line, name).ok_or_else(|| format!("the field [{name}] of --id-field is missing"))?;
            fields.id = Some(scalar(name, &line[raw])?);
        }
        if let Some(name) = &shape.tenant_field {
            let raw = find(line, name).ok_or_else(|| format!("the field [{name}] of --tenant-field is missing"))?;
            fields.routing = Some(scalar(name, &line[raw])?);
        }
        if let Some(name) = shape.timestamp_field.as_deref().filter(|&name| name != "@timestamp") {
            let existing = find(line, "@timestamp");
            match find(line, name) {
                Some(raw) => {
                    fields.timestamp = Some(Timestamp {
                        raw: line[raw].to_vec(),
                        existing,
                    });
                }
                // An event that has an `@timestamp` needs no copy.
                None if existing.is_some() => {}
                None => return Err(format!("the field [{name}] of --timestamp-field is missing")),
            }
        }
        Ok(fields)
    }
}

/// Maximum of nesting levels that the server accepts.
const NESTING_MAX: usize = 1000;

/// Returns the range of a field's value: by its whole name, else by its dotted path.
fn find(line: &[u8], name: &str) -> Option<std::ops::Range<usize>> {
    if nests_deeper(line, NESTING_MAX) {
        return None;
    }
    let value = sonic_rs::get_from_slice(line, [name])
        .or_else(|_| sonic_rs::get_from_slice(line, name.split('.')))
        .ok()?;
    let raw = value.as_raw_str();
    // The value is a slice of the line, so the distance of the two is its offset.
    let start = (raw.as_ptr() as usize).checked_sub(line.as_ptr() as usize)?;
    let range = start..start + raw.len();
    (line.get(range.clone())? == raw.as_bytes()).then_some(range)
}

fn scalar(name: &str, raw: &[u8]) -> Result<String, String> {
    match serde_json::from_slice(raw) {
        Ok(Value::String(text)) if !text.is_empty() => Ok(text),
        Ok(Value::Number(number)) => Ok(number.to_string()),
        Ok(Value::Bool(value)) => Ok(value.to_string()),
        _ => Err(format!("the field [{name}] is not a string, number or boolean")),
    }
}

fn write_source(body: &mut Vec<u8>, line: &[u8], timestamp: Option<Timestamp>) -> Edit {
    let Some(timestamp) = timestamp else {
        body.extend_from_slice(line);
        return Edit::None;
    };
    if let Some(existing) = timestamp.existing {
        body.extend_from_slice(&line[..existing.start]);
        body.extend_from_slice(&timestamp.raw);
        body.extend_from_slice(&line[existing.end..]);
        return Edit::Replaced(line.into());
    }
    // The field was found, so the line is an object with at least one member.
    let brace = line.iter().position(|&byte| byte == b'{').map_or(0, |at| at + 1);
    let before = body.len();
    body.extend_from_slice(&line[..brace]);
    body.extend_from_slice(b"\"@timestamp\":");
    body.extend_from_slice(&timestamp.raw);
    body.push(b',');
    let inserted = body.len() - before - brace;
    body.extend_from_slice(&line[brace..]);
    Edit::Inserted(inserted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape {
            operation: "index",
            timestamp_field: None,
            tenant_field: None,
            id_field: None,
            batch_bytes: 1 << 20,
            batch_docs: 100,
        }
    }

    fn rejects() -> Arc<Rejects> {
        let folder = tempfile::tempdir().expect("a folder");
        Arc::new(Rejects::new(folder.path().join("r")).expect("a side file"))
    }

    fn check(shape: &Shape, line: &str, expect: Result<&str, &str>) {
        let mut batcher = Batcher::new(shape, rejects());
        match (batcher.add(1, line.as_bytes()), expect) {
            (Ok(None), Ok(body)) => {
                let batch = batcher.finish().expect("a batch");
                assert_eq!(String::from_utf8_lossy(&batch.body), body);
                assert_eq!(batch.raw_line(&batch.items[0]), line.as_bytes());
            }
            (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
            (added, expect) => panic!("{line}: {:?} is not {expect:?}", added.map(|batch| batch.is_some())),
        }
    }

    #[test]
    fn writes_action_and_source() {
        check(&shape(), r#"{"a":1}"#, Ok("{\"index\":{}}\n{\"a\":1}\n"));
        let tenant = Shape {
            operation: "create",
            tenant_field: Some("t.id".to_owned()),
            id_field: Some("i".to_owned()),
            ..shape()
        };
        check(
            &tenant,
            r#"{"t":{"id":"a\"b"},"i":7}"#,
            Ok("{\"create\":{\"_id\":\"7\",\"routing\":\"a\\\"b\"}}\n{\"t\":{\"id\":\"a\\\"b\"},\"i\":7}\n"),
        );
        check(
            &tenant,
            r#"{"t.id":"x","i":true}"#,
            Ok("{\"create\":{\"_id\":\"true\",\"routing\":\"x\"}}\n{\"t.id\":\"x\",\"i\":true}\n"),
        );
        check(&tenant, r#"{"t.id":"x"}"#, Err("[i] of --id-field is missing"));
        check(&tenant, r#"{"i":1}"#, Err("[t.id] of --tenant-field is missing"));
        check(&tenant, r#"{"i":[1],"t.id":1}"#, Err("[i] is not a string"));
    }

    #[test]
    fn copies_the_timestamp() {
        let shape = Shape {
            timestamp_field: Some("time".to_owned()),
            ..shape()
        };
        check(
            &shape,
            r#" { "time" : "2026-01-01" }"#,
            Ok("{\"index\":{}}\n {\"@timestamp\":\"2026-01-01\", \"time\" : \"2026-01-01\" }\n"),
        );
        check(
            &shape,
            r#"{"@timestamp":"old","time":5}"#,
            Ok("{\"index\":{}}\n{\"@timestamp\":5,\"time\":5}\n"),
        );
        check(
            &shape,
            r#"{"@timestamp":"own"}"#,
            Ok("{\"index\":{}}\n{\"@timestamp\":\"own\"}\n"),
        );
        check(&shape, r#"{"a":5}"#, Err("[time] of --timestamp-field is missing"));
    }

    #[test]
    fn cuts_by_documents_and_bytes() {
        let check = |docs: usize, bytes: usize, expect: &[usize]| {
            let shape = Shape {
                batch_docs: docs,
                batch_bytes: bytes,
                ..shape()
            };
            let mut batcher = Batcher::new(&shape, rejects());
            let mut sizes: Vec<usize> = (0..10)
                .filter_map(|number| batcher.add(number, b"{\"a\":1}").expect("a line"))
                .map(|batch| batch.items.len())
                .collect();
            sizes.extend(batcher.finish().map(|batch| batch.items.len()));
            assert_eq!(sizes, expect);
        };
        check(4, 1 << 20, &[4, 4, 2]);
        check(100, 64, &[3, 3, 3, 1]);
        check(100, 1, &[1; 10]);
    }

    #[test]
    fn subsets_keep_their_lines() {
        let shape = shape();
        let mut batcher = Batcher::new(&shape, rejects());
        for number in 1..=5 {
            let line = format!("{{\"n\":{number}}}");
            assert!(batcher.add(number, line.as_bytes()).expect("a line").is_none());
        }
        let (first, second) = batcher.finish().expect("a batch").halves();
        assert_eq!((first.items.len(), second.items.len()), (2, 3));
        let batch = second.subset(&[0, 2]);
        assert_eq!(
            String::from_utf8_lossy(&batch.body),
            "{\"index\":{}}\n{\"n\":3}\n{\"index\":{}}\n{\"n\":5}\n"
        );
        assert_eq!(batch.items[1].line, 5);
        assert_eq!(batch.raw_line(&batch.items[1]), b"{\"n\":5}");
    }
}
