//! Part of the analysis in which writers race for a key and only one may win.
//!
//! Commits of a repository are objects that must not exist before. If two writers of the same commit both get a
//! success, one snapshot is lost. So this is the most likely reason to refuse a store.

use bytes::Bytes;
use futures_util::future::join_all;

use super::Run;
use crate::object::{ObjectError, ObjectErrorKind, PutMode};

/// Races, each for another key. A gateway that compares and writes in two steps loses about one in five.
const RACES: usize = 30;
/// Maximum number of writers per race; the limit of requests in flight allows no more anyway.
const WRITERS_MAX: usize = 16;
/// Increments of the shared counter per writer.
const ADDITIONS: usize = 3;
/// Attempts after which a writer that always loses gives up.
const ATTEMPTS_MAX: usize = 200;
/// Maximum size of the counter and its writer.
const REGISTER_BYTES_MAX: u64 = 64;

fn writers(run: &Run<'_>) -> usize {
    (run.options.concurrency as usize).clamp(2, WRITERS_MAX)
}

/// Races creations of the same object: exactly one must succeed, and its content must be stored.
pub(super) async fn of_creations(run: &Run<'_>) -> Result<(), ObjectError> {
    for race in 0..RACES {
        let key = run.key(&format!("race-{race:03}"));
        let contents: Vec<Bytes> = (0..writers(run))
            .map(|writer| Bytes::from(format!("race {race} writer {writer}")))
            .collect();
        let writes = contents.iter().map(|content| {
            let write = run.objects.write(&key, content.clone(), PutMode::Create);
            run.timed(|found| &mut found.conditional_writes, content.len() as u64, write)
        });
        let outcomes = join_all(writes).await;
        let mut winners = Vec::new();
        for (outcome, content) in outcomes.into_iter().zip(&contents) {
            match outcome {
                Ok(_) => winners.push(content),
                Err(error) if error.kind == ObjectErrorKind::Exists => {}
                Err(error) if error.kind == ObjectErrorKind::Unsupported => {
                    run.violation(format!("the store has no conditional writes: {}", error.reason));
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        let [winner] = winners.as_slice() else {
            run.violation(format!(
                "conditional writes are not atomic: {} of {} writers created the same object",
                winners.len(),
                contents.len()
            ));
            return Ok(());
        };
        let (bytes, _) = run.objects.read_all(&key, winner.len() as u64).await?;
        if bytes != **winner {
            run.violation("a write that failed because the object exists has replaced it".to_owned());
            return Ok(());
        }
    }
    Ok(())
}

/// Races increments by compare and replace: no increment may be lost.
pub(super) async fn of_replacements(run: &Run<'_>) -> Result<(), ObjectError> {
    let key = run.key("register");
    let zero = Bytes::from_static(b"0");
    run.objects.write(&key, zero, PutMode::Overwrite).await?;
    let outcomes = join_all((0..writers(run)).map(|writer| add(run, &key, writer))).await;
    let mut expected = 0;
    for outcome in outcomes {
        match outcome {
            Ok(additions) => expected += additions,
            Err(error) if error.kind == ObjectErrorKind::Unsupported => {
                let note = "the store has no conditional replacements; firn does not need them";
                run.found.lock().notes.push(note.to_owned());
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    let (number, _) = read_number(run, &key).await?;
    if number != expected {
        run.violation(format!(
            "conditional replacements are not atomic: after {expected} increments the counter is {number}"
        ));
    }
    Ok(())
}

/// Increments the counter several times and returns the number of successes.
async fn add(run: &Run<'_>, key: &str, writer: usize) -> Result<usize, ObjectError> {
    let mut additions = 0;
    for _ in 0..ATTEMPTS_MAX {
        if additions == ADDITIONS {
            break;
        }
        let (number, etag) = read_number(run, key).await?;
        // The content is unique per writer, so after a lost answer it shows whether this write succeeded.
        let next = Bytes::from(format!("{} {writer} {additions}", number + 1));
        let write = run.objects.write(key, next, PutMode::Replace(etag));
        match run.timed(|found| &mut found.conditional_writes, 0, write).await {
            Ok(_) => additions += 1,
            Err(error) if error.kind == ObjectErrorKind::Changed => {}
            Err(error) => return Err(error),
        }
    }
    Ok(additions)
}

async fn read_number(run: &Run<'_>, key: &str) -> Result<(usize, String), ObjectError> {
    let (bytes, info) = run.objects.read_all(key, REGISTER_BYTES_MAX).await?;
    let text = std::str::from_utf8(&bytes).ok();
    let number = text.and_then(|text| text.split(' ').next()?.parse().ok());
    let number = number.ok_or_else(|| ObjectError::new(ObjectErrorKind::Corrupt, key, "it holds no number"))?;
    let no_etag = || ObjectError::new(ObjectErrorKind::Unsupported, key, "it has no etag");
    Ok((number, info.etag.ok_or_else(no_etag)?))
}
