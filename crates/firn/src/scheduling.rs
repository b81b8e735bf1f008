//! CPU scheduling of the server's threads by the operating system.

use std::time::Duration;

/// Time slice of a thread while others wait for a core. Linux uses 1.4 ms on two cores and 2.8 ms on eight. A request
/// passes from the thread that reads it to one that executes it, to one that makes it durable, and back. If the cores
/// are busy with other requests, it waits for a time slice at each of these steps. The share of each thread stays the
/// same, and so did the CPU time for writing. 500 µs did nearly as well.
const TURN: Duration = Duration::from_micros(200);

/// Requests short time slices for this thread and for all threads that it starts from now on. Must be called before
/// other threads exist. Needs no privilege; on systems without support (not Linux, or older than 6.12) nothing changes.
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

/// Returns the scheduling attributes of the calling thread. `None`: the system does not report them.
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
        // On a separate thread, so that the attributes of the test's threads do not change.
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
        // Older systems have no configurable time slice, and return 0.
        if before > 0 {
            assert_eq!(own, TURN.as_nanos() as u64);
        }
    }
}
