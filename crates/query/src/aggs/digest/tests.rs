//! Tests of the digest: exact while small, close when large, for any split.

use proptest::prelude::*;

use super::*;

fn of(values: &[f64]) -> Digest {
    let mut digest = Digest::new(COMPRESSION);
    values.iter().for_each(|value| {
        digest.add(*value);
    });
    digest
}

/// Numbers with a skewed distribution, as durations have.
fn skewed(seed: u64, count: usize) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count)
        .map(|_| (-random.f64().max(1e-12).ln() * 20.0).powi(2))
        .collect()
}

/// Returns the part of `sorted` at or below `value`.
fn part_below(sorted: &[f64], value: f64) -> f64 {
    sorted.partition_point(|own| *own <= value) as f64 / sorted.len() as f64
}

#[test]
fn few_values_are_exact() {
    let digest = of(&[10.5, 1.0, 4.0, 2.0, 3.0]).sorted();
    for (part, expected) in [
        (0.0, 1.0),
        (0.25, 2.0),
        (0.5, 3.0),
        (0.75, 4.0),
        (0.95, 9.2),
        (1.0, 10.5),
    ] {
        assert!((digest.quantile(part).unwrap() - expected).abs() < 1e-9, "{part}");
    }
    for (value, expected) in [(0.0, 0.0), (1.0, 0.1), (2.5, 0.4), (3.0, 0.5), (10.5, 0.9), (20.0, 1.0)] {
        assert!((digest.rank(value).unwrap() - expected).abs() < 1e-9, "{value}");
    }
    assert_eq!((digest.min(), digest.max()), (Some(1.0), Some(10.5)));
    assert_eq!(digest.median_absolute_deviation(), Some(1.0));
}

#[test]
fn equal_values_share_a_rank() {
    let digest = of(&[1.0, 2.0, 2.0, 2.0, 3.0]).sorted();
    assert_eq!(digest.rank(2.0), Some(0.5));
    assert_eq!(digest.quantile(0.5), Some(2.0));
    let one = of(&[7.0]).sorted();
    assert_eq!(
        (one.quantile(0.0), one.quantile(0.99), one.rank(7.0)),
        (Some(7.0), Some(7.0), Some(0.5))
    );
}

#[test]
fn an_empty_digest_has_no_answers() {
    let digest = of(&[f64::NAN, f64::INFINITY]).sorted();
    assert_eq!(
        (digest.quantile(0.5), digest.rank(1.0), digest.min()),
        (None, None, None)
    );
    assert_eq!(digest.median_absolute_deviation(), None);
}

#[test]
fn many_values_are_close() {
    let values = skewed(1, 200_000);
    let digest = of(&values).sorted();
    let mut sorted = values;
    sorted.sort_unstable_by(f64::total_cmp);
    for part in [0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999] {
        let value = digest.quantile(part).unwrap();
        // Ranks at the ends are more exact than in the middle.
        let allowed = 0.02 * (part * (1.0 - part)).sqrt() + 1e-4;
        assert!((part_below(&sorted, value) - part).abs() < allowed, "{part}: {value}");
        assert!((digest.rank(value).unwrap() - part).abs() < allowed, "{part}");
    }
    assert_eq!(digest.min(), sorted.first().copied());
    assert_eq!(digest.quantile(1.0), sorted.last().copied());
}

#[test]
fn the_size_is_bounded() {
    for compression in [1.0, 100.0, 1e9] {
        let mut digest = Digest::new(compression);
        let mut grown = 0;
        for value in skewed(2, 100_000) {
            grown += digest.add(value);
        }
        let limit = 2.0 * compression.min(COMPRESSION_MAX) + 2.0;
        assert!(
            (digest.centroids.len() as f64) < limit,
            "{compression}: {}",
            digest.centroids.len()
        );
        assert!(
            grown <= 2 * size_of::<f64>() * digest.buffer_max(),
            "{compression}: {grown}"
        );
    }
}

#[test]
fn parts_of_many_values_merge_closely() {
    let values = skewed(3, 100_000);
    let mut sorted = values.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    for parts in [2, 7, 64] {
        let mut merged = Digest::new(COMPRESSION);
        for part in (0..parts).rev() {
            merged.merge(of(&values
                .iter()
                .copied()
                .skip(part)
                .step_by(parts)
                .collect::<Vec<_>>()));
        }
        let merged = merged.sorted();
        for part in [0.01, 0.5, 0.95, 0.99] {
            let value = merged.quantile(part).unwrap();
            let allowed = 0.03 * (part * (1.0 - part)).sqrt() + 1e-4;
            assert!(
                (part_below(&sorted, value) - part).abs() < allowed,
                "{parts}, {part}: {value}"
            );
        }
    }
}

proptest! {
    #[test]
    fn small_merges_do_not_depend_on_split_or_order(
        values in prop::collection::vec(-1000_i32..1000, 1..200),
        parts in 1_usize..6,
        part in 0.0_f64..=1.0,
    ) {
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        let whole = of(&values).sorted();
        let mut merged = Digest::new(COMPRESSION);
        for number in (0..parts).rev() {
            merged.merge(of(&values.iter().copied().skip(number).step_by(parts).collect::<Vec<_>>()));
        }
        let merged = merged.sorted();
        prop_assert_eq!(merged.quantile(part), whole.quantile(part));
        prop_assert_eq!(merged.rank(values[0]), whole.rank(values[0]));
        prop_assert_eq!(merged.median_absolute_deviation(), whole.median_absolute_deviation());
    }

    #[test]
    fn answers_are_in_order(values in prop::collection::vec(-1e6_f64..1e6, 1..3000), compression in 1.0_f64..50.0) {
        let mut digest = Digest::new(compression);
        values.iter().for_each(|value| {
        digest.add(*value);
    });
        let digest = digest.sorted();
        let quantiles: Vec<f64> = (0..=100).filter_map(|part| digest.quantile(f64::from(part) / 100.0)).collect();
        prop_assert!(quantiles.is_sorted());
        let ranks: Vec<f64> = quantiles.iter().filter_map(|value| digest.rank(*value)).collect();
        prop_assert!(ranks.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9));
    }
}
