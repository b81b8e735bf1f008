//! Record of a partition in the cluster, and its changes: no input or output.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use firn_engine::origin::{Origin, SourcePosition, SourceTotals};
use firn_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Bytes of an id before it is encoded.
const ID_BYTES: usize = 16;
/// Longest reason of a rejected event in the record, bytes.
const REASON_BYTES_MAX: usize = 200;

/// What of a partition is stored, as the cluster holds it.
///
/// Offsets before `first_offset` are stored. Those from there to `last_offset` are being written, and may be stored in part, until
/// `is_complete` says that they are stored, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) source: String,
    pub(crate) partition: String,
    /// First offset of the write that goes on.
    pub(crate) first_offset: u64,
    /// Highest offset that was ever written.
    pub(crate) last_offset: u64,
    pub(crate) is_complete: bool,
    /// The write index of each target when the first of these offsets was first written.
    pub(crate) write_indices: BTreeMap<String, String>,
    /// Offsets from `first_offset` on whose events are rejected for good, with the reasons.
    pub(crate) rejected: BTreeMap<u64, String>,
    /// Totals of the events before `first_offset`; if `is_complete`, through `last_offset`.
    pub(crate) indexed: u64,
    pub(crate) filtered: u64,
    pub(crate) dead_lettered: u64,
    /// See [`Origin::note`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
    /// Worker that wrote the record.
    pub(crate) worker: String,
}

/// A bulk that is stored, but of which the record does not say so yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) last_offset: u64,
    pub(crate) totals: SourceTotals,
    /// Its dead letters are stored, too.
    pub(crate) is_settled: bool,
}

/// What must be written before the events of a bulk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// None: the record covers the bulk already.
    Covered,
    /// This record, which keeps the write indices of an earlier attempt.
    Continued(Box<Record>),
    /// This record, into which the present write indices belong.
    New(Box<Record>),
}

impl Record {
    /// Returns the record to write before a bulk. `stored` is the one in the cluster, `finished` the last bulk of this worker.
    /// Offsets before the record's are stored, so the bulk may start with such.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`]: the bulk does not follow the stored offsets, so the partition must be read from its resume offset.
    pub(crate) fn intent(stored: Option<&Self>, finished: Option<&Finished>, origin: &Origin) -> Result<Intent> {
        let Some(stored) = stored else {
            return Ok(Intent::New(Box::new(Self::first_of(origin))));
        };
        if origin.last_offset < stored.resume_offset() {
            return Ok(Intent::Covered);
        }
        let first_offset = origin.first_offset.max(stored.resume_offset());
        if stored.is_complete {
            return Ok(Intent::New(Box::new(stored.followed_by(
                first_offset,
                origin,
                stored.totals(),
            ))));
        }
        if first_offset == stored.first_offset {
            if origin.last_offset <= stored.last_offset {
                return Ok(Intent::Covered);
            }
            let record = Self {
                last_offset: origin.last_offset,
                note: origin.note.as_deref().map(str::to_owned),
                ..stored.clone()
            };
            return Ok(Intent::Continued(Box::new(record)));
        }
        // What lies before the bulk must be stored.
        let follows = |finished: &&Finished| {
            first_offset > finished.last_offset && finished.last_offset + 1 >= stored.first_offset
        };
        let Some(finished) = finished.filter(follows) else {
            return Err(out_of_order(origin));
        };
        let mut record = stored.followed_by(first_offset, origin, finished.totals);
        if first_offset > stored.last_offset {
            return Ok(Intent::New(Box::new(record)));
        }
        // An earlier attempt has written offsets of this bulk.
        record.last_offset = origin.last_offset.max(stored.last_offset);
        record.write_indices = stored.write_indices.clone();
        record.rejected = stored.rejected.clone().split_off(&first_offset);
        Ok(Intent::Continued(Box::new(record)))
    }

    fn first_of(origin: &Origin) -> Self {
        Self {
            source: origin.source.to_string(),
            partition: origin.partition.to_string(),
            first_offset: origin.first_offset,
            last_offset: origin.last_offset,
            is_complete: false,
            write_indices: BTreeMap::new(),
            rejected: BTreeMap::new(),
            indexed: 0,
            filtered: 0,
            dead_lettered: 0,
            note: origin.note.as_deref().map(str::to_owned),
            worker: String::new(),
        }
    }

    fn followed_by(&self, first_offset: u64, origin: &Origin, totals: SourceTotals) -> Self {
        let mut next = Self {
            first_offset,
            ..Self::first_of(origin)
        };
        next.set_totals(totals);
        next
    }

    /// Whether the event at an offset is stored.
    pub(crate) fn is_stored(&self, offset: u64) -> bool {
        offset < self.resume_offset()
    }

    /// Returns the record once `finished` is stored.
    pub(crate) fn completed(&self, finished: &Finished) -> Self {
        let mut record = self.clone();
        record.set_totals(finished.totals);
        if finished.last_offset >= self.last_offset {
            record.is_complete = true;
            record.write_indices.clear();
            record.rejected.clear();
        } else {
            record.first_offset = finished.last_offset + 1;
            record.rejected = record.rejected.split_off(&record.first_offset);
        }
        record
    }

    /// Adds rejected events.
    pub(crate) fn reject(&mut self, offset: u64, reason: &str) {
        let shown = &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)];
        self.rejected.insert(offset, shown.to_owned());
    }

    pub(crate) fn totals(&self) -> SourceTotals {
        SourceTotals {
            indexed: self.indexed,
            filtered: self.filtered,
            dead_lettered: self.dead_lettered,
        }
    }

    fn set_totals(&mut self, totals: SourceTotals) {
        self.indexed = totals.indexed;
        self.filtered = totals.filtered;
        self.dead_lettered = totals.dead_lettered;
    }

    /// Returns the offset from which the partition must be read after a restart.
    pub(crate) fn resume_offset(&self) -> u64 {
        match self.is_complete {
            true => self.last_offset + 1,
            false => self.first_offset,
        }
    }

    /// Returns the position as the engine's interface has it.
    pub(crate) fn position(&self) -> SourcePosition {
        SourcePosition {
            partition: self.partition.clone(),
            resume_offset: self.resume_offset(),
            complete_offset: self.is_complete.then_some(self.last_offset),
            totals: self.totals(),
            note: self.note.as_deref().map(Into::into),
        }
    }
}

fn out_of_order(origin: &Origin) -> Error {
    let Origin {
        partition,
        first_offset,
        ..
    } = origin;
    Error::new(
        ErrorKind::Conflict,
        format!("offset {first_offset} of partition [{partition}] does not follow the stored offsets"),
    )
}

/// Returns the id of the record of a partition.
pub(crate) fn record_id(source: &str, partition: &str) -> String {
    hash(&[source.as_bytes(), partition.as_bytes()])
}

/// Returns the id of an event. Partitions of Kafka hold the id of the topic, which no other cluster has.
pub(crate) fn event_id(source: &str, partition: &str, offset: u64) -> String {
    hash(&[source.as_bytes(), partition.as_bytes(), &offset.to_be_bytes()])
}

fn hash(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    URL_SAFE_NO_PAD.encode(&hasher.finalize()[..ID_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(first_offset: u64, last_offset: u64) -> Origin {
        Origin {
            source: "firewalls".into(),
            partition: "topic/0".into(),
            first_offset,
            last_offset,
            offsets: (first_offset..=last_offset).collect(),
            dead_letters: 0,
            filtered: 0,
            more_follows: false,
            note: None,
        }
    }

    fn finished(last_offset: u64, indexed: u64) -> Finished {
        Finished {
            last_offset,
            totals: SourceTotals {
                indexed,
                ..SourceTotals::default()
            },
            is_settled: true,
        }
    }

    fn record(first_offset: u64, last_offset: u64, is_complete: bool) -> Record {
        Record {
            is_complete,
            write_indices: BTreeMap::from([("logs".to_owned(), "logs-1".to_owned())]),
            rejected: BTreeMap::from([(first_offset, "one".to_owned()), (last_offset, "two".to_owned())]),
            indexed: 7,
            ..Record::first_of(&origin(first_offset, last_offset))
        }
    }

    #[test]
    fn a_bulk_follows_the_one_before() {
        let Ok(Intent::New(first)) = Record::intent(None, None, &origin(0, 9)) else {
            panic!("nothing is stored");
        };
        assert_eq!((first.first_offset, first.last_offset, first.indexed), (0, 9, 0));
        let Ok(Intent::New(next)) = Record::intent(Some(&first), Some(&finished(9, 10)), &origin(12, 20)) else {
            panic!("the one before is stored");
        };
        assert_eq!((next.first_offset, next.last_offset, next.indexed), (12, 20, 10));
        assert_eq!(next.resume_offset(), 12);
        let Ok(Intent::New(after_complete)) = Record::intent(Some(&record(0, 9, true)), None, &origin(10, 20)) else {
            panic!("the record is complete");
        };
        assert_eq!((after_complete.indexed, after_complete.rejected.len()), (7, 0));
    }

    #[test]
    fn a_repeated_bulk_keeps_what_earlier_attempts_left() {
        let stored = record(10, 19, false);
        assert_eq!(
            Record::intent(Some(&stored), None, &origin(10, 19)).unwrap(),
            Intent::Covered
        );
        assert_eq!(
            Record::intent(Some(&stored), None, &origin(10, 15)).unwrap(),
            Intent::Covered
        );
        let Ok(Intent::Continued(longer)) = Record::intent(Some(&stored), None, &origin(10, 30)) else {
            panic!("a longer bulk from the same offset");
        };
        assert_eq!((longer.last_offset, longer.rejected.len()), (30, 2));
        // The second part of a bulk that is now read in two.
        let Ok(Intent::Continued(rest)) = Record::intent(Some(&stored), Some(&finished(15, 12)), &origin(16, 17))
        else {
            panic!("offsets that an earlier attempt has written");
        };
        assert_eq!((rest.first_offset, rest.last_offset, rest.indexed), (16, 19, 12));
        assert_eq!(rest.write_indices, stored.write_indices);
        assert_eq!(rest.rejected.keys().collect::<Vec<_>>(), [&19]);
    }

    #[test]
    fn what_lies_before_the_record_is_stored() {
        let complete = record(10, 19, true);
        assert_eq!(
            Record::intent(Some(&complete), None, &origin(10, 19)).unwrap(),
            Intent::Covered
        );
        assert!(complete.is_stored(19) && !complete.is_stored(20));
        let Ok(Intent::New(rest)) = Record::intent(Some(&complete), None, &origin(15, 25)) else {
            panic!("a bulk that is stored in part");
        };
        assert_eq!((rest.first_offset, rest.last_offset, rest.indexed), (20, 25, 7));
        let open = record(10, 19, false);
        assert!(open.is_stored(9) && !open.is_stored(10));
        assert_eq!(
            Record::intent(Some(&open), None, &origin(5, 15)).unwrap(),
            Intent::Covered
        );
    }

    #[test]
    fn a_bulk_out_of_order_is_refused() {
        let check = |stored: &Record, last: Option<Finished>, first_offset: u64| {
            let refused = Record::intent(Some(stored), last.as_ref(), &origin(first_offset, first_offset + 5));
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
        };
        check(&record(10, 19, false), None, 20);
        check(&record(10, 19, false), Some(finished(15, 0)), 15);
        check(&record(10, 19, false), Some(finished(8, 0)), 20);
    }

    #[test]
    fn completion_moves_the_place_to_resume() {
        let stored = record(10, 19, false);
        let all = stored.completed(&finished(19, 17));
        assert_eq!((all.resume_offset(), all.indexed, all.rejected.len()), (20, 17, 0));
        let part = stored.completed(&finished(15, 13));
        assert_eq!((part.resume_offset(), part.is_complete, part.indexed), (16, false, 13));
        assert_eq!(part.write_indices, stored.write_indices);
    }

    #[test]
    fn ids_tell_sources_partitions_and_offsets_apart() {
        let ids = [
            event_id("a", "bc", 1),
            event_id("ab", "c", 1),
            event_id("a", "bc", 2),
            record_id("a", "bc"),
        ];
        let distinct: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert_eq!(event_id("a", "bc", 1), ids[0]);
    }
}
