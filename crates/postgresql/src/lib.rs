//! Enrichment tables of event pipelines from a query of PostgreSQL.
//!
//! The query runs in a transaction that can only read. Each row comes as a JSON object that PostgreSQL itself makes, so a column
//! of any type has the value that `row_to_json` gives it.

mod connection;
mod query;

pub use query::PostgresqlQuery;
