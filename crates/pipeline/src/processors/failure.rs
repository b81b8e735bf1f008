//! Failure of a processor, with Elasticsearch's type and text.

use std::fmt;

/// Kind of a failure: the exception that Elasticsearch throws. The REST API picks the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The document does not fit the processor; the client can fix the document or the pipeline.
    IllegalArgument,
    /// A called pipeline does not exist, or pipelines call each other in a cycle.
    IllegalState,
    /// A value has another type than the processor can work with.
    ClassCast,
    /// A value is null.
    NullPointer,
    /// A list has no such element.
    IndexOutOfBounds,
    /// A text does not fit a dissect pattern.
    Dissect,
    /// A division by zero.
    Arithmetic,
    /// A change of something that can only be read.
    UnsupportedOperation,
    /// The `fail` processor.
    Fail,
    /// A script or an `if` condition failed.
    Script,
    /// A size is malformed.
    Parse,
    /// A number or date is malformed.
    NumberFormat,
    /// Pipelines call each other in a cycle.
    Cycle,
    /// The document needs more than its budget.
    BudgetExceeded,
}

impl FailureKind {
    /// Returns Elasticsearch's `type` of the error body.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::IllegalArgument => "illegal_argument_exception",
            Self::IllegalState => "illegal_state_exception",
            Self::ClassCast => "class_cast_exception",
            Self::NullPointer => "null_pointer_exception",
            Self::IndexOutOfBounds => "index_out_of_bounds_exception",
            Self::Dissect => "find_match",
            Self::Arithmetic => "arithmetic_exception",
            Self::UnsupportedOperation => "unsupported_operation_exception",
            Self::Fail => "fail_processor_exception",
            Self::Script => "script_exception",
            Self::Parse => "parse_exception",
            Self::NumberFormat => "number_format_exception",
            Self::Cycle => "graph_structure_exception",
            Self::BudgetExceeded => "circuit_breaking_exception",
        }
    }

    /// Returns whether the client can fix the document or the pipeline (400); others are 500 in Elasticsearch.
    pub fn is_client_error(self) -> bool {
        matches!(
            self,
            Self::IllegalArgument
                | Self::Parse
                | Self::NumberFormat
                | Self::Script
                | Self::Cycle
                | Self::BudgetExceeded
        )
    }
}

/// Failure of a document in a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Elasticsearch's exception.
    pub kind: FailureKind,
    /// Elasticsearch's text.
    pub reason: String,
    /// Failure that caused this one (`caused_by`).
    pub cause: Option<Box<Failure>>,
    /// Type of the failed processor.
    pub processor_type: Option<&'static str>,
    /// Tag of the failed processor.
    pub processor_tag: Option<String>,
    /// Pipeline of the failed processor, if another pipeline called it.
    pub pipeline: Option<String>,
}

impl Failure {
    /// Creates a failure that does not know its processor yet.
    pub fn new(kind: FailureKind, reason: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.into(),
            cause: None,
            processor_type: None,
            processor_tag: None,
            pipeline: None,
        }
    }

    /// Creates a failure of Elasticsearch's `IllegalArgumentException`.
    pub(crate) fn illegal(reason: impl Into<String>) -> Self {
        Self::new(FailureKind::IllegalArgument, reason)
    }

    /// Adds the cause.
    #[must_use]
    pub(crate) fn caused_by(mut self, cause: Failure) -> Self {
        self.cause = Some(Box::new(cause));
        self
    }

    /// Returns the innermost cause, whose text `_ingest.on_failure_message` gets.
    pub fn root(&self) -> &Failure {
        self.cause.as_deref().map_or(self, Failure::root)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Failure {}
