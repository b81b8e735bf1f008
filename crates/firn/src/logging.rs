//! Logging setup: tracing to standard error, as text or as one JSON object per line.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::settings::LogFormat;

/// Starts logging for the rest of the process. `level` applies to firn's crates; libraries log from `warn` up, because
/// their `info` describes their internals. `RUST_LOG` overrides both for debugging.
pub(crate) fn start(level: &str, format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(directives(level)));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A line that cannot be written, for example on a full disk, is dropped: a report of the failure would use the
        // same output, and end the process if it fails.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    // A second call (tests in one process) keeps the first subscriber.
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
    };
}

fn directives(level: &str) -> String {
    let libraries = match level {
        "error" => "error",
        _ => "warn",
    };
    // A target of the filter is a prefix: this one applies to every crate of firn.
    format!("{libraries},firn={level}")
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn the_level_applies_to_every_crate_of_firn() {
        let filter = EnvFilter::new(directives("info"));
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::sink)
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            assert!(tracing::enabled!(target: "firn_shard::flush", Level::INFO));
            assert!(tracing::enabled!(target: "firn::serve", Level::INFO));
            assert!(!tracing::enabled!(target: "firn_shard::flush", Level::DEBUG));
            assert!(!tracing::enabled!(target: "hyper::proto", Level::INFO));
            assert!(tracing::enabled!(target: "hyper::proto", Level::WARN));
        });
    }
}
