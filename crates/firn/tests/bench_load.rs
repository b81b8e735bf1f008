//! `firn bench load` on an index that `firn bench core --keep` has left.

mod support;

use std::path::Path;

use firn_testkit::{Node, NodeOptions};

use support::{firn, stderr};

#[test]
fn many_clients_are_measured_while_events_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_firn"));
    let node = Node::start(binary, folder.path(), &NodeOptions::default()).unwrap();
    let url = node.client().base();

    let nothing = firn(&["bench", "load", "--url", url, "--seconds", "1"]);
    assert!(!nothing.status.success());
    assert!(
        stderr(&nothing).contains("no such index [bench-weblog]"),
        "{}",
        stderr(&nothing)
    );

    let loaded = firn(&[
        "bench",
        "core",
        "--url",
        url,
        "--events",
        "3000",
        "--rounds",
        "0",
        "--idle-seconds",
        "0",
        "--keep",
        "--no-merge",
    ]);
    assert!(loaded.status.success(), "{}", stderr(&loaded));
    let measured = firn(&[
        "bench",
        "load",
        "--url",
        url,
        "--clients",
        "1,4",
        "--seconds",
        "1",
        "--warm-up-seconds",
        "0",
        "--writes-per-second",
        "200",
    ]);
    let printed = String::from_utf8_lossy(&measured.stdout).into_owned();
    assert!(measured.status.success(), "{printed}{}", stderr(&measured));
    let rows: Vec<Vec<&str>> = printed
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    // Three kinds of requests, two numbers of clients.
    assert_eq!(rows.len(), 6, "{printed}");
    for row in &rows {
        let number = |column: usize| {
            row[column]
                .parse::<f64>()
                .unwrap_or_else(|_| panic!("{column}: {printed}"))
        };
        let (rate, median, longest, cpu, fewest, failed) =
            (number(4), number(5), number(7), number(8), number(9), number(11));
        assert!(
            rate > 0.0 && median > 0.0 && longest >= median && fewest > 0.0,
            "{printed}"
        );
        // The processor time is that of the server, on two cores and more.
        assert!(cpu > 0.0 && failed == 0.0, "{printed}");
    }
    let written = printed
        .lines()
        .filter(|line| line.contains("events written per second"));
    let rates: Vec<f64> = written
        .map(|line| {
            line.split_whitespace()
                .nth(2)
                .and_then(|rate| rate.parse().ok())
                .unwrap()
        })
        .collect();
    assert!(rates.len() == 1 && rates.iter().all(|rate| *rate > 0.0), "{printed}");
    let indices = node.client().get("/_cat/indices?h=index").unwrap().text();
    assert!(!indices.contains("bench-load-writes"), "{indices}");
    node.stop().unwrap();
}
