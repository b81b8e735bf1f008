//! Tests of the analysis, with a correct store and stores that each violate one guarantee.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::*;
use crate::object::{Guard, Guarded, Limit, MemoryObjects, ObjectInfo, PutMode, Requests, RetryPolicy, Want, verify};

/// Defect of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// Overwrites an object although the condition forbids it.
    IgnoresConditions,
    /// Compares first, and writes a moment later.
    ComparesFirst,
    /// Has no conditional writes.
    Unconditional,
    /// Its listings miss recent writes.
    ListsLate,
    /// Ranges are off by one.
    ShiftedRanges,
    /// Deletes nothing.
    KeepsAll,
    /// Does not answer at all.
    Silent,
}

#[derive(Debug)]
struct Flawed {
    store: MemoryObjects,
    flaw: Flaw,
}

#[async_trait]
impl Requests for Flawed {
    async fn get(&self, key: &str, want: Want) -> Result<(Bytes, ObjectInfo), ObjectError> {
        match want {
            Want::Range(range) if self.flaw == Flaw::ShiftedRanges && range.start > 0 => {
                let shifted = range.start - 1..range.end - 1;
                self.store.get(key, Want::Range(shifted)).await
            }
            want => self.store.get(key, want).await,
        }
    }
    async fn head(&self, key: &str) -> Result<ObjectInfo, ObjectError> {
        if self.flaw == Flaw::Silent {
            std::future::pending::<()>().await;
        }
        self.store.head(key).await
    }
    async fn put(&self, key: &str, bytes: Bytes, mode: &PutMode) -> Result<Option<String>, ObjectError> {
        use crate::object::ObjectErrorKind::{Changed, Exists, Unsupported};
        if *mode == PutMode::Overwrite {
            return self.store.put(key, bytes, mode).await;
        }
        match self.flaw {
            Flaw::IgnoresConditions => self.store.put(key, bytes, &PutMode::Overwrite).await,
            Flaw::Unconditional => Err(ObjectError::new(Unsupported, key, "not implemented")),
            Flaw::ComparesFirst => {
                let stored = self.store.head(key).await.ok().and_then(|info| info.etag);
                tokio::task::yield_now().await;
                match mode {
                    PutMode::Create if stored.is_some() => Err(ObjectError::new(Exists, key, "")),
                    PutMode::Replace(etag) if stored.as_ref() != Some(etag) => Err(ObjectError::new(Changed, key, "")),
                    _ => self.store.put(key, bytes, &PutMode::Overwrite).await,
                }
            }
            _ => self.store.put(key, bytes, mode).await,
        }
    }
    async fn begin_parts(&self, key: &str) -> Result<String, ObjectError> {
        self.store.begin_parts(key).await
    }
    async fn put_part(&self, key: &str, up: &str, at: usize, len: u64, b: Bytes) -> Result<String, ObjectError> {
        self.store.put_part(key, up, at, len, b).await
    }
    async fn complete_parts(&self, key: &str, up: &str, parts: Vec<String>) -> Result<(), ObjectError> {
        self.store.complete_parts(key, up, parts).await
    }
    async fn abort_parts(&self, key: &str, up: &str) -> Result<(), ObjectError> {
        self.store.abort_parts(key, up).await
    }
    async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError> {
        let mut found = self.store.list(prefix).await?;
        if self.flaw == Flaw::ListsLate && prefix.ends_with("blob-") {
            found.pop();
        }
        Ok(found)
    }
    async fn delete(&self, key: &str) -> Result<(), ObjectError> {
        if self.flaw == Flaw::KeepsAll {
            return Ok(());
        }
        self.store.delete(key).await
    }
}

fn flawed(flaw: Flaw) -> (Guarded, Arc<Flawed>) {
    let store = Arc::new(Flawed {
        store: MemoryObjects::new(),
        flaw,
    });
    let guard = Guard::new(Limit::new(16), RetryPolicy::new(0, 1));
    (Guarded::new(Arc::clone(&store) as Arc<dyn Requests>, guard), store)
}

fn options() -> AnalyzeOptions {
    AnalyzeOptions {
        blob_count: 24,
        concurrency: 6,
        blob_bytes_max: 100_000,
        total_bytes_max: 500_000,
        ..AnalyzeOptions::new("t", 5)
    }
}

#[tokio::test]
async fn a_sound_store_breaks_nothing_and_is_left_empty() {
    let (objects, store) = flawed(Flaw::None);
    let options = options();
    let found = analyze("r", &objects, &options).await.expect("an analysis");
    assert_eq!((&found.violations, &found.notes), (&vec![], &vec![]));
    assert_eq!(found.writes.count(), 24);
    assert!(found.writes.bytes() <= 500_000 && found.writes.bytes() >= 100_000);
    assert_eq!(found.overwrites.count(), 3);
    assert_eq!(found.ranged_reads.count(), (24 + 3) * 4);
    assert!(store.store.keys().is_empty());
    let report = found.to_json("r", &options);
    assert_eq!(report["issues_detected"], serde_json::json!([]));
    assert_eq!(report["summary"]["write"]["count"], 27);
    assert_eq!(report["requests"]["delete"]["count"], found.deletes.count());
}

#[tokio::test]
async fn each_broken_promise_is_named() {
    let check = async |flaw, words: &str| {
        let (objects, _) = flawed(flaw);
        let found = analyze("r", &objects, &options()).await.expect("an analysis");
        let joined = found.violations.join("; ");
        assert!(joined.contains(words), "{flaw:?}: {joined}");
    };
    check(Flaw::IgnoresConditions, "conditional writes are not atomic: 6 of 6").await;
    check(Flaw::ComparesFirst, "conditional writes are not atomic").await;
    check(Flaw::ComparesFirst, "conditional replacements are not atomic").await;
    check(Flaw::Unconditional, "the store has no conditional writes").await;
    check(Flaw::ShiftedRanges, "differ from the written bytes").await;
    check(Flaw::KeepsAll, "still exists after it was deleted").await;
}

#[tokio::test]
async fn a_late_listing_is_noted_and_no_violation() {
    let (objects, _) = flawed(Flaw::ListsLate);
    let found = analyze("r", &objects, &options()).await.expect("an analysis");
    assert!(found.violations.is_empty(), "{:?}", found.violations);
    assert!(found.notes[0].contains("missed 1 of 24 objects"), "{:?}", found.notes);
}

#[tokio::test]
async fn an_analysis_ends_in_time_and_cleans_up() {
    let (objects, store) = flawed(Flaw::Silent);
    let options = AnalyzeOptions {
        timeout: Duration::from_millis(20),
        ..options()
    };
    let error = analyze("r", &objects, &options).await.expect_err("time is over");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.reason().contains("[20ms]"), "{error}");
    assert!(store.store.keys().is_empty());
}

#[tokio::test]
async fn numbers_that_make_no_sense_are_refused() {
    let (objects, store) = flawed(Flaw::None);
    let check = async |options: AnalyzeOptions, name: &str| {
        let error = analyze("r", &objects, &options).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::IllegalArgument);
        assert!(error.reason().contains(name), "{error}");
    };
    check(
        AnalyzeOptions {
            blob_count: 0,
            ..options()
        },
        "[blob_count]",
    )
    .await;
    check(
        AnalyzeOptions {
            concurrency: 1_001,
            ..options()
        },
        "[concurrency]",
    )
    .await;
    check(
        AnalyzeOptions {
            blob_bytes_max: 1 << 40,
            ..options()
        },
        "[max_blob_size]",
    )
    .await;
    check(
        AnalyzeOptions {
            total_bytes_max: 0,
            ..options()
        },
        "[max_total_data_size]",
    )
    .await;
    assert!(store.store.keys().is_empty());
}

#[tokio::test]
async fn verify_refuses_stores_that_cannot_hold_commits() {
    let (objects, store) = flawed(Flaw::None);
    verify("r", &objects, "t").await.expect("sound");
    assert!(store.store.keys().is_empty());
    for (flaw, words) in [
        (Flaw::IgnoresConditions, "ignores conditional writes"),
        (Flaw::Unconditional, "not implemented"),
    ] {
        let (objects, store) = flawed(flaw);
        let error = verify("r", &objects, "t").await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Repository);
        assert!(error.reason().contains(words), "{error}");
        assert!(store.store.keys().is_empty());
    }
}
