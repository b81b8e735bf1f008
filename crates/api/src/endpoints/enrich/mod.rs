//! `_enrich`: policies of Elasticsearch's processor `enrich`.
//!
//! The execution of a policy copies the records of its indices into an index of their own (`.enrich-NAME-TIME`), which the catalog names
//! then; the one before is deleted. Look-ups are in memory: a table is read from its index at the first write that needs it, and
//! replaced as a whole. Policies belong to operators, as ingest pipelines do.

mod execute;
mod load;
mod policies;

pub(crate) use execute::{EXECUTE_PARAMS, execute};
pub(crate) use load::loaded;
pub(crate) use policies::{delete, get, put, stats};
