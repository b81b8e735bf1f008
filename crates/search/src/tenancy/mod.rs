//! Rows, documents and terms of one tenant in segments that hold several tenants.

pub(crate) mod tenant_docs;
pub(crate) mod tenant_rows;
pub(crate) mod tenant_terms;
