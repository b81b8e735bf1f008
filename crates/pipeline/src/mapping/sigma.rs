//! Sigma's words in a pack file.

use firn_detect::{LogSource, LogSourceEntry, Substitute};

use super::pack::Sigma;
use super::pack_file::SigmaFile;

/// Converts the section of a pack file.
pub(super) fn sigma(file: &SigmaFile) -> Sigma {
    let log_sources = file.log_sources.iter().map(|entry| LogSourceEntry {
        log_source: LogSource {
            category: entry.category.clone(),
            product: entry.product.clone(),
            service: entry.service.clone(),
        },
        when: entry
            .when
            .iter()
            .map(|(field, values)| (field.clone(), values.texts()))
            .collect(),
        substitute: entry.substitute.as_ref().map(|file| Substitute {
            fields: file
                .fields
                .iter()
                .map(|(name, raw)| (name.clone(), raw.clone()))
                .collect(),
            partial: file.partial.clone(),
        }),
    });
    let fields = file
        .fields
        .iter()
        .map(|(name, raw)| (name.as_str().into(), raw.texts()));
    Sigma {
        fields: fields.collect(),
        unnamed_objects: file.unnamed_objects,
        log_sources: log_sources.collect(),
    }
}
