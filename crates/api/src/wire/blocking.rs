//! Serialization of large answers on blocking threads, so that it does not delay other connections.

use std::panic::resume_unwind;

use firn_engine::Error;

/// Serializes a large answer on a blocking thread.
pub(crate) async fn print<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done),
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Err(Error::internal("the server stops")),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn answers_are_printed_on_another_thread() {
        let here = thread::current().id();
        assert_ne!(print(|| thread::current().id()).await.unwrap(), here);
    }
}
