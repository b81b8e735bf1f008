//! Term filters of very many splits, side by side.
//!
//! Asked one by one, the [filters](crate::split::filter) of twelve thousand splits are twelve thousand requests. A
//! [table] holds them **transposed**. A value looks at three places of a filter, the same ones in all filters of one [`Shape`]; where one
//! filter has its places one after the other, a table has the same place of all splits in a row. So a question reads
//! three short ranges for each shape that there is, not one for each split.
//!
//! What surprises: a table is made of the filters as they lie in splits. No value has to be known, so it can be made
//! of any splits at any time, by whoever can read them. `docs/formats/filters.md` describes the bytes.

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
