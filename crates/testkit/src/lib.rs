//! For tests only: a firn process on a free port with a folder of its own, an HTTP client that
//! never fails on a status, and seeds that a failing test prints.

mod http;
mod node;
mod seed;

pub use http::{Answer, Client};
pub use node::{Node, NodeOptions};
pub use seed::seed;
