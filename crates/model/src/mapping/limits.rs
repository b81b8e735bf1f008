//! Size limits of mappings, and adding of dynamic fields within the limits.

use std::sync::Arc;

use super::resolve::join;
use super::{FieldMapping, FieldType, Mapping, Node, ObjectMapping};
use crate::{Error, Result};

impl Mapping {
    /// Returns the number of fields that count towards `index.mapping.total_fields.limit` (objects, leaves,
    /// multi-fields, aliases).
    pub fn total_fields(&self) -> usize {
        self.root.foreign.len() + self.root.properties.values().map(count).sum::<usize>()
    }

    /// Checks that a mapping has at most `fields` fields and at most `depth` levels of objects. Fails with
    /// Elasticsearch's text ([`crate::ErrorKind::IllegalArgument`]).
    pub fn check_limits(&self, fields: u32, depth: u32) -> Result<()> {
        if self.total_fields() > fields as usize {
            return Err(Error::illegal_argument(format!(
                "Limit of total fields [{fields}] has been exceeded"
            )));
        }
        match too_deep("", &self.root, 1, depth) {
            Some(path) => Err(Error::illegal_argument(format!(
                "Limit of mapping depth [{depth}] has been exceeded due to object field [{path}]"
            ))),
            None => Ok(()),
        }
    }

    /// Returns this mapping with the missing leaves and objects of `additions`, in their order, as long as they fit the
    /// limits. Existing fields do not change, so that two writers that find the same new field at the same time both
    /// succeed; only a `constant_keyword` without a value takes the value of `additions`. `None`: nothing to add.
    ///
    /// If a field does not fit completely, the rest of the limit is used up: a leaf is added without its multi-fields,
    /// an object without its children. So if [`Mapping::total_fields`] is at the limit, the mapper knows that unmapped
    /// fields stay unmapped. It stores their values under a hidden field and does not request them again
    /// (dynamic-as-flattened: no event is refused because of the limit). Fields deeper than `depth_limit` are omitted
    /// and do not count.
    #[must_use]
    pub fn add_missing(&self, additions: &Mapping, total_fields_limit: u32, depth_limit: u32) -> Option<Mapping> {
        let mut result = self.clone();
        let mut adder = Adder {
            room: (total_fields_limit as usize).saturating_sub(self.total_fields()),
            depth_limit: depth_limit as usize,
            changed: false,
        };
        adder.add(&mut result.root, &additions.root, 1);
        adder.changed.then_some(result)
    }
}

struct Adder {
    room: usize,
    depth_limit: usize,
    changed: bool,
}

impl Adder {
    fn add(&mut self, target: &mut ObjectMapping, additions: &ObjectMapping, depth: usize) {
        if depth > self.depth_limit {
            return;
        }
        for (name, addition) in &additions.properties {
            match (target.properties.get_mut(name), addition) {
                (Some(Node::Object(existing)), Node::Object(more)) => self.add(existing, more, depth + 1),
                (Some(Node::Field(existing)), Node::Field(more)) => self.learn_constant(existing, more),
                (Some(_), _) => {}
                (None, Node::Field(field)) => {
                    if self.room == 0 {
                        continue;
                    }
                    let mut field = Arc::clone(field);
                    if count(addition) > self.room {
                        Arc::make_mut(&mut field).fields.truncate(self.room - 1);
                    }
                    self.room -= 1 + field.fields.len();
                    self.changed = true;
                    target.properties.insert(name.clone(), Node::Field(field));
                }
                (None, Node::Object(more)) => {
                    if self.room == 0 || depth >= self.depth_limit {
                        continue;
                    }
                    let mut object = ObjectMapping {
                        properties: Default::default(),
                        ..more.clone()
                    };
                    self.room -= 1;
                    self.changed = true;
                    self.add(&mut object, more, depth + 1);
                    target.properties.insert(name.clone(), Node::Object(object));
                }
            }
        }
    }

    fn learn_constant(&mut self, existing: &mut Arc<FieldMapping>, more: &FieldMapping) {
        let both = existing.field_type == FieldType::ConstantKeyword && more.field_type == FieldType::ConstantKeyword;
        if both && existing.constant.is_none() && more.constant.is_some() {
            let mut field = FieldMapping::clone(existing);
            field.constant.clone_from(&more.constant);
            *existing = Arc::new(field);
            self.changed = true;
        }
    }
}

fn count(node: &Node) -> usize {
    match node {
        Node::Object(object) => 1 + object.foreign.len() + object.properties.values().map(count).sum::<usize>(),
        Node::Field(field) => 1 + field.fields.len(),
    }
}

/// Returns the path of an object whose children would be deeper than `limit`.
fn too_deep(prefix: &str, object: &ObjectMapping, depth: u32, limit: u32) -> Option<String> {
    for (name, node) in &object.properties {
        if let Node::Object(child) = node {
            let path = join(prefix, name);
            if depth + 1 > limit {
                return Some(path);
            }
            if let Some(deep) = too_deep(&path, child, depth + 1, limit) {
                return Some(deep);
            }
        }
    }
    None
}
