//! Part of the analysis that writes, reads, replaces, lists and removes objects.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::sync::Semaphore;

use super::{Analysis, BYTES_IN_MEMORY_MAX, Run};
use crate::object::{ObjectError, ObjectErrorKind, PutMode};

/// Ranges to read per object.
const RANGES: usize = 3;
/// One of this many objects is replaced during a read.
const REPLACED_ONE_OF: usize = 8;
/// Bytes per permit of the memory semaphore.
const MEMORY_UNIT: u64 = 4096;

/// Writes the objects and reads them back. Returns their keys and lengths.
pub(super) async fn write_and_read(run: &Run<'_>) -> Result<BTreeMap<String, u64>, ObjectError> {
    // Each object is in memory twice while it is replaced.
    let memory = Semaphore::new((2 * BYTES_IN_MEMORY_MAX / MEMORY_UNIT) as usize);
    let plans = lens(run).into_iter().enumerate();
    let blobs = stream::iter(plans.map(|(number, len)| {
        let memory = &memory;
        async move {
            let units = (2 * len).div_ceil(MEMORY_UNIT) as u32;
            let _held = memory.acquire_many(units).await.expect("the semaphore stays open");
            let key = run.key(&format!("blob-{number:06}"));
            one(run, &key, number, len).await?;
            Ok((key, len))
        }
    }));
    blobs
        .buffer_unordered(run.options.concurrency as usize)
        .try_collect()
        .await
}

/// Returns the lengths of all objects: log-uniform, one of maximum size, all within the total.
fn lens(run: &Run<'_>) -> Vec<u64> {
    let options = run.options;
    let mut random = fastrand::Rng::with_seed(options.seed);
    let mut left = options.total_bytes_max;
    let magnitudes = (options.blob_bytes_max as f64).ln();
    let count = u64::from(options.blob_count);
    (0..count)
        .map(|number| {
            let drawn = match number {
                0 => options.blob_bytes_max,
                _ => (random.f64() * magnitudes).exp() as u64,
            };
            // Reserves at least one byte for each remaining object.
            let rest = count - number - 1;
            let len = drawn.min(left.saturating_sub(rest)).max(1);
            left = left.saturating_sub(len);
            len
        })
        .collect()
}

/// Returns bytes that are unique to an object and version.
fn content(seed: u64, number: usize, version: u64, len: u64) -> Bytes {
    let mut random = fastrand::Rng::with_seed(seed ^ (number as u64).rotate_left(32) ^ version.rotate_left(56));
    let mut bytes = vec![0; len as usize];
    random.fill(&mut bytes);
    bytes.into()
}

async fn one(run: &Run<'_>, key: &str, number: usize, len: u64) -> Result<(), ObjectError> {
    match run.objects.info(key).await {
        Err(error) if error.kind == ObjectErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(_) => run.violation(format!("object [{key}] exists before it was written")),
    }
    let first = content(run.options.seed, number, 0, len);
    let write = run.objects.write(key, first.clone(), PutMode::Overwrite);
    run.timed(|found| &mut found.writes, len, write).await?;
    read_back(run, key, number, &first).await?;
    if number.is_multiple_of(REPLACED_ONE_OF) {
        let second = content(run.options.seed, number, 1, len);
        replace_while_read(run, key, &first, &second).await?;
        read_back(run, key, number, &second).await?;
    }
    Ok(())
}

/// Reads an object as a whole, in ranges, and its end.
async fn read_back(run: &Run<'_>, key: &str, number: usize, expected: &Bytes) -> Result<(), ObjectError> {
    let len = expected.len() as u64;
    let whole = run.objects.read_all(key, len);
    let (bytes, info) = run.timed(|found| &mut found.reads, len, whole).await?;
    if bytes != *expected || info.len != len {
        run.violation(format!("object [{key}] differs from the written bytes"));
    }
    let mut random = fastrand::Rng::with_seed(run.options.seed ^ number as u64);
    for _ in 0..RANGES {
        let start = random.u64(..len);
        let end = random.u64(start + 1..=len);
        let range = run.objects.read(key, start..end);
        let bytes = run.timed(|found| &mut found.ranged_reads, end - start, range).await?;
        if bytes != expected[start as usize..end as usize] {
            run.violation(format!(
                "bytes {start} to {end} of object [{key}] differ from the written bytes"
            ));
        }
    }
    let tail_len = random.u64(1..=len);
    let tail = run.objects.read_end(key, tail_len);
    let (bytes, info) = run.timed(|found| &mut found.ranged_reads, tail_len, tail).await?;
    if bytes != expected[(len - tail_len) as usize..] || info.len != len {
        run.violation(format!(
            "the last {tail_len} bytes of object [{key}] differ from the written bytes"
        ));
    }
    Ok(())
}

/// Reads an object during a replacement: the read must return the old or the new content, complete.
async fn replace_while_read(run: &Run<'_>, key: &str, first: &Bytes, second: &Bytes) -> Result<(), ObjectError> {
    let len = first.len() as u64;
    let write = run.objects.write(key, second.clone(), PutMode::Overwrite);
    let write = run.timed(|found: &mut Analysis| &mut found.overwrites, len, write);
    let (written, read) = futures_util::future::join(write, run.objects.read_all(key, len)).await;
    written?;
    let (bytes, _) = read?;
    if bytes != *first && bytes != *second {
        run.violation(format!("object [{key}] was read partially replaced"));
    }
    Ok(())
}

/// Checks that a listing contains all written objects.
pub(super) async fn list(run: &Run<'_>, written: &BTreeMap<String, u64>) -> Result<(), ObjectError> {
    let prefix = run.key("blob-");
    let listed = run
        .timed(|found| &mut found.listings, 0, run.objects.list(&prefix))
        .await?;
    let listed: BTreeMap<String, u64> = listed.into_iter().map(|info| (info.key, info.len)).collect();
    let missing = written.keys().filter(|key| !listed.contains_key(*key)).count();
    if missing > 0 {
        run.found.lock().notes.push(format!(
            "a listing missed {missing} of {} objects that were written before; firn finds commits without it",
            written.len()
        ));
    }
    for (key, len) in &listed {
        if written.get(key) != Some(len) {
            run.violation(format!(
                "a listing contains object [{key}] with {len} bytes, which was never written"
            ));
        }
    }
    Ok(())
}

/// Removes all objects and checks that they no longer exist.
pub(super) async fn remove(run: &Run<'_>) -> Result<(), ObjectError> {
    let removed = remove_all(run).await?;
    let gone = stream::iter(removed.into_iter().map(|key| async move {
        match run.objects.info(&key).await {
            Err(error) if error.kind == ObjectErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(_) => {
                run.violation(format!("object [{key}] still exists after it was deleted"));
                Ok(())
            }
        }
    }));
    gone.buffer_unordered(run.options.concurrency as usize)
        .try_collect::<()>()
        .await?;
    let left = run
        .timed(|found| &mut found.listings, 0, run.objects.list(&run.prefix))
        .await?;
    if !left.is_empty() {
        run.found
            .lock()
            .notes
            .push(format!("a listing still contained {} deleted objects", left.len()));
    }
    Ok(())
}

/// Removes all objects and returns their keys.
pub(super) async fn remove_all(run: &Run<'_>) -> Result<Vec<String>, ObjectError> {
    let listed = run.objects.list(&run.prefix).await?;
    let deletes = stream::iter(listed.into_iter().map(|info| async move {
        let delete = run.objects.delete(&info.key);
        run.timed(|found| &mut found.deletes, 0, delete).await?;
        Ok(info.key)
    }));
    deletes
        .buffer_unordered(run.options.concurrency as usize)
        .try_collect()
        .await
}
