//! Objects whose leaves are indexed as keywords: `flattened` fields, and fields above the limit.

use firn_segment::schema::Class;

use super::compiled::encode_path_into;
use super::document::{EXTRA_PATH, Slot};
use super::map::{Kind, Located, Outcome, Pass};
use super::store::is_longer;

/// `depth_limit` of flattened fields.
const FLATTENED_DEPTH_MAX: usize = 20;
/// Longer leaves of unmapped objects are stored in the source only, like those of new strings.
const UNMAPPED_IGNORE_ABOVE: u32 = 256;

/// Target of the leaves of a flattened object.
struct Target {
    /// Path id of the flattened field; `None`: leaves get only their own paths.
    root: Option<u32>,
    class: Class,
    ignore_above: Option<u32>,
    /// Name of the root for users, in `_ignored`.
    name: String,
}

impl Pass<'_> {
    /// Reads the object of a flattened field.
    pub(super) fn flattened(&mut self, index: u32) -> Outcome {
        let target = self.flattened_target(index);
        let mut path = self.compiled.paths[self.compiled.leaves[index as usize].path as usize].to_string();
        self.flatten_value(&target, &mut path, 0)
    }

    /// Reads a value for a dotted key below a flattened field.
    pub(super) fn flattened_key(&mut self, index: u32, key: &str) -> Outcome {
        let target = self.flattened_target(index);
        let mut path = self.compiled.paths[self.compiled.leaves[index as usize].path as usize].to_string();
        path.push('\u{1}');
        encode_path_into(key, &mut path);
        self.flatten_value(&target, &mut path, 1)
    }

    /// Reads a value that has no field in the mapping.
    pub(super) fn flatten_unmapped(&mut self, path: &str) -> Outcome {
        let target = Target {
            root: None,
            class: Class::Keyword,
            ignore_above: Some(UNMAPPED_IGNORE_ABOVE),
            name: path.to_owned(),
        };
        let mut encoded = super::compiled::encode_path(path);
        self.flatten_value(&target, &mut encoded, 1)
    }

    fn flattened_target(&self, index: u32) -> Target {
        let leaf = &self.compiled.leaves[index as usize];
        Target {
            root: Some(leaf.path),
            class: leaf.class,
            ignore_above: leaf.field.ignore_above,
            name: self.compiled.names[leaf.path as usize].to_string(),
        }
    }

    fn flatten_value(&mut self, target: &Target, path: &mut String, levels: usize) -> Outcome {
        match self.kind()? {
            Kind::Null => Ok(self.reader.literal("null")?),
            Kind::Array => self.elements(|pass| pass.flatten_value(target, path, levels)),
            Kind::Scalar => self.scalar(|pass, value| pass.flatten_leaf(target, path, levels, value)),
            Kind::Object if levels == FLATTENED_DEPTH_MAX => {
                self.ignore_extra(&target.name);
                Ok(self.reader.skip_value()?)
            }
            Kind::Object => {
                self.reader.position += 1;
                if self.reader.take(b'}')? {
                    return Ok(());
                }
                self.deeper(|pass| {
                    loop {
                        pass.flatten_member(target, path, levels)?;
                        if !pass.reader.more(b'}')? {
                            return Ok(());
                        }
                    }
                })
            }
        }
    }

    fn flatten_member(&mut self, target: &Target, path: &mut String, levels: usize) -> Outcome {
        let raw = self.key()?;
        let length = path.len();
        path.push('\u{1}');
        if raw.escaped {
            let mut key = String::new();
            self.reader.unescape_into(raw, &mut key);
            encode_path_into(&key, path);
        } else {
            encode_path_into(&self.reader.text()[raw.start..raw.end], path);
        }
        self.flatten_value(target, path, levels + 1)?;
        path.truncate(length);
        Ok(())
    }

    fn flatten_leaf(&mut self, target: &Target, path: &str, levels: usize, value: &mut Located<'_>) -> Outcome {
        let text = value.scalar.as_text();
        // Lucene's longest term has 32,766 bytes; the key is part of the term.
        let too_long = target.ignore_above.is_some_and(|limit| is_longer(text, limit)) || text.len() > 32_000;
        if too_long {
            self.ignore_extra(&path.replace('\u{1}', "."));
            return Ok(());
        }
        let slot = self.place(value);
        if let Some(root) = target.root {
            self.push(root, target.class, slot)?;
            if target.class == Class::KeywordTerms {
                self.name_field(root);
            }
        }
        if levels == 0 {
            return Ok(());
        }
        let Slot::Arena(start, end) = self.keep(path) else {
            return Ok(());
        };
        let extra = EXTRA_PATH | self.extra_paths.len() as u32;
        self.extra_paths.push((start, end));
        self.push(extra, target.class, slot)
    }
}
