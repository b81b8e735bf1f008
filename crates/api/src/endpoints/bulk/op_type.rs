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
