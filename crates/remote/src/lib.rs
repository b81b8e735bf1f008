//! Destination of event pipelines in another cluster: firn, OpenSearch or Elasticsearch, over their REST API.
//!
//! **Exactly once.** A firn does it by itself ([`firn`]). In other clusters, an event's id is a hash of its source, partition and offset, and it is written with `create`: 409 means that it
//! is stored already. That alone is not enough in a data stream, whose next backing index does not know the ids of the one before.
//! So the cluster holds a record for each partition ([`record`]): which offsets are being written, which index was then the write
//! index of each target, which events were rejected. The record is written before the events, on condition that nothing else has
//! written it since ([`partition`]); a worker that has lost its partition fails on that condition.

mod bulk;
mod connection;
mod destination;
mod firn;
mod partition;
mod record;
mod settings;

pub use destination::RemoteDestination;
pub use settings::{ClusterSettings, Credentials};
