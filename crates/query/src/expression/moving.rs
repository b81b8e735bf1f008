//! Moving functions (`MovingFunctions.*`): one number from a window of values.
//!
//! They follow the functions that Elasticsearch's reference describes under "Moving function aggregation"; NaN values
//! are gaps and do not count.

/// A function of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MovingFunction {
    Max,
    Min,
    Sum,
    StdDev,
    UnweightedAvg,
    LinearWeightedAvg,
    Ewma,
    Holt,
    HoltWinters,
}

use MovingFunction::*;

/// Added to every value by multiplicative Holt-Winters, to avoid division by zero.
const PADDING: f64 = 1e-10;

impl MovingFunction {
    pub(super) fn find(name: &str) -> Option<Self> {
        Some(match name {
            "max" => Max,
            "min" => Min,
            "sum" => Sum,
            "stdDev" => StdDev,
            "unweightedAvg" => UnweightedAvg,
            "linearWeightedAvg" => LinearWeightedAvg,
            "ewma" => Ewma,
            "holt" => Holt,
            "holtWinters" => HoltWinters,
            _ => return None,
        })
    }

    /// Returns the number of arguments besides the values.
    pub(super) fn arity(self) -> usize {
        match self {
            Max | Min | Sum | UnweightedAvg | LinearWeightedAvg => 0,
            StdDev | Ewma => 1,
            Holt => 2,
            HoltWinters => 5,
        }
    }

    /// Calls the function for a window, with as many arguments as its arity; a flag is 0 or 1.
    pub(super) fn call(self, values: &[f64], arguments: &[f64]) -> Result<f64, String> {
        let present = || values.iter().copied().filter(|value| !value.is_nan());
        let argument = |index: usize| arguments.get(index).copied().unwrap_or(f64::NAN);
        let nothing = present().next().is_none();
        Ok(match self {
            // Java's streams have no gaps: one NaN makes the maximum NaN.
            Max | Min if values.is_empty() || values.iter().any(|value| value.is_nan()) => f64::NAN,
            Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Min => values.iter().copied().fold(f64::INFINITY, f64::min),
            Sum => values.iter().sum(),
            _ if nothing => f64::NAN,
            StdDev => {
                let mean = argument(0);
                let squares: f64 = present().map(|value| (value - mean).powi(2)).sum();
                (squares / present().count() as f64).sqrt()
            }
            UnweightedAvg => present().sum::<f64>() / present().count() as f64,
            LinearWeightedAvg => linear(present()),
            Ewma => present()
                .reduce(|mean, value| value * argument(0) + mean * (1.0 - argument(0)))
                .unwrap_or(f64::NAN),
            Holt => holt(present(), argument(0), argument(1)),
            HoltWinters => {
                let window: Vec<f64> = present().collect();
                let season = Season {
                    alpha: argument(0),
                    beta: argument(1),
                    gamma: argument(2),
                    period: argument(3).max(0.0) as usize,
                    multiplicative: argument(4) != 0.0,
                };
                season.forecast(&window)?
            }
        })
    }
}

/// The newest value has the largest weight. The divisor starts at one, as in Elasticsearch.
fn linear(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut weights) = (0.0, 1.0);
    for (position, value) in values.enumerate() {
        let weight = position as f64 + 1.0;
        sum += value * weight;
        weights += weight;
    }
    sum / weights
}

/// Double exponential smoothing: level and trend; the level is the forecast of the present value.
fn holt(values: impl Iterator<Item = f64>, alpha: f64, beta: f64) -> f64 {
    let (mut level, mut trend) = (f64::NAN, 0.0);
    for (position, value) in values.enumerate() {
        if position == 0 {
            level = value;
            continue;
        }
        let before = level;
        level = alpha * value + (1.0 - alpha) * (before + trend);
        trend = beta * (level - before) + (1.0 - beta) * trend;
    }
    level
}

/// Triple exponential smoothing: level, trend and season.
struct Season {
    alpha: f64,
    beta: f64,
    gamma: f64,
    period: usize,
    multiplicative: bool,
}

impl Season {
    /// Returns the next value.
    fn forecast(&self, values: &[f64]) -> Result<f64, String> {
        let period = self.period;
        if period == 0 || values.len() < period.saturating_mul(2) {
            return Err(format!(
                "Holt-Winters aggregation requires at least (2 * period == 2 * {period} == {}) data-points to function. \
                 Only [{}] were provided.",
                period.saturating_mul(2),
                values.len()
            ));
        }
        let padding = if self.multiplicative { PADDING } else { 0.0 };
        let values: Vec<f64> = values.iter().map(|value| value + padding).collect();
        let mut level = values[..period].iter().sum::<f64>() / period as f64;
        let slopes = (0..period).map(|at| (values[at + period] - values[at]) / period as f64);
        let mut trend = slopes.sum::<f64>() / period as f64;
        let mut seasonal: Vec<f64> = values[..period]
            .iter()
            .map(|value| if level == 0.0 { 0.0 } else { value / level })
            .collect();
        let mut last_trend = 0.0;
        for at in period..values.len() {
            let (value, season, before) = (values[at], seasonal[at - period], level);
            let without_season = if self.multiplicative {
                value / season
            } else {
                value - season
            };
            level = self.alpha * without_season + (1.0 - self.alpha) * (before + last_trend);
            trend = self.beta * (level - before) + (1.0 - self.beta) * last_trend;
            let deviation = if self.multiplicative {
                value / (before + last_trend)
            } else {
                value - (before - last_trend)
            };
            seasonal.push(self.gamma * deviation + (1.0 - self.gamma) * season);
            last_trend = trend;
        }
        let season = seasonal[values.len() - period];
        Ok(if self.multiplicative {
            (level + trend) * season
        } else {
            level + trend + season
        })
    }
}
