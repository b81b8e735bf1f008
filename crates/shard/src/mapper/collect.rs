//! Values collected by a pass: entries by class, ignored fields, names of fields without a column.

use firn_model::mapping::Analyzer;
use firn_model::{Error, ErrorKind};
use firn_segment::schema::Class;

use super::compiled::{Leaf, PATH_FIELD_NAMES, PATH_IGNORED};
use super::document::{Entry, Slot, class_number};
use super::json::line_and_column;
use super::map::{Located, Outcome, Pass, VALUES_MAX};

impl Pass<'_> {
    /// Returns the slot of a scalar's text.
    pub(super) fn place(&mut self, value: &mut Located<'_>) -> Slot {
        if let Some(slot) = value.slot {
            return slot;
        }
        let slot = self.keep(value.scalar.as_text());
        value.slot = Some(slot);
        slot
    }

    /// Copies text to the arena.
    pub(super) fn keep(&mut self, text: &str) -> Slot {
        let start = self.arena.len() as u32;
        self.arena.push_str(text);
        Slot::Arena(start, self.arena.len() as u32)
    }

    /// Adds a value; ignores [`Class::None`].
    pub(super) fn push(&mut self, path: u32, class: Class, value: Slot) -> Outcome {
        let Some(class) = class_number(class) else {
            return Ok(());
        };
        if self.entries.len() == VALUES_MAX {
            return Err(self
                .refuse(format!("the document has more than {VALUES_MAX} values"))
                .into());
        }
        self.entries.push(Entry { path, class, value });
        Ok(())
    }

    /// Handles a value that does not fit its field: stored, listed, and searchable as text; or an error.
    pub(super) fn malformed(&mut self, index: u32, value: Option<&mut Located<'_>>, reason: String) -> Outcome {
        let leaf: &Leaf = &self.compiled.leaves[index as usize];
        if !leaf.ignore_malformed {
            let preview = value.map_or("", |value| value.scalar.as_text());
            let error = self.refuse(format!(
                "failed to parse field [{}] of type [{}] in document with id '{}'. Preview of field's value: '{}'",
                self.compiled.names[leaf.path as usize],
                leaf.field.field_type.name(),
                self.id.unwrap_or_default(),
                preview.chars().take(200).collect::<String>(),
            ));
            return Err(error.caused_by(Error::illegal_argument(reason)).into());
        }
        self.ignored.push(leaf.path);
        match value {
            Some(value) => {
                let slot = self.place(value);
                self.push(leaf.path, Class::Text(Analyzer::Standard), slot)
            }
            None => Ok(()),
        }
    }

    /// Lists a field in `_ignored`.
    pub(super) fn ignore(&mut self, path: u32) {
        self.ignored.push(path);
    }

    /// Lists a path that is not in the mapping in `_ignored`.
    pub(super) fn ignore_extra(&mut self, path: &str) {
        if let Slot::Arena(start, end) = self.keep(path) {
            self.ignored_extra.push((start, end));
        }
    }

    /// Records that a field without a column has a value.
    pub(super) fn name_field(&mut self, path: u32) {
        if self.field_names.last() != Some(&path) {
            self.field_names.push(path);
        }
    }

    pub(super) fn refuse(&self, reason: String) -> Error {
        let (line, column) = line_and_column(self.reader.text().as_bytes(), self.reader.position);
        Error::new(ErrorKind::DocumentParsing, format!("[{line}:{column}] {reason}")).with_position(line, column)
    }

    /// Adds `_ignored` and `_field_names` and sorts the values by class.
    pub(super) fn finish_fields(&mut self) {
        self.ignored.sort_unstable();
        self.ignored.dedup();
        self.field_names.sort_unstable();
        self.field_names.dedup();
        for path in std::mem::take(&mut self.ignored) {
            self.add(PATH_IGNORED, Class::Keyword, Slot::Name(path));
        }
        for (start, end) in std::mem::take(&mut self.ignored_extra) {
            self.add(PATH_IGNORED, Class::Keyword, Slot::Arena(start, end));
        }
        for path in std::mem::take(&mut self.field_names) {
            self.add(PATH_FIELD_NAMES, Class::KeywordTerms, Slot::Name(path));
        }
        self.entries.sort_by_key(|entry| entry.class);
    }

    fn add(&mut self, path: u32, class: Class, value: Slot) {
        if let Some(class) = class_number(class) {
            self.entries.push(Entry { path, class, value });
        }
    }
}
