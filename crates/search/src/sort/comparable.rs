//! Encoding of sort values as comparable bytes, for rows that leave their shard.

use firn_segment::columns::column::Number;

use super::{ShardKey, SortValue};

impl ShardKey {
    /// Appends the value as bytes that compare like the values. No encoding is a prefix of another, so the
    /// encodings of several keys can be concatenated.
    pub(crate) fn write_comparable(&self, value: &SortValue, out: &mut Vec<u8>) {
        out.push(self.rank(value));
        let start = out.len();
        match value {
            SortValue::Missing => return,
            SortValue::Number(number) => {
                // If indices disagree about the type, numbers sort before strings.
                out.push(0);
                write_number(*number, out);
            }
            SortValue::Text(text) => {
                out.push(1);
                for &byte in text.as_bytes() {
                    out.push(byte);
                    if byte == 0 {
                        out.push(0xff);
                    }
                }
                out.extend([0, 0]);
            }
        }
        if self.descending {
            for byte in &mut out[start..] {
                *byte = !*byte;
            }
        }
    }
}

/// Writes the largest double that is not above the number, then the difference of an integer to it.
fn write_number(number: Number, out: &mut Vec<u8>) {
    let (float, rest) = match number {
        // Adding zero makes -0.0 the same as 0.0.
        Number::Float(float) => (float + 0.0, 0),
        Number::Int(int) => {
            let near = int as f64;
            let below = if near as i128 > int { near.next_down() } else { near };
            (below, (int - below as i128) as u64)
        }
    };
    let bits = float.to_bits();
    let ordered = if bits >> 63 == 0 { bits | 1 << 63 } else { !bits };
    out.extend(ordered.to_be_bytes());
    out.extend(rest.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = SortValue> {
        prop_oneof![
            Just(SortValue::Missing),
            any::<i64>().prop_map(|value| SortValue::Number(Number::Int(value.into()))),
            any::<u64>().prop_map(|value| SortValue::Number(Number::Int(value.into()))),
            (-3i128..3).prop_map(|value| SortValue::Number(Number::Int(value))),
            (-3i128..3).prop_map(|value| SortValue::Number(Number::Int((1 << 60) + value))),
            prop_oneof![-2.5f64..2.5, Just(1152921504606846976.0)]
                .prop_map(|value| SortValue::Number(Number::Float(value))),
            "[a\\x00]{0,3}".prop_map(|text| SortValue::Text(text.into())),
        ]
    }

    proptest! {
        #[test]
        fn bytes_compare_as_values(a in value(), b in value(), descending: bool) {
            let mut key = ShardKey::score();
            key.descending = descending;
            let bytes = |value: &SortValue| {
                let mut out = Vec::new();
                key.write_comparable(value, &mut out);
                out
            };
            prop_assert_eq!(bytes(&a).cmp(&bytes(&b)), key.compare(&a, &b));
        }
    }
}
