//! Capabilities of engines: what only some of them can do or say.
//!
//! An engine lists its capabilities ([`crate::Engine::capabilities`]). Without a capability, it refuses the requests
//! that need it by name ([`Capability::missing`]), or answers [`Knowledge::Unknown`]; it never answers with zeros or
//! empty lists instead.

use std::fmt;

use firn_model::{Error, ErrorKind, Result};

/// One capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Capability {
    /// Estimates what a search would fetch from snapshot repositories, and enforces
    /// [`crate::RequestContext::repository_bytes_max`].
    SearchCost,
    /// Publishes partial results of running searches ([`crate::RequestContext::progress`]).
    SearchProgress,
    /// Tells which fields have values, by index.
    FieldUsage,
    /// Enumerates the values of a field.
    TermsEnum,
    /// Lists the open points in time, and closes all contexts of a kind at once.
    ContextListing,
    /// Stores documents with values that do not fit their mapping, and lists those fields in `_ignored`.
    TypeConflicts,
    /// Removes a tenant's events permanently: when the call returns, no file holds them.
    Erasure,
    /// Removes indices that a tenant's writes created and that hold no documents.
    UnusedIndices,
    /// Measures documents, bytes and CPU time by tenant.
    TenantUsage,
    /// Tells how shards were recovered.
    Recoveries,
    /// Snapshot repositories, snapshots and restores ([`crate::Engine::snapshots`]).
    Snapshots,
    /// Finds and removes a tenant's events in snapshots ([`crate::Engine::snapshot_erasure`]).
    SnapshotErasure,
    /// Reads snapshots back from their store ([`crate::Engine::snapshot_verification`]).
    SnapshotVerification,
    /// Searchable snapshots ([`crate::Engine::mounts`]).
    Mounts,
    /// Devices of a node, by tier ([`crate::Engine::tiers`]).
    Tiers,
    /// Index folders that the catalog does not know ([`crate::Engine::quarantine`]).
    Quarantine,
    /// Stores bulks with an [`Origin`](crate::origin::Origin) exactly once, and tells the positions of sources.
    SourcePositions,
    /// Tells which writes of a shard are on disk and searchable ([`crate::Engine::checkpoints`]).
    Checkpoints,
}

impl Capability {
    /// All capabilities, in the order of their declaration.
    pub const ALL: [Self; 18] = [
        Self::SearchCost,
        Self::SearchProgress,
        Self::FieldUsage,
        Self::TermsEnum,
        Self::ContextListing,
        Self::TypeConflicts,
        Self::Erasure,
        Self::UnusedIndices,
        Self::TenantUsage,
        Self::Recoveries,
        Self::Snapshots,
        Self::SnapshotErasure,
        Self::SnapshotVerification,
        Self::Mounts,
        Self::Tiers,
        Self::Quarantine,
        Self::SourcePositions,
        Self::Checkpoints,
    ];

    /// Returns the name in errors and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::SearchCost => "search_cost",
            Self::SearchProgress => "search_progress",
            Self::FieldUsage => "field_usage",
            Self::TermsEnum => "terms_enum",
            Self::ContextListing => "context_listing",
            Self::TypeConflicts => "type_conflicts",
            Self::Erasure => "erasure",
            Self::UnusedIndices => "unused_indices",
            Self::TenantUsage => "tenant_usage",
            Self::Recoveries => "recoveries",
            Self::Snapshots => "snapshots",
            Self::SnapshotErasure => "snapshot_erasure",
            Self::SnapshotVerification => "snapshot_verification",
            Self::Mounts => "mounts",
            Self::Tiers => "tiers",
            Self::Quarantine => "quarantine",
            Self::SourcePositions => "source_positions",
            Self::Checkpoints => "checkpoints",
        }
    }

    /// Returns what an engine without the capability cannot do, for errors.
    fn action(self) -> &'static str {
        match self {
            Self::SearchCost => "estimate or limit the cost of a search",
            Self::SearchProgress => "publish partial results of a running search",
            Self::FieldUsage => "report which fields have values",
            Self::TermsEnum => "enumerate the values of a field",
            Self::ContextListing => "list all points in time or close all search contexts",
            Self::TypeConflicts => "store values that do not fit their mapping",
            Self::Erasure => "remove the events of a tenant permanently",
            Self::UnusedIndices => "remove unused indices of a tenant",
            Self::TenantUsage => "measure the usage of tenants",
            Self::Recoveries => "report how shards were recovered",
            Self::Snapshots => "create or restore snapshots",
            Self::SnapshotErasure => "find or remove the events of a tenant in snapshots",
            Self::SnapshotVerification => "read snapshots back from their repository",
            Self::Mounts => "mount snapshots",
            Self::Tiers => "report its devices, or the moves of shards between them",
            Self::Quarantine => "list or adopt quarantined index folders",
            Self::SourcePositions => "store the events of a source exactly once",
            Self::Checkpoints => "report which writes of a shard are on disk and searchable",
        }
    }

    /// Returns the error for a request that needs the capability of an engine without it: of kind
    /// [`crate::ErrorKind::NotImplemented`], with the name of the capability.
    pub fn missing(self) -> Error {
        let (action, name) = (self.action(), self.name());
        Error::new(
            ErrorKind::NotImplemented,
            format!("the engine cannot {action}: it lacks the capability [{name}]"),
        )
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Set of capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities(u32);

impl Capabilities {
    /// No capability.
    pub const NONE: Self = Self(0);
    /// Every capability.
    pub const ALL: Self = Self((1 << Capability::ALL.len()) - 1);

    /// Returns the set with one capability more.
    #[must_use]
    pub const fn with(self, capability: Capability) -> Self {
        Self(self.0 | 1 << capability as u32)
    }

    /// Returns the set without a capability.
    #[must_use]
    pub const fn without(self, capability: Capability) -> Self {
        Self(self.0 & !(1 << capability as u32))
    }

    /// Whether the set has a capability.
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & 1 << capability as u32 != 0
    }

    /// Fails with [`Capability::missing`] unless the set has the capability.
    pub fn require(self, capability: Capability) -> Result<()> {
        match self.has(capability) {
            true => Ok(()),
            false => Err(capability.missing()),
        }
    }

    /// Returns the capabilities of the set, in the order of [`Capability::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Capability> {
        Capability::ALL
            .into_iter()
            .filter(move |capability| self.has(*capability))
    }
}

/// Result that an engine without a capability does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Knowledge<T> {
    /// The result.
    Known(T),
    /// The engine lacks this capability, so nothing can be concluded, and nothing was done.
    Unknown(Capability),
}

impl<T> Knowledge<T> {
    /// Returns the result; fails with [`Capability::missing`] if it is unknown.
    pub fn require(self) -> Result<T> {
        match self {
            Self::Known(known) => Ok(known),
            Self::Unknown(capability) => Err(capability.missing()),
        }
    }

    /// Returns the result; `None`: it is unknown.
    pub fn known(self) -> Option<T> {
        match self {
            Self::Known(known) => Some(known),
            Self::Unknown(_) => None,
        }
    }

    /// Changes a known result.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Knowledge<U> {
        match self {
            Self::Known(known) => Knowledge::Known(change(known)),
            Self::Unknown(capability) => Knowledge::Unknown(capability),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_added_and_not_removed() {
        let set = Capabilities::NONE
            .with(Capability::Tiers)
            .with(Capability::SearchCost)
            .without(Capability::Tiers);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Capability::SearchCost]);
        assert!(set.require(Capability::SearchCost).is_ok());
        assert_eq!(Capabilities::ALL.iter().collect::<Vec<_>>(), Capability::ALL);
        assert_eq!(Capabilities::NONE.iter().count(), 0);
    }

    #[test]
    fn a_refusal_names_the_capability() {
        for capability in Capability::ALL {
            let error = Capabilities::ALL.without(capability).require(capability).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotImplemented);
            assert!(error.reason().contains(&format!("[{capability}]")), "{error}");
            assert_eq!(
                Knowledge::<()>::Unknown(capability).require().unwrap_err().reason(),
                error.reason()
            );
        }
        assert_eq!(Knowledge::Known(1).map(|one| one + 1).require().unwrap(), 2);
    }
}
