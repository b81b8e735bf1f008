//! Full disk: writes are refused before the disk is full, reads continue, and writes resume automatically.
#![allow(clippy::print_stderr, reason = "a test that cannot run here says so")]

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firn_testkit::{Client, Node, NodeOptions, seed};

/// Pause between writes. The watermark is checked once a second, and at full speed a second would fill so small a disk.
const PAUSE: Duration = Duration::from_millis(30);

/// Small file system for the test; `None` if the test may not mount one.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount(megabytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={megabytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(folder.path())
            .output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then_some(Self { folder })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).output();
    }
}

fn bulk(rng: &mut fastrand::Rng, documents: usize) -> String {
    let mut body = String::new();
    for _ in 0..documents {
        let noise: String = (0..900).map(|_| rng.alphanumeric()).collect();
        body.push_str(&format!("{{\"index\":{{}}}}\n{{\"noise\":\"{noise}\"}}\n"));
    }
    body
}

fn count(client: &Client) -> u64 {
    client.send("POST", "/full/_refresh", None, b"").unwrap();
    client.get("/full/_count").unwrap().json()["count"].as_u64().unwrap()
}

/// Writes until a refusal. Returns the documents acknowledged in this call, and the text of the refusal.
fn fill(client: &Client, rng: &mut fastrand::Rng, pause: Duration) -> (u64, String) {
    let mut acknowledged = 0;
    for round in 0..2000 {
        std::thread::sleep(pause);
        // Small write buffers: the flush of a refresh fits into the space above the watermark.
        let path = if round % 8 == 0 {
            "/full/_bulk?refresh=true"
        } else {
            "/full/_bulk"
        };
        let answer = client.bulk(path, bulk(rng, 200).as_bytes()).unwrap();
        if matches!(answer.status, 429 | 507) {
            return (acknowledged, answer.text());
        }
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = answer.json();
        for item in answer["items"].as_array().unwrap() {
            match item["index"]["status"].as_u64().unwrap() {
                201 => acknowledged += 1,
                429 | 507 => return (acknowledged, item.to_string()),
                other => panic!("status {other}: {item}"),
            }
        }
    }
    panic!("the disk never filled up");
}

#[test]
fn writes_wait_for_space_and_reads_go_on() {
    let Some(disk) = SmallDisk::mount(300) else {
        eprintln!("skipped: mounting a small file system needs root");
        return;
    };
    let ballast = disk.folder.path().join("ballast");
    std::fs::write(&ballast, vec![1u8; 150 << 20]).unwrap();
    let mut rng = fastrand::Rng::with_seed(seed("disk_full"));
    let settings = vec![(
        "cluster.routing.allocation.disk.watermark.flood_stage".to_owned(),
        "90%".to_owned(),
    )];
    let binary = Path::new(env!("CARGO_BIN_EXE_firn"));
    let options = NodeOptions { settings };
    let node = Node::start(binary, disk.folder.path(), &options).unwrap();
    let client = node.client();
    let mapping = serde_json::json!({"mappings": {"properties": {"noise": {"type": "keyword", "index": false}}}});
    client.json("PUT", "/full", &mapping).unwrap();

    let (acknowledged, refusal) = fill(client, &mut rng, PAUSE);
    assert!(acknowledged > 1000, "only {acknowledged} documents fitted");
    assert!(refusal.contains("watermark") || refusal.contains("flood"), "{refusal}");
    let before = count(client);
    assert!(before >= acknowledged, "{before} of {acknowledged} can be found");

    std::fs::remove_file(&ballast).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let answer = client.bulk("/full/_bulk", bulk(&mut rng, 1).as_bytes()).unwrap();
        if answer.status == 200 && answer.json()["errors"] == false {
            break;
        }
        assert!(Instant::now() < deadline, "writing did not resume: {}", answer.text());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(count(client), before + 1);
    node.stop().unwrap();
    let node = Node::start(binary, disk.folder.path(), &options).unwrap();
    assert_eq!(count(node.client()), before + 1, "and after a restart");
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let Some(disk) = SmallDisk::mount(60) else {
        eprintln!("skipped: mounting a small file system needs root");
        return;
    };
    let mut rng = fastrand::Rng::with_seed(seed("disk_full_hard"));
    // The watermark is off: writes continue until the file system itself refuses.
    let settings = vec![(
        "cluster.routing.allocation.disk.watermark.flood_stage".to_owned(),
        "100%".to_owned(),
    )];
    let binary = Path::new(env!("CARGO_BIN_EXE_firn"));
    let node = Node::start(
        binary,
        disk.folder.path(),
        &NodeOptions {
            settings: settings.clone(),
        },
    )
    .unwrap();
    let mapping = serde_json::json!({"mappings": {"properties": {"noise": {"type": "keyword", "index": false}}}});
    node.client().json("PUT", "/full", &mapping).unwrap();
    let (acknowledged, refusal) = fill(node.client(), &mut rng, Duration::ZERO);
    assert!(acknowledged > 1000, "only {acknowledged} documents fitted: {refusal}");
    node.kill9().unwrap();
    let options = format!("remount,size={}m", 200);
    let grown = Command::new("mount")
        .args(["-o", &options])
        .arg(disk.folder.path())
        .status()
        .unwrap();
    assert!(grown.success());
    let node = Node::start(binary, disk.folder.path(), &NodeOptions { settings }).unwrap();
    assert!(count(node.client()) >= acknowledged, "an acknowledged write is lost");
    let answer = node.client().bulk("/full/_bulk", bulk(&mut rng, 5).as_bytes()).unwrap();
    assert_eq!(answer.json()["errors"], false, "{}", answer.text());
}

/// Takes all free bytes of the disk, at the end of a file.
fn fill_up(path: &Path) {
    let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
    for chunk in [1 << 16, 1 << 12, 1] {
        while file.write_all(&vec![1u8; chunk]).is_ok() {}
    }
}

/// Counts by a search, which must be answered completely.
fn searched(client: &Client, index: &str) -> u64 {
    let body = serde_json::json!({"size": 0, "track_total_hits": true});
    let answer = client.send(
        "POST",
        &format!("/{index}/_search"),
        Some("application/json"),
        body.to_string().as_bytes(),
    );
    let answer = answer.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    assert_eq!(answer["_shards"]["failed"], 0, "{answer}");
    answer["hits"]["total"]["value"].as_u64().unwrap()
}

/// Ends the searches of another thread when it is dropped, also by a failed assertion.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Searches while the disk fills up, which must never be refused; returns the number of answers.
fn search_until(client: &Client, stop: &AtomicBool) -> u64 {
    let mut answered = 0;
    while !stop.load(Ordering::Relaxed) {
        let answer = client.get("/full,spare/_search?size=1").unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answered += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    answered
}

#[test]
fn reads_go_on_without_a_byte_left_and_a_deletion_brings_writes_back() {
    let Some(disk) = SmallDisk::mount(96) else {
        eprintln!("skipped: mounting a small file system needs root");
        return;
    };
    let folder = disk.folder.path();
    let mut rng = fastrand::Rng::with_seed(seed("disk_full_reads"));
    let settings = vec![(
        "cluster.routing.allocation.disk.watermark.flood_stage".to_owned(),
        "100%".to_owned(),
    )];
    let options = NodeOptions { settings };
    let binary = Path::new(env!("CARGO_BIN_EXE_firn"));
    let node = Node::start(binary, folder, &options).unwrap();
    let client = node.client();
    assert!(folder.join("data/reserve").exists(), "room is held back");
    let mapping = serde_json::json!({"mappings": {"properties": {"noise": {"type": "keyword", "index": false}}}});
    for index in ["full", "spare"] {
        client.json("PUT", &format!("/{index}"), &mapping).unwrap();
    }
    for _ in 0..40 {
        let answer = client.bulk("/spare/_bulk", bulk(&mut rng, 200).as_bytes()).unwrap();
        assert_eq!(answer.json()["errors"], false, "{}", answer.text());
    }
    client.send("POST", "/spare/_flush", None, b"").unwrap();

    let stop = AtomicBool::new(false);
    let mut acknowledged = 0;
    std::thread::scope(|scope| {
        let searching = scope.spawn(|| search_until(client, &stop));
        let stopping = StopOnDrop(&stop);
        for round in 0.. {
            let answer = client.bulk("/full/_bulk", bulk(&mut rng, 100).as_bytes()).unwrap();
            if answer.status == 429 || answer.json()["errors"] == true {
                break;
            }
            acknowledged += 100;
            if round % 5 == 0 {
                client.send("POST", "/full/_flush", None, b"").unwrap();
            }
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while folder.join("data/reserve").exists() {
            // Again and again: a merge that ends meanwhile removes the segments that it replaced.
            fill_up(&folder.join("ballast"));
            assert!(Instant::now() < deadline, "the reserve was not released");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_secs(2));
        drop(stopping);
        assert!(searching.join().unwrap() > 10);
    });
    assert!(acknowledged > 1000, "only {acknowledged} documents fitted");
    assert!(searched(client, "full") >= acknowledged);
    node.kill9().unwrap();

    // The space that the reserve freed is taken too, before the node restarts.
    fill_up(&folder.join("ballast-2"));
    for _ in 0..2 {
        let node = Node::start(binary, folder, &options).unwrap();
        assert!(searched(node.client(), "full") >= acknowledged);
        assert_eq!(searched(node.client(), "spare"), 8000);
        let answer = node.client().bulk("/full/_bulk", bulk(&mut rng, 1).as_bytes()).unwrap();
        let refused = answer.json()["items"][0]["index"].clone();
        assert_eq!(refused["status"], 429, "{}", answer.text());
        assert!(
            refused["error"]["reason"]
                .to_string()
                .contains("disk usage exceeded flood-stage watermark"),
            "{refused}"
        );
        node.kill9().unwrap();
    }

    std::fs::remove_file(folder.join("ballast-2")).unwrap();
    let node = Node::start(binary, folder, &options).unwrap();
    let client = node.client();
    let answer = client.send("DELETE", "/spare", None, b"").unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let answer = client.bulk("/full/_bulk", bulk(&mut rng, 1).as_bytes()).unwrap();
        if answer.status == 200 && answer.json()["errors"] == false {
            break;
        }
        assert!(Instant::now() < deadline, "writing did not resume: {}", answer.text());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(count(client) > acknowledged);
    node.stop().unwrap();
}
