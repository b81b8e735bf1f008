//! Conformance suite: cases that every engine must pass, or refuse by the name of a missing capability.
//!
//! A case calls the engine through its trait only. It names the capabilities that it needs: if the engine lacks one,
//! the case asserts that the engine refuses requests for it by name ([`Capability::missing`]), so no case is ever
//! skipped. [`for_each_conformance_case`](crate::for_each_conformance_case) lists all cases; an engine makes a test of
//! each with one macro call.

mod aggregating;
mod bulk;
mod capable;
mod contexts;
mod maintenance;
mod metadata;
mod refusals;
mod searching;
mod snapshots;
mod sorting;
mod subject;
mod tenants;
#[cfg(test)]
mod tests;
mod verdict;
mod versions;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

pub use subject::Subject;
pub use verdict::{Failure, Verdict};

use crate::Capability;

type Running<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// One case.
#[derive(Clone, Copy)]
pub struct Case {
    /// Name, unique.
    pub name: &'static str,
    /// Capabilities that it needs.
    pub needs: &'static [Capability],
    body: for<'a> fn(&'a Subject) -> Running<'a>,
}

impl fmt::Debug for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

impl Case {
    /// Returns the case with a name.
    pub fn named(name: &str) -> Option<Self> {
        CASES.iter().copied().find(|case| case.name == name)
    }

    /// Runs the case. For each needed capability that the engine lacks, asserts instead that the engine refuses what
    /// needs it.
    pub async fn run(&self, subject: &Subject) -> Verdict {
        let capabilities = subject.engine().capabilities();
        let mut is_refused = false;
        for capability in self.needs.iter().filter(|needed| !capabilities.has(**needed)) {
            is_refused = true;
            refusals::check(subject, *capability).await.map_err(|failure| {
                Failure::new(format!(
                    "the engine lacks [{capability}] and does not refuse it: {failure}"
                ))
            })?;
        }
        match is_refused {
            true => Ok(()),
            false => (self.body)(subject).await,
        }
    }
}

/// Calls a macro with the list of all cases: `module::case [NeededCapability, …];`. A test file of an engine defines a
/// macro that makes a test of each, and passes it.
#[macro_export]
macro_rules! for_each_conformance_case {
    ($callback:ident) => {
        $callback! {
            capable::capabilities_and_operations_agree [];
            bulk::a_bulk_answers_every_item_in_order [];
            bulk::a_generated_id_is_returned_and_readable [];
            bulk::a_broken_document_fails_alone [];
            bulk::a_source_is_stored_byte_for_byte [];
            bulk::a_write_creates_a_missing_index [];
            bulk::a_required_alias_refuses_an_index [];
            bulk::a_delete_creates_no_index [];
            bulk::a_missing_required_routing_is_refused [];
            bulk::a_refresh_makes_writes_searchable [];
            versions::a_document_is_created_changed_and_deleted [];
            versions::a_create_refuses_an_existing_id [];
            versions::sequence_numbers_guard_writes [];
            versions::external_versions_only_grow [];
            versions::updates_merge_insert_or_do_nothing [];
            versions::reads_by_id_are_real_time [];
            versions::a_read_of_another_version_conflicts [];
            searching::a_search_counts_and_returns_hits [];
            searching::term_range_and_bool_select_documents [];
            searching::text_is_analyzed_and_scored [];
            searching::ids_exists_and_patterns_select_documents [];
            searching::a_source_filter_and_fields_shape_hits [];
            searching::a_post_filter_spares_aggregations [];
            searching::matches_are_highlighted [];
            searching::hits_are_collapsed_by_a_field [];
            searching::missing_indices_fail_unless_ignored [];
            searching::a_query_is_explained_or_refused [];
            sorting::keys_missing_values_and_orders_decide [];
            sorting::from_and_size_select_a_page [];
            sorting::search_after_reads_everything_once [];
            aggregating::terms_are_counted_and_ordered [];
            aggregating::metrics_summarize_numbers [];
            aggregating::histograms_cover_gaps [];
            aggregating::buckets_nest_and_filter [];
            aggregating::composite_pages_read_every_bucket [];
            contexts::a_point_in_time_does_not_change [];
            contexts::a_closed_point_in_time_is_missing [];
            contexts::a_scroll_reads_everything_once [];
            contexts::a_closed_scroll_is_missing [];
            contexts::slices_are_disjoint [];
            contexts::points_in_time_are_listed_and_closed_at_once [ContextListing];
            metadata::an_index_exists_once [];
            metadata::an_index_is_deleted_with_its_documents [];
            metadata::new_fields_are_mapped_by_their_values [];
            metadata::a_mapping_grows_and_keeps_its_types [];
            metadata::a_strict_mapping_refuses_new_fields [];
            metadata::aliases_filter_and_redirect [];
            metadata::an_alias_changes_in_one_step [];
            metadata::templates_apply_to_new_indices [];
            metadata::a_data_stream_takes_new_events_only [];
            metadata::a_rollover_makes_a_new_write_index [];
            metadata::a_closed_index_refuses_searches [];
            metadata::a_blocked_index_refuses_writes [];
            tenants::a_tenant_sees_only_its_events [];
            tenants::equal_ids_of_two_tenants_are_two_documents [];
            tenants::events_are_stamped_and_forged_ones_refused [];
            tenants::aggregations_count_only_the_tenants_events [];
            tenants::contexts_of_another_tenant_do_not_exist [];
            tenants::indices_without_tenants_do_not_exist_for_a_tenant [];
            tenants::a_scope_of_names_hides_other_indices [];
            maintenance::statistics_count_documents [];
            maintenance::a_force_merge_keeps_every_document [];
            maintenance::a_flush_keeps_every_document [];
            maintenance::an_analyzer_returns_tokens [];
            maintenance::a_deletion_by_query_removes_what_it_finds [];
            capable::costs_of_searches_are_estimated [SearchCost];
            capable::running_searches_publish_progress [SearchProgress];
            capable::fields_with_values_are_listed [FieldUsage];
            capable::terms_are_enumerated_by_prefix [TermsEnum];
            capable::values_that_do_not_fit_are_stored [TypeConflicts];
            capable::a_purge_removes_a_tenant [Erasure];
            capable::unused_indices_of_a_tenant_are_removed [UnusedIndices];
            capable::usage_is_measured_by_tenant [TenantUsage];
            capable::recoveries_are_listed [Recoveries];
            capable::devices_are_listed [Tiers];
            capable::the_quarantine_of_a_healthy_node_is_empty [Quarantine];
            capable::a_bulk_with_an_origin_is_stored_once [SourcePositions];
            capable::a_checkpoint_covers_what_is_written [Checkpoints];
            snapshots::repositories_are_registered_and_listed [Snapshots];
            snapshots::a_snapshot_is_listed_and_deleted [Snapshots];
            snapshots::a_restored_index_is_as_it_was [Snapshots];
            snapshots::a_tenant_is_removed_from_a_snapshot [Snapshots, SnapshotErasure];
            snapshots::a_snapshot_is_read_back [Snapshots, SnapshotVerification];
            snapshots::a_mounted_index_is_searched [Snapshots, Mounts];
        }
    };
}

macro_rules! table {
    ($($module:ident::$name:ident [$($capability:ident),*];)*) => {
        /// All cases.
        pub const CASES: &[Case] = &[$(Case {
            name: stringify!($name),
            needs: &[$(Capability::$capability),*],
            body: |subject| Box::pin($module::$name(subject)),
        }),*];
    };
}

for_each_conformance_case!(table);
