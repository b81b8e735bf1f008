//! Continuation of a pipeline after a processor.

/// What follows a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The next processor.
    Continue,
    /// Nothing: the document is not indexed (`drop`).
    Drop,
    /// The end of this pipeline; a pipeline that called it continues (`terminate`).
    Terminate,
    /// The end of all pipelines; the pipelines of the new index follow (`reroute`).
    Reroute,
}
