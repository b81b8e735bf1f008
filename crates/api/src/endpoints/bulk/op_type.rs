//! Kind of a bulk operation.

/// Action as written; it names the item in the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpType {
    /// `index`.
    Index,
    /// `create`.
    Create,
    /// `update`.
    Update,
    /// `delete`.
    Delete,
}

impl OpType {
    /// Returns whether ingest pipelines run for the operation and are listed in its answer.
    pub(super) fn runs_pipelines(self) -> bool {
        matches!(self, Self::Index | Self::Create)
    }

    /// Returns the name as in the body.
    pub fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}
