//! Resolution of paths in a mapping.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Dynamic, FieldMapping, FieldType, Mapping, Node, ObjectMapping, Resolved};

impl Mapping {
    /// Returns the meaning of a full path; follows aliases once. `None`: unmapped.
    ///
    /// Costs a hash lookup per segment and one string.
    pub fn resolve(&self, path: &str) -> Option<Resolved<'_>> {
        match self.walk(path)? {
            Resolved::Field(_, field) if field.field_type == FieldType::Alias => {
                match self.walk(field.path.as_deref()?)? {
                    Resolved::Field(_, target) if target.field_type == FieldType::Alias => None,
                    target => Some(target),
                }
            }
            found => Some(found),
        }
    }

    fn walk(&self, path: &str) -> Option<Resolved<'_>> {
        let mut object = &self.root;
        let mut rest = path;
        loop {
            let (head, tail) = match rest.split_once('.') {
                Some((head, tail)) => (head, Some(tail)),
                None => (rest, None),
            };
            match (object.properties.get(head)?, tail) {
                (Node::Object(child), None) => return Some(Resolved::Object(child)),
                (Node::Object(child), Some(tail)) => {
                    object = child;
                    rest = tail;
                }
                (Node::Field(field), None) => return Some(Resolved::Field(path.to_owned(), field)),
                (Node::Field(field), Some(tail)) => {
                    if let Some(multi_field) = field.fields.get(tail) {
                        return Some(Resolved::Field(path.to_owned(), multi_field));
                    }
                    if field.field_type != FieldType::Flattened {
                        return None;
                    }
                    let own_path = path[..path.len() - tail.len() - 1].to_owned();
                    return Some(Resolved::Flattened(own_path, field, tail.to_owned()));
                }
            }
        }
    }

    /// Returns the node at exactly this path: an object or a leaf, no multi-field; aliases are not followed. Allocates
    /// nothing.
    pub fn node(&self, path: &str) -> Option<&Node> {
        let mut segments = path.split('.');
        let mut node = self.root.properties.get(segments.next()?)?;
        for segment in segments {
            node = match node {
                Node::Object(object) => object.properties.get(segment)?,
                Node::Field(_) => return None,
            };
        }
        Some(node)
    }

    /// Returns all leaf fields with their full paths, including multi-fields and aliases, sorted.
    pub fn leaves(&self) -> Vec<(String, Arc<FieldMapping>)> {
        let mut leaves = Vec::new();
        self.for_each(&mut |path, node| {
            if let Node::Field(field) = node {
                leaves.push((path.to_owned(), Arc::clone(field)));
                for (name, multi_field) in &field.fields {
                    leaves.push((format!("{path}.{name}"), Arc::clone(multi_field)));
                }
            }
        });
        leaves.sort_by(|left, right| left.0.cmp(&right.0));
        leaves
    }

    /// Returns the full paths of all leaf fields, without multi-fields.
    pub fn fields(&self) -> BTreeSet<String> {
        let mut fields = BTreeSet::new();
        self.for_each(&mut |path, node| {
            if matches!(node, Node::Field(_)) {
                fields.insert(path.to_owned());
            }
        });
        fields
    }

    /// Returns all objects with their full paths, sorted.
    pub fn objects(&self) -> Vec<String> {
        let mut objects = Vec::new();
        self.for_each(&mut |path, node| {
            if matches!(node, Node::Object(_)) {
                objects.push(path.to_owned());
            }
        });
        objects.sort();
        objects
    }

    /// Returns the `dynamic` value for a new field directly below the object at `path` (`""`: the root): that of the
    /// object or of its nearest ancestor.
    pub fn dynamic_at(&self, path: &str) -> Dynamic {
        let mut object = &self.root;
        let mut dynamic = object.dynamic.unwrap_or_default();
        for segment in path.split('.').filter(|segment| !segment.is_empty()) {
            match object.properties.get(segment) {
                Some(Node::Object(child)) => {
                    object = child;
                    dynamic = child.dynamic.unwrap_or(dynamic);
                }
                _ => break,
            }
        }
        dynamic
    }

    /// Calls `visit` with the full path of every object and leaf, parents first.
    pub(super) fn for_each<'a>(&'a self, visit: &mut dyn FnMut(&str, &'a Node)) {
        fn below<'a>(prefix: &str, object: &'a ObjectMapping, visit: &mut dyn FnMut(&str, &'a Node)) {
            for (name, node) in &object.properties {
                let path = join(prefix, name);
                visit(&path, node);
                if let Node::Object(child) = node {
                    below(&path, child, visit);
                }
            }
        }
        below("", &self.root, visit);
    }
}

/// Returns `prefix.name`, or `name` at the root.
pub(super) fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() {
        name.to_owned()
    } else {
        format!("{prefix}.{name}")
    }
}
