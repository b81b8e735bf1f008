//! For tests only: a firn process on a free port with a folder of its own, an HTTP client that
//! never fails on a status, seeds that a failing test prints, and a naive engine with random
//! questions to hold firn's answers against.

mod http;
mod node;
pub mod random;
pub mod reference;
mod seed;

pub use http::{Answer, Client};
pub use node::{Node, NodeOptions};
pub use seed::seed;
