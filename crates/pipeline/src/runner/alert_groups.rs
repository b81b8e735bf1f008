//! Alerts of a batch that belong together.

use std::collections::HashMap;

use firn_detect::group_of;
use serde_json::{Map, Value};

/// Alert of an event, before it is known where the event is stored.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Draft {
    /// Data stream.
    pub(super) index: String,
    pub(super) document: Map<String, Value>,
}

impl Draft {
    /// Sets where the event of the alert is stored: its index and id.
    pub(super) fn set_event(&mut self, index: &str, id: &str) {
        let link = &mut self.document["firn"]["alert"]["event"];
        link["index"] = index.into();
        if !id.is_empty() {
            link["id"] = id.into();
        }
    }
}

/// Most alerts of one batch, and the bytes of the events that they copy.
pub(super) const ALERTS_MAX: usize = 10_000;
const EVENT_BYTES_MAX: usize = 32 << 20;

/// Joins the alerts of the events of a batch that belong together: the first one of a group gets the count of all, and the time of
/// the last. Once a batch has as many as it may have, further matches of a rule are counted in its last alert.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Places of the event and of its alert.
    first: HashMap<(String, String), (usize, usize)>,
    /// The same of the last alert by data stream and rule.
    last: HashMap<(String, String), (usize, usize)>,
    count: usize,
    event_bytes: usize,
}

impl Groups {
    /// Adds the alerts of the event after those of the events before. Returns those that belong to none of them.
    /// `event_bytes` is the length of the event.
    pub(super) fn add(
        &mut self,
        before: &mut [impl AsMut<Vec<Draft>>],
        drafts: Vec<Draft>,
        event_bytes: usize,
    ) -> Vec<Draft> {
        let event_place = before.len();
        let mut own: Vec<Draft> = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let state = &draft.document["firn"]["alert"];
            let is_grouped = state["group_by"].as_object().is_some_and(|fields| !fields.is_empty());
            let is_full = self.count >= ALERTS_MAX || self.event_bytes >= EVENT_BYTES_MAX;
            // An alert that is to be delivered is not counted in one that maintenance windows suppress.
            let place = match state.get("maintenance_windows") {
                None => draft.index.clone(),
                Some(windows) => format!("{} {windows}", draft.index),
            };
            let group = (place.clone(), group_of(&draft.document).to_owned());
            let rule = draft.document["rule"]["id"].as_str().unwrap_or_default();
            let rule = (place, rule.to_owned());
            let of_group = self.first.get(&group).filter(|_| is_grouped);
            let known = of_group.or_else(|| self.last.get(&rule).filter(|_| is_full));
            if let Some((event, number)) = known {
                let time = state["event"]["time"].clone();
                let joined = &mut before[*event].as_mut()[*number].document["firn"]["alert"];
                joined["count"] = (joined["count"].as_u64().unwrap_or(1) + 1).into();
                joined["last_event_time"] = time;
                continue;
            }
            if is_grouped {
                self.first.insert(group, (event_place, own.len()));
            }
            self.last.insert(rule, (event_place, own.len()));
            self.count += 1;
            self.event_bytes += event_bytes;
            own.push(draft);
        }
        own
    }
}
