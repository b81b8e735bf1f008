//! Records of requests in firn's data streams: the audit log (`.firn-audit`), and the cost of each request
//! (`.firn-traffic`).
//!
//! A request puts a record in a bounded queue and continues; a task writes the queued records to the engine, once a
//! second. No request waits for it: records that do not fit are counted, and the count is stored in the same stream.
//! The task's writes do not pass the HTTP API and so create no records.

mod audit;
mod stream;
mod traffic;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use firn_api::{Recorder, RequestRecord};
use firn_engine::Engine;

use crate::settings::{KeepRecords, ServeSettings};
use audit::Audit;
use stream::{Definition, Stream, Writer};

/// How long the last records may take to be written when the server stops.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// Distributes records to the streams.
#[derive(Clone)]
pub(crate) struct Records {
    node: Arc<str>,
    audit: Option<(Arc<Stream>, Arc<Audit>)>,
    traffic: Option<Arc<Stream>>,
}

/// The tasks that write.
pub(crate) struct Writers(Vec<(Arc<Stream>, tokio::task::JoinHandle<()>)>);

/// Starts the streams that the settings enable; by default both, if authentication is on.
pub(crate) fn start(settings: &ServeSettings, authentication: bool, engine: &Arc<dyn Engine>) -> (Records, Writers) {
    let mut writers = Vec::new();
    let mut open = |keep: KeepRecords, definition: Definition| {
        keep.is_on.unwrap_or(authentication).then(|| {
            let (stream, writer) = Writer::new(definition, keep.retention, Arc::clone(engine));
            writers.push((Arc::clone(&stream), tokio::spawn(writer.run())));
            stream
        })
    };
    let audit = open(settings.audit, audit::definition());
    let traffic = open(settings.traffic, traffic::definition());
    let records = Records {
        node: settings.node_name.as_str().into(),
        audit: audit.map(|stream| (stream, Arc::default())),
        traffic,
    };
    (records, Writers(writers))
}

impl Records {
    /// Returns the receiver of records; `None`: all streams are off.
    pub(crate) fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        let is_on = self.audit.is_some() || self.traffic.is_some();
        is_on.then(|| Arc::new(self.clone()) as Arc<dyn Recorder>)
    }

    /// Adds lines for `/metrics`.
    pub(crate) fn write_metrics(&self, text: &mut String) {
        let streams: Vec<&Arc<Stream>> = (self.audit.iter().map(|(stream, _)| stream))
            .chain(&self.traffic)
            .collect();
        if streams.is_empty() {
            return;
        }
        text.push_str("# HELP firn_records_total Records of requests, by stream and outcome.\n");
        text.push_str("# TYPE firn_records_total counter\n");
        for stream in streams {
            for (outcome, count) in [("written", stream.written()), ("lost", stream.lost())] {
                let name = stream.name();
                // Writing to a string does not fail.
                let _ = writeln!(
                    text,
                    "firn_records_total{{stream=\"{name}\",outcome=\"{outcome}\"}} {count}"
                );
            }
        }
    }
}

impl Recorder for Records {
    fn record(&self, record: RequestRecord) {
        if let Some((stream, audit)) = &self.audit
            && let Some(event) = audit.event(&record)
        {
            stream.put(audit::print(&record, event, &self.node));
        }
        if let Some(stream) = &self.traffic {
            stream.put(traffic::print(&record, &self.node));
        }
    }
}

impl Writers {
    /// Writes the remaining records. Must be called when no more requests arrive and before the engine is closed.
    pub(crate) async fn close(self) {
        for (stream, _) in &self.0 {
            stream.close();
        }
        for (stream, task) in self.0 {
            if tokio::time::timeout(CLOSE_PATIENCE, task).await.is_err() {
                tracing::error!(stream = stream.name(), "cannot write the last records in time");
            }
        }
    }
}
