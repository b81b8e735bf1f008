//! Items of a bulk that have their result before the engine sees the others: unparsable ones, and those that an ingest
//! pipeline dropped or failed on.

use firn_engine::Error;
use firn_engine::document::{BulkItem, BulkItemResponse, BulkResponse, Effect, Written};

use super::parse::Rejected;
use super::respond::ItemNotes;
use crate::endpoints::ingest::ItemPlan;

/// Id in the answer for a dropped document that has none, as in Elasticsearch.
const AUTO_GENERATED: &str = "auto-generated";

/// Settled items, by ascending position.
#[derive(Debug, Default)]
pub(super) struct Settled {
    items: Vec<SettledItem>,
    /// Pipelines that ran, by position in the bulk; shorter than the bulk if no later item ran one.
    executed: Vec<Vec<String>>,
}

#[derive(Debug)]
struct SettledItem {
    position: usize,
    response: BulkItemResponse,
    is_dropped: bool,
}

impl Settled {
    pub(super) fn of_rejected(rejected: Vec<Rejected>) -> Self {
        let items = rejected.into_iter().map(|rejected| SettledItem {
            position: rejected.position,
            response: BulkItemResponse {
                index: rejected.index,
                id: rejected.id.unwrap_or_default(),
                result: Err(rejected.error),
            },
            is_dropped: false,
        });
        Self {
            items: items.collect(),
            executed: Vec::new(),
        }
    }

    /// Adds the items that pipelines settled and returns the others. `plans` are those of all items that are not settled
    /// yet, in their order.
    pub(super) fn add(&mut self, plans: Vec<ItemPlan>) -> Vec<BulkItem> {
        let mut settled = Vec::with_capacity(self.items.len());
        let mut before = std::mem::take(&mut self.items).into_iter().peekable();
        let mut items = Vec::with_capacity(plans.len());
        let mut position = 0;
        for plan in plans {
            while let Some(item) = before.next_if(|item| item.position == position) {
                settled.push(item);
                position += 1;
            }
            match plan {
                ItemPlan::Write(item, executed) => {
                    if !executed.is_empty() {
                        self.executed.resize(position, Vec::new());
                        self.executed.push(executed);
                    }
                    items.push(*item);
                }
                ItemPlan::Dropped(item) => settled.push(SettledItem {
                    position,
                    response: dropped_response(item.index, item.id),
                    is_dropped: true,
                }),
                ItemPlan::Failed(item, error) => settled.push(SettledItem {
                    position,
                    response: failed_response(*item, error),
                    is_dropped: false,
                }),
            }
            position += 1;
        }
        settled.extend(before);
        self.items = settled;
        items
    }

    /// Merges the settled items into the results of the applied ones, in the order of the bulk. One pass, because half
    /// of a million items may be settled.
    pub(super) fn merge_into(self, response: &mut BulkResponse, list_executed: bool) -> ItemNotes {
        let mut notes = ItemNotes {
            dropped: Vec::new(),
            executed: list_executed.then_some(self.executed),
        };
        if self.items.is_empty() {
            return notes;
        }
        let applied = std::mem::take(&mut response.items);
        let mut items = Vec::with_capacity(applied.len() + self.items.len());
        let mut applied = applied.into_iter();
        for settled in self.items {
            let before = settled.position.saturating_sub(items.len());
            items.extend(applied.by_ref().take(before));
            if settled.is_dropped {
                notes.dropped.push(items.len());
            }
            items.push(settled.response);
        }
        items.extend(applied);
        response.items = items;
        notes
    }
}

/// Returns the result of a document that a pipeline dropped.
pub(crate) fn dropped_response(index: String, id: Option<String>) -> BulkItemResponse {
    BulkItemResponse {
        index,
        id: id.unwrap_or_else(|| AUTO_GENERATED.to_owned()),
        result: Ok(Written {
            effect: Effect::Noop,
            version: 0,
            seq_no: 0,
            primary_term: 0,
            forced_refresh: false,
            get: None,
        }),
    }
}

fn failed_response(item: BulkItem, error: Error) -> BulkItemResponse {
    BulkItemResponse {
        index: item.index,
        id: item.id.unwrap_or_else(|| AUTO_GENERATED.to_owned()),
        result: Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use firn_engine::document::{Expectation, Operation};

    use super::*;

    fn applied(number: usize) -> BulkItemResponse {
        BulkItemResponse {
            index: "i".to_owned(),
            id: number.to_string(),
            result: Err(Error::internal("applied")),
        }
    }

    fn rejected(position: usize) -> Rejected {
        Rejected {
            position,
            index: "i".to_owned(),
            id: Some(position.to_string()),
            error: Error::illegal_argument("unreadable"),
        }
    }

    fn merged(items: Vec<BulkItemResponse>, rejected: Vec<Rejected>) -> Vec<BulkItemResponse> {
        let mut response = BulkResponse { items };
        Settled::of_rejected(rejected).merge_into(&mut response, false);
        response.items
    }

    /// The id of every item is its position in the bulk.
    fn check(count: usize, is_rejected: impl Fn(usize) -> bool) {
        let of = |wanted: bool| (0..count).filter(|at| is_rejected(*at) == wanted).collect::<Vec<_>>();
        let items = merged(
            of(false).into_iter().map(applied).collect(),
            of(true).into_iter().map(rejected).collect(),
        );
        assert_eq!(items.len(), count);
        for (at, item) in items.iter().enumerate() {
            assert_eq!(item.id, at.to_string());
            let reason = item.result.as_ref().err().map(Error::reason);
            assert_eq!(reason == Some("unreadable"), is_rejected(at), "{at}");
        }
    }

    #[test]
    fn answers_keep_the_order_of_the_bulk() {
        check(0, |_| false);
        check(9, |_| false);
        check(9, |_| true);
        check(9, |at| at % 2 == 0);
        check(9, |at| at == 0 || at == 8);
        check(100, |at| (30..60).contains(&at));
    }

    /// Inserting each item into the list would move 10^11 items: minutes, in any build.
    #[test]
    fn a_million_items_of_which_half_are_unreadable() {
        const COUNT: usize = 1_000_000;
        let even = (0..COUNT).step_by(2).map(applied).collect();
        let odd = (1..COUNT).step_by(2).map(rejected).collect();
        let started = Instant::now();
        let items = merged(even, odd);
        let took = started.elapsed();
        assert_eq!(items.len(), COUNT);
        assert_eq!((items[1].id.as_str(), items[COUNT - 1].id.as_str()), ("1", "999999"));
        assert!(took < Duration::from_secs(5), "{took:?}");
    }

    /// Item 1 cannot be parsed, item 2 is dropped, a pipeline fails on item 4, the others ran one pipeline.
    #[test]
    fn dropped_and_failed_items_stand_at_their_positions() {
        let item = |number: usize| {
            Box::new(BulkItem {
                index: "i".to_owned(),
                id: (number != 2).then(|| number.to_string()),
                routing: None,
                operation: Operation::Delete,
                expect: Expectation::Any,
                require_alias: false,
                require_data_stream: false,
            })
        };
        let ran = |number| ItemPlan::Write(item(number), vec![format!("p{number}")]);
        let mut settled = Settled::of_rejected(vec![rejected(1), rejected(6)]);
        let items = settled.add(vec![
            ran(0),
            ItemPlan::Dropped(item(2)),
            ran(3),
            ItemPlan::Failed(item(4), Error::illegal_argument("failed")),
            ran(5),
        ]);
        let written: Vec<&str> = items.iter().filter_map(|item| item.id.as_deref()).collect();
        assert_eq!(written, ["0", "3", "5"]);
        let mut response = BulkResponse {
            items: [0, 3, 5].map(applied).into(),
        };
        let notes = settled.merge_into(&mut response, true);
        let ids: Vec<&str> = response.items.iter().map(|item| item.id.as_str()).collect();
        assert_eq!(ids, ["0", "1", AUTO_GENERATED, "3", "4", "5", "6"]);
        assert_eq!(notes.dropped, [2]);
        let executed = notes.executed.unwrap();
        assert_eq!(executed.len(), 6);
        assert_eq!((&executed[3][..], &executed[4][..]), (&["p3".to_owned()][..], &[][..]));
        assert_eq!(response.items[4].result.as_ref().unwrap_err().reason(), "failed");
    }
}
