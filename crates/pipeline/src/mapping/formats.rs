//! Parsers that packs can name.

use super::pack::Format;
use super::pack_file::{ParserFile, ParserOptions};

/// Returns the parser of a pack. Fails with what is wrong.
pub(crate) fn format(file: &ParserFile) -> Result<Format, String> {
    let options = match file {
        ParserFile::Name(name) => &ParserOptions::named(name),
        ParserFile::Options(options) => options,
    };
    match options.format.as_str() {
        "json" => Ok(Format::Json),
        other => Err(format!("[{other}] is no format")),
    }
}

impl ParserOptions {
    fn named(name: &str) -> Self {
        Self {
            format: name.to_owned(),
            patterns: Vec::new(),
            columns: Vec::new(),
            separator: None,
            assign: None,
        }
    }
}
