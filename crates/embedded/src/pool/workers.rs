//! Who runs, and when a running job makes room.
//!
//! Only as many jobs run at once as there are slots (cores); the rest of the threads hold jobs that were interrupted.
//! A long job asks now and then whether someone is further behind ([`yield_now`]); if so it
//! gives up its slot in the middle of its work, and goes on when its turn comes. So a search of half a second
//! delays nobody by more than the time between two such questions, and no job ever runs on top of
//! another's stack.
//!
//! Never ask while holding a lock: whoever wants that lock would hold a slot and wait for it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use firn_engine::Cancel;
use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::crew::{AWAY_MAX, Crew, CrewSize, Order, Seat};
use super::flow::{Flow, FlowKey};
use super::queue::{Candidate, End, FairQueue, Place};

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// How long a job runs before it looks whether someone else should: a look takes a lock.
const LOOK_EVERY: Duration = Duration::from_micros(500);
/// How long a job runs before the others of its own flow get their turn: as an operating system
/// would have it, had each a thread of its own.
const TURN: Duration = Duration::from_millis(10);
/// So long after a job came back last what is far away counts as silent: a store's slow answers come within a second.
const SILENT_AFTER: Duration = Duration::from_secs(2);
/// So long a job waits at most for one of those that are away to come back, although some do now and then: who asked waits for some
/// tens of seconds.
const PLACE_WITHIN: Duration = Duration::from_secs(10);
/// How often it looks meanwhile whether anybody waits for it.
const LOOK_AWAY_EVERY: Duration = Duration::from_millis(50);
/// One thread in so many is for flows that have no job begun, so that nobody's interrupted jobs
/// hold them all.
const RESERVED_FOR_OTHERS: usize = 4;

/// What is told apart for limits and statistics: one pool.
pub(super) struct Lane {
    pub(super) name: &'static str,
    /// Jobs that run at once, and that one flow may have begun.
    pub(super) threads: usize,
    /// Requests that wait.
    pub(super) queue_limit: usize,
    pub(super) running: usize,
    /// Begun and not ended.
    pub(super) active: usize,
    pub(super) completed: u64,
    pub(super) rejected: u64,
    /// Takes no further jobs.
    pub(super) closing: bool,
    /// Closed although a job still ran.
    pub(super) left_behind: bool,
}

pub(super) struct Workers {
    pub(super) state: Mutex<State>,
    /// Signalled when a job that waited for something far away comes back.
    came_back: Condvar,
    /// Signalled when a job ends while a lane is closing.
    pub(super) ended: Condvar,
    /// Entries that wait, for a look without the lock.
    waiting: AtomicUsize,
    slots: usize,
    /// Whether there may be more threads than slots.
    has_spares: bool,
    /// Free threads that are kept for flows with no job begun.
    reserved: usize,
    cpu_clock: fn() -> Duration,
}

pub(super) struct State {
    pub(super) queue: FairQueue<Entry>,
    pub(super) lanes: Vec<Lane>,
    /// Jobs that run.
    running: usize,
    pub(super) crew: Crew<Assigned>,
    /// When the first of the jobs that are away went, or one came back.
    away_since: Option<Instant>,
    /// CPU time of jobs by flow and lane, ns. As many as tenants were authenticated.
    cpu: BTreeMap<FlowKey, Vec<u64>>,
    over: bool,
}

pub(super) enum Entry {
    Fresh(Flow, Job),
    Interrupted(Arc<Interrupted>),
}

/// A job that waits for its slot.
pub(super) struct Interrupted {
    go_on: Condvar,
    granted: AtomicUsize,
}

/// A job for a thread.
pub(super) struct Assigned {
    place: Place,
    flow: Flow,
    job: Job,
}

/// The job that runs on this thread.
struct Current {
    workers: Arc<Workers>,
    place: Place,
    flow: Flow,
    /// When it was charged last.
    since: Instant,
    cpu_since: Duration,
    /// How long its turn has been.
    turn: Duration,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// To be called in the middle of long work, without any lock held: lets those run who are further
/// behind. Costs next to nothing when nobody waits, or outside of a job.
pub(crate) fn yield_now() {
    CURRENT.with_borrow_mut(|current| {
        let Some(current) = current else { return };
        let workers = Arc::clone(&current.workers);
        if workers.waiting.load(Ordering::Relaxed) == 0 || current.since.elapsed() < LOOK_EVERY {
            return;
        }
        workers.yield_if_ahead(current);
    });
}

/// Runs `wait` for what is far away and may take long, without keeping anybody from running meanwhile: the flow may begin other jobs meanwhile, and they have threads of their own.
/// As many of a flow wait as [`AWAY_OF_FLOW_MAX`]; one more waits for one of them, and is [`ErrorKind::Rejected`] where none
/// has come back for a while: what is far away answers nobody, and who does not need it must not wait for those who do. Who waits
/// only until a time has given up then ([`Cancel::give_up`]), and goes on with what is here. `waiting` ends it in any case; `wait`
/// is to look at it by itself.
pub(crate) fn wait_for_far<T>(waiting: &Cancel, wait: impl FnOnce() -> Result<T>) -> Result<T> {
    let Some(mut apart) = Apart::begin() else {
        return wait();
    };
    let went = apart.go_far(waiting);
    let result = went.and_then(|()| wait());
    apart.end();
    result
}

/// Runs `wait`, which only waits for other threads, without keeping anybody from running meanwhile.
pub(crate) fn wait_for_others<T>(wait: impl FnOnce() -> T) -> T {
    let waiting = Apart::begin();
    let result = wait();
    if let Some(waiting) = waiting {
        waiting.end();
    }
    result
}

/// The job of this thread while it waits for something.
struct Apart {
    workers: Arc<Workers>,
    place: Place,
    is_away: bool,
}

impl Apart {
    /// `None`: this thread has no job.
    fn begin() -> Option<Self> {
        CURRENT.with_borrow_mut(|current| {
            let current = current.as_mut()?;
            let workers = Arc::clone(&current.workers);
            let mut state = workers.state.lock();
            current.charge(&mut state);
            state.stop(&current.place);
            workers.hand_out(&mut state);
            drop(state);
            Some(Self {
                workers,
                place: current.place.clone(),
                is_away: false,
            })
        })
    }

    /// What it waits for is far away.
    fn go_far(&mut self, waiting: &Cancel) -> Result<()> {
        let workers = &self.workers;
        if !workers.has_spares {
            return Ok(());
        }
        let mut state = workers.state.lock();
        let came = Instant::now();
        loop {
            let (is_full, since) = state.queue.away(&self.place);
            if !is_full && state.crew.away < AWAY_MAX {
                break;
            }
            // Of all flows where those together are too many.
            let since = if is_full { since } else { state.away_since };
            waiting.check()?;
            let (now, until) = (Instant::now(), in_vain_from(came, since));
            if until <= now {
                waiting.give_up()?;
                return Err(no_place(state.lanes[self.place.lane].name, now.duration_since(came)));
            }
            let _ = workers
                .came_back
                .wait_until(&mut state, until.min(now + LOOK_AWAY_EVERY));
        }
        let now = Instant::now();
        if state.crew.away == 0 {
            state.away_since = Some(now);
        }
        state.crew.away += 1;
        state.queue.went_away(&self.place, now);
        self.is_away = true;
        workers.hand_out(&mut state);
        Ok(())
    }

    fn end(self) {
        let Self {
            workers,
            place,
            is_away,
        } = self;
        // At once, although all slots may be taken: its request is nearly done, and it would hold what it has.
        let mut state = workers.state.lock();
        if is_away {
            let now = Instant::now();
            state.crew.away -= 1;
            state.away_since = Some(now);
            state.queue.came_back(&place, now);
            workers.came_back.notify_all();
        }
        state.queue.resumed(&place);
        state.running += 1;
        state.lanes[place.lane].running += 1;
        drop(state);
        CURRENT.with_borrow_mut(|current| {
            if let Some(current) = current {
                (current.since, current.cpu_since) = (Instant::now(), (workers.cpu_clock)());
            }
        });
    }
}

/// When whoever came then stops waiting for one of those that are away, of whom none has come back `since`.
pub(super) fn in_vain_from(came: Instant, since: Option<Instant>) -> Instant {
    (since.unwrap_or(came) + SILENT_AFTER).min(came + PLACE_WITHIN)
}

fn no_place(pool: &str, waited: Duration) -> Error {
    let is_silent = waited < PLACE_WITHIN;
    let (what, time) = match is_silent {
        true => ("none of them was answered for", SILENT_AFTER),
        false => ("none of their places came free for this one within", PLACE_WITHIN),
    };
    let reason = format!(
        "rejected execution: as many jobs of the {pool} pool as may wait for snapshot repositories, and {what} {} seconds",
        time.as_secs()
    );
    Error::new(ErrorKind::Rejected, reason)
}

impl Current {
    fn charge(&mut self, state: &mut State) {
        let (now, cpu_now) = (Instant::now(), (self.workers.cpu_clock)());
        let ran = now.saturating_duration_since(self.since);
        state.queue.charge(&self.place, ran.as_nanos() as u64);
        let lane_count = state.lanes.len();
        let cpu = state
            .cpu
            .entry(self.place.flow.clone())
            .or_insert_with(|| vec![0; lane_count]);
        cpu[self.place.lane] += cpu_now.saturating_sub(self.cpu_since).as_nanos() as u64;
        self.turn += ran;
        (self.since, self.cpu_since) = (now, cpu_now);
    }
}

impl State {
    /// A job gave up its slot.
    fn stop(&mut self, place: &Place) {
        self.running -= 1;
        self.lanes[place.lane].running -= 1;
        self.queue.stopped(place);
    }
}

/// Decides which waiting entries may run, apart from whose turn it is.
fn allowed<'a>(
    lanes: &'a [Lane],
    free_threads: usize,
    reserved: usize,
    leaving: Option<usize>,
) -> impl Fn(Candidate<'_, Entry>) -> bool + 'a {
    move |candidate| {
        let lane = &lanes[candidate.lane];
        let leaving = usize::from(leaving == Some(candidate.lane));
        if lane.running - leaving.min(lane.running) >= lane.threads {
            return false;
        }
        match candidate.entry {
            Entry::Interrupted(_) => true,
            Entry::Fresh(..) => {
                let reserved = match candidate.flow_unfinished {
                    0 => 0,
                    _ => reserved,
                };
                candidate.unfinished < lane.threads && free_threads > reserved
            }
        }
    }
}

impl Workers {
    /// As many jobs run at once as threads last; those are started here.
    pub(super) fn start(
        name: &'static str,
        lanes: Vec<Lane>,
        size: CrewSize,
        cpu_clock: fn() -> Duration,
    ) -> io::Result<Arc<Self>> {
        let workers = Arc::new(Self {
            state: Mutex::new(State {
                queue: FairQueue::new(lanes.len()),
                lanes,
                running: 0,
                crew: Crew::new(name, size),
                away_since: None,
                cpu: BTreeMap::new(),
                over: false,
            }),
            came_back: Condvar::new(),
            ended: Condvar::new(),
            waiting: AtomicUsize::new(0),
            slots: size.lasting,
            has_spares: size.max > size.lasting,
            reserved: match size.max > size.lasting {
                true => size.max / RESERVED_FOR_OTHERS,
                false => 0,
            },
            cpu_clock,
        });
        workers.state.lock().crew.start_lasting(|| workers.thread())?;
        Ok(workers)
    }

    /// What a thread runs.
    fn thread(self: &Arc<Self>) -> impl FnOnce(Arc<Seat<Assigned>>) + Send + 'static {
        let workers = Arc::clone(self);
        move |seat| workers.work(&seat)
    }

    /// Adds a job; the lane must not be closing.
    pub(super) fn push(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        flow: &Flow,
        lane: usize,
        job: Job,
        end: End,
    ) {
        state.queue.push(flow, lane, Entry::Fresh(flow.clone(), job), end);
        self.hand_out(&mut state);
    }

    /// Hands out slots, and wakes the threads that are to take them.
    fn hand_out(self: &Arc<Self>, state: &mut State) {
        let mut can_start = true;
        while state.running < self.slots {
            let State { queue, lanes, crew, .. } = state;
            let free_threads = if can_start { crew.free() } else { 0 };
            let Some((place, entry)) = queue.pop(allowed(lanes, free_threads, self.reserved, None)) else {
                break;
            };
            match entry {
                Entry::Fresh(flow, job) => {
                    let assigned = Assigned {
                        place: place.clone(),
                        flow,
                        job,
                    };
                    if let Err((error, assigned)) = crew.run(assigned, || self.thread()) {
                        tracing::warn!("cannot start a thread, a job waits for one to become idle: {error}");
                        let Assigned { flow, job, .. } = assigned;
                        queue.push(&flow, place.lane, Entry::Fresh(flow.clone(), job), End::First);
                        queue.stopped(&place);
                        // Interrupted jobs have theirs.
                        can_start = false;
                        continue;
                    }
                    queue.begun(&place);
                    lanes[place.lane].active += 1;
                }
                Entry::Interrupted(interrupted) => {
                    interrupted.granted.store(1, Ordering::Relaxed);
                    interrupted.go_on.notify_one();
                }
            }
            state.running += 1;
            state.lanes[place.lane].running += 1;
        }
        let waiting = (0..state.lanes.len()).map(|lane| state.queue.waiting(lane)).sum();
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    /// What a thread does until it has to end.
    fn work(self: &Arc<Self>, seat: &Arc<Seat<Assigned>>) {
        let mut patience = None;
        loop {
            match seat.wait(patience) {
                Some(Order::Run(assigned)) => {
                    let place = assigned.place.clone();
                    self.run(assigned);
                    let mut state = self.state.lock();
                    self.end_job(&mut state, &place);
                    patience = state.crew.rest(seat);
                    // This thread is the first to be asked.
                    self.hand_out(&mut state);
                    if state.over && state.crew.end(seat) {
                        return;
                    }
                }
                Some(Order::End) => return,
                None if self.state.lock().crew.leave(seat) => return,
                // It is one of those that stay, or has just been given a job.
                None => patience = None,
            }
        }
    }

    fn end_job(&self, state: &mut State, place: &Place) {
        if let Some(mut current) = CURRENT.take() {
            current.charge(state);
        }
        state.stop(place);
        state.queue.ended(place);
        let lane = &mut state.lanes[place.lane];
        lane.active -= 1;
        lane.completed += 1;
        if lane.closing {
            self.ended.notify_all();
        }
    }

    fn run(self: &Arc<Self>, assigned: Assigned) {
        CURRENT.set(Some(Current {
            workers: Arc::clone(self),
            place: assigned.place,
            flow: assigned.flow,
            since: Instant::now(),
            cpu_since: (self.cpu_clock)(),
            turn: Duration::ZERO,
        }));
        run_guarded(assigned.job);
    }

    fn yield_if_ahead(self: &Arc<Self>, current: &mut Current) {
        let mut state = self.state.lock();
        current.charge(&mut state);
        let end = {
            let State { queue, lanes, crew, .. } = &mut *state;
            let place = &current.place;
            let may_run = || allowed(lanes, crew.free(), self.reserved, Some(place.lane));
            if queue.should_yield(place, may_run()) {
                End::First
            } else if current.turn >= TURN && queue.has_waiting_beside(place, may_run()) {
                End::InTurn
            } else {
                return;
            }
        };
        if end == End::InTurn {
            current.turn = Duration::ZERO;
        }
        let interrupted = Arc::new(Interrupted {
            go_on: Condvar::new(),
            granted: AtomicUsize::new(0),
        });
        let entry = Entry::Interrupted(Arc::clone(&interrupted));
        let Place { lane, .. } = current.place;
        // Before it stops, so that its flow never looks as if it had nothing to do.
        state.queue.push(&current.flow, lane, entry, end);
        state.stop(&current.place);
        self.hand_out(&mut state);
        while interrupted.granted.load(Ordering::Relaxed) == 0 {
            interrupted.go_on.wait(&mut state);
        }
        drop(state);
        (current.since, current.cpu_since) = (Instant::now(), (self.cpu_clock)());
    }

    /// Lets the threads end once nothing waits; returns them.
    pub(super) fn finish(&self) -> Vec<JoinHandle<()>> {
        let mut state = self.state.lock();
        state.over = true;
        state.crew.dismiss()
    }

    /// CPU time of a lane's jobs, of every tenant that had any.
    pub(super) fn tenants_cpu_time(&self, lane: usize) -> Vec<(TenantId, Duration)> {
        let state = self.state.lock();
        let used = state.cpu.iter().filter(|(_, lanes)| lanes[lane] > 0);
        used.filter_map(|(flow, lanes)| match flow {
            FlowKey::Tenant(tenant) => Some((tenant.clone(), Duration::from_nanos(lanes[lane]))),
            FlowKey::Node | FlowKey::Index(_) => None,
        })
        .collect()
    }

    /// Counts the CPU time of a tenant anew.
    pub(super) fn forget_tenant(&self, tenant: &str) {
        let mut state = self.state.lock();
        let is_own = |flow: &FlowKey| matches!(flow, FlowKey::Tenant(own) if own.as_str() == tenant);
        state.cpu.retain(|flow, _| !is_own(flow));
    }

    /// Whether a job of this lane runs on the calling thread.
    pub(super) fn runs_here(self: &Arc<Self>, lane: usize) -> bool {
        let is_here = |current: &Current| Arc::ptr_eq(&current.workers, self) && current.place.lane == lane;
        CURRENT.with_borrow(|current| current.as_ref().is_some_and(is_here))
    }
}

/// The flow of the job that runs on the calling thread.
pub(super) fn current_flow() -> Option<Flow> {
    CURRENT.with_borrow(|current| current.as_ref().map(|current| current.flow.clone()))
}

/// Runs a job; a panic ends no thread.
pub(super) fn run_guarded(job: Job) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
        tracing::error!(thread = std::thread::current().name(), "a job panicked");
    }
}
