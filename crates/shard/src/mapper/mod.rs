//! Mapper: turns an event's JSON into the fields that the segment library indexes, in one pass and without a tree.
//!
//! The mapper is pure: it runs outside of any lock, in parallel. It validates the JSON fully,
//! finds each value's field in the [`CompiledMapping`], coerces the value to the field's type and
//! puts it into one of the class fields of [`firn_segment::schema`]. A value that does not fit its field
//! does not lose the event (unless `ignore_malformed` is off): the field's name goes to `_ignored`
//! and the value is searchable as text under the same path.
//!
//! A repeated key in an object is refused as in Elasticsearch, if the mapping has the key.

mod coerce;
mod collect;
mod compiled;
mod document;
mod dynamic;
mod flattened;
mod geo;
mod json;
mod map;
mod store;
#[cfg(test)]
mod tests;

pub use self::compiled::CompiledMapping;
pub use self::document::{DocumentValue, FieldValues, MappedDocument, Members};
pub use self::json::DEPTH_MAX as NESTING_MAX;
pub use self::map::{KEYS_MAX, Mapped, Unmapped, VALUES_MAX, map_document};
