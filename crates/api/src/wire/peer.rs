//! Address of the client of a request.

use std::net::SocketAddr;

/// Address of the client: an extension of the request head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);
