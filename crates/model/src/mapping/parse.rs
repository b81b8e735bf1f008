//! Parsing of mappings: the root and its objects.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::merge::merge_duplicate;
use super::resolve::join;
use super::{Dynamic, DynamicTemplate, FieldType, Mapping, Node, ObjectMapping};
use crate::dates::DateFormat;
use crate::{Error, ErrorKind, Result};

/// Maximum nesting of objects, independent of `index.mapping.depth.limit`: bounds the recursion over a mapping. JSON
/// parsers stop at a depth of 128; dots in names could exceed it.
const DEPTH_MAX: usize = 100;

/// Multi-fields of a leaf by name.
type MultiFields = IndexMap<String, Arc<super::FieldMapping>>;

/// Types of Elasticsearch that firn does not implement.
const KNOWN_TYPES: [&str; 27] = [
    "nested",
    "join",
    "dense_vector",
    "sparse_vector",
    "rank_vectors",
    "semantic_text",
    "percolator",
    "integer_range",
    "float_range",
    "long_range",
    "double_range",
    "date_range",
    "ip_range",
    "completion",
    "search_as_you_type",
    "token_count",
    "rank_feature",
    "rank_features",
    "geo_shape",
    "shape",
    "point",
    "histogram",
    "aggregate_metric_double",
    "version",
    "murmur3",
    "annotated-text",
    "passthrough",
];

impl Mapping {
    /// Reads the value of `mappings`. Errors name the unknown parameter or type ([`ErrorKind::MapperParsing`]); types
    /// and parameters of Elasticsearch that firn lacks fail with [`ErrorKind::NotImplemented`]. `null` is the empty
    /// mapping.
    ///
    /// [`Mapping::validate`] checks rules about several fields, after the last merge.
    pub fn parse(mappings: &Value) -> Result<Self> {
        Self::parse_from(mappings, Origin::Own)
    }

    /// Reads a mapping of another engine. Fields, objects and parameters that firn does not know are retained as
    /// written instead of refused ([`Mapping::foreign`], [`ObjectMapping::foreign`], [`FieldMapping::other`]), and
    /// [`Mapping::print`] prints them. A field of an unknown type resolves as unmapped. Fails only if `mappings`, or
    /// its `properties`, is no object.
    ///
    /// [`FieldMapping::other`]: super::FieldMapping::other
    pub fn parse_foreign(mappings: &Value) -> Result<Self> {
        Self::parse_from(mappings, Origin::Foreign)
    }

    fn parse_from(mappings: &Value, origin: Origin) -> Result<Self> {
        let mut mapping = Mapping::default();
        let map = match mappings {
            Value::Null => return Ok(mapping),
            Value::Object(map) => map,
            other => {
                return Err(parsing(format!(
                    "expected the mapping to be an object but got {}",
                    kind_of(other)
                )));
            }
        };
        let mut unsupported = Vec::new();
        for (name, value) in map {
            let known = match mapping.read(name, value, origin) {
                Err(_) if origin == Origin::Foreign && name != "properties" => false,
                known => known?,
            };
            if known {
                continue;
            }
            if origin == Origin::Foreign {
                mapping.foreign.insert(name.clone(), value.clone());
                continue;
            }
            if map.len() == 1 && looks_typed(name, value) {
                return Err(Error::illegal_argument(format!(
                    "The mapping definition cannot be nested under a type [{name}] unless include_type_name is set to \
                     true."
                )));
            }
            unsupported.push(format!(" [{name} : {value}]"));
        }
        if !unsupported.is_empty() {
            return Err(parsing(format!(
                "Root mapping definition has unsupported parameters: {}",
                unsupported.concat()
            )));
        }
        Ok(mapping)
    }

    /// Reads one parameter of the root; false: there is none of this name.
    fn read(&mut self, name: &str, value: &Value, origin: Origin) -> Result<bool> {
        match name {
            "properties" => parse_properties(&mut self.root, "", value, 1, origin)?,
            "dynamic" => self.root.dynamic = Some(parse_dynamic(value)?),
            "enabled" => self.root.disabled = !parse_bool("enabled", value)?,
            "subobjects" => refuse_subobjects(value)?,
            "date_detection" => self.date_detection = Some(parse_bool(name, value)?),
            "numeric_detection" => self.numeric_detection = Some(parse_bool(name, value)?),
            "dynamic_date_formats" | "date_formats" => {
                self.dynamic_date_formats = Some(parse_date_formats(value)?);
            }
            "dynamic_templates" => self.dynamic_templates = Some(DynamicTemplate::parse_all(value)?),
            "_source" => self.source = parse_source(value)?,
            "_routing" => self.routing_required = parse_flag(name, "required", value)?.unwrap_or(false),
            "_data_stream_timestamp" => {
                self.data_stream_timestamp = parse_flag(name, "enabled", value)?.unwrap_or(false);
            }
            // Deprecated, and without effect in Elasticsearch 8 as well.
            "_field_names" => {
                parse_flag(name, "enabled", value)?;
            }
            "_meta" => {
                if !value.is_object() {
                    return Err(parsing("[_meta] must be an object".to_owned()));
                }
                self.meta = Some(value.clone());
            }
            "runtime" => {
                if value.as_object().is_none_or(|fields| !fields.is_empty()) {
                    return Err(Error::not_implemented("[runtime] fields in mappings"));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Where a mapping comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// An index of this engine: what firn does not know is refused.
    Own,
    /// An index of another engine: what firn does not know is retained as written.
    Foreign,
}

/// Elasticsearch 7 and older nested the mapping under a type name.
fn looks_typed(name: &str, value: &Value) -> bool {
    let inside = value.as_object().is_some_and(|map| {
        map.is_empty() || map.contains_key("properties") || map.contains_key("dynamic") || map.contains_key("_source")
    });
    inside && (name == "_doc" || !name.starts_with('_'))
}

/// Reads one property: an object or a leaf. `path` is its full path, for messages and checks.
pub(super) fn parse_node(path: &str, value: &Value, depth: usize, origin: Origin) -> Result<Node> {
    let Value::Object(map) = value else {
        return Err(parsing(format!(
            "Expected map for property [properties] on field [{path}] but got {}",
            kind_of(value)
        )));
    };
    let type_name = match map.get("type") {
        Some(Value::String(name)) => name.as_str(),
        Some(other) => {
            return Err(parsing(format!(
                "the type of field [{path}] must be a string, not {other}"
            )));
        }
        None if map.contains_key("properties") || (map.len() == 1 && map.contains_key("enabled")) => "object",
        None => return Err(parsing(format!("No type specified for field [{path}]"))),
    };
    if type_name == "object" {
        return Ok(Node::Object(parse_object(path, map, depth, origin)?));
    }
    let Some(field_type) = FieldType::from_name(type_name) else {
        return Err(unknown_type(type_name, path));
    };
    Ok(Node::Field(Arc::new(super::parse_field::parse_field(
        path, field_type, map, origin,
    )?)))
}

pub(super) fn unknown_type(type_name: &str, path: &str) -> Error {
    if KNOWN_TYPES.contains(&type_name) {
        return Error::not_implemented(format!("the type [{type_name}] of field [{path}]"));
    }
    let last_name = path.rsplit('.').next().unwrap_or(path);
    parsing(format!(
        "No handler for type [{type_name}] declared on field [{last_name}]"
    ))
}

fn parse_object(path: &str, map: &Map<String, Value>, depth: usize, origin: Origin) -> Result<ObjectMapping> {
    if depth >= DEPTH_MAX {
        return Err(parsing(format!(
            "objects are nested deeper than {DEPTH_MAX} at field [{path}]"
        )));
    }
    let mut object = ObjectMapping::default();
    let mut unsupported = Vec::new();
    for (name, value) in map {
        match name.as_str() {
            "type" => {}
            "properties" => parse_properties(&mut object, path, value, depth + 1, origin)?,
            "dynamic" => object.dynamic = Some(parse_dynamic(value)?),
            "enabled" => object.disabled = !parse_bool(name, value)?,
            "subobjects" => refuse_subobjects(value)?,
            _ => unsupported.push(format!(" [{name} : {value}]")),
        }
    }
    if !unsupported.is_empty() {
        let last_name = path.rsplit('.').next().unwrap_or(path);
        return Err(parsing(format!(
            "Mapping definition for [{last_name}] has unsupported parameters: {}",
            unsupported.concat()
        )));
    }
    Ok(object)
}

fn parse_properties(
    object: &mut ObjectMapping,
    prefix: &str,
    value: &Value,
    depth: usize,
    origin: Origin,
) -> Result<()> {
    let map = match value {
        Value::Object(map) => map,
        // PHP clients send an empty list for an empty object; Elasticsearch accepts it.
        Value::Array(list) if list.is_empty() => return Ok(()),
        other => {
            return Err(parsing(format!(
                "Expected map for property [properties] on field [{prefix}] but got {}",
                kind_of(other)
            )));
        }
    };
    for (name, value) in map {
        match parse_property(object, prefix, name, value, depth, origin) {
            Err(_) if origin == Origin::Foreign => {
                object.foreign.insert(name.clone(), value.clone());
            }
            parsed => parsed?,
        }
    }
    Ok(())
}

/// Reads one property and inserts it; changes nothing if it fails.
fn parse_property(
    object: &mut ObjectMapping,
    prefix: &str,
    name: &str,
    value: &Value,
    depth: usize,
    origin: Origin,
) -> Result<()> {
    check_name(name)?;
    let segments: Vec<&str> = name.split('.').collect();
    let depth = depth + segments.len() - 1;
    if depth > DEPTH_MAX {
        return Err(parsing(format!(
            "objects are nested deeper than {DEPTH_MAX} at field [{name}]"
        )));
    }
    let path = join(prefix, name);
    let node = parse_node(&path, value, depth, origin)?;
    insert(object, prefix, &segments, node)
}

/// Inserts a node below `object`, and creates the objects for the dots in its name.
fn insert(object: &mut ObjectMapping, prefix: &str, segments: &[&str], node: Node) -> Result<()> {
    let (name, rest) = segments.split_first().unwrap_or((&"", &[]));
    let path = join(prefix, name);
    let node = if rest.is_empty() {
        node
    } else {
        let mut child = ObjectMapping::default();
        insert(&mut child, &path, rest, node)?;
        Node::Object(child)
    };
    let node = match object.properties.get(*name) {
        Some(existing) => merge_duplicate(&path, existing, &node)?,
        None => node,
    };
    object.properties.insert((*name).to_owned(), node);
    Ok(())
}

/// Checks a property's name, dots allowed between its parts.
fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(parsing("field name cannot be an empty string".to_owned()));
    }
    if name.starts_with('.') || name.ends_with('.') {
        return Err(parsing(format!(
            "field name cannot start or end with a dot, which makes object resolution ambiguous: [{name}]"
        )));
    }
    for segment in name.split('.') {
        if segment.is_empty() {
            return Err(parsing(format!("field name cannot contain consecutive dots: [{name}]")));
        }
        if segment.chars().all(char::is_whitespace) {
            return Err(parsing("field name cannot contain only whitespace".to_owned()));
        }
    }
    Ok(())
}

fn parse_dynamic(value: &Value) -> Result<Dynamic> {
    match value {
        Value::Bool(true) => Ok(Dynamic::True),
        Value::Bool(false) => Ok(Dynamic::False),
        Value::String(text) => match text.to_ascii_lowercase().as_str() {
            "true" => Ok(Dynamic::True),
            "false" => Ok(Dynamic::False),
            "strict" => Ok(Dynamic::Strict),
            "runtime" => Ok(Dynamic::Runtime),
            _ => Err(parsing(format!("Could not convert [dynamic] to boolean: [{text}]"))),
        },
        other => Err(parsing(format!("Could not convert [dynamic] to boolean: [{other}]"))),
    }
}

fn refuse_subobjects(value: &Value) -> Result<()> {
    match value {
        Value::Bool(true) => Ok(()),
        Value::String(text) if text == "true" => Ok(()),
        other => Err(Error::not_implemented(format!("[subobjects: {}]", plain(other)))),
    }
}

fn parse_date_formats(value: &Value) -> Result<Vec<Arc<DateFormat>>> {
    let list = match value {
        Value::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut formats = Vec::with_capacity(list.len());
    for item in list {
        match item.as_str() {
            // `none` disables date detection, as in Elasticsearch.
            Some("none") => {}
            Some(text) => formats.push(Arc::new(DateFormat::new(text)?)),
            None => return Err(parsing(format!("[dynamic_date_formats] must be strings, not [{item}]"))),
        }
    }
    Ok(formats)
}

fn parse_source(value: &Value) -> Result<Option<Value>> {
    let map = expect_object("_source", value)?;
    for (name, value) in map {
        match name.as_str() {
            "enabled" => {
                if !parse_bool("enabled", value)? {
                    return Err(Error::not_implemented("[_source: {enabled: false}]"));
                }
            }
            "includes" | "excludes" => {
                if value.as_array().is_none_or(|list| !list.is_empty()) {
                    return Err(Error::not_implemented(format!("[{name}] of [_source]")));
                }
            }
            "mode" => {
                if value.as_str() != Some("stored") {
                    return Err(Error::not_implemented(format!("[_source: {{mode: {}}}]", plain(value))));
                }
            }
            other => {
                return Err(parsing(format!(
                    "unknown parameter [{other}] on metadata field [_source]"
                )));
            }
        }
    }
    Ok((!map.is_empty()).then(|| value.clone()))
}

/// Reads `{name: bool}`; `None`: empty.
fn parse_flag(field: &str, name: &str, value: &Value) -> Result<Option<bool>> {
    let mut flag = None;
    for (key, value) in expect_object(field, value)? {
        if key != name {
            return Err(parsing(format!(
                "unknown parameter [{key}] on metadata field [{field}]"
            )));
        }
        flag = Some(parse_bool(key, value)?);
    }
    Ok(flag)
}

fn expect_object<'a>(field: &str, value: &'a Value) -> Result<&'a Map<String, Value>> {
    value
        .as_object()
        .ok_or_else(|| parsing(format!("[{field}] must be an object, not {}", kind_of(value))))
}

/// Reads a bool, or a string that names one.
pub(super) fn parse_bool(name: &str, value: &Value) -> Result<bool> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        Value::String(text) if text == "true" => Ok(true),
        Value::String(text) if text == "false" => Ok(false),
        other => Err(parsing(format!(
            "Failed to parse value [{}] as only [true] or [false] are allowed for [{name}]",
            plain(other)
        ))),
    }
}

/// Reads a list of strings, or a single string.
pub(super) fn parse_strings(name: &str, value: &Value) -> Result<Vec<String>> {
    let list = match value {
        Value::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    list.iter()
        .map(|item| {
            let text = item.as_str().map(str::to_owned);
            text.ok_or_else(|| parsing(format!("[{name}] must be a string or a list of strings, not [{item}]")))
        })
        .collect()
}

pub(super) fn parsing(reason: String) -> Error {
    Error::new(ErrorKind::MapperParsing, reason)
}

/// Prints a scalar as text, without quotes.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Reads the multi-fields of a leaf; returns the known ones, and those of another engine that firn does not know.
pub(super) fn parse_multi_fields(
    path: &str,
    value: &Value,
    origin: Origin,
) -> Result<(MultiFields, Map<String, Value>)> {
    let map = match value {
        Value::Object(map) => map,
        Value::Array(list) if list.is_empty() => return Ok((MultiFields::new(), Map::new())),
        other => {
            return Err(parsing(format!(
                "expected map for property [fields] on field [{path}] but got {}",
                kind_of(other)
            )));
        }
    };
    let mut fields = MultiFields::with_capacity(map.len());
    let mut unknown = Map::new();
    for (name, value) in map {
        match parse_multi_field(path, name, value, origin) {
            Ok(field) => drop(fields.insert(name.clone(), field)),
            Err(_) if origin == Origin::Foreign => drop(unknown.insert(name.clone(), value.clone())),
            Err(error) => return Err(error),
        }
    }
    Ok((fields, unknown))
}

fn parse_multi_field(path: &str, name: &str, value: &Value, origin: Origin) -> Result<Arc<super::FieldMapping>> {
    if name.is_empty() || name.contains('.') {
        return Err(parsing(format!(
            "Field name [{name}] which is a multi field of [{path}] cannot be empty or contain '.'"
        )));
    }
    let full_path = join(path, name);
    if value.get("fields").is_some() {
        return Err(parsing(format!(
            "multi-fields within a multi-field are not supported: [{full_path}]"
        )));
    }
    if value.get("copy_to").is_some() {
        return Err(Error::illegal_argument(format!(
            "[copy_to] may not be used to copy from a multi-field: [{full_path}]"
        )));
    }
    match parse_node(&full_path, value, 0, origin)? {
        Node::Field(field) if !matches!(field.field_type, FieldType::Alias | FieldType::ConstantKeyword) => Ok(field),
        Node::Field(field) => Err(refused_multi_field(field.field_type.name(), path)),
        Node::Object(_) => Err(refused_multi_field("object", path)),
    }
}

fn refused_multi_field(type_name: &str, path: &str) -> Error {
    parsing(format!("Type [{type_name}] cannot be used in multi field [{path}]"))
}
