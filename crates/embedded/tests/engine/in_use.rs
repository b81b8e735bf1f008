//! Tests that repositories and snapshots in use cannot be removed.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use firn_embedded::EmbeddedConfig;
use firn_engine::mounts::{MountSnapshot, SearchableSnapshots, Storage};
use firn_engine::snapshot::{CreateSnapshot, PutRepository, Snapshots};
use firn_engine::{ErrorKind, Result};
use firn_model::metadata::Command;
use firn_storage::object::{ObjectStores, StoresConfig};
use serde_json::{Value, json};

use crate::mounts::{mount_as, use_cache};
use crate::node::{Node, ctx, target};
use crate::snapshots::{fill, reach, remove, snapshot};

fn put(node: &Node, name: &str, kind: &str, settings: Value, verify: bool) -> Result<()> {
    let request = PutRepository {
        name: name.to_owned(),
        kind: kind.to_owned(),
        settings,
        verify,
    };
    node.run(node.engine.put_repository(&ctx(), request))
}

fn unregister(node: &Node, name: &str) -> Result<()> {
    node.run(node.engine.delete_repository(&ctx(), &[name.to_owned()]))
}

fn remove_through(node: &Node, repository: &str, name: &str) -> Result<()> {
    node.run(node.engine.delete_snapshot(&ctx(), repository, &vec![name.to_owned()]))
}

#[test]
fn a_mounted_snapshot_is_not_deleted_through_another_name_of_its_repository() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::with(|config| use_cache(folder.path(), config));
    put(&node, "r", "fs", json!({"location": "backups"}), true).unwrap();
    fill(&node);
    snapshot(&node, "first", "logs").unwrap();
    snapshot(&node, "second", "logs").unwrap();
    put(
        &node,
        "again",
        "fs",
        json!({"location": folder.path().join("backups")}),
        true,
    )
    .unwrap();
    mount_as(&node, "mounted", Storage::SharedCache).unwrap();
    for repository in ["r", "again"] {
        let error = remove_through(&node, repository, "first").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{repository}: {error}");
        assert!(error.reason().contains("index [mounted] is mounted from it"), "{error}");
        // A request that names it with other snapshots deletes none of them.
        let names = vec!["second".to_owned(), "first".to_owned()];
        assert!(
            node.run(node.engine.delete_snapshot(&ctx(), repository, &names))
                .is_err()
        );
    }
    let names = |repository: &str| {
        let infos = node
            .run(node.engine.list_snapshots(&ctx(), repository, &Vec::new(), false))
            .unwrap();
        infos.into_iter().map(|info| info.name).collect::<Vec<_>>()
    };
    assert_eq!(names("again"), ["first", "second"]);
    remove_through(&node, "again", "second").unwrap();
    node.execute(Command::DeleteIndices {
        names: vec!["mounted".to_owned()],
    })
    .unwrap();
    remove_through(&node, "again", "first").unwrap();
    assert!(names("r").is_empty());
}

#[test]
fn a_repository_is_not_changed_while_a_snapshot_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::with(|config| reach(folder.path(), config));
    let slow = json!({"location": "backups", "max_snapshot_bytes_per_sec": "4kb"});
    put(&node, "r", "fs", slow.clone(), true).unwrap();
    fill(&node);
    let request = CreateSnapshot {
        repository: "r".to_owned(),
        name: "slow".to_owned(),
        target: target("logs"),
        include_global_state: false,
        partial: false,
        metadata: None,
        wait: false,
    };
    node.run(node.engine.create_snapshot(&ctx(), request)).unwrap();
    let refused = [
        put(&node, "r", "fs", json!({"location": "elsewhere"}), false),
        put(&node, "r", "fs", json!({"location": "backups"}), false),
        unregister(&node, "r"),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(
            error.reason(),
            "[r] trying to modify or unregister repository that is currently used (snapshot is in progress)"
        );
    }
    // Registering the same settings again is allowed.
    put(&node, "r", "fs", slow, true).unwrap();
    remove(&node, &["slow"]).unwrap();
    // The cancelled snapshot releases the repository shortly after it is removed.
    let since = Instant::now();
    while let Err(error) = put(&node, "r", "fs", json!({"location": "backups"}), false) {
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(since.elapsed() < Duration::from_secs(20), "{error}");
        std::thread::sleep(Duration::from_millis(20));
    }
    snapshot(&node, "first", "logs").unwrap();
    unregister(&node, "r").unwrap();
}

/// Serves files; before it answers a request for an index manifest, it waits for permission.
fn serve(folder: PathBuf) -> (u16, Receiver<()>, Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (requested, requests) = channel();
    let (leave, has_leave) = channel::<()>();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(&folder, stream.unwrap(), &requested, &has_leave);
        }
    });
    (port, requests, leave)
}

fn answer(folder: &Path, mut stream: TcpStream, requested: &Sender<()>, has_leave: &Receiver<()>) {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        request.push(byte[0]);
    }
    let request = String::from_utf8(request).unwrap();
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let found = std::fs::read(folder.join(path.trim_start_matches('/')));
    if path.starts_with("/indices/") {
        // The response is fixed now; later changes do not affect it.
        let _ = requested.send(());
        let _ = has_leave.recv_timeout(Duration::from_secs(60));
    }
    let (status, body) = match &found {
        Ok(bytes) => ("200 OK", &bytes[..]),
        Err(_) => ("404 Not Found", &b""[..]),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes());
    if method == "GET" {
        let _ = stream.write_all(body);
    }
}

#[test]
fn a_snapshot_deleted_by_another_node_during_its_mount_is_not_mounted() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Node::with(|config| reach(folder.path(), config));
    put(&writer, "r", "fs", json!({"location": "backups"}), true).unwrap();
    fill(&writer);
    snapshot(&writer, "first", "logs").unwrap();
    let (port, requests, leave) = serve(folder.path().join("backups"));
    let allow = |config: &mut EmbeddedConfig| {
        use_cache(folder.path(), config);
        let mut stores = StoresConfig::new(8);
        stores.allowed_urls = vec!["http://127.0.0.1*".to_owned()];
        config.object_stores = Arc::new(ObjectStores::new(stores));
        config.seed = 8;
    };
    let reader = Node::with(allow);
    put(
        &reader,
        "u",
        "url",
        json!({"url": format!("http://127.0.0.1:{port}/")}),
        false,
    )
    .unwrap();
    let mount = || {
        let request = MountSnapshot {
            repository: "u".to_owned(),
            snapshot: "first".to_owned(),
            index: "logs".to_owned(),
            renamed_index: None,
            storage: Storage::SharedCache,
            index_settings: Value::Null,
            ignore_index_settings: Vec::new(),
        };
        reader.run(reader.engine.mount_snapshot(&ctx(), request))
    };
    let error = std::thread::scope(|threads| {
        let mounted = threads.spawn(mount);
        requests.recv_timeout(Duration::from_secs(60)).unwrap();
        remove(&writer, &["first"]).unwrap();
        let _ = leave.send(());
        mounted.join().unwrap().unwrap_err()
    });
    assert_eq!(error.kind(), ErrorKind::SnapshotMissing, "{error}");
    // Without a deletion, it is mounted.
    snapshot(&writer, "first", "logs").unwrap();
    let begun = Instant::now();
    (0..10).for_each(|_| leave.send(()).unwrap());
    mount().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60));
}
