//! Interface of the region cache for readers.

mod fetching;
mod slot_io;

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use firn_model::tenant::TenantId;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::index::{Index, Limits, Place, mask, offset};
use super::journal::Journal;
use super::object::{CachedObject, ObjectId};
use super::plan::{self, Cost, REQUEST_PAGES_MAX, Request, Run};
use super::single_flight::{Flight, Flights};
use super::stats::{RegionCacheStats, number};
use super::{REGION_BYTES, REGION_PAGES};
use crate::disk::{Disk, RandomFile};
use crate::object::{ObjectError, ObjectErrorKind};
use crate::split::PartKind;
use crate::split::pages::{self, PAGE_BYTES};
use fetching::Lead;

/// Slots per whole region that would fit, in a large cache: if slots were less than a quarter full on average, memory
/// would be spent on nearly empty regions.
const SLOTS_PER_FULL_REGION: u64 = 4;

/// Minimum number of slots, if the cache has as many pages: about 100 MB of memory.
const SLOTS_MIN: u64 = 1 << 20;

/// Divisor of the cache size for pins: half of the cache stays for other regions.
const PINNED_SHARE: u64 = 2;

/// Divisor of the cache size for the prefetch of one call: more pages would evict each other before they are read.
const AHEAD_SHARE: u64 = 2;

/// Options of a region cache.
#[derive(Debug, Clone, Copy)]
pub struct RegionCacheOptions {
    /// Maximum disk space of its pages, in bytes. With 0 nothing is cached.
    pub size_bytes: u64,
    /// Maximum bytes of one owner's objects, unless [another quota](RegionCache::set_quota) is set.
    pub owner_bytes_max: u64,
    /// Maximum bytes in flight in memory, over all readers; at least one request's.
    pub in_flight_bytes_max: u64,
}

impl Default for RegionCacheOptions {
    fn default() -> Self {
        Self {
            size_bytes: 0,
            owner_bytes_max: u64::MAX,
            // Sixteen requests of maximum length: more than a network of 10 Gbit/s has in flight at 30 ms.
            in_flight_bytes_max: 16 * REQUEST_PAGES_MAX * PAGE_BYTES,
        }
    }
}

/// State behind the lock, which is held for memory accesses only.
#[derive(Debug)]
struct State {
    index: Index,
    flights: Flights,
}

/// Parts of remote objects on the local disk; see the [module](super). All methods may be called concurrently.
#[derive(Debug)]
pub struct RegionCache {
    state: Mutex<State>,
    file: Arc<dyn RandomFile>,
    /// Locked before the state if both are locked.
    journal: Mutex<Journal>,
    /// One permit per page in flight.
    in_flight: Semaphore,
    in_flight_pages_max: u64,
    ahead_pages_max: u64,
}

/// Purpose of a page request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A reader needs the pages now.
    Read,
    /// A reader will need the pages soon.
    Ahead,
}

/// Status of wanted pages at one moment.
#[derive(Debug, Default)]
struct PageLookup {
    hits: Vec<(Run, Place)>,
    joined: Vec<(Run, Flight)>,
    requests: Vec<Request>,
}

impl RegionCache {
    /// Opens the cache in a folder, creates it if needed, and restores the regions of an earlier process. Fails only if
    /// the folder is not usable; damaged entries are dropped.
    pub fn open(disk: Arc<dyn Disk>, folder: &Path, options: RegionCacheOptions) -> io::Result<Self> {
        disk.create_dir_all(folder)?;
        let file = disk.open_random(&folder.join("regions.data"))?;
        Self::with_file(disk, folder, Arc::from(file), options)
    }

    /// Like [`RegionCache::open`], with a given file. The file is never synced: no page is used without a checksum
    /// match, so a lost or torn write does no harm.
    pub fn with_file(
        disk: Arc<dyn Disk>,
        folder: &Path,
        file: Arc<dyn RandomFile>,
        options: RegionCacheOptions,
    ) -> io::Result<Self> {
        let size_pages = options.size_bytes / PAGE_BYTES;
        let full_regions = size_pages.div_ceil(REGION_PAGES);
        let slots = match file.is_sparse() {
            true => size_pages.min(SLOTS_MIN.max(full_regions * SLOTS_PER_FULL_REGION)),
            false => full_regions,
        };
        let limits = Limits {
            pages: size_pages,
            // Slots have numbers of 32 bits: enough for 64 TiB of whole regions.
            slots: u32::try_from(slots).unwrap_or(u32::MAX - 1),
            pinned_pages: size_pages / PINNED_SHARE,
            is_sparse: file.is_sparse(),
        };
        let in_flight_pages_max = (options.in_flight_bytes_max / PAGE_BYTES)
            .clamp(REQUEST_PAGES_MAX, u64::from(u32::MAX))
            .min(Semaphore::MAX_PERMITS as u64);
        let mut journal = Journal::new(disk, &folder.join("regions.journal"));
        let mut index = Index::restore(limits, options.owner_bytes_max / PAGE_BYTES, &journal.read());
        slot_io::give_back_unused(&index, file.as_ref())?;
        if let Err(error) = journal.rewrite(&index.write_all()) {
            tracing::warn!(%error, "cannot write the journal of the region cache: cached regions are lost at the next start");
        }
        Ok(Self {
            state: Mutex::new(State {
                index,
                flights: Flights::default(),
            }),
            file,
            journal: Mutex::new(journal),
            in_flight: Semaphore::new(in_flight_pages_max as usize),
            in_flight_pages_max,
            ahead_pages_max: size_pages / AHEAD_SHARE,
        })
    }

    /// Returns the whole pages that hold a physical range, verified. Reads them from the disk, or fetches and caches
    /// them.
    ///
    /// Fails with [`ObjectErrorKind::Corrupt`] if the range exceeds the object, or if fetched pages stay damaged after
    /// all retries.
    pub async fn read(
        &self,
        object: &Arc<CachedObject>,
        kind: PartKind,
        physical: Range<u64>,
    ) -> Result<Bytes, ObjectError> {
        if physical.is_empty() {
            return Ok(Bytes::new());
        }
        if physical.end > object.len {
            let reason = format!("bytes {physical:?} exceed its length of {}", object.len);
            return Err(ObjectError::new(ObjectErrorKind::Corrupt, &object.key, reason));
        }
        let mut open = plan::runs(&[(kind, physical)], object.len);
        let all = open[0].pages.clone();
        self.state.lock().index.stats.kinds[number(kind)].requested_bytes += (all.end - all.start) * PAGE_BYTES;
        let mut buffer: Vec<u8> = Vec::new();
        while !open.is_empty() {
            let (survey, leads) = self.look(object, &open, Purpose::Read);
            open.clear();
            if buffer.is_empty() {
                // If one request returns all pages, no copy is needed.
                if let ([], [], [lead]) = (&survey.hits[..], &survey.joined[..], &leads[..]) {
                    let first = (all.start - lead.pages().start) * PAGE_BYTES;
                    let len = (all.end - all.start) * PAGE_BYTES;
                    let lead = leads.into_iter().next().expect("one");
                    let bytes = self.fly(object, lead, Purpose::Read).await?;
                    return Ok(bytes.slice(first as usize..(first + len) as usize));
                }
                buffer = vec![0; ((all.end - all.start) * PAGE_BYTES) as usize];
            }
            let part = |pages: &Range<u64>| {
                let start = ((pages.start - all.start) * PAGE_BYTES) as usize;
                start..start + ((pages.end - pages.start) * PAGE_BYTES) as usize
            };
            for (run, place) in survey.hits {
                if !self.read_place(object, place, &run.pages, &mut buffer[part(&run.pages)]) {
                    open.push(run);
                }
            }
            let led = leads.into_iter().map(|lead| async {
                let runs = lead.runs().to_vec();
                let first = lead.pages().start;
                (first, runs, self.fly(object, lead, Purpose::Read).await)
            });
            let mut put = |first: u64, run: &Run, bytes: &Bytes| {
                let from = ((run.pages.start - first) * PAGE_BYTES) as usize;
                let to = &mut buffer[part(&run.pages)];
                to.copy_from_slice(&bytes[from..from + to.len()]);
            };
            for (first, runs, outcome) in join_all(led).await {
                let bytes = outcome?;
                runs.iter().for_each(|run| put(first, run, &bytes));
            }
            for (run, flight) in survey.joined {
                let first = flight.pages.start;
                match flight.landed().await {
                    Some(outcome) => {
                        put(first, &run, &outcome?);
                        self.state.lock().index.seen(object.id, &run.pages);
                    }
                    None => open.push(run),
                }
            }
            open.sort_by_key(|run| run.pages.start);
        }
        Ok(buffer.into())
    }

    /// Prefetches pages: fetches missing ones, neighbouring pages together and all requests concurrently. Prefetches at
    /// most half of the cache size; the first ranges of `wanted` take precedence.
    pub async fn fetch(
        &self,
        object: &Arc<CachedObject>,
        wanted: &[(PartKind, Range<u64>)],
    ) -> Result<(), ObjectError> {
        let mut open = plan::runs(&self.affordable(wanted), object.len);
        while !open.is_empty() {
            let (survey, leads) = self.look(object, &open, Purpose::Ahead);
            open.clear();
            let led = leads.into_iter().map(|lead| self.fly(object, lead, Purpose::Ahead));
            for outcome in join_all(led).await {
                outcome?;
            }
            for (run, flight) in survey.joined {
                match flight.landed().await {
                    Some(outcome) => drop(outcome?),
                    None => open.push(run),
                }
            }
        }
        Ok(())
    }

    /// Returns the cost of a [`RegionCache::fetch`] or read now. Fetches nothing and does not count as a use.
    pub fn missing(&self, object: &Arc<CachedObject>, wanted: &[(PartKind, Range<u64>)]) -> Cost {
        let runs = plan::runs(wanted, object.len);
        let survey = self.state.lock().survey(object, &runs);
        let mut cost = Cost::default();
        for request in survey.requests {
            cost += Cost {
                requests: 1,
                bytes: (request.pages.end - request.pages.start) * PAGE_BYTES,
            };
        }
        cost
    }

    /// Like [`RegionCache::missing`] by kind, in the order of [`PartKind::ALL`]. A request for several kinds counts as
    /// the first one.
    pub fn missing_by_kind(
        &self,
        object: &Arc<CachedObject>,
        wanted: &[(PartKind, Range<u64>)],
    ) -> [Cost; PartKind::ALL.len()] {
        let runs = plan::runs(wanted, object.len);
        let survey = self.state.lock().survey(object, &runs);
        let mut costs = [Cost::default(); PartKind::ALL.len()];
        for request in survey.requests {
            costs[number(request.kind(request.pages.start))].requests += 1;
            for page in request.pages.clone() {
                costs[number(request.kind(page))].bytes += PAGE_BYTES;
            }
        }
        costs
    }

    /// Returns content and counters.
    pub fn stats(&self) -> RegionCacheStats {
        self.state.lock().index.stats()
    }

    /// Returns the cached bytes of an object.
    pub fn cached_bytes(&self, object: ObjectId) -> u64 {
        self.state.lock().index.object_bytes(object)
    }

    /// Removes the regions of these objects, or of all (`None`), including pinned ones. Regions that are being written
    /// stay.
    pub fn clear(&self, objects: Option<&HashSet<ObjectId>>) {
        let is_chosen = |id: &ObjectId| objects.is_none_or(|objects| objects.contains(id));
        let emptied = self.state.lock().index.clear(is_chosen);
        self.give_back(&emptied);
        self.flush();
    }

    /// Pins objects: their present and future regions are not evicted, as long as all pins together take at most half
    /// of the cache. Pins end with the process.
    pub fn pin(&self, objects: &[ObjectId]) {
        self.state.lock().index.pin(objects, true);
    }

    /// Removes pins.
    pub fn unpin(&self, objects: &[ObjectId]) {
        self.state.lock().index.pin(objects, false);
    }

    /// Sets the quota of a tenant's objects, in bytes; `None`: the default. Applies from the next fetch on. With less
    /// than a page nothing of them is cached.
    pub fn set_quota(&self, tenant: &TenantId, quota_bytes: Option<u64>) {
        self.state.lock().index.set_quota(tenant, quota_bytes);
    }

    /// Writes changes to the journal for the next process. Without it only fetches are repeated; call it every few
    /// seconds.
    pub fn flush(&self) {
        self.write_journal(&mut self.journal.lock());
    }

    /// Locates pages, and starts flights for pages that are neither cached nor in flight.
    fn look(&self, object: &Arc<CachedObject>, runs: &[Run], purpose: Purpose) -> (PageLookup, Vec<Lead<'_>>) {
        let is_read = purpose == Purpose::Read;
        let mut state = self.state.lock();
        let mut survey = state.survey(object, runs);
        for (run, place) in &survey.hits {
            state.index.take(*place, run, is_read);
        }
        state.index.stats.joined += survey.joined.len() as u64;
        if is_read {
            let flying = survey.joined.iter().map(|(run, _)| run);
            for run in flying.chain(survey.requests.iter().flat_map(|request| &request.runs)) {
                let missed = (run.pages.end - run.pages.start) * PAGE_BYTES;
                state.index.stats.kinds[number(run.kind)].missed_bytes += missed;
            }
        }
        let leads = std::mem::take(&mut survey.requests)
            .into_iter()
            .map(|request| {
                let landing = state.flights.begin(object.id, request.pages.clone());
                Lead::new(self, object.id, request, landing)
            })
            .collect();
        (survey, leads)
    }

    /// Returns the prefix of the wanted ranges that is worth a prefetch.
    fn affordable(&self, wanted: &[(PartKind, Range<u64>)]) -> Vec<(PartKind, Range<u64>)> {
        let mut room = self.ahead_pages_max;
        let mut affordable = Vec::with_capacity(wanted.len());
        for (kind, range) in wanted.iter().filter(|(_, range)| !range.is_empty()) {
            let pages = range.end.div_ceil(PAGE_BYTES) - range.start / PAGE_BYTES;
            if pages > room {
                break;
            }
            room -= pages;
            affordable.push((*kind, range.clone()));
        }
        affordable
    }
}

#[cfg(test)]
impl RegionCache {
    /// Recounts all sums.
    pub(super) fn check(&self) {
        self.state.lock().index.check();
    }
}

impl State {
    fn survey(&self, object: &CachedObject, runs: &[Run]) -> PageLookup {
        let mut survey = PageLookup::default();
        let mut missing = Vec::new();
        for run in runs {
            for span in self.index.spans(object.id, &run.pages) {
                let mut rest = Run {
                    kind: run.kind,
                    pages: span.pages,
                };
                if let Some(place) = span.place {
                    survey.hits.push((rest, place));
                    continue;
                }
                while let Some(flight) = self
                    .flights
                    .first_over(object.id, &rest.pages)
                    .filter(|_| !rest.pages.is_empty())
                {
                    let start = flight.pages.start.max(rest.pages.start);
                    let end = flight.pages.end.min(rest.pages.end);
                    if rest.pages.start < start {
                        let pages = rest.pages.start..start;
                        missing.push(Run { kind: run.kind, pages });
                    }
                    let pages = start..end;
                    survey.joined.push((Run { kind: run.kind, pages }, flight.clone()));
                    rest.pages.start = end;
                }
                if !rest.pages.is_empty() {
                    missing.push(rest);
                }
            }
        }
        survey.requests = plan::requests(missing, |gap| self.flights.first_over(object.id, gap).is_none());
        survey
    }
}

impl Drop for RegionCache {
    fn drop(&mut self) {
        self.flush();
    }
}
