//! Verification of a snapshot before the local index is deleted: the data in the store is read back.
//!
//! The engine reads in the background and a step only checks the progress, so that no lifecycle waits for another's
//! reads. This module records the running verifications, and ends them if the index, its policy or its step changes.

use std::collections::BTreeMap;

use firn_engine::snapshot::{DamagedObject, Verification, VerificationState, VerifySnapshot};
use firn_model::ilm::OperationMode;
use firn_model::metadata::{IndexMetadata, Metadata};
use firn_model::{Error, ErrorKind};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Maximum damaged objects in an error.
const NAMED_MAX: usize = 3;
/// Maximum progress updates of one index; each is a transaction of the catalog.
const TELLS: u64 = 50;

/// Running verifications, by the uuid of the index that waits for it.
#[derive(Debug, Default)]
pub(super) struct Verifying(Mutex<BTreeMap<String, VerifySnapshot>>);

impl Verifying {
    /// Records that an index waits for a verification.
    pub(super) fn note(&self, uuid: &str, request: &VerifySnapshot) {
        self.0.lock().insert(uuid.to_owned(), request.clone());
    }

    /// Removes and returns the verifications for which no index waits any more.
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

/// Returns whether an index is still to be moved into this snapshot.
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

/// Returns the `step_info` of a running verification. If the progress since the last update is small, it does not
/// change.
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
            "verifying in repository [{}] snapshot [{}] of index [{}], which stays in place in the meantime: \
             [{}] of [{}] bytes are verified",
            request.repository, request.snapshot, request.index, now.bytes_verified, now.bytes_total
        ),
        "bytes_verified": now.bytes_verified,
        "bytes_total": now.bytes_total,
        "objects_verified": now.objects_verified,
        "objects_total": now.objects_total,
    })
}

/// Creates the error of a damaged snapshot, which cannot replace an index.
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
        false => "the next attempt writes the damaged objects again",
        // Only this snapshot and this node have its events.
        true => "only the store can restore the lost objects",
    };
    Error::new(
        ErrorKind::Repository,
        format!(
            "repository [{}] has damaged objects of snapshot [{}], index [{}], which stays in place; {next}: {}{more}",
            request.repository,
            request.snapshot,
            request.index,
            named.join("; ")
        ),
    )
}

/// Returns the state of a verification that was just started, for [`crate::ilm::Effects::verify`].
pub(super) fn begun() -> Verification {
    Verification {
        state: VerificationState::Running,
        ..Verification::default()
    }
}
