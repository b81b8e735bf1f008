//! Transfers between file and index: reads of cached pages, writes of fetched ones, release of evicted ones.

use super::*;
use crate::regions::index::{Reservation, bits};
use crate::regions::journal::FRAME_BYTES;

/// Maximum reservation attempts. Other readers may take freed space before the next attempt; then caching is not worth
/// it.
const RESERVATIONS_MAX: usize = 4;

impl RegionCache {
    /// Reads pages of one region into `to`. Returns false if they were evicted, or are damaged and therefore dropped.
    pub(super) fn read_place(&self, object: &CachedObject, place: Place, run: &Range<u64>, to: &mut [u8]) -> bool {
        let from = offset(place.slot, (run.start % REGION_PAGES) as u32);
        let is_whole = match self.file.read_at(to, from) {
            Ok(count) => count == to.len() && pages::verify(object.salt, run.start * PAGE_BYTES, to).is_ok(),
            Err(error) => {
                tracing::warn!(%error, "cannot read the region cache");
                false
            }
        };
        let mut state = self.state.lock();
        state.index.stats.disk_reads += 1;
        state.index.stats.disk_read_bytes += to.len() as u64;
        // If the slot was reused during the read, its pages may belong to another object, and a checksum match proves
        // nothing.
        if !state.index.is_current(place) {
            return false;
        }
        if is_whole {
            return true;
        }
        let bad = match to.len() as u64 / PAGE_BYTES {
            1 => mask(run),
            _ => run
                .clone()
                .zip(to.chunks(PAGE_BYTES as usize))
                .filter(|(page, bytes)| pages::verify(object.salt, page * PAGE_BYTES, bytes).is_err())
                .fold(0, |bad, (page, _)| bad | mask(&(page..page + 1))),
        };
        if let Some(is_empty) = state.index.forget(place, bad) {
            state.index.stats.damaged_pages += u64::from(bad.count_ones());
            drop(state);
            if is_empty {
                self.give_back(&[place.slot]);
            }
        }
        false
    }

    /// Writes verified pages of a request to the disk, as far as there is space.
    pub(super) fn keep(&self, object: &CachedObject, request: &Request, bytes: &Bytes, purpose: Purpose) {
        let Range { start, end } = request.pages;
        for region in start / REGION_PAGES..end.div_ceil(REGION_PAGES) {
            let base = region * REGION_PAGES;
            let pages = base.max(start)..(base + REGION_PAGES).min(end);
            if !self.keep_region(object, request, &pages, bytes, purpose) {
                let bypassed = (pages.end - pages.start) * PAGE_BYTES;
                self.state.lock().index.stats.bypassed_bytes += bypassed;
            }
        }
        let is_due = self.state.lock().index.log.len() >= FRAME_BYTES;
        // Another thread that writes the journal includes these entries, now or the next time.
        if let Some(mut journal) = is_due.then(|| self.journal.try_lock()).flatten() {
            self.write_journal(&mut journal);
        }
    }

    /// Returns false if there is no space, or the write fails.
    fn keep_region(
        &self,
        object: &CachedObject,
        request: &Request,
        run: &Range<u64>,
        bytes: &Bytes,
        purpose: Purpose,
    ) -> bool {
        let base = run.start / REGION_PAGES * REGION_PAGES;
        let Ok(region) = u32::try_from(run.start / REGION_PAGES) else {
            return false;
        };
        let mut granted = None;
        for _ in 0..RESERVATIONS_MAX {
            let reservation = self.state.lock().index.reserve(object, region, mask(run));
            match reservation {
                Reservation::Granted(grant) => {
                    granted = Some(grant);
                    break;
                }
                Reservation::Emptied(slots) => self.give_back(&slots),
                Reservation::Present => return true,
                Reservation::Refused => return false,
            }
        }
        let Some(grant) = granted else { return false };
        let written = bits(grant.mask).try_for_each(|part| {
            let from = ((base + u64::from(part.start) - request.pages.start) * PAGE_BYTES) as usize;
            let len = part.len() * PAGE_BYTES as usize;
            self.file
                .write_at(&bytes[from..from + len], offset(grant.slot, part.start))
        });
        // Pages that were fetched along with a read count as prefetched.
        let ahead = |page: u64| purpose == Purpose::Ahead || !request.runs.iter().any(|run| run.pages.contains(&page));
        let fresh = run
            .clone()
            .filter(|page| ahead(*page))
            .fold(0, |fresh, page| fresh | mask(&(page..page + 1)));
        if let Err(error) = &written {
            tracing::debug!(%error, "cannot write to the region cache");
            // A partial write would take space that no slot accounts for.
            for part in bits(grant.mask) {
                let _ = self
                    .file
                    .release(offset(grant.slot, part.start)..offset(grant.slot, part.end));
            }
        }
        let mut state = self.state.lock();
        let stats = &mut state.index.stats;
        stats.disk_writes += 1;
        match &written {
            Ok(()) => stats.disk_write_bytes += u64::from(grant.mask.count_ones()) * PAGE_BYTES,
            Err(_) => stats.disk_write_failures += 1,
        }
        let kind = |page: u32| request.kind(base + u64::from(page));
        let emptied = state.index.settle(grant, written.is_ok(), fresh, kind);
        drop(state);
        self.give_back(emptied.as_slice());
        written.is_ok()
    }

    /// Releases the disk space of emptied slots, which may then be reused.
    pub(super) fn give_back(&self, slots: &[u32]) {
        if slots.is_empty() {
            return;
        }
        for slot in slots {
            let start = offset(*slot, 0);
            if let Err(error) = self.file.release(start..start + REGION_BYTES) {
                tracing::debug!(%error, "cannot release space of the region cache");
            }
        }
        self.state.lock().index.release(slots);
    }

    /// Writes new entries to the journal, or rewrites it.
    pub(super) fn write_journal(&self, journal: &mut Journal) {
        let written = match journal.is_stale() {
            true => {
                let all = self.state.lock().index.write_all();
                journal.rewrite(&all)
            }
            false => {
                let frames = self.state.lock().index.log.take();
                journal.append(&frames)
            }
        };
        if let Err(error) = written {
            tracing::debug!(%error, "cannot write the journal of the region cache");
        }
    }
}

/// Releases space that no slot accounts for: slots left over from a crash or from a larger cache.
pub(super) fn give_back_unused(index: &Index, file: &dyn RandomFile) -> io::Result<()> {
    file.set_len(index.file_len().min(file.len()?))?;
    // The file system needs few blocks of metadata; releasing ranges that are holes already would cost a call for each.
    let is_tight = file.taken_bytes()? <= index.taken_bytes() + index.taken_bytes() / 64 + REGION_BYTES;
    if !file.is_sparse() || is_tight {
        return Ok(());
    }
    for range in index.free_ranges() {
        file.release(range)?;
    }
    Ok(())
}
