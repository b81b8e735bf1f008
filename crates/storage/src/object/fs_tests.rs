//! Tests specific to the folder store: links, modes and empty folders.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use bytes::Bytes;

use super::fs::{FsObjects, FsPlace};
use super::{ObjectError, ObjectErrorKind, PutMode, Requests as _, Want};

fn place(root: &Path, folder: &Path) -> FsPlace {
    FsPlace::new(root, folder, 0o022).expect("it lies there")
}

#[track_caller]
fn refuses_link<T: std::fmt::Debug>(outcome: Result<T, ObjectError>) {
    let error = outcome.expect_err("a link");
    assert_eq!(error.kind, ObjectErrorKind::Refused, "{error}");
    assert!(
        error
            .reason
            .contains("is a symbolic link, which repositories do not follow"),
        "{error}"
    );
}

async fn put(store: &FsObjects, key: &str) -> Result<Option<String>, ObjectError> {
    store.put(key, Bytes::from_static(b"firn's"), &PutMode::Overwrite).await
}

#[test]
fn a_place_lies_below_its_root() {
    let new = |folder: &str| FsPlace::new(Path::new("/backups"), Path::new(folder), 0o022).is_some();
    assert!(new("/backups") && new("/backups/a/b"));
    assert!(!new("/backups2") && !new("/backups/../etc") && !new("/etc"));
}

/// `path.repo` itself may be a link, as operators often set it up; nothing below it may.
#[tokio::test]
async fn links_lead_out_of_no_repository() {
    let folder = tempfile::tempdir().expect("a folder");
    let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
    for path in [&root, &outside] {
        std::fs::create_dir(path).expect("a folder");
    }
    std::fs::write(outside.join("secret"), "secret").expect("a file");
    symlink(&root, folder.path().join("backups")).expect("a link");
    symlink(&outside, root.join("evil")).expect("a link");
    let by_link = folder.path().join("backups");
    refuses_link(FsObjects::open(place(&root, &root.join("evil"))));
    refuses_link(FsObjects::open(place(&root, &root.join("evil/deeper"))));
    refuses_link(FsObjects::open_readonly(place(&root, &root.join("evil"))));
    assert_eq!(
        std::fs::read_dir(&outside).expect("a list").count(),
        1,
        "no folder was created there"
    );

    let store = FsObjects::open(place(&by_link, &by_link.join("a/b"))).expect("open");
    put(&store, "data/one").await.expect("a write");
    let inside = root.join("a/b");
    symlink(outside.join("secret"), inside.join("data/file")).expect("a link");
    symlink(&outside, inside.join("folder")).expect("a link");
    symlink("one", inside.join("data/within")).expect("a link");
    for key in ["data/file", "folder/secret", "data/within"] {
        refuses_link(store.get(key, Want::All(100)).await);
        refuses_link(store.head(key).await);
    }
    refuses_link(put(&store, "folder/new").await);
    refuses_link(store.delete("folder/secret").await);
    refuses_link(store.list("folder/").await);
    // Writes and removals act on the link itself, not on its target.
    put(&store, "data/file").await.expect("a write in place of the link");
    store.delete("data/within").await.expect("the link's name goes");
    assert_eq!(
        std::fs::read_to_string(outside.join("secret")).expect("a file"),
        "secret"
    );
    let keys: Vec<String> = store
        .list("")
        .await
        .expect("a list")
        .into_iter()
        .map(|info| info.key)
        .collect();
    assert_eq!(keys, ["data/file", "data/one"]);
    assert_eq!(std::fs::read_dir(&outside).expect("a list").count(), 1);

    // The folders that firn creates for internal use must not be links either.
    std::fs::remove_dir(inside.join(".incoming")).expect("it is empty");
    symlink(&outside, inside.join(".incoming")).expect("a link");
    refuses_link(put(&store, "data/two").await);
    std::fs::remove_file(inside.join(".incoming")).expect("the link");
    symlink(outside.join("secret"), inside.join(".lock")).expect("a link");
    let etag = put(&store, "data/two").await.expect("a write").expect("an etag");
    refuses_link(store.put("data/two", Bytes::new(), &PutMode::Replace(etag)).await);

    // The repository becomes a link while it is open.
    std::fs::rename(&inside, root.join("moved")).expect("a rename");
    symlink(&outside, &inside).expect("a link");
    refuses_link(store.get("secret", Want::All(100)).await);
}

#[tokio::test]
async fn a_deletion_leaves_no_empty_folders() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = FsObjects::open(place(folder.path(), folder.path())).expect("open");
    for key in ["tests-x/node.dat", "a/b/c/one", "a/two"] {
        put(&store, key).await.expect("a write");
    }
    store.delete("tests-x/node.dat").await.expect("a deletion");
    store.delete("a/b/c/one").await.expect("a deletion");
    let left = |path: &str| folder.path().join(path).exists();
    assert!(!left("tests-x") && !left("a/b") && left("a/two"));
    store.delete("a/two").await.expect("a deletion");
    assert!(!left("a") && folder.path().exists());
    store.delete("a/two").await.expect("once more does nothing");
}

/// One writer's deletion removes the folder that another writer is about to use.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writes_and_deletions_of_one_folder_do_not_meet() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = FsObjects::open(place(folder.path(), folder.path())).expect("open");
    let workers = (0..4).map(|worker| {
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..200 {
                let key = format!("a/b/{worker}");
                put(&store, &key).await?;
                store.head(&key).await?;
                store.delete(&key).await?;
            }
            Ok::<(), ObjectError>(())
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.expect("no panic").expect("every step works");
    }
}

#[tokio::test]
async fn files_get_the_modes_that_the_settings_leave() {
    let folder = tempfile::tempdir().expect("a folder");
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    for (umask, file, dir) in [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700), (0o007, 0o660, 0o770)] {
        let root = folder.path().join(format!("{umask:o}"));
        let place = FsPlace::new(folder.path(), &root, umask).expect("it lies there");
        let store = FsObjects::open(place).expect("open");
        put(&store, "a/one").await.expect("a write");
        assert_eq!(
            (mode(&root), mode(&root.join("a")), mode(&root.join("a/one"))),
            (dir, dir, file)
        );
    }
}
