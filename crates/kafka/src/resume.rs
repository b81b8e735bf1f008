//! Place where a partition continues: the engine's record of stored events, checked against the log of the broker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_model::{Error, ErrorKind, Result};
use firn_pipeline::sources::SourceOutput;
use rdkafka::Offset;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::KafkaResult;

use crate::config::OffsetReset;
use crate::context::{Context, Place};
use crate::native;

/// Time for one request to a broker.
pub(crate) const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);
/// Time for a partition that was just assigned to become able to seek.
const SEEK_TIME_MAX: Duration = Duration::from_secs(5);
const SEEK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Where a partition continues; its consumer has sought there, and is paused.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) name: Arc<str>,
    pub(crate) offset: u64,
    /// Offsets that were never stored and are no longer in the log.
    pub(crate) lost: u64,
}

pub(crate) async fn resume(
    consumer: Arc<StreamConsumer<Context>>,
    output: SourceOutput,
    place: Place,
    reset: OffsetReset,
) -> Result<Resumed> {
    let (topic, number) = place;
    let lookup = blocking(&consumer, &topic, move |consumer, topic| {
        native::topic_id(consumer.client(), topic, REQUEST_TIME_MAX)
    });
    let id = lookup.await?;
    let watermarks = blocking(&consumer, &topic, move |consumer, topic| {
        consumer.fetch_watermarks(topic, number, REQUEST_TIME_MAX)
    });
    let (low, high) = watermarks.await?;
    let (low, high) = (low.max(0) as u64, high.max(0) as u64);
    let (name, stored) = current_record(&output, &format!("{id}/{number}"), high).await?;
    let (offset, lost) = place_to_continue(stored, low, high, reset);
    if let Some(stored) = stored.filter(|_| lost > 0) {
        tracing::error!(
            %topic, partition = number, stored, log_start = low, lost,
            "the resume offset of a Kafka partition is no longer in its log: events are lost"
        );
    }
    blocking(&consumer, &topic, move |consumer, topic| {
        seek(consumer, topic, number, offset)
    })
    .await?;
    Ok(Resumed { name, offset, lost })
}

/// Returns the name of a partition in the engine's record, and its offset there. If the log ends before the offset, the broker
/// has lost records, and writes others at the same offsets: these are another partition for the engine, named `NAME+1` and so
/// on, which starts at the end of the log.
async fn current_record(output: &SourceOutput, base: &str, high: u64) -> Result<(Arc<str>, Option<u64>)> {
    let mut name: Arc<str> = Arc::from(base);
    let mut stored = output.resume_offset(&name).await?;
    for losses in 1_u64.. {
        let next: Arc<str> = Arc::from(format!("{base}+{losses}"));
        let stored_next = output.resume_offset(&next).await?;
        match (stored, stored_next) {
            (_, Some(_)) => (name, stored) = (next, stored_next),
            (Some(ended), None) if ended > high => {
                tracing::error!(
                    partition = &*name,
                    stored = ended,
                    log_end = high,
                    "a Kafka partition ends before its resume offset: its broker lost records"
                );
                return Ok((next, Some(high)));
            }
            (_, None) => break,
        }
    }
    Ok((name, stored))
}

/// Returns the offset, and how many offsets before it are lost.
fn place_to_continue(stored: Option<u64>, low: u64, high: u64, reset: OffsetReset) -> (u64, u64) {
    match (stored, reset) {
        (Some(stored), _) if stored < low => (low, low - stored),
        (Some(stored), _) => (stored, 0),
        (None, OffsetReset::Earliest) => (low, 0),
        (None, OffsetReset::Latest) => (high, 0),
    }
}

/// Seeks; a partition can seek only once its assignment has come into effect.
fn seek(consumer: &StreamConsumer<Context>, topic: &str, number: i32, offset: u64) -> KafkaResult<()> {
    let started = Instant::now();
    loop {
        let sought = consumer.seek(topic, number, Offset::Offset(offset as i64), REQUEST_TIME_MAX);
        if sought.is_ok() || started.elapsed() > SEEK_TIME_MAX {
            return sought;
        }
        std::thread::sleep(SEEK_AGAIN_AFTER);
    }
}

async fn blocking<T: Send + 'static>(
    consumer: &Arc<StreamConsumer<Context>>,
    topic: &Arc<str>,
    call: impl FnOnce(&StreamConsumer<Context>, &str) -> KafkaResult<T> + Send + 'static,
) -> Result<T> {
    let (consumer, topic) = (Arc::clone(consumer), Arc::clone(topic));
    let called = tokio::task::spawn_blocking(move || call(&consumer, &topic).map_err(|error| (error, topic))).await;
    let called = called.map_err(|_| Error::internal("a call of the Kafka client panicked"))?;
    called.map_err(|(error, topic)| Error::new(ErrorKind::Unavailable, format!("Kafka topic [{topic}]: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_place_to_continue() {
        use OffsetReset::{Earliest, Latest};
        let check = |stored, reset, expect| assert_eq!(place_to_continue(stored, 10, 20, reset), expect);
        check(None, Earliest, (10, 0));
        check(None, Latest, (20, 0));
        check(Some(4), Earliest, (10, 6));
        check(Some(4), Latest, (10, 6));
        check(Some(10), Latest, (10, 0));
        check(Some(20), Earliest, (20, 0));
    }
}
