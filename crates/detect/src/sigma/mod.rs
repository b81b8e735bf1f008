//! Sigma rules, read from their files as they are (Sigma specification 2.0, <https://github.com/SigmaHQ/sigma-specification>).
//!
//! What the specification leaves open is done as pySigma does it: a field without a value fails each test but the one for null, also
//! inside a list of values, and passes a negated one; keywords are looked for in each text of the event, and of several that are all
//! wanted each may be in another text.

mod bundle;
mod compile;
mod correlation;
mod encodings;
mod filter;
mod load;

pub use bundle::{Bundle, RefusedDocument, bundles};
pub(crate) use correlation::correlate;
pub use filter::{Filter, apply_filters};
pub use load::{Correlation, Document, Headline, Loaded, documents, headline, load, load_parts};

#[cfg(test)]
mod tests;
