//! Fair queue: start-time fair queuing by measured run time.
//!
//! Every flow has a virtual time that grows by the run time of its jobs, divided by its weight. The flow that is
//! furthest behind is next. A flow that returns after a pause starts where the least served of the others is. So an
//! idle flow saves up no time, and a flow does not pay for having used the node while no other flow wanted it. Within a
//! flow, its lanes (searches, writes) share in the same way, and a lane is first come, first served.
//!
//! Pure: run times are inputs. The threads are in [`crate::workers`]. After Goyal, Vin, Cheng: "Start-time Fair
//! Queuing" (SIGCOMM 1996), with run times known only afterwards, as in schedulers of operating systems.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use super::flow::{Flow, FlowKey};

/// A returning flow starts this far before the others, in ns, so that it goes first even if they have only just been
/// served. Also how far behind a flow must be for a running job to be interrupted: far longer than an interruption
/// takes, and far too short for a user to notice.
pub(super) const HEAD_START_NS: u64 = 1_000_000;
/// Jobs of one flow and lane that may wait for a remote store without keeping the flow from beginning others: the
/// concurrent requests of users with dashboards of frozen indices. Further jobs wait for one of them
/// ([`crate::workers`]).
pub(super) const AWAY_OF_FLOW_MAX: usize = 64;
/// The weight whose virtual time is real time.
const WEIGHT_UNIT: u64 = firn_engine::Scope::WEIGHT_DEFAULT as u64;

/// Waiting entries by flow and lane.
pub(super) struct FairQueue<T> {
    flows: BTreeMap<FlowKey, FlowState<T>>,
    lane_count: usize,
    /// The virtual time of the least served active flow; never goes back.
    clock: u64,
    /// Counts arrivals and dispatches, so that flows with equal virtual time go in their order.
    turns: u64,
}

struct FlowState<T> {
    weight: u32,
    /// Virtual time, ns.
    at: u64,
    lanes: Vec<Lane<T>>,
    /// Number of its last arrival or dispatch.
    last_turn: u64,
}

struct Lane<T> {
    /// Run time of its jobs, ns, adjusted after a pause like that of flows.
    at: u64,
    /// Parts of begun requests, and interrupted jobs: they go first.
    begun: VecDeque<T>,
    /// Requests not begun yet, with their arrival number in [`FairQueue::turns`].
    fresh: VecDeque<(u64, T)>,
    /// Jobs that used up their time slice, in the same order.
    turned: VecDeque<(u64, T)>,
    /// Jobs that run.
    running: usize,
    /// Jobs that were begun and have not ended: running and interrupted ones.
    unfinished: usize,
    /// Those of them that wait for a remote store.
    away: usize,
    /// When the first of those began to wait, or the last one returned.
    away_since: Option<Instant>,
}

/// The flow and lane in which a job waits or runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) flow: FlowKey,
    pub(super) lane: usize,
}

/// Position at which an entry joins its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// A new request.
    Last,
    /// A part of a begun request.
    First,
    /// A job that used up its time slice: behind the requests that have arrived so far.
    InTurn,
}

/// Input for the decision whether a lane's first entry may run.
pub(super) struct Candidate<'a, T> {
    pub(super) lane: usize,
    pub(super) entry: &'a T,
    /// Begun jobs of the same flow and lane.
    pub(super) unfinished: usize,
    /// Begun jobs of the same flow, all lanes.
    pub(super) flow_unfinished: usize,
}

impl<T> Lane<T> {
    fn new() -> Self {
        Self {
            at: 0,
            begun: VecDeque::new(),
            fresh: VecDeque::new(),
            turned: VecDeque::new(),
            running: 0,
            unfinished: 0,
            away: 0,
            away_since: None,
        }
    }

    fn waiting(&self) -> usize {
        self.begun.len() + self.fresh.len() + self.turned.len()
    }

    /// Returns the begun jobs that count against the limit of the flow.
    fn unfinished(&self) -> usize {
        self.unfinished - self.away.min(AWAY_OF_FLOW_MAX).min(self.unfinished)
    }

    fn is_active(&self) -> bool {
        self.running > 0 || self.waiting() > 0
    }

    /// Returns the first entry that may run. A part that may not begin does not block the entries behind it: it may
    /// wait for one of them.
    fn next(&self, allowed: impl Fn(&T) -> bool) -> Option<Next> {
        if let Some(at) = self.begun.iter().position(&allowed) {
            return Some(Next::Begun(at));
        }
        let fresh = self.fresh.front().filter(|(_, entry)| allowed(entry));
        let turned = self.turned.front().filter(|(_, entry)| allowed(entry));
        match (fresh, turned) {
            (Some((came, _)), Some((turned, _))) if turned < came => Some(Next::Turned),
            (Some(_), _) => Some(Next::Fresh),
            (None, Some(_)) => Some(Next::Turned),
            (None, None) => None,
        }
    }

    fn take(&mut self, next: Next) -> Option<T> {
        match next {
            Next::Begun(at) => self.begun.remove(at),
            Next::Fresh => self.fresh.pop_front().map(|(_, entry)| entry),
            Next::Turned => self.turned.pop_front().map(|(_, entry)| entry),
        }
    }
}

/// Position in a lane.
#[derive(Debug, Clone, Copy)]
enum Next {
    Begun(usize),
    Fresh,
    Turned,
}

impl<T> FlowState<T> {
    fn is_active(&self) -> bool {
        self.lanes.iter().any(Lane::is_active)
    }

    fn running(&self) -> usize {
        self.lanes.iter().map(|lane| lane.running).sum()
    }

    fn unfinished(&self) -> usize {
        self.lanes.iter().map(Lane::unfinished).sum()
    }

    /// Whether any of its jobs has not ended.
    fn is_begun(&self) -> bool {
        self.lanes.iter().any(|lane| lane.unfinished > 0)
    }

    /// Returns the first entry of a lane that may run.
    fn next(&self, lane: usize, allowed: &impl Fn(Candidate<'_, T>) -> bool) -> Option<Next> {
        let (unfinished, flow_unfinished) = (self.lanes[lane].unfinished(), self.unfinished());
        self.lanes[lane].next(|entry| {
            allowed(Candidate {
                lane,
                entry,
                unfinished,
                flow_unfinished,
            })
        })
    }

    /// Returns the lane to serve next, and its first entry.
    fn best_lane(&self, allowed: &impl Fn(Candidate<'_, T>) -> bool) -> Option<(usize, Next)> {
        let lanes = (0..self.lanes.len()).filter_map(|lane| Some((lane, self.next(lane, allowed)?)));
        lanes.min_by_key(|(lane, _)| (self.lanes[*lane].at, self.lanes[*lane].running))
    }
}

impl<T> FairQueue<T> {
    pub(super) fn new(lane_count: usize) -> Self {
        Self {
            flows: BTreeMap::new(),
            lane_count,
            clock: 0,
            turns: 0,
        }
    }

    /// Adds an entry.
    pub(super) fn push(&mut self, flow: &Flow, lane: usize, entry: T, end: End) {
        self.activate(flow.key(), lane);
        let turns = self.turns;
        let state = self.flow(flow.key());
        state.weight = flow.weight;
        let lane = &mut state.lanes[lane];
        match end {
            End::Last => lane.fresh.push_back((turns, entry)),
            End::First => lane.begun.push_front(entry),
            End::InTurn => lane.turned.push_back((turns, entry)),
        }
    }

    /// Takes the next entry that may run. It counts as running from now on.
    pub(super) fn pop(&mut self, allowed: impl Fn(Candidate<'_, T>) -> bool) -> Option<(Place, T)> {
        let (place, next) = self.best(&allowed)?;
        self.turns += 1;
        let turns = self.turns;
        let state = self.flow(&place.flow);
        state.last_turn = turns;
        let lane = &mut state.lanes[place.lane];
        let entry = lane.take(next)?;
        lane.running += 1;
        Some((place, entry))
    }

    fn best(&self, allowed: &impl Fn(Candidate<'_, T>) -> bool) -> Option<(Place, Next)> {
        let waiting = self
            .flows
            .iter()
            .filter_map(|(key, flow)| Some((key, flow, flow.best_lane(allowed)?)));
        let (key, _, (lane, next)) = waiting.min_by_key(|(_, flow, _)| (flow.at, flow.running(), flow.last_turn))?;
        let flow = key.clone();
        Some((Place { flow, lane }, next))
    }

    /// Records that a job runs which did not wait here, or which continues after it waited for something else.
    pub(super) fn resumed(&mut self, place: &Place) {
        self.activate(&place.flow, place.lane);
        self.flow(&place.flow).lanes[place.lane].running += 1;
    }

    /// Records that a job was begun.
    pub(super) fn begun(&mut self, place: &Place) {
        self.flow(&place.flow).lanes[place.lane].unfinished += 1;
    }

    /// Records that a stopped job waits for a remote store, so that its flow may begin another.
    pub(super) fn went_away(&mut self, place: &Place, now: Instant) {
        let lane = &mut self.flow(&place.flow).lanes[place.lane];
        if lane.away == 0 {
            lane.away_since = Some(now);
        }
        lane.away += 1;
    }

    /// Records that a job no longer waits for a remote store.
    pub(super) fn came_back(&mut self, place: &Place, now: Instant) {
        let lane = &mut self.flow(&place.flow).lanes[place.lane];
        lane.away = lane.away.saturating_sub(1);
        lane.away_since = Some(now);
    }

    /// Returns whether the maximum of jobs of a flow and lane waits for a remote store, and since when none of them has
    /// returned.
    pub(super) fn away(&self, place: &Place) -> (bool, Option<Instant>) {
        let lane = self.flows.get(&place.flow).map(|flow| &flow.lanes[place.lane]);
        lane.map_or((false, None), |lane| (lane.away >= AWAY_OF_FLOW_MAX, lane.away_since))
    }

    /// Records that a job ended.
    pub(super) fn ended(&mut self, place: &Place) {
        let lane = &mut self.flow(&place.flow).lanes[place.lane];
        lane.unfinished = lane.unfinished.saturating_sub(1);
        self.forget_level();
    }

    /// Charges the run time of a job since its last charge.
    pub(super) fn charge(&mut self, place: &Place, ran_ns: u64) {
        let state = self.flow(&place.flow);
        state.at += ran_ns.saturating_mul(WEIGHT_UNIT) / u64::from(state.weight.max(1));
        state.lanes[place.lane].at += ran_ns;
    }

    /// Records that a job no longer runs. Charge it first.
    pub(super) fn stopped(&mut self, place: &Place) {
        let lane = &mut self.flow(&place.flow).lanes[place.lane];
        lane.running = lane.running.saturating_sub(1);
        self.forget_level();
    }

    /// Whether a waiting flow is so far behind a running job that the job should yield. Charge the job first.
    pub(super) fn should_yield(&self, running: &Place, allowed: impl Fn(Candidate<'_, T>) -> bool) -> bool {
        let Some((best, _)) = self.best(&allowed) else {
            return false;
        };
        let (Some(mine), Some(theirs)) = (self.flows.get(&running.flow), self.flows.get(&best.flow)) else {
            return false;
        };
        if best.flow == running.flow {
            let lanes = &mine.lanes;
            return best.lane != running.lane && lanes[best.lane].at + HEAD_START_NS <= lanes[running.lane].at;
        }
        theirs.at + HEAD_START_NS <= mine.at
    }

    /// Whether another entry of the same flow and lane waits and may run.
    pub(super) fn has_waiting_beside(&self, place: &Place, allowed: impl Fn(Candidate<'_, T>) -> bool) -> bool {
        let flow = self.flows.get(&place.flow);
        flow.is_some_and(|flow| flow.next(place.lane, &allowed).is_some())
    }

    /// Returns the requests not begun yet: those of a lane, those of one flow among them, and the number of flows with
    /// any, including the given flow.
    pub(super) fn fresh(&self, key: &FlowKey, lane: usize) -> Fresh {
        let mut fresh = Fresh {
            total: 0,
            own: 0,
            flows: 1,
        };
        for (other, flow) in &self.flows {
            let count = flow.lanes[lane].fresh.len();
            fresh.total += count;
            if other == key {
                fresh.own = count;
            } else if count > 0 {
                fresh.flows += 1;
            }
        }
        fresh
    }

    /// Returns the entries that wait in a lane.
    pub(super) fn waiting(&self, lane: usize) -> usize {
        let lanes = self.flows.values().map(|flow| &flow.lanes[lane]);
        lanes.map(Lane::waiting).sum()
    }

    /// Returns the requests of a lane that are not begun yet.
    pub(super) fn fresh_total(&self, lane: usize) -> usize {
        self.flows.values().map(|flow| flow.lanes[lane].fresh.len()).sum()
    }

    /// Returns the number of flows in memory.
    #[cfg(test)]
    pub(super) fn flow_count(&self) -> usize {
        self.flows.len()
    }

    fn flow(&mut self, key: &FlowKey) -> &mut FlowState<T> {
        let lane_count = self.lane_count;
        let at = self.clock.saturating_sub(HEAD_START_NS);
        self.flows.entry(key.clone()).or_insert_with(|| FlowState {
            weight: firn_engine::Scope::WEIGHT_DEFAULT,
            at,
            lanes: (0..lane_count).map(|_| Lane::new()).collect(),
            last_turn: 0,
        })
    }

    /// Adjusts the virtual time of a flow and lane that were idle to that of the active ones.
    fn activate(&mut self, key: &FlowKey, lane: usize) {
        self.advance();
        let start = self.clock.saturating_sub(HEAD_START_NS);
        self.turns += 1;
        let turns = self.turns;
        let state = self.flow(key);
        if !state.is_active() {
            state.at = state.at.max(start);
            state.last_turn = turns;
        }
        if !state.lanes[lane].is_active() {
            let others = state.lanes.iter().filter(|lane| lane.is_active());
            let level = others.map(|lane| lane.at).min().unwrap_or(0);
            let lane = &mut state.lanes[lane];
            lane.at = lane.at.max(level.saturating_sub(HEAD_START_NS));
        }
    }

    fn advance(&mut self) {
        let active = self.flows.values().filter(|flow| flow.is_active());
        self.clock = active.map(|flow| flow.at).min().unwrap_or(0).max(self.clock);
    }

    /// Forgets idle flows that would restart with the same virtual time.
    fn forget_level(&mut self) {
        self.advance();
        if !self.flows.values().any(FlowState::is_active) {
            // The next flow finds an idle node, so earlier use must not count against it.
            let latest = self.flows.values().map(|flow| flow.at).max();
            self.clock = latest.map_or(0, |at| at + HEAD_START_NS).max(self.clock);
        }
        let start = self.clock.saturating_sub(HEAD_START_NS);
        self.flows
            .retain(|_, flow| flow.is_active() || flow.is_begun() || flow.at > start);
    }
}

/// Requests that are not begun yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fresh {
    pub(super) total: usize,
    pub(super) own: usize,
    pub(super) flows: usize,
}

impl Fresh {
    /// Whether one more request may wait. Beyond the limit only flows may add requests that have less than an equal
    /// share of it waiting, so that only the flow that fills the queue is refused. At most twice the limit waits, or
    /// one request per flow.
    pub(super) fn has_room(self, limit: usize) -> bool {
        self.total < limit || (self.flows > 1 && self.own < (limit / self.flows).max(1))
    }
}
