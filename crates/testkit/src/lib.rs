//! For tests only: a firn process on a free port with a folder of its own, an HTTP client that
//! never fails on a status, seeds that a failing test prints, and a naive engine with random
//! questions to hold firn's answers against. For object stores: a real S3 server, and a proxy before it
//! that counts and lets things go wrong.

mod gateway;
mod http;
mod node;
mod proxy;
pub mod random;
pub mod reference;
mod seed;

pub use gateway::Gateway;
pub use http::{Answer, Client};
pub use node::{Node, NodeOptions};
pub use proxy::{Asked, Fault, FaultProxy, Faults, Method, ProxyStats, Rule};
pub use seed::seed;
