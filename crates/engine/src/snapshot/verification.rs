//! Reading back what a snapshot has of an index, before somebody relies on it alone.

/// What is read back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VerifySnapshot {
    /// The repository.
    pub repository: String,
    /// The snapshot, by its name.
    pub snapshot: String,
    /// The index, by its name in the snapshot.
    pub index: String,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verification {
    /// Bytes that were read and are what was written.
    pub bytes_verified: u64,
    /// Bytes of all objects; 0 until the manifests were read.
    pub bytes_total: u64,
    /// Objects that are whole: splits, deletes, tables of filters.
    pub objects_verified: u64,
    /// All of them; 0 until the manifests were read.
    pub objects_total: u64,
    /// Whether that is all.
    pub state: VerificationState,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum VerificationState {
    /// It goes on, or waits for others to end.
    #[default]
    Running,
    /// Every byte was read back from the store and is what was written.
    Whole,
    /// These objects are not what was written, at least; never empty. What a snapshot before this one has of them is
    /// not taken over by the next: it is written again, in the place of what is damaged.
    Damaged(Vec<DamagedObject>),
}

/// An object that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedObject {
    /// Its key in the repository.
    pub key: String,
    /// What is wrong with it.
    pub reason: String,
}
