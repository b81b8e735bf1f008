//! Enrichment tables: what files and queries of databases say about a value of an event (where an address is, who owns a host).
//!
//! A table is read as a whole into an immutable version; a changed file becomes a new version, which is swapped in at once for
//! the events that follow. The version is stamped on each event, so that a replay with the same versions gives the same bytes.

mod definition;
mod enrich;
mod error;
mod geo_databases;
mod geoip;
mod handle;
mod intervals;
mod key_value;
mod query;

pub use definition::{PostgresqlDefinition, TableDefinition};
pub use enrich::{ENRICH_BYTES_MAX, ENRICH_RECORDS_MAX, EnrichDefinition, EnrichKind, EnrichTable};
pub use error::TableError;
pub use geo_databases::GeoDatabases;
pub use geoip::{GEO_COLUMNS, GeoColumn, GeoTable};
pub(crate) use handle::Version;
pub use handle::{Refresh, TableHandle, TableSource, TableStatus, Tables};
pub use key_value::KeyValueTable;
pub(crate) use query::QueriedTable;
pub use query::{OpenQuery, TableQuery};

/// Value of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'t> {
    /// A text.
    Text(&'t str),
    /// A whole number.
    Int(i64),
    /// A number.
    Double(f64),
    /// A boolean.
    Bool(bool),
}

/// One immutable version of a table. Look-ups run concurrently.
pub trait Table: std::fmt::Debug + Send + Sync {
    /// Returns the names of the columns; a column is addressed by its place.
    fn columns(&self) -> &[String];

    /// Returns the version: the same contents have the same version.
    fn version(&self) -> &str;

    /// Calls `each` with column and value of the row of a key, and returns whether there is one.
    fn look_up(&self, key: &str, each: &mut dyn FnMut(usize, Cell<'_>)) -> bool;
}
