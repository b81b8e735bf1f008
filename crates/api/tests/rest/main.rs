//! REST edge as clients see it, over a fake engine that stores documents in a map.

mod async_search;
mod bodies;
mod capabilities;
mod cat;
mod contexts;
mod documents;
mod fake;
mod http;
mod http2;
mod keys_and_users;
mod metadata;
mod places;
mod questions;
mod quotas;
mod search;
mod security;
mod server;
mod tls;
