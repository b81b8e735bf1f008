//! Narrowed mappings: only the fields that a caller may know.

use indexmap::IndexMap;

use super::{FieldMapping, FieldType, Mapping, Node, ObjectMapping};

impl Mapping {
    /// Returns the mapping with only the fields whose full path `keep` accepts. A field keeps its multi-fields; an
    /// alias is retained with its field. Other parts of a mapping (`_meta`, dynamic templates) may name other fields,
    /// so they are removed, and so are empty objects.
    pub fn narrowed(&self, keep: &dyn Fn(&str) -> bool) -> Mapping {
        Mapping {
            root: narrow(&self.root, "", keep),
            dynamic_templates: None,
            date_detection: self.date_detection,
            numeric_detection: self.numeric_detection,
            dynamic_date_formats: self.dynamic_date_formats.clone(),
            routing_required: self.routing_required,
            meta: None,
            data_stream_timestamp: self.data_stream_timestamp,
            source: self.source.clone(),
            foreign: IndexMap::new(),
        }
    }
}

fn narrow(object: &ObjectMapping, prefix: &str, keep: &dyn Fn(&str) -> bool) -> ObjectMapping {
    let mut properties = IndexMap::new();
    for (name, node) in &object.properties {
        let path = super::resolve::join(prefix, name);
        match node {
            Node::Field(field) if keeps(field, &path, keep) => {
                properties.insert(name.clone(), node.clone());
            }
            Node::Field(_) => {}
            Node::Object(child) => {
                let child = narrow(child, &path, keep);
                if !child.properties.is_empty() || !child.foreign.is_empty() {
                    properties.insert(name.clone(), Node::Object(child));
                }
            }
        }
    }
    let foreign = object.foreign.iter();
    ObjectMapping {
        dynamic: object.dynamic,
        disabled: object.disabled,
        properties,
        foreign: foreign
            .filter(|(name, _)| keep(&super::resolve::join(prefix, name)))
            .map(|(name, raw)| (name.clone(), raw.clone()))
            .collect(),
    }
}

fn keeps(field: &FieldMapping, path: &str, keep: &dyn Fn(&str) -> bool) -> bool {
    if field.field_type != FieldType::Alias {
        return keep(path);
    }
    // An alias may refer to a multi-field, which is retained with its field.
    field
        .path
        .as_deref()
        .is_some_and(|target| keep(target) || target.rsplit_once('.').is_some_and(|(parent, _)| keep(parent)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn other_fields_are_removed() {
        let mapping = Mapping::parse(&json!({
            "_meta": {"secret": true},
            "dynamic_templates": [{"t": {"match": "secret*", "mapping": {"type": "keyword"}}}],
            "properties": {
                "own": {"type": "text", "fields": {"keyword": {"type": "keyword"}}},
                "secret": {"type": "long"},
                "inner": {"properties": {"own": {"type": "long"}, "secret": {"type": "ip"}}},
                "hidden": {"properties": {"secret": {"type": "long"}}},
                "other": {"type": "alias", "path": "own.keyword"},
                "another": {"type": "alias", "path": "secret"},
            },
        }))
        .unwrap();
        let narrowed = mapping.narrowed(&|path| path == "own" || path == "inner.own");
        let expect = json!({"properties": {
            "own": {"type": "text", "fields": {"keyword": {"type": "keyword"}}},
            "inner": {"properties": {"own": {"type": "long"}}},
            "other": {"type": "alias", "path": "own.keyword"},
        }});
        assert_eq!(narrowed, Mapping::parse(&expect).unwrap());
    }
}
