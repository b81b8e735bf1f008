//! Worker pools behind fair queues.
//!
//! Every job belongs to a [`Flow`]: a tenant or the node. Flows share the threads by weight and by the run time of
//! their jobs ([`queue`]), so that a tenant with many requests waits for its own jobs only. Long jobs can be
//! interrupted ([`yield_now`], [`workers`]), on as few threads as that needs ([`crew`]).

pub mod parallel;

mod flow;
mod queue;
#[cfg(test)]
mod tests;
mod thread_set;
mod workers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};

pub use self::flow::Flow;
pub use self::flow::FlowKey;
pub use self::workers::{wait_for_far, wait_for_others, yield_now};

use self::queue::End;
use self::thread_set::{SPARE_IDLE, ThreadSetSize};
use self::workers::{Job, Lane, State, Workers, run_guarded};

/// Maximum of spare threads per thread of a lane. Spare threads hold interrupted jobs. Two flows may have as many begun
/// jobs as one flow may have, before others wait for a thread.
const SPARE_THREADS_FACTOR: usize = 2;

/// Runs jobs of several flows fairly, on separate threads or on threads shared with other pools. Dropping the pool runs
/// the queued jobs. A job that panics is logged and does not end its thread.
pub struct Pool {
    threads: Arc<Threads>,
    lane: usize,
    thread_count: usize,
}

/// Statistics of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStats {
    /// Jobs begun and not ended.
    pub active: u64,
    /// Jobs waiting to be begun.
    pub queued: u64,
    /// Jobs refused since start.
    pub rejected: u64,
    /// Jobs completed since start.
    pub completed: u64,
    /// Maximum of jobs that run concurrently.
    pub threads: u64,
}

/// The threads of some pools. They end when the last pool that uses them is dropped.
struct Threads {
    workers: Arc<Workers>,
}

/// Configuration of a pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolConfig {
    /// For logs and errors.
    pub name: &'static str,
    /// Maximum of jobs that run concurrently, and of begun jobs of one flow.
    pub threads: usize,
    /// Maximum of waiting jobs; a flow with less than its share of it may exceed it.
    pub queue_limit: usize,
}

impl Pool {
    /// Creates a pool with separate threads. Its jobs are never interrupted.
    pub fn new(name: &'static str, threads: usize, queue_limit: usize) -> Self {
        let threads = threads.max(1);
        let config = PoolConfig {
            name,
            threads,
            queue_limit,
        };
        let size = ThreadSetSize {
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

    /// Creates pools that share threads: at most `slots` of all their jobs run concurrently, and a job that calls
    /// [`yield_now`] is interrupted while another flow is behind.
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
        let size = ThreadSetSize {
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

    /// Queues a request of a flow. Fails with [`ErrorKind::Rejected`] if the queue is full and the flow has used its
    /// share.
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

    /// Counts a request as rejected that its caller withdrew because it waited too long.
    pub fn count_rejected(&self) {
        self.threads.workers.state.lock().lanes[self.lane].rejected += 1;
    }

    /// Queues a job even if the queue is full: for work that belongs to an admitted request. While the pool is closing,
    /// the job runs on the calling thread.
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

    /// Returns the maximum of jobs that run concurrently.
    pub fn thread_count(&self) -> usize {
        self.thread_count
    }

    /// Accepts no further job, runs the queued ones and waits for them. Idempotent.
    pub fn close(&self) {
        self.close_by(None);
    }

    /// As [`Pool::close`], but abandons jobs that take longer than `patience`, and then returns false.
    pub fn close_within(&self, patience: Duration) -> bool {
        self.close_by(Some(Instant::now() + patience))
    }

    fn close_by(&self, deadline: Option<Instant>) -> bool {
        let workers = &self.threads.workers;
        // The last owner may be a job of this pool.
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
                        // The running threads are not joined.
                        drop(state.crew.take_handles());
                        return false;
                    }
                    Some(_) => {}
                }
            }
            true
        })
    }

    /// Returns the statistics.
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

    /// Returns the CPU time of its jobs since start, for every tenant that had any.
    pub fn tenants_cpu_time(&self) -> Vec<(TenantId, Duration)> {
        self.threads.workers.tenants_cpu_time(self.lane)
    }

    /// Resets the CPU time of a tenant, here and in the pools that share threads with this one.
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
    fn start(name: &'static str, lanes: Vec<Lane>, size: ThreadSetSize) -> Self {
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
