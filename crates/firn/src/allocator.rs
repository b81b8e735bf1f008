//! The allocator: many threads do not fight for one heap, and freed memory goes back to the system.

use libmimalloc_sys::{mi_option_set_default, mi_option_t};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc.h, which the crate leaves out.
const PURGE_DELAY: mi_option_t = 15;

/// Gives memory back as soon as it is free, for a server that runs for weeks beside other programs.
///
/// By itself mimalloc waits a second, and then for somebody who allocates: a server that has just
/// become idle never gives back what its last second took, and one that writes always holds what its last second
/// freed. While a million web-log events came in that was 482 MB against 271 at the peak, and 386 against 114 of
/// anonymous memory when all was quiet, for no less CPU time (16.8 s against 16.4 of the server, which is noise).
/// `MIMALLOC_PURGE_DELAY` in the environment (ms) has the last word.
pub(crate) fn give_back_at_once() {
    #[expect(unsafe_code, reason = "a call of C that stores a number")]
    // SAFETY: takes two numbers, checks the first, and may be called at any time.
    unsafe {
        mi_option_set_default(PURGE_DELAY, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Process;

    const MB: usize = 1 << 20;

    #[test]
    fn freed_memory_goes_back_to_the_system() {
        give_back_at_once();
        let anonymous = || Process::own().memory().expect("Linux tells").anonymous as usize;
        let blocks: Vec<Vec<u8>> = (0..256).map(|_| vec![1; MB]).collect();
        let held = anonymous();
        drop(blocks);
        let left = anonymous();
        // Other tests of this process take and free some, too.
        assert!(left + 128 * MB < held, "{held} bytes, then {left}");
    }
}
