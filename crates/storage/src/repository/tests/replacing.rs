//! Tests of rewritten snapshots: named objects stay, unnamed objects are removed, while other writers work.

use super::*;
use crate::repository::manifest::snapshot_key;

/// Rewrites the snapshot `old`: splits 1 and 2 become 3 and 2.
async fn rewrite(repository: &Repository) -> firn_model::Result<()> {
    let writing = repository.begin_writing().await?;
    let old = writing
        .basis
        .state()
        .snapshots
        .get("old")
        .cloned()
        .expect("the snapshot exists");
    repository.put(&split(3).key(), vec![3; 10].into()).await?;
    let (entry, index) = manifests(repository, "old", &[2, 3]).await?;
    let needed = [split(3).key(), index].into();
    let replaced = repository
        .replace_snapshot(&old, entry.manifest, &needed, &writing.basis)
        .await?;
    assert!(matches!(replaced, Replaced::Committed(_)), "{replaced:?}");
    repository.sweep_replaced(old).await?;
    repository.end_writing(writing).await
}

async fn splits_of(repository: &Repository, name: &str) -> Vec<String> {
    let manifest = repository.snapshot(name).await.unwrap();
    let index = repository.index(&manifest.indices["logs"]).await.unwrap();
    index.segments().map(|(_, segment)| segment.split.key()).collect()
}

#[tokio::test]
async fn a_snapshot_is_rewritten_and_what_others_name_stays() {
    let store = Store::new();
    let repository = open(&store, "a");
    add(&repository, "old", &[1, 2]).await;
    add(&repository, "other", &[1]).await;
    let before = repository.state().await.unwrap().snapshots["old"].clone();
    rewrite(&repository).await.unwrap();
    assert_eq!(splits_of(&repository, "old").await, [split(2).key(), split(3).key()]);
    let after = repository.state().await.unwrap().snapshots["old"].clone();
    assert_eq!((&after.uuid, after.start_ms), (&before.uuid, before.start_ms));
    assert_ne!(after.manifest, before.manifest);
    assert!(store.has(&split(1).key()), "another snapshot names it");
    assert!(!store.has(&format!("snapshots/{}.json", before.manifest)));
    repository.remove_snapshots(&["other".to_owned()]).await.unwrap();
    assert!(!store.has(&split(1).key()));
    assert!([2, 3].iter().all(|id| store.has(&split(*id).key())));

    // A new reader sees the same log.
    let fresh = open(&store, "b");
    assert_eq!(splits_of(&fresh, "old").await, [split(2).key(), split(3).key()]);
}

#[tokio::test]
async fn of_two_who_rewrite_a_snapshot_one_looks_again() {
    let store = Store::new();
    let (one, other) = (open(&store, "a"), open(&store, "b"));
    add(&one, "old", &[1, 2]).await;
    let old = other.state().await.unwrap().snapshots["old"].clone();
    let late = basis(&other).await;
    rewrite(&one).await.unwrap();
    let (entry, index) = manifests(&other, "old", &[2]).await.unwrap();
    let replaced = other
        .replace_snapshot(&old, entry.manifest.clone(), &[index].into(), &late)
        .await
        .unwrap();
    assert_eq!(replaced, Replaced::Gone);
    one.remove_snapshots(&["old".to_owned()]).await.unwrap();
    let replaced = other
        .replace_snapshot(&old, entry.manifest, &HashSet::new(), &late)
        .await
        .unwrap();
    assert_eq!(replaced, Replaced::Gone, "it must not come back");
    assert!(names(&one).await.is_empty());
}

#[tokio::test]
async fn what_was_written_for_a_rewriting_and_swept_meanwhile_is_written_again() {
    let store = Store::new();
    let (one, other) = (open(&store, "a"), open(&store, "b"));
    add(&one, "old", &[1, 2]).await;
    let begun = basis(&one).await;
    let old = begun.state().snapshots["old"].clone();
    one.put(&split(3).key(), vec![3; 10].into()).await.unwrap();
    let (entry, index) = manifests(&one, "old", &[2, 3]).await.unwrap();
    // Without a mark it is garbage for another writer.
    other.cleanup().await.unwrap();
    assert!(!store.has(&split(3).key()));
    let needed: HashSet<String> = [split(3).key(), index].into();
    let replaced = one
        .replace_snapshot(&old, entry.manifest.clone(), &needed, &begun)
        .await;
    let Replaced::Condemned(condemned) = replaced.unwrap() else {
        panic!("it would name a removed object");
    };
    assert!(condemned.keys.contains(&split(3).key()) && condemned.keys.contains(&snapshot_key(&entry.manifest)));
    let again = one.wait_for_sweeps(condemned).await.unwrap();
    one.put(&split(3).key(), vec![3; 10].into()).await.unwrap();
    let (entry, _) = manifests(&one, "old", &[2, 3]).await.unwrap();
    let replaced = one.replace_snapshot(&old, entry.manifest, &needed, &again).await;
    assert!(matches!(replaced.unwrap(), Replaced::Committed(_)));
}

#[tokio::test]
async fn a_rewriting_that_is_killed_at_any_step_leaves_the_old_or_the_new_whole() {
    let (mut has_old, mut has_new) = (0, 0);
    for steps in 0..60 {
        let store = Store::new();
        add(&open(&store, "a"), "old", &[1, 2]).await;
        let killed = open(&store, "a");
        store.steps_left.store(steps, Ordering::Relaxed);
        let is_done = rewrite(&killed).await.is_ok();
        drop(killed);
        store.steps_left.store(-1, Ordering::Relaxed);

        let again = open(&store, "a");
        let (_, young) = again.cleanup_and_count().await.unwrap();
        assert_eq!(young, 0, "step {steps}: no writer is active");
        let splits = splits_of(&again, "old").await;
        let expected: &[u8] = match splits.contains(&split(3).key()) {
            true => &[2, 3],
            false => &[1, 2],
        };
        match expected {
            [1, 2] => has_old += 1,
            _ => has_new += 1,
        }
        for id in 1..=3 {
            let is_named = expected.contains(&id);
            assert_eq!(store.has(&split(id).key()), is_named, "step {steps}, split {id}");
        }
        assert!(again.state().await.unwrap().sweeps.is_empty(), "step {steps}");
        rewrite(&again)
            .await
            .unwrap_or_else(|error| panic!("step {steps}: {error}"));
        assert_eq!(splits_of(&again, "old").await, [split(2).key(), split(3).key()]);
        if is_done {
            assert!(has_old > 3 && has_new > 3, "{has_old} and {has_new}");
            return;
        }
    }
    panic!("the operation has fewer steps");
}

/// A writer that does not know of the rewrite clones the snapshot, which still exists.
#[tokio::test]
async fn a_clone_of_a_snapshot_that_is_rewritten_meanwhile_holds_what_is_new() {
    let store = Store::new();
    let (one, other) = (open(&store, "a"), open(&store, "b"));
    add(&one, "old", &[1, 2]).await;
    let renamed = |name: &'static str| {
        move |mut manifest: SnapshotManifest| {
            (manifest.name, manifest.uuid) = (name.to_owned(), format!("uuid-{name}"));
            Ok(manifest)
        }
    };
    let late = basis(&other).await;
    rewrite(&one).await.unwrap();
    other.clone_while_writing("old", renamed("clone"), late).await.unwrap();
    assert_eq!(splits_of(&one, "clone").await, [split(2).key(), split(3).key()]);

    // Another snapshot of the same name is a different snapshot.
    let late = basis(&other).await;
    one.remove_snapshots(&["old".to_owned()]).await.unwrap();
    one.put(&split(5).key(), vec![5; 10].into()).await.unwrap();
    let (entry, index) = manifests(&one, "old", &[5]).await.unwrap();
    let entry = SnapshotEntry {
        uuid: "another".to_owned(),
        ..entry
    };
    let needed = [split(5).key(), index].into();
    let added = one.add_snapshot(&entry, &needed, &basis(&one).await).await.unwrap();
    assert_eq!(added, Added::Committed);
    let refused = other.clone_while_writing("old", renamed("none"), late).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::SnapshotMissing);
}

#[tokio::test]
async fn a_cleanup_says_what_it_did_not_look_at() {
    let store = Store::new();
    let (one, other) = (open(&store, "a"), open(&store, "b"));
    add(&one, "old", &[1, 2]).await;
    store.now_ms.store(5, Ordering::Relaxed);
    let writing = other.begin_writing().await.unwrap();
    store.now_ms.store(10, Ordering::Relaxed);
    one.put(&split(3).key(), vec![3; 10].into()).await.unwrap();
    let (_, young) = one.cleanup_and_count().await.unwrap();
    assert_eq!(young, 1);
    assert!(store.has(&split(3).key()));
    other.end_writing(writing).await.unwrap();
    assert_eq!(one.cleanup_and_count().await.unwrap().1, 0);
    assert!(!store.has(&split(3).key()));
}
