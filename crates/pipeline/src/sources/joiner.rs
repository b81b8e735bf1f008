//! Joins the events of many connections into batches: many senders of a few events each must not make many small writes.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::{Batch, SourceEvent, SourceOutput};

/// Events and bytes of a batch at which it is sent.
const EVENTS: usize = 2000;
const BYTES: usize = 2 << 20;
/// How long the first event of a batch waits for more.
const LINGER: Duration = Duration::from_millis(50);
/// Groups of events that wait for the joiner.
const WAITING: usize = 64;

/// Creates the channel to a joiner. Each message is a group of events of one connection.
pub(super) fn joined() -> (mpsc::Sender<Vec<SourceEvent>>, mpsc::Receiver<Vec<SourceEvent>>) {
    mpsc::channel(WAITING)
}

/// Sends the events of a channel to the pipeline until the channel is closed and empty, or the pipeline stops.
pub(super) async fn join(mut groups: mpsc::Receiver<Vec<SourceEvent>>, output: SourceOutput) {
    while let Some(mut events) = groups.recv().await {
        let deadline = Instant::now() + LINGER;
        let mut bytes: usize = events.iter().map(|event| event.bytes.len()).sum();
        while events.len() < EVENTS && bytes < BYTES {
            let Ok(Some(more)) = timeout_at(deadline, groups.recv()).await else {
                break;
            };
            bytes += more.iter().map(|event| event.bytes.len()).sum::<usize>();
            events.extend(more);
        }
        let batch = Batch {
            stored: None,
            partition: None,
            events,
            first_offset: 0,
            last_offset: 0,
            retries: true,
            note: None,
            done: None,
        };
        if output.send(batch).await.is_err() {
            return;
        }
    }
}
