//! How large a mapping may be, and adding fields found in documents up to that.

use std::sync::Arc;

use super::resolve::join;
use super::{FieldMapping, FieldType, Mapping, Node, ObjectMapping};
use crate::{Error, Result};

impl Mapping {
    /// How many fields count towards `index.mapping.total_fields.limit` (objects, leaves,
    /// multi-fields, aliases).
    pub fn total_fields(&self) -> usize {
        self.root.properties.values().map(count).sum()
    }

    /// Refuses a mapping of more than `fields` fields or deeper than `depth` objects, with
    /// Elasticsearch's sentence ([`crate::ErrorKind::IllegalArgument`]).
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

    /// This mapping with the leaves and objects of `additions` that it lacks, in their order, as
    /// long as they fit the limits. What is there already stays as it is, so that two writers
    /// that meet the same new field at once both succeed; only a `constant_keyword` without a
    /// value takes the value of `additions`. `None`: nothing to add.
    ///
    /// If something finds no room, the room is used up: a leaf comes without its multi-fields, an
    /// object without its children. So [`Mapping::total_fields`] at the limit is how the mapper
    /// knows that what is still unmapped stays so, and keeps those values under a hidden field of
    /// its own instead of asking again (dynamic-as-flattened: no event is refused for the limit).
    /// What would stand deeper than `depth_limit` is left out without using room.
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
        Node::Object(object) => 1 + object.properties.values().map(count).sum::<usize>(),
        Node::Field(field) => 1 + field.fields.len(),
    }
}

/// The path of an object whose children would stand deeper than `limit`.
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
