//! Before a local index goes, what the store has of it is read back.
//!
//! The engine reads in the background and a step only looks how far it is, so that no lifecycle waits for another's
//! bytes. Which of them are read is remembered here, and ended once the index, its policy or its step is another.

use std::collections::BTreeMap;

use firn_engine::snapshot::{DamagedObject, Verification, VerificationState, VerifySnapshot};
use firn_model::ilm::OperationMode;
use firn_model::metadata::{IndexMetadata, Metadata};
use firn_model::{Error, ErrorKind};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Damaged objects that an error names.
const NAMED_MAX: usize = 3;
/// An index says so many times how far it is; each time is a transaction of the catalog.
const TELLS: u64 = 50;

/// What is read back, by the uuid of the index that waits for it.
#[derive(Debug, Default)]
pub(super) struct Verifying(Mutex<BTreeMap<String, VerifySnapshot>>);

impl Verifying {
    /// An index waits for this.
    pub(super) fn note(&self, uuid: &str, request: &VerifySnapshot) {
        self.0.lock().insert(uuid.to_owned(), request.clone());
    }

    /// What nobody waits for any more; it is forgotten here.
    pub(super) fn unwanted(&self, metadata: &Metadata) -> Vec<VerifySnapshot> {
        let mut all = self.0.lock();
        if all.is_empty() {
            return Vec::new();
        }
        let by_uuid: BTreeMap<&str, &IndexMetadata> = metadata
            .indices
            .values()
            .map(|index| (index.uuid.as_str(), &**index))
            .collect();
        let (wanted, unwanted): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut *all).into_iter().partition(|(uuid, request)| {
                let index = by_uuid.get(uuid.as_str());
                index.is_some_and(|index| is_wanted(index, metadata, request))
            });
        *all = wanted;
        unwanted.into_values().collect()
    }
}

/// Whether an index is still on its way into this snapshot.
fn is_wanted(index: &IndexMetadata, metadata: &Metadata, request: &VerifySnapshot) -> bool {
    let has_policy = index
        .lifecycle_policy()
        .is_some_and(|policy| metadata.ilm.by_name.contains_key(policy));
    let goes_there = index.execution.as_ref().is_some_and(|execution| {
        execution.key.action == "searchable_snapshot"
            && execution.snapshot_name.as_deref() == Some(request.snapshot.as_str())
            && execution.snapshot_repository.as_deref() == Some(request.repository.as_str())
    });
    has_policy && goes_there && metadata.ilm.mode == OperationMode::Running
}

/// What `step_info` says while it goes on. Where that is hardly further than what was said it stays as it was.
pub(super) fn progress(request: &VerifySnapshot, now: &Verification, said: Option<&Value>) -> Value {
    let number = |name: &str| said.and_then(|said| said[name].as_u64());
    if let (Some(said), Some(total), Some(bytes)) = (said, number("bytes_total"), number("bytes_verified"))
        && total == now.bytes_total
        && now.bytes_verified >= bytes
        && now.bytes_verified - bytes < total.div_ceil(TELLS)
    {
        return said.clone();
    }
    json!({
        "message": format!(
            "reading back from repository [{}] what snapshot [{}] has of index [{}], which stays where it is meanwhile: \
             [{}] of [{}] bytes are verified",
            request.repository, request.snapshot, request.index, now.bytes_verified, now.bytes_total
        ),
        "bytes_verified": now.bytes_verified,
        "bytes_total": now.bytes_total,
        "objects_verified": now.objects_verified,
        "objects_total": now.objects_total,
    })
}

/// What cannot take the place of an index.
pub(super) fn damaged(request: &VerifySnapshot, objects: &[DamagedObject], is_mounted: bool) -> Error {
    let named = objects.iter().take(NAMED_MAX);
    let named: Vec<String> = named
        .map(|object| format!("object [{}]: {}", object.key, object.reason))
        .collect();
    let more = match objects.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!("; and [{more}] more"),
    };
    let next = match is_mounted {
        false => "the next try writes what is damaged again",
        // Its events are in this snapshot alone, and on this node.
        true => "only the store can give back what it lost",
    };
    Error::new(
        ErrorKind::Repository,
        format!(
            "[{}] does not have what snapshot [{}] wrote of index [{}], which stays where it is; {next}: {}{more}",
            request.repository,
            request.snapshot,
            request.index,
            named.join("; ")
        ),
    )
}

/// How far it is, as [`super::Effects::verify`] says when it began just now.
pub(super) fn begun() -> Verification {
    Verification {
        state: VerificationState::Running,
        ..Verification::default()
    }
}
