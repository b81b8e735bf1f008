//! Budget of one document: steps and bytes, so that no document runs for ever or grows without limit.

use serde_json::Value;

use super::failure::{Failure, FailureKind};

/// Steps of one document. A processor, an iteration of `foreach` and an operation of a script cost one step; an
/// expression over a text costs one step per [`BYTES_PER_STEP`].
const STEPS_MAX: u64 = 1_000_000;

/// Bytes that the processors of one document may write, in sum. Elasticsearch has no such limit.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// Bytes of text that cost as much as one step.
const BYTES_PER_STEP: u64 = 64;

/// Bytes of a value beside its text.
const VALUE_BYTES: usize = 16;

/// What one document may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Remaining steps.
    pub steps: u64,
    /// Remaining bytes that processors may write.
    pub output_bytes: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            steps: STEPS_MAX,
            output_bytes: OUTPUT_BYTES_MAX,
        }
    }
}

impl Budget {
    /// Takes `steps` steps, or fails.
    pub(crate) fn take(&mut self, steps: u64) -> Result<(), Failure> {
        match self.steps.checked_sub(steps) {
            Some(remaining) => {
                self.steps = remaining;
                Ok(())
            }
            None => {
                self.steps = 0;
                let reason = "the document needs more steps than one document may take; simplify the pipeline";
                Err(Failure::new(FailureKind::BudgetExceeded, reason))
            }
        }
    }

    /// Takes the steps of reading a text of `len` bytes.
    pub(crate) fn take_text(&mut self, len: usize) -> Result<(), Failure> {
        self.take(1 + len as u64 / BYTES_PER_STEP)
    }

    /// Takes the bytes of a copy of a value, or fails.
    pub(crate) fn write_value(&mut self, value: &Value) -> Result<(), Failure> {
        match value {
            Value::String(text) => self.write(VALUE_BYTES + text.len()),
            Value::Array(values) => {
                self.write(VALUE_BYTES)?;
                values.iter().try_for_each(|value| self.write_value(value))
            }
            Value::Object(fields) => {
                self.write(VALUE_BYTES)?;
                fields.iter().try_for_each(|(name, value)| {
                    self.write(name.len())?;
                    self.write_value(value)
                })
            }
            _ => self.write(VALUE_BYTES),
        }
    }

    /// Takes `len` bytes of output, or fails.
    pub(crate) fn write(&mut self, len: usize) -> Result<(), Failure> {
        match self.output_bytes.checked_sub(len as u64) {
            Some(remaining) => {
                self.output_bytes = remaining;
                Ok(())
            }
            None => {
                self.output_bytes = 0;
                let reason = "the processors of one document wrote more bytes than they may; simplify the pipeline";
                Err(Failure::new(FailureKind::BudgetExceeded, reason))
            }
        }
    }
}
