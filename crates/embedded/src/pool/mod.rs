//! Fixed pools of threads behind fair queues.
//!
//! Every job belongs to a [`Flow`]: a tenant's, or the node's own. Flows share the threads by weight
//! and by what their jobs took ([`queue`]), so that whoever asks for much waits behind himself. Long jobs
//! make room in the middle of their work ([`yield_now`], [`workers`]), on as few threads as that takes
//! ([`crew`]).

mod crew;
mod flow;
mod queue;
#[cfg(test)]
mod tests;
mod workers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};

pub use self::flow::Flow;
pub(crate) use self::flow::FlowKey;
pub(crate) use self::workers::{wait_for_far, wait_for_others, yield_now};

use self::crew::{CrewSize, SPARE_IDLE};
use self::queue::End;
use self::workers::{Job, Lane, State, Workers, run_guarded};

/// Threads at most beside those that run, for each thread that a lane has: they hold interrupted jobs.
/// Two flows may have all the jobs begun that one may have before others wait for a thread.
const SPARE_THREADS_FACTOR: usize = 2;

/// Runs jobs of several flows fairly, on threads of its own or together with other pools.
/// Dropping it runs what is queued. A job that panics is reported in the log and takes no thread
/// with it.
pub struct Pool {
    threads: Arc<Threads>,
    lane: usize,
    thread_count: usize,
}

/// What a pool is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStats {
    /// Jobs begun and not ended.
    pub active: u64,
    /// Jobs waiting to be begun.
    pub queued: u64,
    /// Jobs refused since start.
    pub rejected: u64,
    /// Jobs done since start.
    pub completed: u64,
    /// Jobs that run at once at most.
    pub threads: u64,
}

/// Ends the threads with the last pool that has them.
struct Threads {
    workers: Arc<Workers>,
}

/// What a pool is made with.
#[derive(Debug, Clone, Copy)]
pub struct PoolConfig {
    /// For logs and errors.
    pub name: &'static str,
    /// Jobs that run at once at most, and jobs of one flow that are begun and not ended.
    pub threads: usize,
    /// Jobs that wait at most; flows with less than their part of it may exceed it.
    pub queue_limit: usize,
}

impl Pool {
    /// A pool with threads of its own. Its jobs are never interrupted.
    pub fn new(name: &'static str, threads: usize, queue_limit: usize) -> Self {
        let threads = threads.max(1);
        let config = PoolConfig {
            name,
            threads,
            queue_limit,
        };
        let size = CrewSize {
            lasting: threads,
            max: threads,
            spare_idle: SPARE_IDLE,
        };
        Self {
            threads: Arc::new(Threads::start(name, vec![lane_of(config)], size)),
            lane: 0,
            thread_count: config.threads,
        }
    }

    /// Pools that share threads: at most `slots` of all their jobs run at once, and a job that calls
    /// [`yield_now`] is interrupted while others are due.
    pub fn sharing<const COUNT: usize>(
        name: &'static str,
        slots: usize,
        configs: [PoolConfig; COUNT],
    ) -> [Self; COUNT] {
        Self::sharing_for(name, slots, configs, SPARE_IDLE)
    }

    fn sharing_for<const COUNT: usize>(
        name: &'static str,
        slots: usize,
        configs: [PoolConfig; COUNT],
        spare_idle: Duration,
    ) -> [Self; COUNT] {
        let slots = slots.max(1);
        let spare: usize = configs.iter().map(|config| config.threads * SPARE_THREADS_FACTOR).sum();
        let lanes = configs.iter().copied().map(lane_of).collect();
        let size = CrewSize {
            lasting: slots,
            max: slots + spare,
            spare_idle,
        };
        let threads = Arc::new(Threads::start(name, lanes, size));
        std::array::from_fn(|lane| Self {
            threads: Arc::clone(&threads),
            lane,
            thread_count: configs[lane].threads.max(1),
        })
    }

    /// Queues a request of a flow; [`ErrorKind::Rejected`] when the queue is full and the flow has its
    /// part of it.
    pub fn spawn(&self, flow: &Flow, job: impl FnOnce() + Send + 'static) -> Result<()> {
        let workers = &self.threads.workers;
        let mut state = workers.state.lock();
        let fresh = state.queue.fresh(flow.key(), self.lane);
        let lane = &mut state.lanes[self.lane];
        if lane.closing {
            return Err(Error::new(
                ErrorKind::Rejected,
                format!("rejected execution: the {} pool is shut down", lane.name),
            ));
        }
        if !fresh.has_room(lane.queue_limit) {
            lane.rejected += 1;
            return Err(Error::new(
                ErrorKind::Rejected,
                format!(
                    "rejected execution: the {} queue holds its limit of {} requests",
                    lane.name, lane.queue_limit
                ),
            ));
        }
        workers.push(state, flow, self.lane, Box::new(job), End::Last);
        Ok(())
    }

    /// Counts a request as rejected that its caller takes back because it waited too long.
    pub fn count_rejected(&self) {
        self.threads.workers.state.lock().lanes[self.lane].rejected += 1;
    }

    /// Queues a job although the queue may be full: for work that belongs to a request already
    /// admitted. Once the pool is closing it runs on the calling thread.
    pub fn spawn_admitted(&self, flow: &Flow, job: impl FnOnce() + Send + 'static) {
        let workers = &self.threads.workers;
        let job: Job = Box::new(job);
        let state = workers.state.lock();
        if state.lanes[self.lane].closing {
            drop(state);
            return run_guarded(job);
        }
        workers.push(state, flow, self.lane, job, End::First);
    }

    /// As [`Pool::spawn_admitted`], for a part of the job that runs on this thread.
    pub(crate) fn spawn_part(&self, job: impl FnOnce() + Send + 'static) {
        self.spawn_admitted(&workers::current_flow().unwrap_or_else(Flow::node), job);
    }

    /// Jobs that run at once at most.
    pub fn thread_count(&self) -> usize {
        self.thread_count
    }

    /// Takes no further job, runs what is queued and waits for it. Idempotent.
    pub fn close(&self) {
        self.close_by(None);
    }

    /// As [`Pool::close`], but leaves jobs behind that take longer than `patience`; false if it did.
    pub fn close_within(&self, patience: Duration) -> bool {
        self.close_by(Some(Instant::now() + patience))
    }

    fn close_by(&self, deadline: Option<Instant>) -> bool {
        let workers = &self.threads.workers;
        // The last owner may be a job of this very pool.
        let own = usize::from(workers.runs_here(self.lane));
        let lane = self.lane;
        let is_done = |state: &State| {
            let ended = state.queue.waiting(lane) == 0 && state.lanes[lane].active <= own;
            ended || state.lanes[lane].left_behind
        };
        wait_for_others(|| {
            let mut state = workers.state.lock();
            state.lanes[lane].closing = true;
            while !is_done(&state) {
                match deadline {
                    None => workers.ended.wait(&mut state),
                    Some(deadline) if workers.ended.wait_until(&mut state, deadline).timed_out() => {
                        if is_done(&state) {
                            return true;
                        }
                        state.lanes[lane].left_behind = true;
                        // Nobody joins what still runs.
                        drop(state.crew.take_handles());
                        return false;
                    }
                    Some(_) => {}
                }
            }
            true
        })
    }

    /// What it is doing.
    pub fn stats(&self) -> PoolStats {
        let state = self.threads.workers.state.lock();
        let lane = &state.lanes[self.lane];
        PoolStats {
            active: lane.active as u64,
            queued: state.queue.fresh_total(self.lane) as u64,
            rejected: lane.rejected,
            completed: lane.completed,
            threads: lane.threads as u64,
        }
    }

    /// CPU time that its jobs took since start, of every tenant that had any.
    pub fn tenants_cpu_time(&self) -> Vec<(TenantId, Duration)> {
        self.threads.workers.tenants_cpu_time(self.lane)
    }

    /// Counts the CPU time of a tenant anew, here and in the pools that share threads with this one.
    pub fn forget_tenant(&self, tenant: &str) {
        self.threads.workers.forget_tenant(tenant);
    }
}

fn lane_of(config: PoolConfig) -> Lane {
    Lane {
        name: config.name,
        threads: config.threads.max(1),
        queue_limit: config.queue_limit,
        running: 0,
        active: 0,
        completed: 0,
        rejected: 0,
        closing: false,
        left_behind: false,
    }
}

impl Threads {
    fn start(name: &'static str, lanes: Vec<Lane>, size: CrewSize) -> Self {
        let workers = Workers::start(name, lanes, size, thread_cpu_time);
        Self {
            workers: workers.expect("the operating system starts a thread"),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let own = std::thread::current().id();
        for handle in self.workers.finish() {
            // The last owner may be a job of these threads.
            if handle.thread().id() != own {
                let _ = handle.join();
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

fn thread_cpu_time() -> Duration {
    cpu_time::ThreadTime::now().as_duration()
}
