//! Filter tables: the term filters of very many splits, side by side.
//!
//! One by one, lookups in the [filters](crate::split::filter) of twelve thousand splits take twelve thousand requests.
//! A [table] stores the filters **transposed**. A value reads three slots of a filter, the same ones in all filters of
//! one [`Shape`]. A filter stores its slots one after the other; a table stores the same slot of all splits in a row.
//! So a lookup reads three short ranges per shape, not one range per split.
//!
//! What surprises: a table is built from the filters as they are stored in splits. No value has to be known, so every
//! process that can read the splits can build a table of any of them at any time. `docs/formats/filters.md` describes
//! the bytes.

mod directory;
mod reference;
mod section;
mod shape;
pub mod table;
mod writer;

pub use directory::TableDamage;
pub use reference::FilterTableRef;
pub use shape::Shape;
pub use table::{FilterTable, Question};
pub use writer::TableWriter;
