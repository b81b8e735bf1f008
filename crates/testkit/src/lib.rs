//! Test support: a firn process on a free port with a separate folder, an HTTP client that never fails on a status,
//! seeds that a failing test prints, and a naive engine with random requests to compare firn's answers with. For object
//! stores: a real S3 server, and a proxy before it that counts requests and injects faults. For event pipelines: a real Kafka
//! broker and a real PostgreSQL. For alerts: a mail server. Used only in tests.

mod folders;
mod gateway;
mod http;
mod kafka;
mod mail;
mod node;
mod postgresql;
mod proxy;
pub mod random;
pub mod reference;
mod seed;

pub use folders::copy_folder;
pub use gateway::Gateway;
pub use http::{Answer, Client};
pub use kafka::{Kafka, KafkaConsumed, KafkaProducer};
pub use mail::MailServer;
pub use node::{FLOOD_STAGE, Node, NodeOptions};
pub use postgresql::Postgresql;
pub use proxy::{Fault, FaultProxy, Faults, Method, ProxiedRequest, ProxyStats, Rule};
pub use seed::seed;
