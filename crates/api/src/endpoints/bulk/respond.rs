//! Serializer of a bulk's answer: writes directly into a buffer and applies common filters at once.

use firn_engine::document::{BulkItemResponse, BulkResponse, Effect, Written};
use firn_model::metadata::Metadata;
use serde_json::Value;

use super::op_type::OpType;
use crate::wire::error::{error_object, status_and_type};
use crate::wire::filter_path::{FilterPath, Verdict};

/// `_shards` of an item that no shard wrote.
const NO_SHARDS: &[u8] = b"\"_shards\":{\"total\":0,\"successful\":0,\"failed\":0},";

/// Keys of an item; the positions are bits of the masks.
const KEYS: [&str; 12] = [
    "_index",
    "_id",
    "_version",
    "result",
    "forced_refresh",
    "_shards",
    "_seq_no",
    "_primary_term",
    "get",
    "error",
    "status",
    "executed_pipelines",
];
const ALL_KEYS: u16 = (1 << KEYS.len()) - 1;
/// All but `error` and `status`.
const DOCUMENT_KEYS: u16 = ALL_KEYS & !(0b11 << 9);

/// What ingest pipelines did to the items.
#[derive(Debug, Default)]
pub(crate) struct ItemNotes {
    /// Positions of dropped items, ascending.
    pub(crate) dropped: Vec<usize>,
    /// Pipelines that ran, by position, if the request wants them listed. May be shorter than the bulk.
    pub(crate) executed: Option<Vec<Vec<String>>>,
}

impl ItemNotes {
    fn is_dropped(&self, position: usize) -> bool {
        !self.dropped.is_empty() && self.dropped.binary_search(&position).is_ok()
    }

    fn executed(&self, position: usize) -> Option<&[String]> {
        let executed = self.executed.as_ref()?;
        Some(executed.get(position).map_or(&[], Vec::as_slice))
    }
}

/// Keys to write, by kind of operation.
struct ItemFields {
    /// Bit N: `KEYS[N]`.
    keys: [u16; 4],
    took: bool,
    errors: bool,
}

impl ItemFields {
    /// Builds the key masks; `None`: the filter applies to values and must run over the whole text.
    fn new(filter: Option<&FilterPath>) -> Option<Self> {
        let Some(filter) = filter else {
            return Some(Self {
                keys: [ALL_KEYS; 4],
                took: true,
                errors: true,
            });
        };
        let whole = |path: &[&str]| match filter.verdict(path) {
            Verdict::Keep => Some(true),
            Verdict::Drop => Some(false),
            Verdict::Descend => None,
        };
        // Leaves to which only deeper patterns apply are omitted; `_shards`, `get` and `error` have deeper levels.
        let leaf = |path: &[&str]| filter.verdict(path) == Verdict::Keep || exclusions_only(filter, path);
        let mut keys = [0; 4];
        for (op_type, mask) in [OpType::Index, OpType::Create, OpType::Update, OpType::Delete]
            .into_iter()
            .zip(&mut keys)
        {
            for (bit, key) in KEYS.iter().enumerate() {
                let path = ["items", op_type.name(), key];
                let wanted = match *key {
                    "_shards" | "get" | "error" => whole(&path)?,
                    _ => leaf(&path),
                };
                *mask |= u16::from(wanted) << bit;
            }
        }
        Some(Self {
            keys,
            took: leaf(&["took"]),
            errors: leaf(&["errors"]),
        })
    }
}

/// Returns whether a leaf is included, and only exclusions apply to deeper levels.
fn exclusions_only(filter: &FilterPath, path: &[&str]) -> bool {
    let mut deeper: Vec<&str> = path.to_vec();
    // No pattern names this key, so only a pattern that covers the leaf includes it.
    deeper.push("\u{0}");
    filter.verdict(path) == Verdict::Descend && filter.verdict(&deeper) == Verdict::Keep
}

/// Returns the bytes of the answer, and whether the filter is already applied.
pub(super) fn write(
    response: &BulkResponse,
    op_types: &[OpType],
    notes: &ItemNotes,
    took_ms: u64,
    filter: Option<&FilterPath>,
    metadata: &Metadata,
) -> (Vec<u8>, bool) {
    let wanted = ItemFields::new(filter);
    let filtered = filter.is_some() && wanted.is_some();
    let wanted = wanted.unwrap_or(ItemFields {
        keys: [ALL_KEYS; 4],
        took: true,
        errors: true,
    });
    let errors = response.items.iter().any(|item| item.result.is_err());
    // Some 180 bytes an item when nothing is filtered.
    let capacity = if filtered {
        4096
    } else {
        64 + response.items.len() * 192
    };
    let mut output = Vec::with_capacity(capacity);
    output.push(b'{');
    if wanted.errors {
        output.extend_from_slice(if errors {
            b"\"errors\":true,"
        } else {
            b"\"errors\":false,"
        });
    }
    if wanted.took {
        output.extend_from_slice(b"\"took\":");
        number(&mut output, took_ms);
        output.push(b',');
    }
    if wanted.keys != [0; 4] {
        output.extend_from_slice(b"\"items\":[");
        let start = output.len();
        let mut shards = ShardsText::default();
        for (position, (item, op_type)) in response.items.iter().zip(op_types).enumerate() {
            let keys = wanted.keys[*op_type as usize];
            if keys == 0 {
                continue;
            }
            let before = output.len();
            if before > start {
                output.push(b',');
            }
            output.extend_from_slice(b"{\"");
            output.extend_from_slice(op_type.name().as_bytes());
            output.extend_from_slice(b"\":{");
            let inside = output.len();
            if notes.is_dropped(position) {
                write_dropped(&mut output, item, keys);
            } else {
                let executed = notes.executed(position).filter(|_| op_type.runs_pipelines());
                write_keys(&mut output, item, executed, keys, &mut shards, metadata);
            }
            if output.len() == inside {
                // A filtered answer omits empty objects.
                output.truncate(before);
            } else {
                output.extend_from_slice(b"}}");
            }
        }
        if output.len() == start && filtered {
            output.truncate(start - b"\"items\":[".len());
        } else {
            output.push(b']');
        }
    }
    if output.last() == Some(&b',') {
        output.pop();
    }
    output.push(b'}');
    (output, filtered)
}

/// Writes one item without its action, in the form of the single-document APIs.
pub(crate) fn write_item(item: &BulkItemResponse, metadata: &Metadata) -> Vec<u8> {
    let mut output = vec![b'{'];
    write_keys(
        &mut output,
        item,
        None,
        DOCUMENT_KEYS,
        &mut ShardsText::default(),
        metadata,
    );
    output.push(b'}');
    output
}

/// Writes an item that an ingest pipeline dropped, in the form of the single-document APIs.
pub(crate) fn write_dropped_item(item: &BulkItemResponse) -> Vec<u8> {
    let mut output = vec![b'{'];
    write_dropped(&mut output, item, DOCUMENT_KEYS);
    output.push(b'}');
    output
}

/// Cached `_shards` object of the last index, because runs of items share it.
#[derive(Default)]
struct ShardsText {
    index: String,
    text: Vec<u8>,
}

impl ShardsText {
    fn of(&mut self, index: &str, metadata: &Metadata) -> &[u8] {
        if self.text.is_empty() || self.index != index {
            // There is one copy of each shard. Missing replicas count in the total and are not failures.
            let replicas = metadata
                .indices
                .get(index)
                .map_or(0, |index| index.settings.number_of_replicas);
            self.index = index.to_owned();
            self.text = format!(
                "\"_shards\":{{\"total\":{},\"successful\":1,\"failed\":0}}",
                u64::from(replicas) + 1
            )
            .into_bytes();
        }
        &self.text
    }
}

/// Writes a dropped item as Elasticsearch does: no shard saw it, and its version is that of a request without one.
fn write_dropped(output: &mut Vec<u8>, item: &BulkItemResponse, keys: u16) {
    let start = output.len();
    let wants = |bit: usize| keys & (1 << bit) != 0;
    if wants(0) {
        text(output, b"\"_index\":", &item.index);
    }
    if wants(1) {
        text(output, b"\"_id\":", &item.id);
    }
    if wants(2) {
        output.extend_from_slice(b"\"_version\":-3,");
    }
    if wants(3) {
        text(output, b"\"result\":", result_name(Effect::Noop));
    }
    if wants(5) {
        output.extend_from_slice(NO_SHARDS);
    }
    if wants(10) {
        field(output, b"\"status\":", u64::from(status(item)));
    }
    if output.len() > start {
        output.pop();
    }
}

fn write_keys(
    output: &mut Vec<u8>,
    item: &BulkItemResponse,
    executed: Option<&[String]>,
    keys: u16,
    shards: &mut ShardsText,
    metadata: &Metadata,
) {
    let start = output.len();
    let wants = |bit: usize| keys & (1 << bit) != 0;
    if wants(0) {
        text(output, b"\"_index\":", &item.index);
    }
    if wants(1) && (!item.id.is_empty() || item.result.is_ok()) {
        text(output, b"\"_id\":", &item.id);
    }
    match &item.result {
        Ok(written) => {
            if wants(2) {
                field(output, b"\"_version\":", written.version);
            }
            if wants(3) {
                output.extend_from_slice(b"\"result\":\"");
                output.extend_from_slice(result_name(written.effect).as_bytes());
                output.extend_from_slice(b"\",");
            }
            if wants(4) && written.forced_refresh {
                output.extend_from_slice(b"\"forced_refresh\":true,");
            }
            if wants(5) {
                if written.effect == Effect::Noop {
                    output.extend_from_slice(NO_SHARDS);
                } else {
                    output.extend_from_slice(shards.of(&item.index, metadata));
                    output.push(b',');
                }
            }
            if wants(6) {
                field(output, b"\"_seq_no\":", written.seq_no);
            }
            if wants(7) {
                field(output, b"\"_primary_term\":", written.primary_term);
            }
            if wants(8)
                && let Some(source) = &written.get
            {
                write_get(output, written, source);
            }
            if wants(11)
                && let Some(executed) = executed
            {
                output.extend_from_slice(b"\"executed_pipelines\":");
                // Writing to a vector does not fail.
                let _ = serde_json::to_writer(&mut *output, executed);
                output.push(b',');
            }
        }
        Err(error) => {
            if wants(9) {
                output.extend_from_slice(b"\"error\":");
                let object = Value::Object(error_object(error, Some(metadata)));
                output.extend_from_slice(object.to_string().as_bytes());
                output.push(b',');
            }
        }
    }
    if wants(10) {
        field(output, b"\"status\":", u64::from(status(item)));
    }
    if output.len() > start {
        output.pop();
    }
}

fn write_get(output: &mut Vec<u8>, written: &Written, source: &Value) {
    output.extend_from_slice(b"\"get\":{");
    field(output, b"\"_seq_no\":", written.seq_no);
    field(output, b"\"_primary_term\":", written.primary_term);
    output.extend_from_slice(b"\"found\":true,\"_source\":");
    output.extend_from_slice(source.to_string().as_bytes());
    output.extend_from_slice(b"},");
}

/// Returns the HTTP status of an item.
pub(crate) fn status(item: &BulkItemResponse) -> u16 {
    match &item.result {
        Ok(written) => match written.effect {
            Effect::Created => 201,
            Effect::Updated | Effect::Deleted | Effect::Noop => 200,
            Effect::NotFound => 404,
        },
        Err(error) => status_and_type(error.kind()).0.as_u16(),
    }
}

fn result_name(effect: Effect) -> &'static str {
    match effect {
        Effect::Created => "created",
        Effect::Updated => "updated",
        Effect::Deleted => "deleted",
        Effect::Noop => "noop",
        Effect::NotFound => "not_found",
    }
}

/// Writes a number. `name` is the quoted key with the colon; a comma ends the field.
fn field(output: &mut Vec<u8>, name: &[u8], value: u64) {
    output.extend_from_slice(name);
    number(output, value);
    output.push(b',');
}

fn number(output: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    output.extend_from_slice(&digits[at..]);
}

fn text(output: &mut Vec<u8>, name: &[u8], value: &str) {
    output.extend_from_slice(name);
    // Writing to a vector does not fail.
    let _ = serde_json::to_writer(&mut *output, value);
    output.push(b',');
}

#[cfg(test)]
mod tests {
    use firn_engine::Error;

    use super::*;

    fn check(filter: Option<&str>, expected: &str, expect_filtered: bool) {
        let written = |effect| BulkItemResponse {
            index: "i".to_owned(),
            id: "1".to_owned(),
            result: Ok(Written {
                effect,
                version: 1,
                seq_no: 0,
                primary_term: 1,
                forced_refresh: false,
                get: None,
            }),
        };
        let failed = BulkItemResponse {
            index: "i".to_owned(),
            id: "2".to_owned(),
            result: Err(Error::illegal_argument("no")),
        };
        let response = BulkResponse {
            items: vec![written(Effect::Created), failed],
        };
        let filter = filter.map(|text| FilterPath::parse(text).unwrap().unwrap());
        let (bytes, filtered) = write(
            &response,
            &[OpType::Index, OpType::Create],
            &ItemNotes::default(),
            3,
            filter.as_ref(),
            &Metadata::default(),
        );
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        assert_eq!(filtered, expect_filtered);
    }

    #[test]
    fn writes_items_as_elasticsearch_does() {
        let all = r#"{"errors":true,"took":3,"items":[{"index":{"_index":"i","_id":"1","_version":1,"result":"created","_shards":{"total":1,"successful":1,"failed":0},"_seq_no":0,"_primary_term":1,"status":201}},{"create":{"_index":"i","_id":"2","error":{"type":"illegal_argument_exception","reason":"no"},"status":400}}]}"#;
        check(None, all, false);
        check(Some("items.*.error.type"), all, false);
        check(
            Some("errors,items.*.error"),
            r#"{"errors":true,"items":[{"create":{"error":{"type":"illegal_argument_exception","reason":"no"}}}]}"#,
            true,
        );
        check(Some("took"), r#"{"took":3}"#, true);
        check(Some("items.update"), "{}", true);
        check(
            Some("items.*.status"),
            r#"{"items":[{"index":{"status":201}},{"create":{"status":400}}]}"#,
            true,
        );
        check(Some("-items"), r#"{"errors":true,"took":3}"#, true);
    }
}
