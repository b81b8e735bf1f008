//! Scheduling of jobs on threads, and interruption of long jobs.
//!
//! Only as many jobs run concurrently as there are slots (cores); the other threads hold interrupted jobs. A long job
//! checks regularly whether another flow is further behind ([`yield_now`]). If so, it releases its slot in the middle
//! of its work and continues when it is next. So a search of half a second delays other jobs by no more than the time
//! between two such checks, and no job ever runs on top of another's stack.
//!
//! Never yield while holding a lock: another job that needs the lock would hold a slot and wait for it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};
use firn_query::Cancel;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::flow::{Flow, FlowKey};
use super::queue::{Candidate, End, FairQueue, Place};
use super::thread_set::{AWAY_MAX, Order, ParkedThread, ThreadSet, ThreadSetSize};

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// How long a job runs before it checks whether it should yield: the check takes a lock.
const LOOK_EVERY: Duration = Duration::from_micros(500);
/// Time slice of a job among jobs of its flow: as an operating system would schedule them, if each had a thread.
const TURN: Duration = Duration::from_millis(10);
/// Time without a returning job after which the store counts as unresponsive: slow answers of a store arrive within a
/// second.
const SILENT_AFTER: Duration = Duration::from_secs(2);
/// Maximum time that a job waits for the return of a waiting job, even if some return now and then: clients wait some
/// tens of seconds.
const PLACE_WITHIN: Duration = Duration::from_secs(10);
/// How often it meanwhile checks for cancellation.
const LOOK_AWAY_EVERY: Duration = Duration::from_millis(50);
/// One thread in this many is reserved for flows without a begun job, so that the interrupted jobs of one flow cannot
/// hold all threads.
const RESERVED_FOR_OTHERS: usize = 4;

/// One pool: the unit of limits and statistics.
pub(super) struct Lane {
    pub(super) name: &'static str,
    /// Maximum of jobs that run concurrently, and of begun jobs of one flow.
    pub(super) threads: usize,
    /// Maximum of waiting requests.
    pub(super) queue_limit: usize,
    pub(super) running: usize,
    /// Begun and not ended.
    pub(super) active: usize,
    pub(super) completed: u64,
    pub(super) rejected: u64,
    /// Accepts no further jobs.
    pub(super) closing: bool,
    /// Closed although a job still ran.
    pub(super) left_behind: bool,
}

pub(super) struct Workers {
    pub(super) state: Mutex<State>,
    /// Signalled when a job that waited for a remote store returns.
    came_back: Condvar,
    /// Signalled when a job ends while a lane is closing.
    pub(super) ended: Condvar,
    /// Number of waiting entries, readable without the lock.
    waiting: AtomicUsize,
    slots: usize,
    /// Whether there may be more threads than slots.
    has_spares: bool,
    /// Free threads reserved for flows without a begun job.
    reserved: usize,
    cpu_clock: fn() -> Duration,
}

pub(super) struct State {
    pub(super) queue: FairQueue<Entry>,
    pub(super) lanes: Vec<Lane>,
    /// Jobs that run.
    running: usize,
    pub(super) crew: ThreadSet<Assigned>,
    /// When the first of the waiting jobs began to wait, or the last one returned.
    away_since: Option<Instant>,
    /// CPU time of jobs by flow and lane, ns. As many entries as tenants were authenticated.
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
    /// Used part of its time slice.
    turn: Duration,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// Lets flows run that are further behind. Must be called in the middle of long work, without any lock held. Costs next
/// to nothing if no entry waits, or outside of a job.
pub fn yield_now() {
    CURRENT.with_borrow_mut(|current| {
        let Some(current) = current else { return };
        let workers = Arc::clone(&current.workers);
        if workers.waiting.load(Ordering::Relaxed) == 0 || current.since.elapsed() < LOOK_EVERY {
            return;
        }
        workers.yield_if_ahead(current);
    });
}

/// Runs `wait`, which waits for a remote store and may take long, without occupying a slot: the flow may begin other
/// jobs meanwhile, and they have threads.
///
/// At most [`AWAY_OF_FLOW_MAX`] jobs of a flow wait. One more waits for one of them to return, and fails with
/// [`ErrorKind::Rejected`] if none has returned for a while: the store does not respond, and jobs that do not need it
/// must not wait for those that do. A job with a timeout gives up then ([`Cancel::give_up`]), and continues with local
/// data. `waiting` ends the wait in any case; `wait` must check it too.
pub fn wait_for_far<T>(waiting: &Cancel, wait: impl FnOnce() -> Result<T>) -> Result<T> {
    let Some(mut apart) = PausedJob::begin() else {
        return wait();
    };
    let went = apart.go_far(waiting);
    let result = went.and_then(|()| wait());
    apart.end();
    result
}

/// Runs `wait`, which only waits for other threads, without occupying a slot.
pub fn wait_for_others<T>(wait: impl FnOnce() -> T) -> T {
    let waiting = PausedJob::begin();
    let result = wait();
    if let Some(waiting) = waiting {
        waiting.end();
    }
    result
}

/// The job of this thread while it waits.
struct PausedJob {
    workers: Arc<Workers>,
    place: Place,
    is_away: bool,
}

impl PausedJob {
    /// Releases the slot; `None`: this thread has no job.
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

    /// Marks the wait as one for a remote store.
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
            // If all flows together are too many, the time of all flows counts.
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
        // At once, even if all slots are taken: its request is nearly done, and would otherwise keep its memory.
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

/// Returns when a job that arrived at `came` stops waiting for the return of a waiting job, if none has returned since
/// `since`.
pub(super) fn in_vain_from(came: Instant, since: Option<Instant>) -> Instant {
    (since.unwrap_or(came) + SILENT_AFTER).min(came + PLACE_WITHIN)
}

fn no_place(pool: &str, waited: Duration) -> Error {
    let is_silent = waited < PLACE_WITHIN;
    let (what, time) = match is_silent {
        true => ("none of them got an answer for", SILENT_AFTER),
        false => ("no slot became free within", PLACE_WITHIN),
    };
    let reason = format!(
        "rejected execution: too many jobs of the {pool} pool wait for snapshot repositories, and {what} {} seconds",
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
    /// Releases the slot of a job.
    fn stop(&mut self, place: &Place) {
        self.running -= 1;
        self.lanes[place.lane].running -= 1;
        self.queue.stopped(place);
    }
}

/// Decides which waiting entries may run, independent of their order.
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
    /// Starts the lasting threads. As many jobs run concurrently as there are lasting threads.
    pub(super) fn start(
        name: &'static str,
        lanes: Vec<Lane>,
        size: ThreadSetSize,
        cpu_clock: fn() -> Duration,
    ) -> io::Result<Arc<Self>> {
        let workers = Arc::new(Self {
            state: Mutex::new(State {
                queue: FairQueue::new(lanes.len()),
                lanes,
                running: 0,
                crew: ThreadSet::new(name, size),
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

    /// Returns the main function of a thread.
    fn thread(self: &Arc<Self>) -> impl FnOnce(Arc<ParkedThread<Assigned>>) + Send + 'static {
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

    /// Assigns free slots, and wakes the threads that take them.
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
                        tracing::warn!("cannot start a thread, the job waits for an idle one: {error}");
                        let Assigned { flow, job, .. } = assigned;
                        queue.push(&flow, place.lane, Entry::Fresh(flow.clone(), job), End::First);
                        queue.stopped(&place);
                        // Interrupted jobs have a thread already.
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

    /// Main loop of a thread.
    fn work(self: &Arc<Self>, seat: &Arc<ParkedThread<Assigned>>) {
        let mut patience = None;
        loop {
            match seat.wait(patience) {
                Some(Order::Run(assigned)) => {
                    let place = assigned.place.clone();
                    self.run(assigned);
                    let mut state = self.state.lock();
                    self.end_job(&mut state, &place);
                    patience = state.crew.rest(seat);
                    // This thread is the first to get a new job.
                    self.hand_out(&mut state);
                    if state.over && state.crew.end(seat) {
                        return;
                    }
                }
                Some(Order::End) => return,
                None if self.state.lock().crew.leave(seat) => return,
                // It is a lasting thread, or has just got a job.
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
        // Before it stops, so that its flow never looks idle.
        state.queue.push(&current.flow, lane, entry, end);
        state.stop(&current.place);
        self.hand_out(&mut state);
        while interrupted.granted.load(Ordering::Relaxed) == 0 {
            interrupted.go_on.wait(&mut state);
        }
        drop(state);
        (current.since, current.cpu_since) = (Instant::now(), (self.cpu_clock)());
    }

    /// Ends the threads once nothing waits; returns their handles.
    pub(super) fn finish(&self) -> Vec<JoinHandle<()>> {
        let mut state = self.state.lock();
        state.over = true;
        state.crew.dismiss()
    }

    /// Returns the CPU time of a lane's jobs, for every tenant that had any.
    pub(super) fn tenants_cpu_time(&self, lane: usize) -> Vec<(TenantId, Duration)> {
        let state = self.state.lock();
        let used = state.cpu.iter().filter(|(_, lanes)| lanes[lane] > 0);
        used.filter_map(|(flow, lanes)| match flow {
            FlowKey::Tenant(tenant) => Some((tenant.clone(), Duration::from_nanos(lanes[lane]))),
            FlowKey::Node | FlowKey::Index(_) => None,
        })
        .collect()
    }

    /// Resets the CPU time of a tenant.
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

/// Returns the flow of the job that runs on the calling thread.
pub(super) fn current_flow() -> Option<Flow> {
    CURRENT.with_borrow(|current| current.as_ref().map(|current| current.flow.clone()))
}

/// Runs a job; a panic does not end the thread.
pub(super) fn run_guarded(job: Job) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
        tracing::error!(thread = std::thread::current().name(), "a job panicked");
    }
}
