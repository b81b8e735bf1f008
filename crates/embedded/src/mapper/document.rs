//! A mapped event, in the form that the segment library reads.

use std::sync::Arc;

use bytes::Bytes;
use tantivy::schema::Field;
use tantivy::schema::document::{Document, ReferenceValue, ReferenceValueLeaf, Value};

use super::CompiledMapping;
use super::compiled::PATH_IGNORED;
use crate::schema::{Class, Fields, fields};
use firn_model::mapping::Analyzer;

/// A mapped event: its source and the values of its fields by class.
///
/// Strings are slices of the source where they stand there as they are, else of one arena; paths
/// are numbers into the mapping it was made with. So a document costs a handful of allocations,
/// whatever it holds.
#[derive(Debug)]
pub struct MappedDocument {
    pub(super) source: Bytes,
    pub(super) arena: String,
    pub(super) compiled: Option<Arc<CompiledMapping>>,
    /// Slices of the arena: paths that the mapping does not know, encoded.
    pub(super) extra_paths: Vec<(u32, u32)>,
    /// Sorted by class.
    pub(super) entries: Vec<Entry>,
    pub(super) time_range_ms: Option<(i64, i64)>,
    pub(super) place: Place,
}

/// What the shard says about a document.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// `None`: made by the shard, so it stands nowhere.
    id: Option<Box<str>>,
    routing: Option<Box<str>>,
    seq_no: u64,
    version: u64,
}

/// One value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// A path id, or [`EXTRA_PATH`] and an index into `extra_paths`.
    pub(super) path: u32,
    /// Index into [`class_fields`].
    pub(super) class: u8,
    pub(super) value: Slot,
}

/// Marks paths that the mapping does not know.
pub(super) const EXTRA_PATH: u32 = 1 << 31;

/// Where a value stands.
#[derive(Debug, Clone, Copy)]
pub(super) enum Slot {
    /// Start and end in the source.
    Source(u32, u32),
    /// Start and end in the arena.
    Arena(u32, u32),
    /// The name of a path id.
    Name(u32),
    I64(i64),
    U64(u64),
    F64(f64),
}

/// The class fields in the order of their ids.
fn class_fields(fields: &Fields) -> [Field; 8] {
    [
        fields.kw,
        fields.kw_terms,
        fields.kw_column,
        fields.num,
        fields.text,
        fields.text_simple,
        fields.text_whitespace,
        fields.text_keyword,
    ]
}

/// A class as an index into [`class_fields`].
pub(super) fn class_number(class: Class) -> Option<u8> {
    Some(match class {
        Class::Keyword => 0,
        Class::KeywordTerms => 1,
        Class::KeywordColumn => 2,
        Class::Number => 3,
        Class::Text(Analyzer::Standard) => 4,
        Class::Text(Analyzer::Simple) => 5,
        Class::Text(Analyzer::Whitespace) => 6,
        Class::Text(Analyzer::Keyword) => 7,
        Class::None => return None,
    })
}

impl MappedDocument {
    /// A document none of whose fields are indexed.
    pub fn source_only(source: Bytes) -> Self {
        Self {
            source,
            arena: String::new(),
            compiled: None,
            extra_paths: Vec::new(),
            entries: Vec::new(),
            time_range_ms: None,
            place: Place::default(),
        }
    }

    /// The event, byte for byte.
    pub fn source(&self) -> &Bytes {
        &self.source
    }

    /// Inclusive bounds of its `@timestamp` values, ms since epoch UTC; `None`: it has none.
    pub fn time_range_ms(&self) -> Option<(i64, i64)> {
        self.time_range_ms
    }

    /// Memory it holds besides its source, bytes.
    pub fn heap_bytes(&self) -> usize {
        self.arena.capacity() + self.entries.capacity() * size_of::<Entry>() + self.extra_paths.capacity() * 8
    }

    /// The values that a keyword field at the top level is indexed with, in any order.
    pub(crate) fn keywords(&self, field: &str) -> impl Iterator<Item = &str> {
        let of_field = move |entry: &&Entry| entry.class == 0 && self.path(entry) == field;
        let entries = self.entries.iter().filter(of_field);
        entries.filter_map(|entry| self.leaf(entry.value).as_str())
    }

    /// Names of fields whose value did not fit, sorted.
    pub(crate) fn ignored(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .entries
            .iter()
            .filter(|entry| entry.class == 0 && entry.path == PATH_IGNORED)
            .filter_map(|entry| self.leaf(entry.value).as_str().map(str::to_owned))
            .collect();
        names.sort_unstable();
        names
    }

    /// Tells it its place in the shard.
    pub(crate) fn place(&mut self, id: Option<&str>, routing: Option<&str>, seq_no: u64, version: u64) {
        self.place = Place {
            id: id.map(Into::into),
            routing: routing.map(Into::into),
            seq_no,
            version,
        };
    }

    fn path(&self, entry: &Entry) -> &str {
        if entry.path & EXTRA_PATH != 0 {
            let (start, end) = self.extra_paths[(entry.path & !EXTRA_PATH) as usize];
            return &self.arena[start as usize..end as usize];
        }
        match &self.compiled {
            Some(compiled) => &compiled.paths[entry.path as usize],
            None => "",
        }
    }

    fn leaf(&self, slot: Slot) -> ReferenceValueLeaf<'_> {
        match slot {
            Slot::Source(start, end) => {
                let bytes = &self.source[start as usize..end as usize];
                // SAFETY: `map_document`, the only maker of such slots, checked the whole source to
                // be UTF-8 and cuts it at ASCII quotes and digits only.
                #[allow(
                    unsafe_code,
                    reason = "each value is read twice; checking again costs 2 % of indexing"
                )]
                let text = unsafe { std::str::from_utf8_unchecked(bytes) };
                ReferenceValueLeaf::Str(text)
            }
            Slot::Arena(start, end) => ReferenceValueLeaf::Str(&self.arena[start as usize..end as usize]),
            Slot::Name(path) => match &self.compiled {
                Some(compiled) => ReferenceValueLeaf::Str(&compiled.names[path as usize]),
                None => ReferenceValueLeaf::Null,
            },
            Slot::I64(value) => ReferenceValueLeaf::I64(value),
            Slot::U64(value) => ReferenceValueLeaf::U64(value),
            Slot::F64(value) => ReferenceValueLeaf::F64(value),
        }
    }

    /// Every value as (field of the schema, path with dots, value printed), for tests.
    #[cfg(test)]
    pub(crate) fn dump(&self) -> Vec<String> {
        const NAMES: [&str; 8] = [
            "kw",
            "kwi",
            "kwc",
            "num",
            "text",
            "text_simple",
            "text_whitespace",
            "text_keyword",
        ];
        self.entries
            .iter()
            .map(|entry| {
                let value = match self.leaf(entry.value) {
                    ReferenceValueLeaf::Str(text) => text.to_owned(),
                    ReferenceValueLeaf::I64(value) => value.to_string(),
                    ReferenceValueLeaf::U64(value) => format!("{value}u"),
                    ReferenceValueLeaf::F64(value) => format!("{value:?}f"),
                    other => format!("{other:?}"),
                };
                let path = self.path(entry).replace('\u{1}', ".");
                format!("{}:{path}={value}", NAMES[usize::from(entry.class)])
            })
            .collect()
    }
}

impl Document for MappedDocument {
    type Value<'a> = DocumentValue<'a>;
    type FieldsValuesIter<'a> = FieldValues<'a>;

    fn iter_fields_and_values(&self) -> FieldValues<'_> {
        FieldValues {
            document: self,
            step: 0,
            entry: 0,
        }
    }
}

/// A value of a [`MappedDocument`].
#[derive(Clone)]
pub enum DocumentValue<'a> {
    /// A value that stands for itself.
    Leaf(ReferenceValueLeaf<'a>),
    /// The entries of one class field.
    Object(Members<'a>),
}

impl std::fmt::Debug for DocumentValue<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DocumentValue::Leaf(leaf) => leaf.fmt(formatter),
            DocumentValue::Object(members) => write!(formatter, "{} entries", members.entries.len()),
        }
    }
}

impl<'a> Value<'a> for DocumentValue<'a> {
    type ArrayIter = std::iter::Empty<Self>;
    type ObjectIter = Members<'a>;

    fn as_value(&self) -> ReferenceValue<'a, Self> {
        match self {
            DocumentValue::Leaf(leaf) => ReferenceValue::Leaf(leaf.clone()),
            DocumentValue::Object(members) => ReferenceValue::Object(members.clone()),
        }
    }
}

/// The entries of one class field as (path, value).
#[derive(Clone)]
pub struct Members<'a> {
    document: &'a MappedDocument,
    entries: std::slice::Iter<'a, Entry>,
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, DocumentValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next()?;
        let value = self.document.leaf(entry.value);
        Some((self.document.path(entry), DocumentValue::Leaf(value)))
    }
}

/// The fields of a [`MappedDocument`] in the order of their ids.
pub struct FieldValues<'a> {
    document: &'a MappedDocument,
    step: u8,
    entry: usize,
}

impl<'a> Iterator for FieldValues<'a> {
    type Item = (Field, DocumentValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let fields = fields();
        let document = self.document;
        let place = &document.place;
        loop {
            let step = self.step;
            self.step = self.step.saturating_add(1);
            let found = match step {
                0 => place.id.as_deref().map(|id| (fields.id, ReferenceValueLeaf::Str(id))),
                1 => place
                    .id
                    .as_deref()
                    .map(|id| (fields.stored_id, ReferenceValueLeaf::Str(id))),
                2 => place
                    .routing
                    .as_deref()
                    .map(|routing| (fields.routing, ReferenceValueLeaf::Str(routing))),
                3 => Some((fields.source, ReferenceValueLeaf::Bytes(&document.source))),
                4 => Some((fields.seq_no, ReferenceValueLeaf::U64(place.seq_no))),
                5 => (place.version != 1).then_some((fields.version, ReferenceValueLeaf::U64(place.version))),
                _ => {
                    let rest = &document.entries[self.entry..];
                    let class = rest.first()?.class;
                    let count = rest.iter().take_while(|entry| entry.class == class).count();
                    self.entry += count;
                    let members = Members {
                        document,
                        entries: rest[..count].iter(),
                    };
                    return Some((class_fields(fields)[usize::from(class)], DocumentValue::Object(members)));
                }
            };
            if let Some((field, leaf)) = found {
                return Some((field, DocumentValue::Leaf(leaf)));
            }
        }
    }
}
