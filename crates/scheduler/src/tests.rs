//! Tests of the queue order with simulated times, and of pools with real threads that wait for each other and never for
//! a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use firn_engine::Scope;
use firn_model::tenant::TenantId;
use firn_query::Cancel;

use super::queue::{AWAY_OF_FLOW_MAX, Candidate, End, FairQueue, Fresh, HEAD_START_NS, Place};
use super::workers::in_vain_from;
use super::*;

const MS: u64 = 1_000_000;

fn tenant(name: &str) -> Flow {
    Flow::of(&Scope::tenant(TenantId::parse(name).unwrap()))
}

fn weighted(name: &str, weight: u32) -> Flow {
    Flow::of(&Scope::tenant(TenantId::parse(name).unwrap()).weighted(weight))
}

fn pop(queue: &mut FairQueue<&'static str>) -> (Place, &'static str) {
    queue.pop(|_| true).expect("something waits")
}

/// Runs the next entry for `ms`; returns its name.
fn run(queue: &mut FairQueue<&'static str>, ms: u64) -> &'static str {
    let (place, entry) = pop(queue);
    queue.charge(&place, ms * MS);
    queue.stopped(&place);
    entry
}

#[test]
fn a_burst_queues_behind_its_own_work() {
    let mut queue = FairQueue::new(1);
    for _ in 0..5 {
        queue.push(&tenant("a"), 0, "a", End::Last);
    }
    assert_eq!([run(&mut queue, 100), run(&mut queue, 100)], ["a", "a"]);
    // A new flow has not had 200 ms, but it was not active either: it goes next, and then alternates.
    for _ in 0..3 {
        queue.push(&tenant("b"), 0, "b", End::Last);
    }
    let order: Vec<_> = (0..6).map(|_| run(&mut queue, 100)).collect();
    assert_eq!(order, ["b", "a", "b", "a", "b", "a"]);
}

#[test]
fn turns_follow_what_jobs_took() {
    let mut queue = FairQueue::new(1);
    for _ in 0..100 {
        queue.push(&tenant("heavy"), 0, "heavy", End::Last);
        queue.push(&tenant("light"), 0, "light", End::Last);
    }
    let mut used = (0, 0);
    for _ in 0..66 {
        let (place, entry) = pop(&mut queue);
        let ms = if entry == "heavy" { 40 } else { 5 };
        match entry {
            "heavy" => used.0 += ms,
            _ => used.1 += ms,
        }
        queue.charge(&place, ms * MS);
        queue.stopped(&place);
    }
    assert!(used.0.abs_diff(used.1) <= 40, "{used:?}");
}

#[test]
fn weights_share_the_time() {
    let mut queue = FairQueue::new(1);
    for _ in 0..400 {
        queue.push(&weighted("gold", 300), 0, "gold", End::Last);
        queue.push(&weighted("plain", 100), 0, "plain", End::Last);
    }
    let order: Vec<_> = (0..400).map(|_| run(&mut queue, 10)).collect();
    let gold = order.iter().filter(|name| **name == "gold").count();
    assert!((298..=302).contains(&gold), "{gold} of 400");
}

#[test]
fn idle_flows_save_up_no_time_and_a_short_pause_forgives_nothing() {
    let mut queue = FairQueue::new(1);
    queue.push(&tenant("a"), 0, "a", End::Last);
    queue.push(&tenant("b"), 0, "b", End::Last);
    assert_eq!(run(&mut queue, 500), "a");
    // `a` is idle for a moment while `b` waits; its usage is remembered.
    queue.push(&tenant("a"), 0, "a", End::Last);
    queue.push(&tenant("b"), 0, "b", End::Last);
    assert_eq!([run(&mut queue, 100), run(&mut queue, 100)], ["b", "b"]);
    assert_eq!(run(&mut queue, 1), "a");
    // After a long pause `b` gets only its share from now on.
    for _ in 0..50 {
        queue.push(&tenant("a"), 0, "a", End::Last);
    }
    for _ in 0..40 {
        run(&mut queue, 100);
    }
    for _ in 0..20 {
        queue.push(&tenant("b"), 0, "b", End::Last);
    }
    let next: Vec<_> = (0..10).map(|_| run(&mut queue, 100)).collect();
    assert_eq!(next.iter().filter(|name| **name == "b").count(), 5, "{next:?}");
}

#[test]
fn those_that_come_together_go_in_their_order() {
    let mut queue = FairQueue::new(1);
    queue.push(&tenant("a"), 0, "a", End::Last);
    let (place, _) = pop(&mut queue);
    queue.charge(&place, 100 * MS);
    for (flow, name) in [("d", "d"), ("c", "c"), ("b", "b")] {
        queue.push(&tenant(flow), 0, name, End::Last);
    }
    queue.push(&tenant("d"), 0, "d", End::Last);
    let order: Vec<_> = (0..4).map(|_| run(&mut queue, 3)).collect();
    assert_eq!(order, ["d", "c", "b", "d"]);
}

#[test]
fn parts_of_what_was_begun_go_before_new_requests() {
    let mut queue = FairQueue::new(1);
    queue.push(&tenant("a"), 0, "second", End::Last);
    queue.push(&tenant("a"), 0, "part", End::First);
    queue.push(&tenant("a"), 0, "turned", End::InTurn);
    queue.push(&tenant("a"), 0, "third", End::Last);
    queue.push(&tenant("a"), 0, "interrupted", End::First);
    let order: Vec<_> = (0..5).map(|_| run(&mut queue, 1)).collect();
    assert_eq!(order, ["interrupted", "part", "second", "turned", "third"]);
}

#[test]
fn an_entry_that_may_not_begin_does_not_block_others() {
    let mut queue = FairQueue::new(1);
    queue.push(&tenant("a"), 0, "interrupted", End::First);
    queue.push(&tenant("a"), 0, "part", End::First);
    let begun = |candidate: Candidate<'_, &'static str>| *candidate.entry != "part";
    assert_eq!(queue.pop(begun).map(|(_, entry)| entry), Some("interrupted"));
    assert!(queue.pop(begun).is_none());
}

#[test]
fn a_running_job_makes_room_for_who_is_behind() {
    let mut queue = FairQueue::new(2);
    queue.push(&tenant("a"), 0, "a", End::Last);
    let (running, _) = pop(&mut queue);
    queue.push(&tenant("a"), 0, "a", End::Last);
    queue.charge(&running, 50 * MS);
    assert!(!queue.should_yield(&running, |_| true), "the same flow waits");
    // A new flow goes at once.
    queue.push(&tenant("b"), 0, "b", End::Last);
    assert!(queue.should_yield(&running, |_| true));
    assert!(!queue.should_yield(&running, |_| false), "none may run");
    let (other, name) = pop(&mut queue);
    assert_eq!(name, "b");
    queue.push(&tenant("b"), 0, "b", End::Last);
    queue.charge(&other, 2 * HEAD_START_NS);
    assert!(!queue.should_yield(&running, |_| true), "it had as much");
    // Searches of a tenant do not delay its writes either.
    queue.push(&tenant("a"), 1, "write", End::Last);
    queue.charge(&running, 50 * MS);
    queue.charge(&other, 100 * MS);
    assert!(queue.should_yield(&running, |candidate| candidate.lane == 1));
}

#[test]
fn only_the_flow_that_fills_the_queue_is_refused() {
    let room = |total, own, flows| Fresh { total, own, flows }.has_room(100);
    assert!(room(99, 99, 1) && !room(100, 100, 1));
    assert!(!room(100, 100, 2) && room(100, 0, 2) && room(100, 49, 2) && !room(100, 50, 2));
    assert!(room(150, 0, 1000) && !room(150, 1, 1000));
}

#[test]
fn what_is_level_is_forgotten() {
    let mut queue = FairQueue::new(1);
    for number in 0..1000 {
        queue.push(&tenant(&format!("t{number}")), 0, "once", End::Last);
    }
    for _ in 0..1000 {
        run(&mut queue, 1);
    }
    assert_eq!(queue.flow_count(), 0);
}

/// A job that reports when it runs, and waits for permission to end.
fn gate(name: &'static str, begun: &Sender<&'static str>) -> (Sender<()>, impl FnOnce() + Send + 'static) {
    let (go, gone) = channel();
    let begun = begun.clone();
    (go, move || {
        begun.send(name).unwrap();
        gone.recv().unwrap();
    })
}

fn one_slot() -> [Pool; 2] {
    let config = |name| PoolConfig {
        name,
        threads: 1,
        queue_limit: 2,
    };
    Pool::sharing("test", 1, [config("write"), config("search")])
}

#[test]
fn a_long_job_is_interrupted_and_goes_on() {
    let [write, search] = one_slot();
    let (log, logged): (Sender<&'static str>, Receiver<_>) = channel();
    let (begin, begun) = channel();
    let (queued, is_queued) = channel::<()>();
    let job_log = log.clone();
    search
        .spawn(&tenant("heavy"), move || {
            begin.send(()).unwrap();
            is_queued.recv().unwrap();
            job_log.send("heavy begins").unwrap();
            for _ in 0..50 {
                std::thread::sleep(Duration::from_millis(1));
                yield_now();
            }
            job_log.send("heavy ends").unwrap();
        })
        .unwrap();
    begun.recv().unwrap();
    for (pool, name) in [(&search, "search"), (&write, "write")] {
        let log = log.clone();
        pool.spawn(&tenant("light"), move || log.send(name).unwrap()).unwrap();
    }
    queued.send(()).unwrap();
    let order: Vec<_> = (0..4).map(|_| logged.recv().unwrap()).collect();
    assert_eq!((order[0], order[3]), ("heavy begins", "heavy ends"), "{order:?}");
    assert!(search.close_within(Duration::from_secs(10)));
    assert_eq!(search.stats().completed, 2);
    let cpu = search.tenants_cpu_time();
    let is_heavy = |(tenant, _): &(TenantId, Duration)| tenant.as_str() == "heavy";
    assert!(cpu.iter().any(is_heavy), "{cpu:?}");
    write.forget_tenant("heavy");
    assert!(!search.tenants_cpu_time().iter().any(is_heavy), "they share threads");
}

#[test]
fn a_flooded_queue_has_room_for_others() {
    let [_write, search] = one_slot();
    let (begin, begun) = channel();
    let (go, job) = gate("first", &begin);
    search.spawn(&tenant("flood"), job).unwrap();
    begun.recv().unwrap();
    for _ in 0..2 {
        search.spawn(&tenant("flood"), || ()).unwrap();
    }
    let error = search.spawn(&tenant("flood"), || ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    let (light_go, light) = gate("light", &begin);
    search.spawn(&tenant("light"), light).unwrap();
    assert_eq!((search.stats().queued, search.stats().rejected), (3, 1));
    go.send(()).unwrap();
    // Before the other two jobs of the flood.
    assert_eq!(begun.recv().unwrap(), "light");
    light_go.send(()).unwrap();
}

#[test]
fn a_request_in_parts_ends_although_its_parts_are_interrupted() {
    let config = |name| PoolConfig {
        name,
        threads: 2,
        queue_limit: 1000,
    };
    let [_write, search] = Pool::sharing("test", 2, [config("write"), config("search")]);
    let search = Arc::new(search);
    let (done, is_done) = channel();
    for number in 0..40 {
        let (inner, done) = (Arc::clone(&search), done.clone());
        let flow = tenant(&format!("t{}", number % 5));
        search
            .spawn(&flow, move || {
                let sums = crate::parallel::run_indexed(&inner, 7, |part| {
                    let until = Instant::now() + Duration::from_micros(700);
                    while Instant::now() < until {
                        yield_now();
                    }
                    part
                });
                done.send(sums.into_iter().sum::<usize>()).unwrap();
            })
            .unwrap();
    }
    for _ in 0..40 {
        assert_eq!(is_done.recv_timeout(Duration::from_secs(30)), Ok(21));
    }
    search.close();
    assert_eq!(search.stats().active, 0);
}

#[test]
fn a_full_queue_refuses_and_closing_runs_what_waits() {
    let pool = Pool::new("test", 1, 1);
    let (begin, begun) = channel();
    let (go, job) = gate("first", &begin);
    let done = Arc::new(AtomicU64::new(0));
    let count = |done: &Arc<AtomicU64>| {
        let done = Arc::clone(done);
        move || {
            done.fetch_add(1, Ordering::Relaxed);
        }
    };
    pool.spawn(&Flow::node(), job).unwrap();
    begun.recv().unwrap();
    pool.spawn(&Flow::node(), count(&done)).unwrap();
    let error = pool.spawn(&Flow::node(), count(&done)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    assert_eq!(pool.stats().queued, 1);
    go.send(()).unwrap();
    pool.close();
    assert_eq!(done.load(Ordering::Relaxed), 1);
    assert!(pool.spawn(&Flow::node(), || ()).is_err());
    pool.spawn_admitted(&Flow::node(), count(&done));
    assert_eq!(done.load(Ordering::Relaxed), 2, "here and now");
}

#[test]
fn closing_does_not_wait_for_ever() {
    let pool = Pool::new("test", 1, 1);
    let (begin, begun) = channel();
    let (go, job) = gate("first", &begin);
    pool.spawn(&Flow::node(), job).unwrap();
    begun.recv().unwrap();
    assert!(!pool.close_within(Duration::from_millis(20)));
    pool.close();
    drop(pool);
    go.send(()).unwrap();
    assert!(Pool::new("test", 2, 1).close_within(Duration::from_secs(10)));
}

#[test]
fn the_last_owner_may_be_a_job() {
    let pool = Arc::new(Pool::new("test", 1, 10));
    let inside = Arc::clone(&pool);
    let (dropped, is_dropped) = channel();
    let (done, is_done) = channel();
    pool.spawn(&Flow::node(), move || {
        is_dropped.recv().unwrap();
        drop(inside);
        done.send(()).unwrap();
    })
    .unwrap();
    drop(pool);
    dropped.send(()).unwrap();
    is_done.recv_timeout(Duration::from_secs(10)).unwrap();
}

#[test]
fn a_panic_takes_no_thread_with_it() {
    let pool = Pool::new("test", 1, 10);
    pool.spawn(&Flow::node(), || panic!("on purpose")).unwrap();
    let (sender, receiver) = channel();
    pool.spawn(&Flow::node(), move || sender.send(5).unwrap()).unwrap();
    assert_eq!(receiver.recv().unwrap(), 5);
}

/// Returns the thread that runs the next job, once it is idle again.
fn next_thread(pool: &Pool) -> std::thread::ThreadId {
    let (sender, receiver) = channel();
    let done = pool.stats().completed;
    pool.spawn(&Flow::node(), move || sender.send(std::thread::current().id()).unwrap())
        .unwrap();
    let thread = receiver.recv().unwrap();
    wait_until(|| pool.stats().completed > done);
    thread
}

fn wait_until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "the condition was not met in time");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_thread_that_became_idle_last_takes_the_next_job() {
    let pool = Pool::new("test", 3, 10);
    let (begin, begun) = channel();
    let jobs: Vec<_> = (0..3)
        .map(|_| {
            let (go, gone) = channel::<()>();
            let begin = begin.clone();
            pool.spawn(&Flow::node(), move || {
                begin.send(std::thread::current().id()).unwrap();
                gone.recv().unwrap();
            })
            .unwrap();
            (go, begun.recv().unwrap())
        })
        .collect();
    for (number, (go, thread)) in jobs.iter().enumerate() {
        go.send(()).unwrap();
        wait_until(|| pool.stats().completed == number as u64 * 6 + 1);
        for _ in 0..5 {
            assert_eq!(next_thread(&pool), *thread);
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_flow_continues_while_its_jobs_wait_for_a_remote_store() {
    let config = |name| PoolConfig {
        name,
        threads: 1,
        queue_limit: 100,
    };
    let [_write, search] = Pool::sharing("test", 1, [config("write"), config("search")]);
    let (begin, begun) = channel();
    let mut far = Vec::new();
    for _ in 0..AWAY_OF_FLOW_MAX + 2 {
        let (come, came) = channel::<()>();
        let begin = begin.clone();
        let job = move || {
            begin.send("far").unwrap();
            // The last jobs waited for the return of one of the others.
            let _ = wait_for_far(&Cancel::default(), || {
                came.recv().unwrap();
                Ok(())
            });
        };
        search.spawn(&tenant("a"), job).unwrap();
        far.push(come);
    }
    // One more than may wait counts as begun, as if it ran; so a further one has to wait.
    for _ in 0..=AWAY_OF_FLOW_MAX {
        assert_eq!(begun.recv_timeout(PATIENCE), Ok("far"));
    }
    let near = begin.clone();
    search.spawn(&tenant("b"), move || near.send("near").unwrap()).unwrap();
    assert_eq!(begun.recv_timeout(PATIENCE), Ok("near"), "other flows continue");
    assert!(begun.try_recv().is_err(), "no further one of the first flow");
    far.remove(0).send(()).unwrap();
    assert_eq!(begun.recv_timeout(PATIENCE), Ok("far"), "it no longer counts");
    drop(begin);
    for come in far {
        come.send(()).unwrap();
    }
    search.spawn(&tenant("a"), || ()).unwrap();
    assert!(search.close_within(Duration::from_secs(10)));
    assert_eq!(search.stats().completed, AWAY_OF_FLOW_MAX as u64 + 4);
}

#[test]
fn local_jobs_do_not_wait_for_jobs_that_wait_for_a_remote_store() {
    let config = |name| PoolConfig {
        name,
        threads: 2,
        queue_limit: 1000,
    };
    let [_write, search] = Pool::sharing("test", 2, [config("write"), config("search")]);
    let (tell, reports) = channel();
    let mut far = Vec::new();
    for _ in 0..3 * AWAY_OF_FLOW_MAX {
        let (come, came) = channel::<()>();
        let tell = tell.clone();
        let job = move || {
            let outcome = wait_for_far(&Cancel::default(), || {
                let _ = came.recv();
                Ok(())
            });
            tell.send(outcome.map_err(|error| error.kind())).unwrap();
        };
        search.spawn(&tenant("a"), job).unwrap();
        far.push(come);
    }
    let near = || {
        let (tell, reports) = channel();
        let since = Instant::now();
        search.spawn(&tenant("a"), move || tell.send(()).unwrap()).unwrap();
        assert!(reports.recv_timeout(PATIENCE).is_ok(), "it waits for the remote jobs");
        since.elapsed()
    };
    near();
    // All other jobs are refused, and none keeps waiting.
    for _ in 0..2 * AWAY_OF_FLOW_MAX {
        assert_eq!(reports.recv_timeout(PATIENCE), Ok(Err(ErrorKind::Rejected)));
    }
    assert!(near() < Duration::from_secs(1));
    // When the store answers again, all waiting jobs complete.
    for come in far {
        let _ = come.send(());
    }
    for _ in 0..AWAY_OF_FLOW_MAX {
        assert_eq!(reports.recv_timeout(PATIENCE), Ok(Ok(())));
    }
    assert!(search.close_within(Duration::from_secs(10)));
}

#[test]
fn a_job_waits_for_a_remote_slot_no_longer_than_its_timeout() {
    let config = |name| PoolConfig {
        name,
        threads: 2,
        queue_limit: 1000,
    };
    let [_write, search] = Pool::sharing("test", 2, [config("write"), config("search")]);
    let (begin, begun) = channel();
    let mut far = Vec::new();
    for _ in 0..AWAY_OF_FLOW_MAX {
        let (come, came) = channel::<()>();
        let begin = begin.clone();
        let job = move || {
            let _ = wait_for_far(&Cancel::default(), || {
                begin.send(()).unwrap();
                let _ = came.recv();
                Ok(())
            });
        };
        search.spawn(&tenant("a"), job).unwrap();
        far.push(come);
    }
    for _ in 0..AWAY_OF_FLOW_MAX {
        begun.recv_timeout(PATIENCE).unwrap();
    }
    let one_more = |waiting: Cancel| {
        let (tell, reports) = channel();
        let job = move || {
            let outcome = wait_for_far(&waiting, || Ok(()));
            tell.send((outcome.map_err(|error| error.kind()), waiting.is_timed_out()))
                .unwrap();
        };
        search.spawn(&tenant("a"), job).unwrap();
        reports
    };
    let in_time = |time: Duration| Cancel::default().until(Instant::now().checked_add(time));
    let since = Instant::now();
    let gone = Cancel::default();
    let leaving = one_more(gone.clone());
    let hurried = one_more(in_time(Duration::from_millis(100)));
    assert_eq!(hurried.recv_timeout(PATIENCE), Ok((Err(ErrorKind::Timeout), true)));
    gone.cancel();
    assert_eq!(leaving.recv_timeout(PATIENCE), Ok((Err(ErrorKind::Cancelled), false)));
    // The store counts as unresponsive before the timeout of the first job; the second has no timeout.
    let patient = one_more(in_time(Duration::from_secs(600)));
    assert_eq!(patient.recv_timeout(PATIENCE), Ok((Err(ErrorKind::Timeout), true)));
    let unhurried = one_more(Cancel::default());
    assert_eq!(unhurried.recv_timeout(PATIENCE), Ok((Err(ErrorKind::Rejected), false)));
    assert!(since.elapsed() < PATIENCE);
    drop(far);
    assert!(search.close_within(Duration::from_secs(10)));
}

#[test]
fn the_wait_for_a_remote_slot_is_bounded() {
    let came = Instant::now();
    let after = |ms| came + Duration::from_millis(ms);
    for (since, expect) in [
        (None, after(2_000)),
        (Some(after(0)), after(2_000)),
        (Some(after(1_500)), after(3_500)),
        (Some(after(9_500)), after(10_000)),
        (Some(after(60_000)), after(10_000)),
    ] {
        assert_eq!(in_vain_from(came, since), expect);
    }
}

fn alive(pool: &Pool) -> usize {
    pool.threads.workers.state.lock().crew.alive()
}

#[test]
fn spare_threads_come_when_jobs_are_interrupted_and_go_when_they_are_idle() {
    let config = |name| PoolConfig {
        name,
        threads: 1,
        queue_limit: 100,
    };
    let [_write, search] = Pool::sharing_for("test", 1, [config("write"), config("search")], Duration::from_millis(5));
    for _ in 0..20 {
        next_thread(&search);
    }
    assert_eq!(alive(&search), 1, "nothing was interrupted");
    let (interrupted, was_interrupted) = channel();
    let (begin, begun) = channel();
    let (queued, is_queued) = channel::<()>();
    let (ended, has_ended) = channel();
    search
        .spawn(&tenant("heavy"), move || {
            begin.send(()).unwrap();
            is_queued.recv().unwrap();
            std::thread::sleep(Duration::from_millis(5));
            yield_now();
            ended.send(()).unwrap();
        })
        .unwrap();
    begun.recv().unwrap();
    let (go, gone) = channel::<()>();
    search
        .spawn(&tenant("light"), move || {
            interrupted.send(()).unwrap();
            gone.recv().unwrap();
        })
        .unwrap();
    queued.send(()).unwrap();
    was_interrupted.recv().unwrap();
    assert_eq!(alive(&search), 2);
    go.send(()).unwrap();
    has_ended.recv().unwrap();
    wait_until(|| alive(&search) == 1);
    // Whichever thread remains continues to work.
    next_thread(&search);
    assert_eq!(alive(&search), 1);
}
