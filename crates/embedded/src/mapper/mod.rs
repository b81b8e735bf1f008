//! From an event's JSON to what the segment library indexes, in one pass and without a tree.
//!
//! The mapper is pure: it runs outside of any lock, in parallel. It validates the JSON fully,
//! finds each value's field in the [`CompiledMapping`], coerces the value to the field's type and
//! puts it into one of the class fields of [`crate::schema`]. A value that does not fit its field
//! never loses the event (unless `ignore_malformed` is off): the field's name goes to `_ignored`
//! and the value is searchable as text under the same path.

mod compiled;
mod document;
mod map;

pub use self::compiled::CompiledMapping;
pub use self::document::MappedDocument;
pub use self::map::{Mapped, Unmapped, map_document};
