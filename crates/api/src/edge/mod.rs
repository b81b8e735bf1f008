//! Way of a request through the server: connections, the table of endpoints, dispatch to handlers, the console's files.
//!
//! Topmost layer of the crate.

pub(crate) mod console;
pub(crate) mod dispatch;
pub(crate) mod offload;
pub(crate) mod recording;
pub(crate) mod router;
pub(crate) mod server;
pub(crate) mod worker;
