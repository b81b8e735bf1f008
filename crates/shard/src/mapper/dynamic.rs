//! Dynamic mapping: fields that the mapping lacks, collected over the whole event.

use firn_model::Result;
use firn_model::mapping::{Dynamic, Mapping, MatchMappingType, Node, ObjectMapping};

use super::coerce::Scalar;
use super::document::{EXTRA_PATH, Slot};
use super::map::{Kind, Located, Outcome, Pass};
use super::store::FALLBACK;

impl Pass<'_> {
    /// Finds the new fields at `path`, whose value comes next.
    pub(super) fn discover(&mut self, path: String) -> Outcome {
        match self.kind()? {
            Kind::Null => Ok(self.reader.literal("null")?),
            Kind::Array => self.elements(|pass| pass.discover(path.clone())),
            Kind::Scalar => self.scalar(|pass, value| Ok(pass.discover_leaf(&path, value.scalar)?)),
            Kind::Object => self.discover_object(path),
        }
    }

    fn discover_object(&mut self, path: String) -> Outcome {
        let node = self
            .compiled
            .mapping()
            .dynamic_field(&path, MatchMappingType::Object)?
            .unwrap_or_else(|| Node::Object(ObjectMapping::default()));
        let goes_on = match &node {
            Node::Field(_) => false,
            Node::Object(object) => {
                !object.disabled && !matches!(object.dynamic, Some(Dynamic::False | Dynamic::Runtime))
            }
        };
        self.add_field(&path, node);
        if !goes_on {
            return Ok(self.reader.skip_value()?);
        }
        self.reader.position += 1;
        if self.reader.take(b'}')? {
            return Ok(());
        }
        self.deeper(|pass| {
            loop {
                let raw = pass.key()?;
                let mut inner = path.clone();
                inner.push('.');
                pass.reader.unescape_into(raw, &mut inner);
                if inner[path.len() + 1..].split('.').any(|part| part.trim().is_empty()) {
                    let reason = format!("field name [{inner}] is empty, or holds an empty part between its dots");
                    return Err(pass.refuse(reason).into());
                }
                pass.discover(inner)?;
                if !pass.reader.more(b'}')? {
                    return Ok(());
                }
            }
        })
    }

    fn discover_leaf(&mut self, path: &str, scalar: Scalar<'_>) -> Result<()> {
        if self
            .additions
            .as_ref()
            .is_some_and(|additions| additions.node(path).is_some())
        {
            return Ok(());
        }
        let mapping = self.compiled.mapping();
        let node = match scalar {
            Scalar::Bool(_) => mapping.dynamic_field(path, MatchMappingType::Boolean),
            Scalar::Number(text) if text.contains(['.', 'e', 'E']) => {
                mapping.dynamic_field(path, MatchMappingType::Double)
            }
            Scalar::Number(_) => mapping.dynamic_field(path, MatchMappingType::Long),
            // A date gets the format that matched it.
            Scalar::Text(text) => mapping.dynamic_string_field(path, text),
        };
        if let Some(node) = node? {
            self.add_field(path, node);
        }
        Ok(())
    }

    /// Copies a value to a field that is missing in the mapping.
    pub(super) fn copy_to_missing(&mut self, path: &str, value: &mut Located<'_>) -> Outcome {
        if !self.flatten {
            return Ok(self.discover_leaf(path, value.scalar)?);
        }
        let slot = self.place(value);
        let Slot::Arena(start, end) = self.keep(&super::compiled::encode_path(path)) else {
            return Ok(());
        };
        let extra = EXTRA_PATH | self.extra_paths.len() as u32;
        self.extra_paths.push((start, end));
        self.push(extra, FALLBACK, slot)
    }

    /// Adds a node to the new fields. An existing node stays: the first value
    /// decides a field's type.
    pub(super) fn add_field(&mut self, path: &str, node: Node) {
        let additions = self.additions.get_or_insert_with(Mapping::default);
        let mut object = &mut additions.root;
        let mut parts = path.split('.').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                object.properties.entry(part.to_owned()).or_insert(node);
                return;
            }
            let child = object
                .properties
                .entry(part.to_owned())
                .or_insert_with(|| Node::Object(ObjectMapping::default()));
            match child {
                Node::Object(inner) => object = inner,
                Node::Field(_) => return,
            }
        }
    }
}
