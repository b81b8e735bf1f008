//! How the operating system shares the cores among the server's threads.

use std::time::Duration;

/// How long a thread runs before others that wait for a core. Linux has 1.4 ms on two cores and 2.8 on eight: by the
/// time that a request has gone from the thread that read it to one that works on it, to one that makes it
/// durable and back, it has waited for several of those where the cores are busy with others' work. The share that each
/// thread gets is the same, and so was the CPU time for writing. 500 µs did nearly as well.
const TURN: Duration = Duration::from_micros(200);

/// Asks for short turns for this thread and for all that it starts from now on; to be called before there are
/// others. Needs no privilege; where it is unknown (not Linux, or older than 6.12) all stays as it is.
pub(crate) fn take_short_turns() {
    #[cfg(target_os = "linux")]
    if let Some(mut own) = attributes()
        && matches!(own.sched_policy as i32, libc::SCHED_OTHER | libc::SCHED_BATCH)
    {
        own.sched_runtime = TURN.as_nanos() as u64;
        #[expect(unsafe_code, reason = "a system call without a safe wrapper")]
        // SAFETY: it reads as many bytes as the first field says, which is the size of the structure.
        let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const own, 0) };
    }
}

/// How the calling thread is scheduled. `None`: the system does not say.
#[cfg(target_os = "linux")]
fn attributes() -> Option<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>() as u32;
    let mut own = libc::sched_attr {
        size,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    #[expect(unsafe_code, reason = "a system call without a safe wrapper")]
    // SAFETY: it writes at most `size` bytes, which is the size of the structure.
    let outcome = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut own, size, 0) };
    own.size = size;
    (outcome == 0).then_some(own)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn threads_started_later_take_short_turns_too() {
        // A thread of its own: the turns of the test's threads are none of its business.
        let turns = std::thread::spawn(|| {
            let before = attributes().expect("Linux tells");
            take_short_turns();
            let own = attributes().expect("Linux tells");
            assert_eq!(
                (own.sched_policy, own.sched_nice),
                (before.sched_policy, before.sched_nice)
            );
            let later = std::thread::spawn(|| attributes().expect("Linux tells").sched_runtime);
            (before.sched_runtime, own.sched_runtime, later.join().unwrap())
        });
        let (before, own, later) = turns.join().unwrap();
        assert_eq!(own, later);
        // Older systems have no turns that could be asked for, and say 0.
        if before > 0 {
            assert_eq!(own, TURN.as_nanos() as u64);
        }
    }
}
