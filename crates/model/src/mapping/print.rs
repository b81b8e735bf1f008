//! Printing of mappings as JSON; only values that were set, as in Elasticsearch.

use serde_json::{Map, Value, json};

use super::{Dynamic, DynamicTemplate, FieldMapping, FieldType, Mapping, MatchMappingType, Node, ObjectMapping};

impl Mapping {
    /// Prints the value of `mappings` in `GET /index/_mapping`; properties are sorted by name. [`Mapping::parse`] of
    /// the output returns the same mapping.
    pub fn print(&self) -> Value {
        let mut out = Map::new();
        if let Some(dynamic) = self.root.dynamic {
            out.insert("dynamic".into(), dynamic.name().into());
        }
        if let Some(meta) = &self.meta {
            out.insert("_meta".into(), meta.clone());
        }
        if self.data_stream_timestamp {
            out.insert("_data_stream_timestamp".into(), json!({"enabled": true}));
        }
        if self.routing_required {
            out.insert("_routing".into(), json!({"required": true}));
        }
        if let Some(source) = &self.source {
            out.insert("_source".into(), source.clone());
        }
        if let Some(formats) = &self.dynamic_date_formats {
            let formats: Vec<&str> = formats.iter().map(|format| format.pattern()).collect();
            out.insert("dynamic_date_formats".into(), json!(formats));
        }
        if let Some(templates) = &self.dynamic_templates {
            let templates: Vec<Value> = templates.iter().map(DynamicTemplate::print).collect();
            out.insert("dynamic_templates".into(), templates.into());
        }
        if let Some(detection) = self.date_detection {
            out.insert("date_detection".into(), detection.into());
        }
        if let Some(detection) = self.numeric_detection {
            out.insert("numeric_detection".into(), detection.into());
        }
        if self.root.disabled {
            out.insert("enabled".into(), false.into());
        }
        for (name, raw) in &self.foreign {
            out.insert(name.clone(), raw.clone());
        }
        if !self.root.is_empty() {
            out.insert("properties".into(), print_properties(&self.root));
        }
        Value::Object(out)
    }
}

impl FieldMapping {
    /// Prints the field's JSON as in `GET /index/_mapping`.
    pub fn print(&self) -> Value {
        let default = FieldMapping::of(self.field_type);
        let mut out = Map::new();
        out.insert("type".into(), self.field_type.name().into());
        let mut put = |name: &str, value: Value| {
            out.insert(name.to_owned(), value);
        };
        if let Some(path) = &self.path {
            put("path", path.as_str().into());
        }
        if let Some(constant) = &self.constant {
            put("value", constant.as_str().into());
        }
        if self.index != default.index {
            put("index", self.index.into());
        }
        if self.doc_values != default.doc_values {
            put("doc_values", self.doc_values.into());
        }
        if self.store {
            put("store", true.into());
        }
        if let Some(format) = &self.format {
            put("format", format.pattern().into());
        }
        if self.field_type == FieldType::ScaledFloat {
            put("scaling_factor", self.scaling_factor.into());
        }
        if self.analyzer != default.analyzer {
            put("analyzer", self.analyzer.name().into());
        }
        if let Some(analyzer) = self.search_analyzer {
            if self.analyzer == default.analyzer {
                put("analyzer", self.analyzer.name().into());
            }
            put("search_analyzer", analyzer.name().into());
        }
        if self.lowercase {
            put("normalizer", "lowercase".into());
        }
        if let Some(limit) = self.ignore_above {
            put("ignore_above", limit.into());
        }
        if let Some(ignore) = self.ignore_malformed {
            put("ignore_malformed", ignore.into());
        }
        if !self.coerce {
            put("coerce", false.into());
        }
        if let Some(value) = &self.null_value {
            put("null_value", value.clone());
        }
        if !self.copy_to.is_empty() {
            put("copy_to", json!(self.copy_to));
        }
        for (name, value) in &self.other {
            put(name, value.clone());
        }
        if !self.fields.is_empty() {
            let printed = self.fields.iter().map(|(name, field)| (name.clone(), field.print()));
            let unknown = self.other.get("fields").and_then(Value::as_object);
            put("fields", sorted(printed, unknown.into_iter().flatten()));
        }
        Value::Object(out)
    }
}

impl Node {
    /// Prints its JSON as in `GET /index/_mapping`.
    pub fn print(&self) -> Value {
        match self {
            Node::Field(field) => field.print(),
            Node::Object(object) => {
                let mut out = Map::new();
                if object.is_empty() {
                    out.insert("type".into(), "object".into());
                }
                if let Some(dynamic) = object.dynamic {
                    out.insert("dynamic".into(), dynamic.name().into());
                }
                if object.disabled {
                    out.insert("enabled".into(), false.into());
                }
                if !object.is_empty() {
                    out.insert("properties".into(), print_properties(object));
                }
                Value::Object(out)
            }
        }
    }
}

impl Dynamic {
    /// Returns its value in a mapping.
    pub fn name(self) -> &'static str {
        match self {
            Dynamic::True => "true",
            Dynamic::False => "false",
            Dynamic::Strict => "strict",
            Dynamic::Runtime => "runtime",
        }
    }
}

impl MatchMappingType {
    /// Returns its name in a dynamic template.
    pub fn name(self) -> &'static str {
        match self {
            MatchMappingType::Boolean => "boolean",
            MatchMappingType::Long => "long",
            MatchMappingType::Double => "double",
            MatchMappingType::String => "string",
            MatchMappingType::Date => "date",
            MatchMappingType::Object => "object",
            MatchMappingType::Any => "*",
        }
    }
}

impl DynamicTemplate {
    fn print(&self) -> Value {
        let mut body = Map::new();
        let list = |items: &[String]| match items {
            [one] => json!(one),
            many => json!(many),
        };
        for (name, patterns) in [
            ("match", &self.matches),
            ("unmatch", &self.unmatch),
            ("path_match", &self.path_match),
            ("path_unmatch", &self.path_unmatch),
        ] {
            if !patterns.is_empty() {
                body.insert(name.to_owned(), list(patterns));
            }
        }
        for (name, types) in [
            ("match_mapping_type", &self.match_mapping_type),
            ("unmatch_mapping_type", &self.unmatch_mapping_type),
        ] {
            if !types.is_empty() {
                let names: Vec<String> = types.iter().map(|kind| kind.name().to_owned()).collect();
                body.insert(name.to_owned(), list(&names));
            }
        }
        if self.regex {
            body.insert("match_pattern".into(), "regex".into());
        }
        body.insert("mapping".into(), self.mapping.clone());
        json!({ self.name.clone(): body })
    }
}

fn print_properties(object: &ObjectMapping) -> Value {
    let printed = object
        .properties
        .iter()
        .map(|(name, node)| (name.clone(), node.print()));
    sorted(printed, &object.foreign)
}

/// Prints fields and the raw JSON of others as one object, sorted by name.
fn sorted<'a>(
    printed: impl Iterator<Item = (String, Value)>,
    raw: impl IntoIterator<Item = (&'a String, &'a Value)>,
) -> Value {
    let raw = raw.into_iter().map(|(name, raw)| (name.clone(), raw.clone()));
    let mut all: Vec<(String, Value)> = printed.chain(raw).collect();
    all.sort_by(|left, right| left.0.cmp(&right.0));
    Value::Object(all.into_iter().collect())
}
