//! Single-flight fetching from the store.

use super::*;
use crate::regions::single_flight::FlightResult;

/// Maximum number of answers for damaged pages. The wrappers of a store retry failures; only here is damage of the
/// content detected.
const ANSWERS_MAX: usize = 3;

/// Flight that its holder leads. Dropping it ends the flight: waiters get the outcome, or look again if there is none.
#[derive(Debug)]
pub(super) struct Lead<'a> {
    cache: &'a RegionCache,
    object: ObjectId,
    request: Request,
    landing: FlightResult,
}

impl<'a> Lead<'a> {
    pub(super) fn new(cache: &'a RegionCache, object: ObjectId, request: Request, landing: FlightResult) -> Self {
        Self {
            cache,
            object,
            request,
            landing,
        }
    }

    pub(super) fn pages(&self) -> &Range<u64> {
        &self.request.pages
    }

    pub(super) fn runs(&self) -> &[Run] {
        &self.request.runs
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.cache
            .state
            .lock()
            .flights
            .end(self.object, self.request.pages.start);
    }
}

impl RegionCache {
    /// Fetches the pages of a flight, caches them if there is space, and passes them to all waiters.
    pub(super) async fn fly(
        &self,
        object: &Arc<CachedObject>,
        lead: Lead<'_>,
        purpose: Purpose,
    ) -> Result<Bytes, ObjectError> {
        let outcome = self.fetch_verified(object, &lead.request).await;
        if let Ok(bytes) = &outcome {
            self.keep(object, &lead.request, bytes, purpose);
        }
        // A refusal (cancellation, a limit of this reader) may not apply to the next reader.
        let is_for_all = !matches!(&outcome, Err(error) if error.kind == ObjectErrorKind::Refused);
        if is_for_all {
            lead.landing.send_replace(Some(outcome.clone()));
        }
        outcome
    }

    async fn fetch_verified(&self, object: &CachedObject, request: &Request) -> Result<Bytes, ObjectError> {
        let pages = request.pages.end - request.pages.start;
        let permits = pages.min(self.in_flight_pages_max) as u32;
        let _in_memory = self
            .in_flight
            .acquire_many(permits)
            .await
            .map_err(|_| ObjectError::new(ObjectErrorKind::Refused, &object.key, "the region cache is closed"))?;
        let mut last = None;
        for _ in 0..ANSWERS_MAX {
            {
                let stats = &mut self.state.lock().index.stats;
                stats.store_requests += 1;
                for page in request.pages.clone() {
                    stats.kinds[number(request.kind(page))].fetched_bytes += PAGE_BYTES;
                }
            }
            let answer = object.store.read(&object.key, request.bytes()).await;
            let reason = match answer {
                Ok(bytes) if bytes.len() as u64 != pages * PAGE_BYTES => {
                    format!("{} bytes arrived instead of {}", bytes.len(), pages * PAGE_BYTES)
                }
                Ok(bytes) => match pages::verify(object.salt, request.bytes().start, &bytes) {
                    Ok(()) => return Ok(bytes),
                    Err(damage) => damage.to_string(),
                },
                Err(error) if error.kind == ObjectErrorKind::Corrupt => error.reason,
                Err(error) => return Err(error),
            };
            self.state.lock().index.stats.store_damaged += 1;
            last = Some(reason);
        }
        let reason = last.unwrap_or_default();
        Err(ObjectError::new(ObjectErrorKind::Corrupt, &object.key, reason))
    }
}
