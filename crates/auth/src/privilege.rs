//! Privileges that endpoints require, and the names under which roles grant them.

use firn_model::{Error, ErrorKind, Result};

/// Privilege that an endpoint requires of its caller. Every route of the edge has one.
///
/// The nine from `Read` to `Manage` concern indices: a role grants them for names, and the caller sees only indices
/// with these names. The others concern the whole node. Which of firn's built-in roles have which:
///
/// | privilege | reader | writer | tenant admin | for |
/// |---|---|---|---|---|
/// | `Any` | yes | yes | yes | requests that reveal nothing about events: `GET /`, who am I |
/// | `Read` | yes | – | yes | documents, searches, aggregations, contexts |
/// | `Write` | – | yes | yes | bulk, index, update, delete; creating the index that a write needs |
/// | `ViewMetadata` | yes | yes | yes | mappings, settings, aliases, names |
/// | `MonitorIndices` | yes | – | yes | counts and sizes |
/// | `Refresh` | – | yes | yes | making writes searchable |
/// | `CreateIndex` | – | – | yes | creating a private index or data stream |
/// | `ManageOwnIndex` | – | – | yes | changing or deleting a private index; other indices require `Manage` |
/// | `Maintain` | – | – | – | flush and merge, which cost all tenants of an index |
/// | `Manage` | – | – | – | changing or deleting indices that several tenants share |
/// | `ManageOwnKeys` | – | – | yes | API keys created by the caller |
/// | `ManageTenant` | – | – | yes | users, keys and usage of the caller's tenant |
/// | `Monitor` | – | – | – | the node and everything on it |
/// | `ManageTemplates` | – | – | – | templates, which apply to all tenants |
/// | `ManageApiKeys`, `ManageSecurity` | – | – | – | all keys, users and roles |
/// | `ManageCluster` | – | – | – | settings of the node, tenants, placement |
/// | `ReadIlm`, `ReadSlm` | – | – | – | reading lifecycle policies of indices, of snapshots |
/// | `ManageIlm`, `ManageSlm` | – | – | – | creating and changing these policies |
/// | `MonitorSnapshot` | – | – | – | listing repositories and snapshots |
/// | `CreateSnapshot` | – | – | – | creating a snapshot |
/// | `ReadPipelines` | – | – | – | reading ingest pipelines |
/// | `ManagePipelines` | – | – | – | creating, changing and simulating ingest pipelines, which apply to all tenants |
///
/// Operators have all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the table above says what each is for")]
pub enum Privilege {
    Any,
    Read,
    Write,
    ViewMetadata,
    MonitorIndices,
    Refresh,
    CreateIndex,
    ManageOwnIndex,
    Maintain,
    Manage,
    ManageOwnKeys,
    ManageTenant,
    Monitor,
    ManageTemplates,
    ManageApiKeys,
    ManageSecurity,
    ManageCluster,
    ReadIlm,
    ReadSlm,
    ManageIlm,
    ManageSlm,
    MonitorSnapshot,
    CreateSnapshot,
    ReadPipelines,
    ManagePipelines,
}

use Privilege as P;

impl Privilege {
    /// Returns whether roles grant it for names of indices.
    pub fn is_of_indices(self) -> bool {
        PrivilegeSet::of_indices().contains(self)
    }

    /// Returns the names of the privileges that include it, as errors list them.
    pub(crate) fn granted_by(self) -> Vec<&'static str> {
        let names = if self.is_of_indices() {
            INDEX_NAMES
        } else {
            CLUSTER_NAMES
        };
        names
            .iter()
            .filter(|(_, set)| set.contains(self))
            .map(|(name, _)| *name)
            .collect()
    }
}

/// Set of privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrivilegeSet(u32);

impl PrivilegeSet {
    const fn of(privileges: &[Privilege]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < privileges.len() {
            bits |= 1 << privileges[at] as u32;
            at += 1;
        }
        Self(bits)
    }

    /// Returns all privileges.
    pub const fn all() -> Self {
        Self::of(ALL)
    }

    /// Returns the privileges that roles grant for names of indices.
    pub const fn of_indices() -> Self {
        ALL_OF_INDICES
    }

    /// Returns the upper bound for callers of a tenant, independent of their roles.
    pub const fn within_tenant() -> Self {
        Self::of(&[
            P::Any,
            P::Read,
            P::Write,
            P::ViewMetadata,
            P::MonitorIndices,
            P::Refresh,
            P::CreateIndex,
            P::ManageOwnIndex,
            P::ManageOwnKeys,
            P::ManageTenant,
        ])
    }

    /// Returns whether the set contains `privilege`.
    pub const fn contains(self, privilege: Privilege) -> bool {
        self.0 & (1 << privilege as u32) != 0
    }

    /// Iterates over the privileges.
    pub fn iter(self) -> impl Iterator<Item = Privilege> {
        ALL.iter().copied().filter(move |privilege| self.contains(*privilege))
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the privileges of Elasticsearch's index privilege with this name.
    pub fn of_index_name(name: &str) -> Result<Self> {
        Self::named(name, "index", INDEX_NAMES, OTHER_INDEX_NAMES)
    }

    /// Returns the privileges of Elasticsearch's cluster privilege with this name.
    pub fn of_cluster_name(name: &str) -> Result<Self> {
        Self::named(name, "cluster", CLUSTER_NAMES, OTHER_CLUSTER_NAMES)
    }

    /// Returns the set of a known name. A privilege of Elasticsearch that firn lacks fails with its own error: a grant
    /// that is silently smaller than its name would be noticed only in production.
    fn named(name: &str, kind: &str, ours: &[(&'static str, Self)], others: &[&str]) -> Result<Self> {
        if let Some((_, set)) = ours.iter().find(|(candidate, _)| *candidate == name) {
            return Ok(*set);
        }
        if others.contains(&name) {
            return Err(Error::not_implemented(format!("the {kind} privilege [{name}]")));
        }
        let known: Vec<&str> = ours.iter().map(|(name, _)| *name).collect();
        Err(Error::new(
            ErrorKind::IllegalArgument,
            format!(
                "unknown {kind} privilege [{name}]. a privilege must be either one of the predefined {kind} \
                 privileges [{}] or a pattern over one of the available {kind} actions",
                known.join(",")
            ),
        ))
    }
}

const ALL: &[Privilege] = &[
    P::Any,
    P::Read,
    P::Write,
    P::ViewMetadata,
    P::MonitorIndices,
    P::Refresh,
    P::CreateIndex,
    P::ManageOwnIndex,
    P::Maintain,
    P::Manage,
    P::ManageOwnKeys,
    P::ManageTenant,
    P::Monitor,
    P::ManageTemplates,
    P::ManageApiKeys,
    P::ManageSecurity,
    P::ManageCluster,
    P::ReadIlm,
    P::ReadSlm,
    P::ManageIlm,
    P::ManageSlm,
    P::MonitorSnapshot,
    P::CreateSnapshot,
    P::ReadPipelines,
    P::ManagePipelines,
];

const ALL_OF_INDICES: PrivilegeSet = PrivilegeSet::of(&[
    P::Read,
    P::Write,
    P::ViewMetadata,
    P::MonitorIndices,
    P::Refresh,
    P::CreateIndex,
    P::ManageOwnIndex,
    P::Maintain,
    P::Manage,
]);

/// Privileges for names of indices. Only in firn: `refresh`, a part of `maintenance`, and `manage_own_index`, the part
/// of `manage` that the admin of a tenant has.
const INDEX_NAMES: &[(&str, PrivilegeSet)] = &[
    ("read", PrivilegeSet::of(&[P::Read])),
    ("write", PrivilegeSet::of(&[P::Write])),
    ("view_index_metadata", PrivilegeSet::of(&[P::ViewMetadata])),
    ("monitor", PrivilegeSet::of(&[P::MonitorIndices])),
    ("refresh", PrivilegeSet::of(&[P::Refresh])),
    ("maintenance", PrivilegeSet::of(&[P::Refresh, P::Maintain])),
    ("create_index", PrivilegeSet::of(&[P::CreateIndex])),
    ("manage_own_index", PrivilegeSet::of(&[P::ManageOwnIndex])),
    ("auto_configure", PrivilegeSet::of(&[P::CreateIndex])),
    (
        "manage",
        PrivilegeSet::of(&[
            P::ViewMetadata,
            P::MonitorIndices,
            P::Refresh,
            P::CreateIndex,
            P::ManageOwnIndex,
            P::Maintain,
            P::Manage,
        ]),
    ),
    ("none", PrivilegeSet::of(&[])),
    ("all", ALL_OF_INDICES),
];

#[rustfmt::skip]
const OTHER_INDEX_NAMES: &[&str] = &[
    "create", "create_doc", "cross_cluster_replication", "cross_cluster_replication_internal", "delete",
    "delete_index", "index", "manage_data_stream_lifecycle", "manage_failure_store", "manage_follow_index",
    "manage_ilm", "manage_leader_index", "read_cross_cluster", "read_failure_store",
];

/// Privileges for the whole node. Only in firn: `manage_tenant`, which the admin of a tenant has.
const CLUSTER_NAMES: &[(&str, PrivilegeSet)] = &[
    ("manage_own_api_key", PrivilegeSet::of(&[P::ManageOwnKeys])),
    ("manage_tenant", PrivilegeSet::of(&[P::ManageTenant])),
    ("monitor", PrivilegeSet::of(&[P::Monitor, P::ReadIlm, P::ReadSlm])),
    ("read_ilm", PrivilegeSet::of(&[P::ReadIlm])),
    ("read_slm", PrivilegeSet::of(&[P::ReadSlm])),
    ("manage_ilm", PrivilegeSet::of(&[P::ReadIlm, P::ManageIlm])),
    ("manage_slm", PrivilegeSet::of(&[P::ReadSlm, P::ManageSlm])),
    ("monitor_snapshot", PrivilegeSet::of(&[P::MonitorSnapshot])),
    (
        "create_snapshot",
        PrivilegeSet::of(&[P::MonitorSnapshot, P::CreateSnapshot]),
    ),
    ("read_pipeline", PrivilegeSet::of(&[P::ReadPipelines])),
    ("manage_pipeline", PIPELINES),
    ("manage_ingest_pipelines", PIPELINES),
    ("manage_index_templates", PrivilegeSet::of(&[P::ManageTemplates])),
    (
        "manage_api_key",
        PrivilegeSet::of(&[P::ManageOwnKeys, P::ManageApiKeys]),
    ),
    (
        "manage_security",
        PrivilegeSet::of(&[P::ManageOwnKeys, P::ManageTenant, P::ManageApiKeys, P::ManageSecurity]),
    ),
    (
        "manage",
        PrivilegeSet::of(&[P::Monitor, P::ManageTemplates, P::ManageCluster])
            .and(LIFECYCLES_AND_SNAPSHOTS)
            .and(PIPELINES),
    ),
    ("none", PrivilegeSet::of(&[])),
    (
        "all",
        PrivilegeSet::of(&[
            P::ManageOwnKeys,
            P::ManageTenant,
            P::Monitor,
            P::ManageTemplates,
            P::ManageApiKeys,
            P::ManageSecurity,
            P::ManageCluster,
        ])
        .and(LIFECYCLES_AND_SNAPSHOTS)
        .and(PIPELINES),
    ),
];

const PIPELINES: PrivilegeSet = PrivilegeSet::of(&[P::ReadPipelines, P::ManagePipelines]);

/// Privileges that managing the cluster includes.
const LIFECYCLES_AND_SNAPSHOTS: PrivilegeSet = PrivilegeSet::of(&[
    P::ReadIlm,
    P::ReadSlm,
    P::ManageIlm,
    P::ManageSlm,
    P::MonitorSnapshot,
    P::CreateSnapshot,
]);

#[rustfmt::skip]
const OTHER_CLUSTER_NAMES: &[&str] = &[
    "cancel_task", "cross_cluster_replication", "cross_cluster_search", "delegate_pki",
    "grant_api_key", "manage_autoscaling", "manage_behavioral_analytics", "manage_ccr", "manage_connector",
    "manage_data_frame_transforms", "manage_data_stream_global_retention", "manage_enrich",
    "manage_inference", "manage_logstash_pipelines", "manage_ml", "manage_oidc",
    "manage_rollup", "manage_saml", "manage_search_application", "manage_search_query_rules",
    "manage_search_synonyms", "manage_service_account", "manage_token", "manage_transform",
    "manage_user_profile", "manage_watcher", "monitor_connector", "monitor_data_frame_transforms",
    "monitor_data_stream_global_retention", "monitor_enrich", "monitor_inference", "monitor_ml", "monitor_rollup",
    "monitor_stats", "monitor_text_structure", "monitor_transform", "monitor_watcher",
    "post_behavioral_analytics_event", "read_ccr", "read_connector_secrets", "read_fleet_secrets",
    "read_security", "transport_client", "write_connector_secrets",
    "write_fleet_secrets",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_sets() {
        let manage = PrivilegeSet::of_index_name("manage").unwrap();
        assert!(manage.contains(P::Manage) && manage.contains(P::CreateIndex) && !manage.contains(P::Read));
        assert!(ALL.iter().enumerate().all(|(at, privilege)| at == *privilege as usize));
        assert_eq!(PrivilegeSet::of_index_name("all").unwrap(), PrivilegeSet::of_indices());
        assert!(
            PrivilegeSet::of_cluster_name("manage_security")
                .unwrap()
                .contains(P::ManageOwnKeys)
        );
        assert!(
            !PrivilegeSet::of_cluster_name("manage")
                .unwrap()
                .contains(P::ManageSecurity)
        );
    }

    #[test]
    fn roles_of_shippers_and_curators_can_be_made() {
        let set = |names: &[&str]| {
            let sets = names.iter().map(|name| PrivilegeSet::of_cluster_name(name).unwrap());
            sets.fold(PrivilegeSet::default(), PrivilegeSet::and)
        };
        let setup = set(&["monitor", "manage_ilm", "manage_index_templates"]);
        assert!(setup.contains(P::ManageIlm) && setup.contains(P::ManageTemplates) && !setup.contains(P::ManageSlm));
        let reads = set(&["read_ilm", "read_slm"]);
        assert_eq!(reads.iter().collect::<Vec<_>>(), [P::ReadIlm, P::ReadSlm]);
        let curator = set(&["create_snapshot", "manage_slm"]);
        assert!(curator.contains(P::MonitorSnapshot) && curator.contains(P::CreateSnapshot));
        assert!(!curator.contains(P::ManageCluster) && !curator.contains(P::ManageIlm));
        assert!(!set(&["monitor_snapshot"]).contains(P::CreateSnapshot));
        for privilege in LIFECYCLES_AND_SNAPSHOTS.iter() {
            assert!(
                set(&["manage"]).contains(privilege) && set(&["all"]).contains(privilege),
                "{privilege:?}"
            );
        }
    }

    #[test]
    fn privileges_that_firn_lacks_differ_from_unknown_ones() {
        let kind = |name| PrivilegeSet::of_index_name(name).unwrap_err().kind();
        assert_eq!(kind("create_doc"), ErrorKind::NotImplemented);
        assert_eq!(kind("raed"), ErrorKind::IllegalArgument);
    }

    #[test]
    fn no_privilege_of_the_node_is_within_a_tenant() {
        for privilege in [
            P::Monitor,
            P::ManageTemplates,
            P::ManageCluster,
            P::ManageSecurity,
            P::Manage,
            P::Maintain,
            P::ReadIlm,
            P::ReadSlm,
            P::ManageIlm,
            P::ManageSlm,
            P::MonitorSnapshot,
            P::CreateSnapshot,
        ] {
            assert!(!PrivilegeSet::within_tenant().contains(privilege), "{privilege:?}");
        }
    }

    #[test]
    fn errors_name_what_would_have_helped() {
        assert_eq!(P::Read.granted_by(), ["read", "all"]);
        assert_eq!(P::ManageSecurity.granted_by(), ["manage_security", "all"]);
    }
}
