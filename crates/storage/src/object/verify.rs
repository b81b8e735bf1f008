//! `_verify`: checks that a repository can be written, read back and cleaned up, and that the store honours conditional
//! writes, on which commits depend.

use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};

use super::{ObjectError, ObjectErrorKind, Objects, PutMode};

/// Writes an object below `tests-TOKEN/`, reads it back, and removes it. The token identifies this run, so that nodes
/// that verify at the same time do not conflict.
///
/// Fails with [`ErrorKind::Repository`] and the reason if the store is not usable. A store that overwrites an object in
/// spite of the condition is not usable: the commits of two writers could destroy each other.
pub async fn verify(repository: &str, objects: &dyn Objects, token: &str) -> Result<()> {
    let key = format!("tests-{token}/node.dat");
    let outcome = write_and_read(objects, &key, token).await;
    // The object is removed in any case; the first failure is the one to report.
    let cleaned = objects.delete(&key).await.map_err(|error| error.to_string());
    let problem = outcome.and(cleaned);
    problem.map_err(|reason| {
        let reason = format!("[{repository}] store location is not accessible on the node: {reason}");
        Error::new(ErrorKind::Repository, reason)
    })
}

async fn write_and_read(objects: &dyn Objects, key: &str, token: &str) -> Result<(), String> {
    let reason_of = |error: ObjectError| error.to_string();
    let written = Bytes::from(token.to_owned());
    objects
        .write(key, written.clone(), PutMode::Create)
        .await
        .map_err(reason_of)?;
    let (read, _) = objects.read_all(key, written.len() as u64).await.map_err(reason_of)?;
    if read != written {
        return Err(format!("object [{key}] differs from the written bytes"));
    }
    match objects
        .write(key, Bytes::from_static(b"another"), PutMode::Create)
        .await
    {
        Err(error) if error.kind == ObjectErrorKind::Exists => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(_) => Err("the store ignores conditional writes, which snapshot commits require".to_owned()),
    }
}
