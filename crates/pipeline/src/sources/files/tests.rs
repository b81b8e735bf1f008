use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use super::super::testing::{Run, Stored};
use super::*;

fn start(folder: &Path, pattern: &str, stored: &Arc<Stored>) -> Run {
    let pattern = folder.join(pattern).display().to_string();
    Run::start(open(&[pattern]).unwrap(), stored)
}

fn append(path: &Path, text: impl AsRef<[u8]>) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_ref()).unwrap();
}

fn numbers(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| format!("line {number:06}")).collect()
}

fn text_of(range: std::ops::Range<u32>) -> String {
    numbers(range).iter().map(|line| format!("{line}\n")).collect()
}

#[tokio::test]
async fn lines_are_read_as_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("a.log");
    let stored = Arc::new(Stored::default());
    let run = start(folder.path(), "*.log", &stored);
    append(&log, "line 000000\r\n\nline 0000");
    run.wait_for_count(1).await;
    append(&log, "01\n");
    run.wait_for_count(2).await;
    assert_eq!(stored.records(), numbers(0..2));
    append(&folder.path().join("b.log"), b"not \xff UTF-8\n");
    append(&folder.path().join("c.txt"), "no match\n");
    run.wait_for_count(3).await;
    run.stop().await.unwrap();
}

#[tokio::test]
async fn a_source_that_is_killed_continues_without_loss_or_repetition() {
    let folder = tempfile::tempdir().unwrap();
    let stored = Arc::new(Stored::default());
    for (name, lines) in [("a.log", 0..9000), ("b.log", 9000..12_000)] {
        append(&folder.path().join(name), text_of(lines));
    }
    for _ in 0..6 {
        let run = start(folder.path(), "*.log", &stored);
        super::super::testing::wait_for("some lines", || stored.count() > 0).await;
        tokio::time::sleep(Duration::from_millis(3)).await;
        run.kill().await;
    }
    let run = start(folder.path(), "*.log", &stored);
    run.wait_for_count(12_000).await;
    append(&folder.path().join("a.log"), text_of(12_000..12_010));
    run.wait_for_count(12_010).await;
    run.stop().await.unwrap();
    assert_eq!(stored.records(), numbers(0..12_010));
    // Nothing comes again.
    let run = start(folder.path(), "*.log", &stored);
    append(&folder.path().join("b.log"), text_of(12_010..12_011));
    run.wait_for_count(12_011).await;
    run.stop().await.unwrap();
    assert_eq!(stored.records(), numbers(0..12_011));
}

#[tokio::test]
async fn files_are_followed_through_rotation_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let stored = Arc::new(Stored::default());
    let run = start(folder.path(), "app.log", &stored);
    let path = folder.path().to_owned();
    let writing = tokio::task::spawn_blocking(move || {
        let log = path.join("app.log");
        let mut file = OpenOptions::new().create(true).append(true).open(&log).unwrap();
        for part in 0..20_u32 {
            for chunk in 0..10 {
                let first = part * 1000 + chunk * 100;
                file.write_all(text_of(first..first + 100).as_bytes()).unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
            if part % 5 == 4 {
                // Time for the source to see the file: one that comes and goes between two looks is never seen.
                std::thread::sleep(LOOK_EVERY * 4);
                fs::rename(&log, path.join(format!("app.log.{part}"))).unwrap();
                // The program still has the renamed file.
                file.write_all(format!("last of {part}\n").as_bytes()).unwrap();
                file = OpenOptions::new().create(true).append(true).open(&log).unwrap();
            }
        }
    });
    writing.await.unwrap();
    run.wait_for_count(20_000 + 4).await;
    run.stop().await.unwrap();
    let records = stored.records();
    assert_eq!(records[4..], numbers(0..20_000));
    assert_eq!(records[..4], ["last of 14", "last of 19", "last of 4", "last of 9"]);
}

#[tokio::test]
async fn a_file_that_is_cut_to_nothing_starts_anew() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("a.log");
    let stored = Arc::new(Stored::default());
    append(&log, "header\nline 1\nline 2\n");
    let run = start(folder.path(), "a.log", &stored);
    run.wait_for_count(3).await;
    for round in 0..2 {
        OpenOptions::new().write(true).truncate(true).open(&log).unwrap();
        tokio::time::sleep(LOOK_EVERY * 3).await;
        append(&log, format!("header\nround {round}\n"));
        run.wait_for_count(5 + 2 * round).await;
    }
    run.stop().await.unwrap();
    // While nothing runs, it is cut and written with the same first line.
    fs::write(&log, "header\n").unwrap();
    let run = start(folder.path(), "a.log", &stored);
    run.wait_for_count(8).await;
    append(&log, "after\n");
    run.wait_for_count(9).await;
    run.stop().await.unwrap();
}

#[tokio::test]
async fn gzip_files_are_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // Text that does not become small: the file is much larger than the buffer of its reader.
    let mut random = fastrand::Rng::with_seed(7);
    let lines: Vec<String> = (0..100_000)
        .map(|number| format!("line {number:06} {:x}", random.u128(..)))
        .collect();
    encoder.write_all(format!("{}\n", lines.join("\n")).as_bytes()).unwrap();
    encoder.write_all(b"without a line break").unwrap();
    fs::write(folder.path().join("old.log.gz"), encoder.finish().unwrap()).unwrap();
    let stored = Arc::new(Stored::default());
    let run = start(folder.path(), "*.gz", &stored);
    super::super::testing::wait_for("half of the lines", || stored.count() > 30_000).await;
    run.kill().await;
    let run = start(folder.path(), "*", &stored);
    run.wait_for_count(100_001).await;
    append(&folder.path().join("new.log"), "new\n");
    run.wait_for_count(100_002).await;
    run.stop().await.unwrap();
    let records = stored.records();
    assert!(records[..100_000] == lines, "lines are wrong");
    assert_eq!(records[100_000..], ["new", "without a line break"]);
}

#[tokio::test]
async fn a_line_that_is_too_long_comes_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("a.log");
    append(&log, format!("{}tail\nnext\n", "x".repeat(1 << 20)));
    let stored = Arc::new(Stored::default());
    let run = start(folder.path(), "a.log", &stored);
    run.wait_for_count(3).await;
    run.stop().await.unwrap();
    let records = stored.records();
    assert_eq!(
        (&records[..2], records[2].len()),
        (&["next".to_owned(), "tail".to_owned()][..], 1 << 20)
    );
}

#[test]
fn patterns_are_checked() {
    let error = open(&["/var/log/[".to_owned()]).err().unwrap();
    assert!(error.reason().contains("/var/log/["), "{}", error.reason());
}
