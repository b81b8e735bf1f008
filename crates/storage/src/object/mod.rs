//! Object store interface: objects are written as a whole, never changed, and read in ranges.
//!
//! Implementations hold bucket and base path; keys are relative to the base path, with `/` between their parts.
//! Dropping the future of a method cancels it. Callers on a thread of the search pool wait there, never on the threads
//! that serve HTTP.

mod analyze;
mod azure;
mod breaker;
#[cfg(test)]
mod cloud_tests;
mod confined;
mod error;
mod fs;
#[cfg(test)]
mod fs_tests;
mod gcs;
mod guarded;
mod http;
mod memory;
mod meter;
mod objects;
mod remote;
mod request_limit;
mod requests;
mod retry;
mod s3;
#[cfg(test)]
mod s3_tests;
mod settings;
mod stores;
#[cfg(test)]
mod stores_tests;
#[cfg(test)]
mod tests;
mod throttle;
mod url;
mod verify;

pub use analyze::{Analysis, AnalyzeOptions, Latencies, analyze};
pub use error::{ObjectError, ObjectErrorKind};
pub use fs::{FsObjects, FsPlace};
pub use guarded::{Guard, Guarded};
pub use memory::MemoryObjects;
pub use meter::{LATENCY_BOUNDS_MS, Meter, Operation, OperationStats};
pub use objects::{LocalFile, ObjectInfo, Objects, PutMode};
pub use request_limit::Limit;
pub use requests::{Requests, Want};
pub use retry::RetryPolicy;
pub use s3::{S3Credentials, S3Options};
pub use stores::{ObjectStores, StoresConfig};
pub use throttle::Throttle;
pub use verify::verify;
