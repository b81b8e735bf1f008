//! Merging mappings.

impl super::Mapping {
    /// This mapping with `new` merged in; refuses what Elasticsearch refuses, by field.
    pub fn merge(&self, _new: &super::Mapping) -> crate::Result<super::Mapping> {
        todo!()
    }
}
