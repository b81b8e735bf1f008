//! Verification of a snapshot's index: reads its data back before an operator relies on the snapshot as the only copy.

/// Request to verify one index of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VerifySnapshot {
    /// Repository name.
    pub repository: String,
    /// Snapshot name.
    pub snapshot: String,
    /// Name of the index in the snapshot.
    pub index: String,
}

/// Progress of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verification {
    /// Bytes that were read and are intact.
    pub bytes_verified: u64,
    /// Bytes of all objects; 0 until the manifests were read.
    pub bytes_total: u64,
    /// Objects that are intact: splits, deletes, filter tables.
    pub objects_verified: u64,
    /// All objects; 0 until the manifests were read.
    pub objects_total: u64,
    /// State of the verification.
    pub state: VerificationState,
}

/// State and result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum VerificationState {
    /// Running or queued.
    #[default]
    Running,
    /// Every byte was read back from the store and is intact.
    Whole,
    /// At least these objects are damaged; never empty. The next snapshot does not reuse damaged objects of earlier
    /// ones: it writes them again, which replaces the damaged copies.
    Damaged(Vec<DamagedObject>),
}

/// A damaged object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedObject {
    /// Key in the repository.
    pub key: String,
    /// Kind of damage.
    pub reason: String,
}
