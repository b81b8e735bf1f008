//! A mapping for those who may know only some of its fields.

use indexmap::IndexMap;

use super::{FieldMapping, FieldType, Mapping, Node, ObjectMapping};

impl Mapping {
    /// The mapping with only those fields that `keep` wants by their full path; a field comes with its
    /// multi-fields, an alias with its field. What else a mapping says (`_meta`, dynamic templates) may
    /// name other fields, so it goes too. Objects of which nothing is left are gone.
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
                if !child.properties.is_empty() {
                    properties.insert(name.clone(), Node::Object(child));
                }
            }
        }
    }
    ObjectMapping {
        dynamic: object.dynamic,
        disabled: object.disabled,
        properties,
    }
}

fn keeps(field: &FieldMapping, path: &str, keep: &dyn Fn(&str) -> bool) -> bool {
    if field.field_type != FieldType::Alias {
        return keep(path);
    }
    // What an alias stands for may be a multi-field, which goes by its field.
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
    fn only_known_fields_are_left() {
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
