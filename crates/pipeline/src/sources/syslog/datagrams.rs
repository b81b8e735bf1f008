//! UDP: each datagram is a record.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use socket2::SockRef;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use super::super::{SourceEvent, SourceOutput};

/// Receive buffer of the socket; the kernel grants at most `net.core.rmem_max`.
const BUFFER_BYTES: usize = 16 << 20;
/// Largest datagram.
const DATAGRAM_BYTES_MAX: usize = 65_536;
/// Datagrams that are read before they are handed over.
const GROUP: usize = 256;
/// How often the kernel's drops are looked at.
const DROPS_EVERY: Duration = Duration::from_secs(5);

/// Binds a socket with a large receive buffer.
pub(super) async fn bind(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address).await?;
    // A smaller buffer drops more; the drops are counted.
    let _ = SockRef::from(&socket).set_recv_buffer_size(BUFFER_BYTES);
    Ok(socket)
}

/// Reads datagrams until the pipeline stops. Those that it cannot take are dropped and counted as `udp_dropped`.
pub(super) async fn read(socket: UdpSocket, groups: mpsc::Sender<Vec<SourceEvent>>, output: SourceOutput) {
    let counters = output.counters();
    let (received, dropped) = (counters.counter("udp_datagrams"), counters.counter("udp_dropped"));
    let by_kernel = counters.counter("udp_dropped_by_kernel");
    let port = socket.local_addr().map_or(0, |address| address.port());
    let watching = tokio::spawn(watch_drops(port, by_kernel));
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let ready = tokio::select! {
            ready = socket.readable() => ready,
            () = output.stopped() => break,
        };
        if ready.is_err() {
            continue;
        }
        let received_ns = output.now_ns();
        let mut group = Vec::new();
        while group.len() < GROUP {
            // An error concerns one datagram, or there is none left.
            let Ok(length) = socket.try_recv(&mut buffer) else {
                break;
            };
            let record = trimmed(&buffer[..length]);
            if !record.is_empty() {
                group.push(SourceEvent {
                    bytes: Bytes::copy_from_slice(record),
                    offset: 0,
                    received_ns,
                    context: None,
                    stored_at: None,
                });
            }
        }
        let count = group.len() as u64;
        if count == 0 {
            continue;
        }
        received.fetch_add(count, Ordering::Relaxed);
        match groups.try_send(group) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => drop(dropped.fetch_add(count, Ordering::Relaxed)),
            Err(mpsc::error::TrySendError::Closed(_)) => break,
        }
    }
    watching.abort();
}

/// Returns a record without the line breaks behind it, which some senders add.
fn trimmed(record: &[u8]) -> &[u8] {
    let end = record.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r' | 0));
    &record[..end.map_or(0, |end| end + 1)]
}

/// Counts the datagrams that the kernel drops because the receive buffer is full.
async fn watch_drops(port: u16, by_kernel: Arc<AtomicU64>) {
    loop {
        let read = tokio::task::spawn_blocking(move || {
            let tables =
                ["/proc/net/udp", "/proc/net/udp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
            tables.iter().map(|table| drops(table, port)).sum()
        });
        if let Ok(drops) = read.await {
            by_kernel.store(drops, Ordering::Relaxed);
        }
        tokio::time::sleep(DROPS_EVERY).await;
    }
}

/// Returns the drops of the sockets on a port, from the text of `/proc/net/udp`.
fn drops(table: &str, port: u16) -> u64 {
    let suffix = format!(":{port:04X}");
    let of_port = table.lines().filter(|line| {
        line.split_whitespace()
            .nth(1)
            .is_some_and(|local| local.ends_with(&suffix))
    });
    of_port
        .filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_those_of_the_port() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
                     1: 0100007F:15A2 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2 0000 17\n\
                     2: 0100007F:15A3 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2 0000 5\n";
        assert_eq!(drops(table, 0x15A2), 17);
        assert_eq!(drops(table, 1), 0);
    }

    #[test]
    fn line_breaks_behind_a_record_are_no_part_of_it() {
        for (record, expect) in [
            ("a\r\n", "a"),
            ("a b", "a b"),
            ("\n", ""),
            ("a\n\0", "a"),
            ("a\nb", "a\nb"),
        ] {
            assert_eq!(trimmed(record.as_bytes()), expect.as_bytes());
        }
    }
}
