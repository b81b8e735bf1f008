use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use super::super::testing::{Run, Stored};
use super::*;

fn start(folder: &Path, pattern: &str, stored: &Arc<Stored>) -> Run {
    start_with(folder, pattern, stored, "5m", "7d")
}

fn start_with(folder: &Path, pattern: &str, stored: &Arc<Stored>, partial_line: &str, forget: &str) -> Run {
    let definition = FileDefinition {
        paths: vec![folder.join(pattern).display().to_string()],
        partial_line_timeout: partial_line.to_owned(),
        forget_after: forget.to_owned(),
    };
    Run::start(open(&definition).unwrap(), stored)
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

/// Content that begins with the same line, and is longer in each round.
fn content(round: usize) -> String {
    let lines = (0..5 + 5 * round).map(|line| format!("round {round} line {line}\n"));
    std::iter::once("header\n".to_owned()).chain(lines).collect()
}

fn lines_of(rounds: usize) -> usize {
    (0..rounds).map(|round| 6 + 5 * round).sum()
}

#[tokio::test]
async fn a_file_that_is_written_anew_at_once_is_read_from_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let (log, other) = (folder.path().join("a.log"), folder.path().join("a.new"));
    let stored = Arc::new(Stored::default());
    let mut run = start(folder.path(), "a.log", &stored);
    for round in 0..8 {
        match round % 4 {
            // In place, by a rename, and in place while nothing runs.
            1 => {
                fs::write(&other, content(round)).unwrap();
                fs::rename(&other, &log).unwrap();
            }
            2 => {
                run.stop().await.unwrap();
                fs::write(&log, content(round)).unwrap();
                if round > 4 {
                    // The engine cannot tell whether the last bulk is stored.
                    stored.resume_earlier(0);
                }
                run = start(folder.path(), "a.log", &stored);
            }
            _ => fs::write(&log, content(round)).unwrap(),
        }
        run.wait_for_count(lines_of(round + 1)).await;
    }
    append(&log, "after\n");
    run.wait_for_count(lines_of(8) + 1).await;
    run.stop().await.unwrap();
    let mut expected: Vec<String> = (0..8)
        .flat_map(|round| content(round).lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    expected.push("after".to_owned());
    expected.sort_unstable();
    assert_eq!(stored.records(), expected);
}

#[tokio::test]
async fn a_file_that_is_written_anew_with_the_same_length_and_time_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("a.log");
    let stored = Arc::new(Stored::default());
    append(&log, "header\nline 1\n");
    let modified = fs::metadata(&log).unwrap().modified().unwrap();
    let run = start(folder.path(), "a.log", &stored);
    run.wait_for_count(2).await;
    // As `rsync --inplace --times` does.
    fs::write(&log, "header\nline 2\n").unwrap();
    let file = OpenOptions::new().write(true).open(&log).unwrap();
    file.set_modified(modified).unwrap();
    run.wait_for_count(4).await;
    assert_eq!(run.counters.values()["files_rewritten"], 1);
    run.stop().await.unwrap();
    assert_eq!(stored.records(), ["header", "header", "line 1", "line 2"]);
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_small_gzip_file_that_grows_is_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let stored = Arc::new(Stored::default());
    let mut random = fastrand::Rng::with_seed(3);
    let mut line = move || format!("{:032x}\n", random.u128(..));
    // One grows by members, the other within its only one.
    let (members, stream) = (folder.path().join("members.gz"), folder.path().join("stream.gz"));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut run = start(folder.path(), "*.gz", &stored);
    let mut count = 0;
    for round in 0..4 {
        // Past 1 KB of packed bytes in the end.
        let lines = if round == 3 { 60 } else { 2 };
        let text: String = (0..lines).map(|_| line()).collect();
        append(&members, gzip(&text));
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.flush().unwrap();
        append(&stream, std::mem::take(encoder.get_mut()));
        count += 2 * lines;
        run.wait_for_count(count).await;
        tokio::time::sleep(LOOK_EVERY * 2).await;
        assert_eq!(stored.count(), count, "round {round}");
        if round % 2 == 0 {
            run.kill().await;
            run = start(folder.path(), "*.gz", &stored);
        }
    }
    append(&stream, encoder.finish().unwrap());
    append(&members, gzip("last\n"));
    run.wait_for_count(count + 1).await;
    assert_eq!(run.counters.values().get("read_errors"), None);
    run.stop().await.unwrap();
}

#[tokio::test]
async fn a_gzip_file_that_an_older_version_has_read_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.gz");
    let packed = gzip("one\ntwo\n");
    fs::write(&old, &packed).unwrap();
    let metadata = fs::metadata(&old).unwrap();
    let partition = format!(
        "{}:{}:{:08x}:0",
        metadata.dev(),
        metadata.ino(),
        crc32c::crc32c(&packed)
    );
    let stored = Arc::new(Stored::default());
    stored.set_position(partition, 8);
    let run = start(folder.path(), "*.gz", &stored);
    fs::write(folder.path().join("new.gz"), gzip("new\n")).unwrap();
    run.wait_for_count(1).await;
    append(&old, gzip("three\n"));
    run.wait_for_count(2).await;
    run.stop().await.unwrap();
    assert_eq!(stored.records(), ["new", "three"]);
}

#[tokio::test]
async fn a_last_line_without_a_line_break_is_read_after_a_quiet_time() {
    let folder = tempfile::tempdir().unwrap();
    let stored = Arc::new(Stored::default());
    let [log, alone, renamed, removed] =
        ["a.log", "alone.log", "renamed.log", "removed.log"].map(|name| folder.path().join(name));
    let run = start_with(folder.path(), "*.log", &stored, "600ms", "7d");
    append(&log, "line\nlast of a");
    append(&alone, "alone");
    append(&renamed, "first of renamed\nlast of renamed");
    append(&removed, "first of removed\nlast of removed");
    run.wait_for_count(3).await;
    fs::rename(&renamed, folder.path().join("renamed.old")).unwrap();
    fs::remove_file(&removed).unwrap();
    run.wait_for_count(7).await;
    // What completes a line later is an event of its own: nothing is lost, and nothing is stored twice.
    append(&log, " more\nnext\n");
    append(&alone, " more\nnext\n");
    run.wait_for_count(11).await;
    run.kill().await;
    let run = start_with(folder.path(), "*.log", &stored, "600ms", "7d");
    append(&alone, "end\n");
    run.wait_for_count(12).await;
    tokio::time::sleep(LOOK_EVERY * 2).await;
    run.stop().await.unwrap();
    let mut expected = [
        " more",
        " more",
        "alone",
        "end",
        "first of removed",
        "first of renamed",
        "last of a",
        "last of removed",
        "last of renamed",
        "line",
        "next",
        "next",
    ];
    expected.sort_unstable();
    assert_eq!(stored.records(), expected);
}

#[tokio::test]
async fn a_line_that_is_completed_in_time_is_one_event() {
    let folder = tempfile::tempdir().unwrap();
    let stored = Arc::new(Stored::default());
    let log = folder.path().join("a.log");
    let run = start_with(folder.path(), "*.log", &stored, "5s", "7d");
    for part in ["ha", "lf ", "a li", "ne\n"] {
        append(&log, part);
        tokio::time::sleep(LOOK_EVERY * 2).await;
    }
    run.wait_for_count(1).await;
    run.stop().await.unwrap();
    assert_eq!(stored.records(), ["half a line"]);
}

#[tokio::test]
async fn errors_are_counted_and_shown_until_they_have_passed() {
    let folder = tempfile::tempdir().unwrap();
    let stored = Arc::new(Stored::default());
    let (broken, cycle) = (folder.path().join("broken.gz"), folder.path().join("cycle.log"));
    fs::write(&broken, b"\x1f\x8b no compression method of gzip").unwrap();
    append(&folder.path().join("good.log"), "good\n");
    let run = start(folder.path(), "*", &stored);
    let last_error = || run.counters.last_error().unwrap_or_default();
    super::super::testing::wait_for("an error", || last_error().contains("broken.gz")).await;
    super::super::testing::wait_for("the other file", || stored.records().contains(&"good".to_owned())).await;
    std::os::unix::fs::symlink("cycle.log", &cycle).unwrap();
    super::super::testing::wait_for("another error", || last_error().contains("cycle.log")).await;
    assert!(run.counters.values()["read_errors"] >= 2);
    let before = run.counters.values()["read_errors"];
    tokio::time::sleep(LOOK_EVERY * 4).await;
    assert!(
        run.counters.values()["read_errors"] <= before + 1,
        "it is tried again after some seconds"
    );
    fs::remove_file(&cycle).unwrap();
    super::super::testing::wait_for("the first error", || last_error().contains("broken.gz")).await;
    fs::write(&broken, gzip("whole\n")).unwrap();
    super::super::testing::wait_for("no error", || run.counters.last_error().is_none()).await;
    super::super::testing::wait_for("its line", || stored.records().contains(&"whole".to_owned())).await;
    run.stop().await.unwrap();
}

#[tokio::test]
async fn a_gzip_file_that_stays_cut_is_an_error_until_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let stored = Arc::new(Stored::default());
    let log = folder.path().join("a.gz");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // What is behind the last line break is no line before the file is whole.
    encoder.write_all(b"one\ntwo\nthr").unwrap();
    encoder.flush().unwrap();
    append(&log, std::mem::take(encoder.get_mut()));
    let run = start_with(folder.path(), "*", &stored, "600ms", "7d");
    run.wait_for_count(2).await;
    let last_error = || run.counters.last_error().unwrap_or_default();
    super::super::testing::wait_for("an error", || last_error().contains("in the middle of its data")).await;
    tokio::time::sleep(LOOK_EVERY * 4).await;
    assert_eq!(run.counters.values()["read_errors"], 1);
    assert!(last_error().contains("a.gz"));
    encoder.write_all(b"ee\n").unwrap();
    append(&log, encoder.finish().unwrap());
    run.wait_for_count(3).await;
    super::super::testing::wait_for("no error", || run.counters.last_error().is_none()).await;
    run.stop().await.unwrap();
    assert_eq!(stored.records(), ["one", "three", "two"]);
}

#[tokio::test]
async fn the_rest_of_a_line_that_is_completed_while_nothing_runs_is_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let stored = Arc::new(Stored::default());
    let log = folder.path().join("a.log");
    append(&log, "one\ntwo, ha");
    let run = start_with(folder.path(), "*", &stored, "100ms", "7d");
    run.wait_for_count(2).await;
    run.kill().await;
    append(&log, "lf\nthree\nfour, ha");
    stored.resume_earlier(0);
    let run = start_with(folder.path(), "*", &stored, "100ms", "7d");
    run.wait_for_count(5).await;
    run.kill().await;
    // The first of the cut lines is not in the last batch any more.
    append(&log, "lf\nfive\n");
    stored.resume_earlier(0);
    let run = start_with(folder.path(), "*", &stored, "100ms", "7d");
    run.wait_for_count(7).await;
    run.stop().await.unwrap();
    let lines = ["five", "four, ha", "lf", "lf", "one", "three", "two, ha"];
    assert_eq!(stored.records(), lines);
}

#[tokio::test]
async fn a_growing_file_is_read_while_thousands_of_new_ones_wait() {
    let folder = tempfile::tempdir().unwrap();
    let stored = Arc::new(Stored::default());
    let log = folder.path().join("growing.log");
    append(&log, "line 000000\n");
    let run = start(folder.path(), "*.log", &stored);
    run.wait_for_count(1).await;
    // The new files take 15 s and more.
    stored.set_delay(Duration::from_millis(5));
    for number in 0..3000 {
        append(&folder.path().join(format!("new-{number}.log")), "new\n");
    }
    super::super::testing::wait_for("a new file", || stored.count() > 1).await;
    let mut slowest = Duration::ZERO;
    for line in numbers(1..9) {
        let written = Instant::now();
        append(&log, format!("{line}\n"));
        super::super::testing::wait_for(&line, || stored.has_end(&line)).await;
        slowest = slowest.max(written.elapsed());
    }
    assert!(stored.count() < 3009, "no new file waited any more");
    // A second, and as much for a slow machine.
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    stored.set_delay(Duration::ZERO);
    run.wait_for_count(3009).await;
    run.stop().await.unwrap();
}

#[tokio::test]
async fn files_whose_names_are_not_utf_8_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let stored = Arc::new(Stored::default());
    let path = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
    append(&path(b"caf\xe9.log"), "one\n");
    let run = start(folder.path(), "*.log*", &stored);
    run.wait_for_count(1).await;
    fs::rename(path(b"caf\xe9.log"), path(b"caf\xe8.log.1")).unwrap();
    append(&path(b"caf\xe8.log.1"), "two\n");
    fs::create_dir(path(b"\xff")).unwrap();
    append(&path(b"\xff/c.log"), "no match\n");
    run.wait_for_count(2).await;
    fs::write(path(b"\xfe.log.gz"), b"\x1f\x8b no compression method of gzip").unwrap();
    super::super::testing::wait_for("its error", || {
        run.counters
            .last_error()
            .is_some_and(|error| error.contains("\u{fffd}.log.gz"))
    })
    .await;
    run.stop().await.unwrap();
    let run = start(folder.path(), "*/*", &stored);
    run.wait_for_count(3).await;
    run.stop().await.unwrap();
    assert_eq!(stored.records(), ["no match", "one", "two"]);
}

#[tokio::test]
async fn bytes_behind_the_end_of_a_gzip_file_are_ignored_and_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let stored = Arc::new(Stored::default());
    let (small, large) = (folder.path().join("small.gz"), folder.path().join("large.gz"));
    let run = start(folder.path(), "*.gz", &stored);
    fs::write(&small, [&gzip("one\ntwo")[..], b"garbage"].concat()).unwrap();
    let lines = text_of(0..5000);
    fs::write(&large, [&gzip(&lines)[..], &gzip("last\n")[..], b"\0\0\0"].concat()).unwrap();
    run.wait_for_count(5003).await;
    let counted = || {
        let values = run.counters.values();
        let of = |name: &str| values.get(name).copied().unwrap_or(0);
        (of("gzip_trailing_garbage"), of("read_errors"), of("lag"))
    };
    super::super::testing::wait_for("the warnings", || counted() == (2, 0, 0)).await;
    append(&small, gzip("behind garbage\n"));
    tokio::time::sleep(LOOK_EVERY * 4).await;
    assert_eq!((counted(), run.counters.last_error()), ((2, 0, 0), None));
    run.stop().await.unwrap();
    let mut expected = numbers(0..5000);
    expected.splice(0..0, ["last".to_owned()]);
    expected.extend(["one".to_owned(), "two".to_owned()]);
    assert_eq!(stored.records(), expected);
}

#[tokio::test]
async fn a_damaged_gzip_file_is_one_error_until_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let stored = Arc::new(Stored::default());
    let log = folder.path().join("a.gz");
    let whole = gzip(&text_of(0..5));
    let mut damaged = whole.clone();
    // Its checksum.
    let checksum = damaged.len() - 8;
    damaged[checksum] ^= 1;
    fs::write(&log, damaged).unwrap();
    let run = start(folder.path(), "*.gz", &stored);
    let errors = || run.counters.values().get("read_errors").copied().unwrap_or(0);
    super::super::testing::wait_for("an error", || errors() > 0).await;
    tokio::time::sleep(READ_AGAIN_AFTER + LOOK_EVERY * 4).await;
    assert_eq!((errors(), stored.count()), (1, 5));
    assert!(run.counters.last_error().unwrap().contains("a.gz"));
    fs::write(&log, whole).unwrap();
    super::super::testing::wait_for("no error", || run.counters.last_error().is_none()).await;
    run.stop().await.unwrap();
    assert_eq!(stored.records(), numbers(0..5));
}

#[tokio::test]
async fn a_bounded_number_of_files_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let stored = Arc::new(Stored::default());
    let files = OPEN_MAX + 10 * OPENED_AT_ONCE;
    for number in 0..files {
        append(
            &folder.path().join(format!("{number}.log")),
            format!("line of {number}\n"),
        );
    }
    let open_now = || {
        let handles = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let paths = handles.filter_map(|handle| fs::read_link(handle.path()).ok());
        paths.filter(|path| path.starts_with(folder.path())).count()
    };
    let run = start(folder.path(), "*.log", &stored);
    let mut most = 0;
    super::super::testing::wait_for("all files", || {
        most = most.max(open_now());
        stored.count() == files
    })
    .await;
    run.stop().await.unwrap();
    // One reading opens a second handle for a moment.
    assert!((OPEN_MAX / 2..=OPEN_MAX + OPENED_AT_ONCE + 2).contains(&most), "{most}");
}

#[tokio::test]
async fn the_lag_is_what_was_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let stored = Arc::new(Stored::default());
    let log = folder.path().join("a.log");
    append(&log, text_of(0..400_000));
    let run = start(folder.path(), "a*", &stored);
    run.take_batches(false);
    let lag = || run.counters.values().get("lag").copied().unwrap_or(0);
    // Nothing is taken: reading ends at the bound of the channel, and the lag grows with the file.
    let mut before = 0;
    super::super::testing::wait_for("a full pipeline", || {
        std::thread::sleep(Duration::from_millis(20));
        let now = lag();
        std::mem::replace(&mut before, now) == now && now > 1 << 20
    })
    .await;
    tokio::time::sleep(SHOW_EVERY * 2).await;
    let full = lag();
    assert!(full < 400_000 * 12, "{full}");
    append(&log, text_of(400_000..400_100));
    super::super::testing::wait_for("the lag of new lines", || lag() == full + 1200).await;
    run.take_batches(true);
    run.wait_for_count(400_100).await;
    super::super::testing::wait_for("no lag", || lag() == 0).await;
    append(&log, "part");
    super::super::testing::wait_for("the lag of a part of a line", || lag() == 4).await;
    fs::write(folder.path().join("a.gz"), gzip("one\n")).unwrap();
    run.wait_for_count(400_101).await;
    tokio::time::sleep(LOOK_EVERY * 2).await;
    assert_eq!(lag(), 4);
    run.stop().await.unwrap();
}

#[tokio::test]
async fn positions_of_files_that_are_gone_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let stored = Arc::new(Stored::default());
    let (gone, stays) = (folder.path().join("gone.log"), folder.path().join("stays.log"));
    append(&gone, "one\n");
    append(&stays, "two\n");
    let run = start_with(folder.path(), "*.log", &stored, "5m", "1s");
    run.wait_for_count(2).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(stored.partitions().len(), 2, "both files are there");
    run.stop().await.unwrap();
    fs::remove_file(&gone).unwrap();
    let run = start_with(folder.path(), "*.log", &stored, "5m", "1s");
    super::super::testing::wait_for("one position", || stored.partitions().len() == 1).await;
    append(&stays, "three\n");
    run.wait_for_count(3).await;
    run.stop().await.unwrap();
    // Without its folder, nothing is known of a file.
    let run = start_with(&folder.path().join("nowhere"), "*.log", &stored, "5m", "1s");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    run.stop().await.unwrap();
    assert_eq!(stored.partitions().len(), 1);
}

#[test]
fn patterns_and_times_are_checked() {
    let check = |path: &str, partial_line: &str, forget: &str, words: &str| {
        let definition = FileDefinition {
            paths: vec![path.to_owned()],
            partial_line_timeout: partial_line.to_owned(),
            forget_after: forget.to_owned(),
        };
        let error = open(&definition).err().unwrap();
        assert!(error.reason().contains(words), "{}", error.reason());
    };
    check("/var/log/[", "1s", "7d", "/var/log/[");
    check("/var/log/a", "1ms", "7d", "[partial_line_timeout] is 100ms to 1d");
    check("/var/log/a", "1s", "0", "[forget_after]");
}
