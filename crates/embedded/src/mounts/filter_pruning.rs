//! Pruning of splits with term filters.
//!
//! A filter table covers many splits with few reads; a split without a table needs one read of its filter. A filter
//! that cannot be read or is invalid excludes nothing, and its splits are searched.

use std::collections::HashMap;
use std::sync::Arc;

use firn_model::Result;
use firn_query::Cancel;
use firn_search::pruning::required_terms::{AnyOf, RequiredTerm};
use firn_segment::splits::{shared_hash, value_hash};
use firn_storage::filters::{FilterTable, Question};
use firn_storage::object::{ObjectError, Objects};
use firn_storage::regions::{ObjectId, RegionCache};
use firn_storage::repository::{Repository, SnapshotSegment};
use firn_storage::split::{FilterOf, PartKind, SplitFilter, filter};
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};

use super::filter_tables::MountedTable;
use super::manifest_pruning::may_hold;
use super::split_opening::{REQUESTS_MAX, wait_for};
use super::split_pruning::{RemainingSplitsOfIndex, SplitPruning};
use super::{MountService, MountedBytes, MountedIndex, key_of};

/// Below this number of splits filters are not read: the reads of an open are needed anyway if the split holds the
/// value, and take no longer if it does not.
const SPLITS_MIN: usize = 4;
/// Requests for opening a split and looking up a term, and for a lookup of one value in a table. A condition with so
/// many values that the lookups cost more than the search is not checked.
const REQUESTS_OF_SPLIT: usize = 2;
const REQUESTS_OF_VALUE: usize = 2;

/// A term with its hashes in filters.
struct FilterTerm<'a> {
    field: &'a str,
    own: u64,
    shared: u64,
}

/// A split that may hold a match according to the manifests.
struct Candidate<'a> {
    shard: u32,
    place: usize,
    segment: &'a SnapshotSegment,
    id: Option<ObjectId>,
    /// Whether the split certainly lacks a term, in the order of the terms.
    lacks: Vec<bool>,
    /// Its filters are in a table.
    in_table: bool,
}

impl MountService {
    /// Opens the filter tables of a mounted index before its first search. If this fails, the search tries again.
    pub(crate) async fn open_tables(&self, index: &MountedIndex, repository: &Repository) {
        let Ok(cache) = self.regions() else {
            return;
        };
        for table in &index.tables {
            if let Err(error) = table.opened(cache, repository.store()).await {
                tracing::debug!(%error, "cannot open a filter table");
            }
        }
    }

    /// Removes the splits that hold no match according to their filters. The worker runs other jobs while filters are
    /// fetched.
    pub(super) fn ask_filters(&self, left: &mut SplitPruning, cancel: &Cancel) -> Result<()> {
        let has_term = |left: &&mut RemainingSplitsOfIndex| left.conditions.exact.iter().flatten().any(is_term);
        let candidates: usize = left
            .indices
            .iter_mut()
            .filter(has_term)
            .map(|left| left.segments().count())
            .sum();
        if candidates < SPLITS_MIN {
            return Ok(());
        }
        let cache = Arc::clone(self.regions()?);
        let with_terms: Vec<(usize, &RemainingSplitsOfIndex)> = left
            .indices
            .iter()
            .enumerate()
            .filter(|(_, left)| left.conditions.exact.iter().flatten().any(is_term))
            .collect();
        let ask = |(place, left)| {
            let cache = &cache;
            async move { (place, self.dropped(left, candidates, cache).await) }
        };
        let all = stream::iter(with_terms)
            .map(ask)
            .buffer_unordered(REQUESTS_MAX)
            .collect::<Vec<_>>();
        let dropped = wait_for(self.repositories.io()?, cancel, all)?;
        for (place, shards) in dropped {
            let index = &mut left.indices[place];
            shards
                .into_iter()
                .for_each(|(shard, places)| index.drop(shard, &places));
        }
        Ok(())
    }

    /// Returns the places of segments that hold no match, by shard.
    async fn dropped(
        &self,
        left: &RemainingSplitsOfIndex,
        all: usize,
        cache: &RegionCache,
    ) -> HashMap<u32, Vec<usize>> {
        let is_worth_it = |one: &&AnyOf| one.len() * REQUESTS_OF_VALUE <= all * REQUESTS_OF_SPLIT;
        let exact: Vec<&AnyOf> = left.conditions.exact.iter().filter(is_worth_it).collect();
        let terms: Vec<FilterTerm<'_>> = exact.iter().copied().flatten().filter_map(filter_term_of).collect();
        let mut candidates: Vec<Candidate<'_>> = left
            .segments()
            .map(|(shard, place, segment)| Candidate {
                shard,
                place,
                segment,
                id: ObjectId::parse(&segment.split.id),
                lacks: vec![false; terms.len()],
                in_table: false,
            })
            .collect();
        let Some(first) = candidates.first() else {
            return HashMap::new();
        };
        let repository = left.shards.get(first.shard as usize).and_then(Option::as_ref);
        if let Some(Ok(repository)) = repository.map(|left| self.repositories.repository(&left.shard.store.repository))
        {
            let (questions, places) = questions(&terms, &candidates);
            let answers = left
                .index
                .tables
                .iter()
                .map(|table| ask_table(table, repository.store(), cache, &questions));
            for (table, without) in join_all(answers).await.into_iter().flatten() {
                mark(table, &without, &terms, &places, &mut candidates);
            }
        }
        self.ask_own(left, &terms, &mut candidates).await;
        let mut dropped: HashMap<u32, Vec<usize>> = HashMap::new();
        for candidate in candidates.iter().filter(|candidate| !candidate.may_match(&exact)) {
            dropped.entry(candidate.shard).or_default().push(candidate.place);
        }
        dropped
    }

    /// Reads the filters of splits that are in no table and not open. For an open split a lookup in its dictionary is
    /// cheaper.
    async fn ask_own(&self, left: &RemainingSplitsOfIndex, terms: &[FilterTerm<'_>], candidates: &mut [Candidate<'_>]) {
        let mut reads: Vec<(usize, usize, Arc<MountedBytes>, &SplitFilter, u64)> = Vec::new();
        for (number, candidate) in candidates.iter().enumerate().filter(|(_, own)| !own.in_table) {
            let Some(Some(own)) = left.shards.get(candidate.shard as usize) else {
                continue;
            };
            if self.open.is_open(&key_of(&own.shard, candidate.segment)) {
                continue;
            }
            let Ok(bytes) = self.bytes_of(&own.shard, candidate.place, candidate.segment) else {
                continue;
            };
            for (term, filter_term) in terms.iter().enumerate() {
                let (filter, hash) = match candidate.segment.split.filter_of(filter_term.field) {
                    FilterOf::Own(filter) => (filter, filter_term.own),
                    FilterOf::Shared(filter) => (filter, filter_term.shared),
                    FilterOf::None => continue,
                };
                reads.push((number, term, Arc::clone(&bytes), filter, hash));
            }
        }
        let ask = |(number, term, bytes, own, hash): (usize, usize, Arc<MountedBytes>, &SplitFilter, u64)| {
            let slice = own.slice(hash);
            async move {
                let slice = bytes.read_soon(PartKind::Filters, slice).await;
                let lacks = slice.is_ok_and(|slice| filter::may_hold(&slice, hash) == Some(false));
                (number, term, lacks)
            }
        };
        let answers = stream::iter(reads).map(ask).buffer_unordered(REQUESTS_MAX);
        for (number, term, lacks) in answers.collect::<Vec<_>>().await {
            candidates[number].lacks[term] |= lacks;
        }
    }
}

/// Queries a table. Returns the answer to each question for each of its splits. `None`: the table cannot be read or is
/// invalid.
async fn ask_table<'a>(
    table: &'a MountedTable,
    store: &Arc<dyn Objects>,
    cache: &RegionCache,
    questions: &[Question],
) -> Option<(&'a FilterTable, Vec<Vec<bool>>)> {
    let answered = async {
        let table = table.opened(cache, store).await?;
        Ok::<_, ObjectError>((table, table.without(cache, questions).await?))
    };
    match answered.await {
        Ok(answered) => Some(answered),
        Err(error) => {
            tracing::warn!(%error, "cannot read a filter table: using the filters of its splits");
            None
        }
    }
}

/// Records the answers of a table for the candidates.
fn mark(
    table: &FilterTable,
    without: &[Vec<bool>],
    terms: &[FilterTerm<'_>],
    places: &[[Option<usize>; 2]],
    candidates: &mut [Candidate<'_>],
) {
    for candidate in candidates {
        let Some(place) = candidate.id.and_then(|id| table.place(&id)) else {
            continue;
        };
        candidate.in_table = true;
        for ((term, filter_term), [own, shared]) in terms.iter().enumerate().zip(places) {
            let question = match candidate.segment.split.filter_of(filter_term.field) {
                FilterOf::Own(_) => own,
                FilterOf::Shared(_) => shared,
                FilterOf::None => &None,
            };
            candidate.lacks[term] |= question.is_some_and(|question| without[question][place]);
        }
    }
}

/// Returns the questions for a table, and the places of the questions of each term: in some splits the field has a
/// separate filter, in others it is in the shared one.
fn questions(terms: &[FilterTerm<'_>], candidates: &[Candidate<'_>]) -> (Vec<Question>, Vec<[Option<usize>; 2]>) {
    let mut questions = Vec::new();
    let mut ask = |is_needed: bool, field: &str, hash| {
        is_needed.then(|| {
            let field = field.to_owned();
            questions.push(Question { field, hash });
            questions.len() - 1
        })
    };
    let places = terms.iter().map(|filter_term| {
        let filters = || {
            candidates
                .iter()
                .map(|own| own.segment.split.filter_of(filter_term.field))
        };
        let is_own = filters().any(|filter| matches!(filter, FilterOf::Own(_)));
        let is_shared = filters().any(|filter| matches!(filter, FilterOf::Shared(_)));
        [
            ask(is_own, filter_term.field, filter_term.own),
            ask(is_shared, SplitFilter::SHARED, filter_term.shared),
        ]
    });
    let places = places.collect();
    (questions, places)
}

fn is_term(sought: &RequiredTerm) -> bool {
    matches!(sought, RequiredTerm::Term { .. })
}

fn filter_term_of(sought: &RequiredTerm) -> Option<FilterTerm<'_>> {
    match sought {
        RequiredTerm::Term { field, term } => Some(FilterTerm {
            field,
            own: value_hash(term),
            shared: shared_hash(field, term),
        }),
        RequiredTerm::Made { .. } => None,
    }
}

impl Candidate<'_> {
    /// Whether the split may hold one value of each condition. Terms are in the order of the conditions.
    fn may_match(&self, exact: &[&AnyOf]) -> bool {
        let mut lacks = self.lacks.iter();
        exact.iter().all(|one| {
            // Evaluates all values, so that the next condition starts at its own terms.
            let met = one.iter().filter(|sought| match sought {
                RequiredTerm::Term { .. } => lacks.next() != Some(&true),
                RequiredTerm::Made { .. } => may_hold(self.shard, &self.segment.split, sought),
            });
            met.count() > 0
        })
    }
}
