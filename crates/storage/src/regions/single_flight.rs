//! Single flight: fetches in progress, so that no page is fetched twice at the same time.
//!
//! A flight covers consecutive pages of an object; flights of one object do not overlap. The reader that starts a
//! flight leads it. Other readers of its pages wait and get the leader's bytes, so that they are served even if there
//! is no space to cache them. If the leader is cancelled, the waiters look again, and the first of them leads a new
//! flight.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use tokio::sync::watch;

use super::object::ObjectId;
use crate::object::ObjectError;

/// Outcome of a flight: its verified pages.
pub(super) type Outcome = Result<Bytes, ObjectError>;

/// Channel for the leader's outcome.
pub(super) type FlightResult = watch::Sender<Option<Outcome>>;

/// Flight that another reader leads.
#[derive(Debug, Clone)]
pub(super) struct Flight {
    pub(super) pages: Range<u64>,
    outcome: watch::Receiver<Option<Outcome>>,
}

impl Flight {
    /// Waits for the outcome; `None` if the leader was cancelled.
    pub(super) async fn landed(mut self) -> Option<Outcome> {
        let outcome = self.outcome.wait_for(Option::is_some).await.ok()?;
        outcome.clone()
    }
}

/// All flights, by object and first page.
#[derive(Debug, Default)]
pub(super) struct Flights(BTreeMap<(ObjectId, u64), Flight>);

impl Flights {
    /// Returns the first flight that contains any of these pages.
    pub(super) fn first_over(&self, object: ObjectId, pages: &Range<u64>) -> Option<&Flight> {
        let before = self.0.range(..=(object, pages.start)).next_back();
        let before = before.filter(|((id, _), flight)| *id == object && flight.pages.end > pages.start);
        let found = before.or_else(|| self.0.range((object, pages.start)..(object, pages.end)).next());
        found.map(|(_, flight)| flight)
    }

    /// Starts a flight over pages that no other flight contains.
    pub(super) fn begin(&mut self, object: ObjectId, pages: Range<u64>) -> FlightResult {
        debug_assert!(
            self.first_over(object, &pages).is_none(),
            "two flights over {pages:?} of {object}"
        );
        let (landing, outcome) = watch::channel(None);
        self.0.insert((object, pages.start), Flight { pages, outcome });
        landing
    }

    /// Ends the flight that starts with this page.
    pub(super) fn end(&mut self, object: ObjectId, first_page: u64) {
        self.0.remove(&(object, first_page));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flights_are_found_by_any_of_their_pages() {
        let [left, object, right] = [ObjectId([1; 32]), ObjectId([2; 32]), ObjectId([3; 32])];
        let mut flights = Flights::default();
        let _landings = [
            flights.begin(left, 0..100),
            flights.begin(object, 10..20),
            flights.begin(object, 30..31),
            flights.begin(right, 0..100),
        ];
        let check = |flights: &Flights, pages: Range<u64>, expect: Option<Range<u64>>| {
            let found = flights.first_over(object, &pages).map(|flight| flight.pages.clone());
            assert_eq!(found, expect, "{pages:?}");
        };
        check(&flights, 0..10, None);
        check(&flights, 0..11, Some(10..20));
        check(&flights, 19..20, Some(10..20));
        check(&flights, 20..30, None);
        check(&flights, 0..99, Some(10..20));
        check(&flights, 20..99, Some(30..31));
        check(&flights, 31..99, None);
        flights.end(object, 10);
        check(&flights, 0..20, None);
    }
}
