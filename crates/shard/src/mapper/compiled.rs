//! Compiled mapping: a mapping prepared for field lookups.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use firn_model::Result;
use firn_model::dates::DateFormat;
use firn_model::mapping::{Dynamic, FieldMapping, FieldType, Mapping, Node, ObjectMapping};
use firn_model::settings::IndexSettings;
use firn_segment::schema::{Class, FIELD_NAMES, IGNORED, class_of};

/// Mapping with the index settings that the mapper needs. Compiled once per mapping change.
#[derive(Debug)]
pub struct CompiledMapping {
    mapping: Arc<Mapping>,
    pub(super) root: CompiledObject,
    pub(super) leaves: Vec<Leaf>,
    /// By path id: names for users (`host.ip`).
    pub(super) names: Vec<Box<str>>,
    /// By path id: names in Tantivy (`host\x01ip`).
    pub(super) paths: Vec<Box<str>>,
    /// The mapping is at its limit of fields.
    pub(super) full: bool,
    /// The index's `ignore_malformed`, for objects.
    pub(super) ignore_malformed: bool,
}

/// Path id of `_ignored`.
pub(super) const PATH_IGNORED: u32 = 0;
/// Path id of `_field_names`.
pub(super) const PATH_FIELD_NAMES: u32 = 1;

/// Object and its direct children.
#[derive(Debug)]
pub(super) struct CompiledObject {
    pub(super) children: HashMap<Box<str>, (u32, Child), BuildHasherDefault<KeyHasher>>,
    /// Set here or inherited from the parent.
    pub(super) dynamic: Dynamic,
    pub(super) disabled: bool,
    /// Path id; `None` for the root.
    pub(super) path: Option<u32>,
}

#[derive(Debug)]
pub(super) enum Child {
    /// Index into [`CompiledMapping::leaves`].
    Leaf(u32),
    Object(Box<CompiledObject>),
}

/// Leaf field or multi-field.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) field: Arc<FieldMapping>,
    /// For geo points, `#lat` and `#lon` have the next two path ids.
    pub(super) path: u32,
    pub(super) class: Class,
    pub(super) multi_fields: Vec<u32>,
    pub(super) copy_to: Vec<u32>,
    /// Targets of `copy_to` that the mapping lacks.
    pub(super) copy_to_missing: Vec<String>,
    pub(super) ignore_malformed: bool,
    pub(super) coerce: bool,
    pub(super) format: Option<Arc<DateFormat>>,
    /// Whether it is the event's time.
    pub(super) is_timestamp: bool,
}

impl CompiledMapping {
    /// Compiles a mapping. A `copy_to` may name a missing field: the first event
    /// adds the field dynamically.
    pub fn new(mapping: Arc<Mapping>, settings: &IndexSettings) -> Result<Self> {
        let mut compiler = Compiler {
            ignore_malformed: settings.ignore_malformed,
            coerce: settings.coerce,
            leaves: Vec::new(),
            names: Vec::new(),
            by_name: HashMap::new(),
        };
        compiler.name(IGNORED.to_owned());
        compiler.name(FIELD_NAMES.to_owned());
        let root = compiler.object(&mapping.root, "", Dynamic::True);
        compiler.link_copies();
        let full = mapping.total_fields() >= settings.total_fields_limit as usize;
        Ok(Self {
            paths: compiler
                .names
                .iter()
                .map(|name| encode_path(name).into_boxed_str())
                .collect(),
            mapping,
            root,
            ignore_malformed: settings.ignore_malformed,
            leaves: compiler.leaves,
            names: compiler.names,
            full,
        })
    }

    /// Returns the mapping that it was compiled from.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

/// Encodes a dotted path as Tantivy joins it. The bytes 0 and 1, which would end a path or a level, are
/// replaced; no sane field name contains them.
pub(super) fn encode_path(name: &str) -> String {
    let mut path = String::with_capacity(name.len());
    encode_path_into(name, &mut path);
    path
}

/// As [`encode_path`], into a buffer.
pub(super) fn encode_path_into(name: &str, path: &mut String) {
    path.extend(name.chars().map(|character| match character {
        '.' => '\u{1}',
        '\u{0}' | '\u{1}' => '\u{fffd}',
        other => other,
    }));
}

struct Compiler {
    ignore_malformed: bool,
    coerce: bool,
    leaves: Vec<Leaf>,
    names: Vec<Box<str>>,
    by_name: HashMap<String, u32>,
}

impl Compiler {
    fn name(&mut self, name: String) -> u32 {
        self.names.push(name.into_boxed_str());
        self.names.len() as u32 - 1
    }

    fn object(&mut self, object: &ObjectMapping, path: &str, inherited: Dynamic) -> CompiledObject {
        let dynamic = object.dynamic.unwrap_or(inherited);
        let own_path = (!path.is_empty()).then(|| self.name(path.to_owned()));
        let mut children = HashMap::default();
        for (ordinal, (name, node)) in object.properties.iter().enumerate() {
            let full = join(path, name);
            let child = match node {
                Node::Object(object) => Child::Object(Box::new(self.object(object, &full, dynamic))),
                Node::Field(field) => Child::Leaf(self.leaf(field, &full)),
            };
            children.insert(name.as_str().into(), (ordinal as u32, child));
        }
        CompiledObject {
            children,
            dynamic,
            disabled: object.disabled,
            path: own_path,
        }
    }

    fn leaf(&mut self, field: &Arc<FieldMapping>, path: &str) -> u32 {
        let path_id = self.name(path.to_owned());
        if field.field_type == FieldType::GeoPoint {
            self.name(format!("{path}#lat"));
            self.name(format!("{path}#lon"));
        }
        let is_date = matches!(field.field_type, FieldType::Date | FieldType::DateNanos);
        let format = is_date.then(|| {
            field
                .format
                .clone()
                .unwrap_or_else(|| Arc::new(DateFormat::default_millis()))
        });
        let index = self.leaves.len();
        self.leaves.push(Leaf {
            field: Arc::clone(field),
            path: path_id,
            class: class_of(field),
            multi_fields: Vec::new(),
            copy_to: Vec::new(),
            copy_to_missing: Vec::new(),
            ignore_malformed: field.ignore_malformed.unwrap_or(self.ignore_malformed),
            coerce: field.coerce && self.coerce,
            format,
            is_timestamp: is_date && path == "@timestamp",
        });
        self.by_name.insert(path.to_owned(), index as u32);
        let multi_fields = field
            .fields
            .iter()
            .map(|(name, field)| self.leaf(field, &join(path, name)))
            .collect();
        self.leaves[index].multi_fields = multi_fields;
        index as u32
    }

    fn link_copies(&mut self) {
        for index in 0..self.leaves.len() {
            let targets = self.leaves[index].field.copy_to.clone();
            for target in targets {
                match self.by_name.get(&target) {
                    Some(leaf) => self.leaves[index].copy_to.push(*leaf),
                    None => self.leaves[index].copy_to_missing.push(target),
                }
            }
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// Fast hash for field names (FxHash over words). The map contains only names of the mapping, whose
/// number is limited; names from events are only looked up, so an attacker cannot accumulate collisions.
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        // The table takes its tag from the high bits and its slot from the low ones.
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56));
    }

    fn write_u8(&mut self, _: u8) {
        // The terminator that `str` adds; the length is already in the hash.
    }
}

impl KeyHasher {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x51_7c_c1_b7_27_22_0a_95);
    }
}
