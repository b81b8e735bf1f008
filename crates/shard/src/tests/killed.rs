//! Tests of a killed process, followed by a power loss in the next one.

use super::*;

#[test]
fn files_replaced_by_a_killed_flush_are_removed_only_after_the_commit_point_is_durable() {
    let dir = Path::new("/data/shard");
    for step in 0.. {
        let disk = SimDisk::new();
        let harness = Harness::create(Arc::new(disk.clone()), dir);
        harness.index(Some("a"), r#"{"n":1}"#);
        harness.shard.refresh().unwrap();
        let before = harness.documents();
        let killed: Arc<Mutex<Option<SimDisk>>> = Arc::default();
        let (steps, into) = (Arc::new(Mutex::new(0)), Arc::clone(&killed));
        disk.set_hook(Some(Arc::new(move |disk: &SimDisk, _| {
            let mut steps = steps.lock();
            if *steps == step {
                *into.lock() = Some(disk.kill());
            }
            *steps += 1;
        })));
        harness.shard.flush().unwrap();
        disk.set_hook(None);
        let Some(killed) = killed.lock().take() else {
            assert!(step > 5, "a flush takes more steps");
            return;
        };
        for seed in 0..20 {
            let next = killed.kill();
            drop(Harness::open(Arc::new(next.clone()), dir).unwrap());
            let again = Harness::open(Arc::new(next.crash(seed)), dir);
            let again = again.unwrap_or_else(|error| panic!("killed at step {step}, seed {seed}: {error}"));
            assert_eq!(again.documents(), before, "killed at step {step}, seed {seed}");
        }
    }
}
