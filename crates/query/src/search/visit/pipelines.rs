//! Parts of pipelines.

use super::{Accept, Visitor, accept_fields, accept_variants};
use crate::aggs::DecimalFormat;
use crate::aggs::pipeline::{
    BucketScript, BucketSelector, BucketSort, BucketsPath, Common, CumulativeSum, Derivative, ExtendedStatsBucket,
    GapPolicy, MovingFn, Normalize, NormalizeMethod, PercentilesBucket, Pipeline, Scripted, SerialDiff, Sibling,
};
use crate::expression::Script;

accept_variants!(Pipeline {
    Derivative(part),
    CumulativeSum(part),
    MovingFn(part),
    SerialDiff(part),
    BucketSort(part),
    BucketSelector(part),
    BucketScript(part),
    Normalize(part),
    AvgBucket(part),
    MinBucket(part),
    MaxBucket(part),
    SumBucket(part),
    StatsBucket(part),
    ExtendedStatsBucket(part),
    PercentilesBucket(part),
});

accept_fields!(Common {
    path,
    gap_policy,
    format
});
accept_variants!(GapPolicy {
    Skip,
    InsertZeros,
    KeepValues,
});
accept_fields!(Derivative { common, unit });
accept_fields!(CumulativeSum { common });
accept_fields!(MovingFn {
    common,
    window,
    shift,
    script
});
accept_fields!(SerialDiff { common, lag });
accept_fields!(BucketSort {
    sort,
    from,
    size,
    gap_policy
});
accept_fields!(BucketScript { scripted, format });
accept_fields!(Scripted {
    variables,
    gap_policy,
    script
});
accept_fields!(Normalize { common, method });
accept_variants!(NormalizeMethod {
    Rescale0To1,
    Rescale0To100,
    PercentOfSum,
    Mean,
    ZScore,
    Softmax,
});
accept_fields!(ExtendedStatsBucket { common, sigma });
accept_fields!(PercentilesBucket {
    common,
    percents,
    keyed
});

/// The variant of [`Pipeline`] determines the summary.
impl Accept for Sibling {
    fn accept(&self, visitor: &mut dyn Visitor) {
        let Self { common, answer: _ } = self;
        common.accept(visitor);
    }
}

impl Accept for BucketSelector {
    fn accept(&self, visitor: &mut dyn Visitor) {
        self.0.accept(visitor);
    }
}

impl Accept for BucketsPath {
    fn accept(&self, visitor: &mut dyn Visitor) {
        visitor.text(self.text());
    }
}

impl Accept for DecimalFormat {
    fn accept(&self, visitor: &mut dyn Visitor) {
        visitor.text(self.pattern());
    }
}

/// Scripts know no time and draw no random numbers.
impl Accept for Script {
    fn accept(&self, visitor: &mut dyn Visitor) {
        visitor.json(&self.print());
    }
}
