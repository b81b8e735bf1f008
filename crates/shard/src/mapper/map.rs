//! Mapping pass over an event.

use std::sync::Arc;

use bytes::Bytes;
use firn_model::mapping::{Dynamic, FieldType, Mapping};
use firn_model::{Error, ErrorKind, Result};
use firn_segment::schema::Class;

use super::coerce::Scalar;
use super::compiled::{Child, CompiledObject, PATH_IGNORED};
use super::document::{Entry, Place, Slot};
use super::json::{JsonResult, Reader, line_and_column};
use super::{CompiledMapping, MappedDocument};

/// Maximum keys of one event. Elasticsearch has no such limit, but fails at its field limit
/// or runs out of memory; this limit keeps one hostile event from costing as much as ten thousand normal ones.
pub const KEYS_MAX: u32 = 10_000;
/// Maximum indexed values of one event, including those of multi-fields and copies.
pub const VALUES_MAX: usize = 100_000;
/// Maximum nesting depth of objects and arrays whose content is indexed. The mapping's depth
/// limit is 20 by default; this one protects the stack.
pub(crate) const DEPTH_MAX: u32 = 150;

/// Result of mapping an event.
pub struct Mapped {
    /// The document to index.
    pub document: MappedDocument,
    /// Fields that the mapping lacks, as a mapping that only adds them (or sets the value of a
    /// `constant_keyword`). Merge it into the index's mapping and map the event again;
    /// the document of this pass does not contain them.
    pub new_fields: Option<Mapping>,
}

/// Handling of fields that the mapping lacks if `dynamic` is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmapped {
    /// Report them in [`Mapped::new_fields`]. Once the mapping is at its `total_fields` limit, this
    /// is the same as `Flatten`.
    Report,
    /// Index their leaves as keywords under their own paths, without adding them to the mapping:
    /// for the pass after one whose fields did not all fit into the limit.
    Flatten,
}

/// Maps one event. `id` is only for messages.
///
/// Fails with [`ErrorKind::DocumentParsing`] if it is not one JSON object, is too deep or too
/// large, repeats a key, or has values that its mapping refuses; and with
/// [`ErrorKind::StrictDynamicMapping`].
pub fn map_document(
    compiled: &Arc<CompiledMapping>,
    source: &Bytes,
    id: Option<&str>,
    unmapped: Unmapped,
) -> Result<Mapped> {
    let text = match std::str::from_utf8(source) {
        Ok(text) if u32::try_from(text.len()).is_ok() => text,
        Ok(_) => {
            return Err(Error::new(
                ErrorKind::DocumentParsing,
                "failed to parse: more than 4 GB",
            ));
        }
        Err(error) => return Err(invalid_utf8(source, error.valid_up_to())),
    };
    let mut pass = Pass {
        compiled,
        reader: Reader::new(text),
        id,
        flatten: unmapped == Unmapped::Flatten || compiled.full,
        arena: String::new(),
        scratch: String::new(),
        extra_paths: Vec::new(),
        entries: Vec::with_capacity(32),
        ignored: Vec::new(),
        ignored_extra: Vec::new(),
        field_names: Vec::new(),
        time_range_ms: None,
        additions: None,
        key_count: 0,
        depth: 0,
    };
    match pass.document() {
        Ok(()) => {}
        Err(Stop::Json(error)) => return Err(error.into_error(source)),
        Err(Stop::Refused(error)) => return Err(error),
    }
    pass.finish_fields();
    let document = MappedDocument {
        source: source.clone(),
        arena: pass.arena,
        compiled: Some(Arc::clone(compiled)),
        extra_paths: pass.extra_paths,
        entries: pass.entries,
        time_range_ms: pass.time_range_ms,
        place: Place::default(),
    };
    Ok(Mapped {
        document,
        new_fields: pass.additions,
    })
}

fn invalid_utf8(source: &[u8], position: usize) -> Error {
    let (line, column) = line_and_column(source, position);
    Error::new(ErrorKind::DocumentParsing, format!("[{line}:{column}] failed to parse"))
        .with_position(line, column)
        .caused_by(Error::new(ErrorKind::JsonParse, "Invalid UTF-8 in the document"))
}

/// Why a pass ends early.
pub(super) enum Stop {
    Json(super::json::JsonError),
    Refused(Error),
}

impl From<super::json::JsonError> for Stop {
    fn from(error: super::json::JsonError) -> Self {
        Stop::Json(error)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Refused(error)
    }
}

pub(super) type Outcome = std::result::Result<(), Stop>;

/// State of one pass.
pub(super) struct Pass<'a> {
    pub(super) compiled: &'a CompiledMapping,
    pub(super) reader: Reader<'a>,
    pub(super) id: Option<&'a str>,
    /// New fields become keywords instead of mapping additions.
    pub(super) flatten: bool,
    pub(super) arena: String,
    /// Buffer for unescaped text.
    scratch: String,
    pub(super) extra_paths: Vec<(u32, u32)>,
    pub(super) entries: Vec<Entry>,
    /// Path ids of ignored fields.
    pub(super) ignored: Vec<u32>,
    /// Slices of the arena: ignored paths that are not in the mapping.
    pub(super) ignored_extra: Vec<(u32, u32)>,
    /// Path ids of fields without a column that have a value.
    pub(super) field_names: Vec<u32>,
    pub(super) time_range_ms: Option<(i64, i64)>,
    pub(super) additions: Option<Mapping>,
    key_count: u32,
    pub(super) depth: u32,
}

/// Scalar with the location of its text.
pub(super) struct Located<'t> {
    pub(super) scalar: Scalar<'t>,
    /// Existing location of its text.
    pub(super) slot: Option<Slot>,
}

/// Kinds of values, by their first byte.
pub(super) enum Kind {
    Object,
    Array,
    Null,
    Scalar,
}

impl<'a> Pass<'a> {
    fn document(&mut self) -> Outcome {
        if self.reader.peek()? != b'{' {
            return Err(self
                .reader
                .unexpected::<()>("malformed content, must start with an object")
                .unwrap_err()
                .into());
        }
        self.reader.position += 1;
        let compiled = self.compiled;
        self.members(&compiled.root)?;
        self.reader.finish()?;
        Ok(())
    }

    /// Reads the members of a mapped object, after its opening brace.
    fn members(&mut self, object: &'a CompiledObject) -> Outcome {
        if self.reader.take(b'}')? {
            return Ok(());
        }
        let mut seen = Seen::default();
        loop {
            let at = self.reader.position;
            let raw = self.key()?;
            if raw.escaped {
                let mut key = String::new();
                self.reader.unescape_into(raw, &mut key);
                self.member(object, &key, at, &mut seen)?;
            } else {
                let key = &self.reader.text()[raw.start..raw.end];
                self.member(object, key, at, &mut seen)?;
            }
            if !self.reader.more(b'}')? {
                return Ok(());
            }
        }
    }

    /// Reads and counts a key and its colon.
    pub(super) fn key(&mut self) -> std::result::Result<super::json::RawString, Stop> {
        self.key_count += 1;
        if self.key_count > KEYS_MAX {
            return Err(self
                .refuse(format!("the document has more than {KEYS_MAX} fields"))
                .into());
        }
        Ok(self.reader.key_and_colon()?)
    }

    fn member(&mut self, object: &'a CompiledObject, key: &str, at: usize, seen: &mut Seen) -> Outcome {
        let Some((ordinal, child)) = object.children.get(key) else {
            return self.unmapped(object, key, at);
        };
        if seen.repeats(*ordinal) {
            self.reader.position = at;
            return Err(self
                .reader
                .fail::<()>(format!("Duplicate field '{key}'"))
                .unwrap_err()
                .into());
        }
        self.child(child)
    }

    fn child(&mut self, child: &'a Child) -> Outcome {
        match child {
            Child::Leaf(leaf) => self.leaf(*leaf),
            Child::Object(object) => self.object(object),
        }
    }

    /// Handles a key that is not a direct child: a dotted path into the mapping, or a new field.
    fn unmapped(&mut self, object: &'a CompiledObject, key: &str, at: usize) -> Outcome {
        let mut object = object;
        let mut rest = key;
        if key.trim().is_empty() || key.split('.').any(|part| part.trim().is_empty()) {
            return Err(self
                .refuse(format!(
                    "field name [{key}] is empty, or holds an empty part between its dots"
                ))
                .into());
        }
        while let Some((first, after)) = rest.split_once('.') {
            match object.children.get(first) {
                Some((_, Child::Object(inner))) => {
                    object = inner;
                    rest = after;
                    if object.disabled {
                        return Ok(self.reader.skip_value()?);
                    }
                    if let Some((_, child)) = object.children.get(rest) {
                        return self.child(child);
                    }
                }
                Some((_, Child::Leaf(leaf))) => return self.below_leaf(*leaf, after),
                None => break,
            }
        }
        if object.path.is_none() && is_metadata(rest) {
            return Err(self
                .refuse(format!(
                    "Field [{rest}] is a metadata field and cannot be added inside a document. Use the index API \
                     request parameters."
                ))
                .into());
        }
        match object.dynamic {
            Dynamic::False | Dynamic::Runtime => Ok(self.reader.skip_value()?),
            Dynamic::Strict => Err(self.strict(object, rest, at)),
            Dynamic::True => {
                let path = match object.path {
                    Some(parent) => format!("{}.{rest}", self.compiled.names[parent as usize]),
                    None => rest.to_owned(),
                };
                if self.flatten {
                    self.flatten_unmapped(&path)
                } else {
                    self.discover(path)
                }
            }
        }
    }

    fn strict(&self, object: &CompiledObject, name: &str, at: usize) -> Stop {
        let (line, column) = line_and_column(self.reader.text().as_bytes(), at);
        let within = object.path.map_or("_doc", |path| &*self.compiled.names[path as usize]);
        let reason = format!(
            "[{line}:{column}] mapping set to strict, dynamic introduction of [{name}] within [{within}] is not allowed"
        );
        Stop::Refused(Error::new(ErrorKind::StrictDynamicMapping, reason).with_position(line, column))
    }

    /// Handles `a.b` in the event if the mapping has a leaf `a`.
    fn below_leaf(&mut self, leaf: u32, below: &str) -> Outcome {
        let field = &self.compiled.leaves[leaf as usize];
        if field.field.field_type == FieldType::Flattened {
            return self.flattened_key(leaf, below);
        }
        let reason = format!(
            "Could not dynamically add mapping for field [{0}.{below}]. Existing mapping for [{0}] must be of type \
             object but found [{1}].",
            self.compiled.names[field.path as usize],
            field.field.field_type.name()
        );
        self.malformed(leaf, None, reason)?;
        Ok(self.reader.skip_value()?)
    }

    /// Reads the value of an object field: an object, or several.
    fn object(&mut self, object: &'a CompiledObject) -> Outcome {
        if object.disabled {
            return Ok(self.reader.skip_value()?);
        }
        match self.kind()? {
            Kind::Object => {
                self.reader.position += 1;
                self.deeper(|pass| pass.members(object))
            }
            Kind::Array => self.elements(|pass| pass.object(object)),
            Kind::Null => Ok(self.reader.literal("null")?),
            Kind::Scalar => self.scalar(|pass, value| pass.concrete_for_object(object, value)),
        }
    }

    /// Handles a concrete value where the mapping has an object.
    fn concrete_for_object(&mut self, object: &CompiledObject, value: &mut Located<'_>) -> Outcome {
        let path = object.path.unwrap_or(PATH_IGNORED);
        if !self.compiled.ignore_malformed {
            return Err(self
                .refuse(format!(
                    "object mapping for [{0}] tried to parse field [{0}] as object, but found a concrete value",
                    self.compiled.names[path as usize]
                ))
                .into());
        }
        self.ignored.push(path);
        let slot = self.place(value);
        self.push(path, Class::Text(firn_model::mapping::Analyzer::Standard), slot)
    }

    /// Reads the value of a leaf field.
    pub(super) fn leaf(&mut self, index: u32) -> Outcome {
        let leaf = &self.compiled.leaves[index as usize];
        match self.kind()? {
            Kind::Scalar => self.scalar(|pass, value| pass.store(index, value)),
            Kind::Array if leaf.field.field_type == FieldType::GeoPoint => self.geo_point(index),
            Kind::Array => self.elements(|pass| pass.leaf(index)),
            Kind::Null => {
                self.reader.literal("null")?;
                self.null_value(index)
            }
            Kind::Object => match leaf.field.field_type {
                FieldType::Flattened => self.flattened(index),
                FieldType::GeoPoint => self.geo_point(index),
                FieldType::Alias => self.store(index, &mut Located::text("")),
                _ => {
                    self.malformed(index, None, "Can't get text on a START_OBJECT".to_owned())?;
                    Ok(self.reader.skip_value()?)
                }
            },
        }
    }

    /// Runs `each` at every element of an array.
    pub(super) fn elements(&mut self, mut each: impl FnMut(&mut Self) -> Outcome) -> Outcome {
        self.reader.position += 1;
        if self.reader.take(b']')? {
            return Ok(());
        }
        self.deeper(|pass| {
            loop {
                each(pass)?;
                if !pass.reader.more(b']')? {
                    return Ok(());
                }
            }
        })
    }

    /// Runs `inner` one level deeper.
    pub(super) fn deeper(&mut self, inner: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        if self.depth == DEPTH_MAX {
            return Err(self
                .refuse(format!("the document nests deeper than {DEPTH_MAX} levels"))
                .into());
        }
        self.depth += 1;
        inner(self)?;
        self.depth -= 1;
        Ok(())
    }

    pub(super) fn kind(&mut self) -> JsonResult<Kind> {
        Ok(match self.reader.peek()? {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'n' => Kind::Null,
            _ => Kind::Scalar,
        })
    }

    /// Reads a scalar and passes it to `take`.
    pub(super) fn scalar(&mut self, take: impl FnOnce(&mut Self, &mut Located<'_>) -> Outcome) -> Outcome {
        let text = self.reader.text();
        match self.reader.peek()? {
            b'"' => {
                let raw = self.reader.string()?;
                if raw.escaped {
                    let mut scratch = std::mem::take(&mut self.scratch);
                    scratch.clear();
                    self.reader.unescape_into(raw, &mut scratch);
                    let outcome = take(self, &mut Located::text(&scratch));
                    self.scratch = scratch;
                    return outcome;
                }
                let scalar = Scalar::Text(&text[raw.start..raw.end]);
                let slot = Some(Slot::Source(raw.start as u32, raw.end as u32));
                take(self, &mut Located { scalar, slot })
            }
            b't' => {
                self.reader.literal("true")?;
                take(self, &mut Located::of(Scalar::Bool(true)))
            }
            b'f' => {
                self.reader.literal("false")?;
                take(self, &mut Located::of(Scalar::Bool(false)))
            }
            byte if byte == b'-' || byte.is_ascii_digit() => {
                let (start, end) = self.reader.number()?;
                let scalar = Scalar::Number(&text[start..end]);
                let slot = Some(Slot::Source(start as u32, end as u32));
                take(self, &mut Located { scalar, slot })
            }
            _ => Err(self
                .reader
                .unexpected::<()>("was expecting a JSON value")
                .unwrap_err()
                .into()),
        }
    }
}

impl<'t> Located<'t> {
    pub(super) fn of(scalar: Scalar<'t>) -> Self {
        Self { scalar, slot: None }
    }

    pub(super) fn text(text: &'t str) -> Self {
        Self::of(Scalar::Text(text))
    }
}

fn is_metadata(name: &str) -> bool {
    matches!(
        name,
        "_id"
            | "_index"
            | "_source"
            | "_routing"
            | "_ignored"
            | "_field_names"
            | "_seq_no"
            | "_version"
            | "_tier"
            | "_nested_path"
            | "_doc_count"
            | "_primary_term"
            | "_sid"
    )
}

/// Set of children that an object has had already.
#[derive(Default)]
struct Seen {
    first: u64,
    more: Vec<u64>,
}

impl Seen {
    fn repeats(&mut self, ordinal: u32) -> bool {
        let bit = 1 << (ordinal % 64);
        let word = match ordinal / 64 {
            0 => &mut self.first,
            word => {
                let word = word as usize - 1;
                if self.more.len() <= word {
                    self.more.resize(word + 1, 0);
                }
                &mut self.more[word]
            }
        };
        let repeats = *word & bit != 0;
        *word |= bit;
        repeats
    }
}
