//! `boosting` query: matches of one query, some of which score less.

use firn_model::Result;
use firn_query::query::Boosting;
use tantivy::query::{Explanation, Scorer, Weight};
use tantivy::{DocId, DocSet, Score, SeekDangerResult, SegmentReader};

use super::super::weight::{Compiled, Excluded, no_explanation};
use crate::compile::Compiler;

pub(crate) fn compile(compiler: &Compiler, part: &Boosting) -> Result<Compiled> {
    let scoring = compiler.scoring();
    let positive = compiler.compile(&part.positive)?;
    // Compiled even without scores, so that an invalid query fails in both cases.
    let negative = compiler.filter().unmarked().compile(&part.negative)?;
    if !scoring || matches!(positive, Compiled::None) || matches!(negative, Compiled::None) {
        return Ok(positive.boost(part.boost, scoring));
    }
    let weight = BoostingWeight {
        positive: positive.into_weight(),
        negative: negative.into_weight(),
        negative_boost: part.negative_boost,
    };
    Ok(Compiled::Some(Box::new(weight)).boost(part.boost, scoring))
}

struct BoostingWeight {
    positive: Box<dyn Weight>,
    negative: Box<dyn Weight>,
    negative_boost: Score,
}

impl Weight for BoostingWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        Ok(Box::new(BoostingDocs {
            positive: self.positive.scorer(reader, boost)?,
            negative: Excluded::new(self.negative.scorer(reader, 1.0)?),
            negative_boost: self.negative_boost,
        }))
    }

    fn explain(&self, _reader: &SegmentReader, _doc: DocId) -> tantivy::Result<Explanation> {
        no_explanation()
    }
}

/// The documents of the positive query; the negative query changes only their scores.
struct BoostingDocs {
    positive: Box<dyn Scorer>,
    negative: Excluded,
    negative_boost: Score,
}

impl DocSet for BoostingDocs {
    fn advance(&mut self) -> DocId {
        self.positive.advance()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.positive.seek(target)
    }

    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        self.positive.seek_danger(target)
    }

    fn doc(&self) -> DocId {
        self.positive.doc()
    }

    fn size_hint(&self) -> u32 {
        self.positive.size_hint()
    }

    fn cost(&self) -> u64 {
        self.positive.cost()
    }
}

impl Scorer for BoostingDocs {
    fn score(&mut self) -> Score {
        let score = self.positive.score();
        match self.negative.contains(self.positive.doc()) {
            true => score * self.negative_boost,
            false => score,
        }
    }
}
