//! Parsing of the settings of Crane's two predictors, which are strings.
//!
//! As there, invalid settings are replaced by the defaults, all of them. Unlike there, a note says
//! so. Source: gocrane/crane `pkg/prediction/dsp/config.go` and
//! `pkg/prediction/percentile/config.go`.

use api::prediction::{Dsp, Estimators, Fft, Histogram, MaxValue, Percentile};
use forecast::crane::{self, Estimator, Filter};
use sizing::{HistogramSettings, PercentilePredictor, PercentileSettings, parse_crane_duration};

use super::method::Method;
use super::quoted;

const DAY: u32 = 86_400;
const HOUR: u32 = 3600;
/// Maximum number of samples in a history: 15 days at 30 s.
const MAX_SAMPLES: u32 = 50_000;
/// Maximum number of estimators of one metric, of both kinds together. Each costs some transforms
/// of the whole history.
const MAX_ESTIMATORS: usize = 32;

/// The method, and a note if it does not have the requested settings.
pub(super) type Chosen = (Method, Option<String>);

pub(super) fn dsp(settings: Option<&Dsp>) -> Chosen {
    let default = Method::Dsp {
        dsp: crane::Dsp::default(),
        history_seconds: 15 * DAY,
    };
    chosen("dsp", settings.map(read_dsp), default)
}

fn chosen(name: &str, read: Option<Result<Method, String>>, default: Method) -> Chosen {
    match read {
        Some(Ok(method)) => (method, None),
        Some(Err(why)) => {
            let note = format!("{name}: {why}; Crane's defaults are used");
            (default, Some(note))
        }
        None => (default, None),
    }
}

fn read_dsp(settings: &Dsp) -> Result<Method, String> {
    let step_seconds = seconds("sampleInterval", &settings.sample_interval)?;
    if step_seconds > HOUR {
        return Err("sampleInterval is longer than 1h".to_owned());
    }
    let history_seconds = seconds("historyLength", &settings.history_length)?;
    if history_seconds < 2 * DAY {
        return Err("historyLength is shorter than 48h".to_owned());
    }
    bounded(history_seconds, step_seconds)?;
    let requested = settings.estimators.as_ref();
    let mut estimators = requested.map_or(Ok(Vec::new()), estimators)?;
    if estimators.is_empty() {
        estimators = Estimator::defaults();
    }
    Ok(Method::Dsp {
        dsp: crane::Dsp {
            step_seconds,
            estimators,
        },
        history_seconds,
    })
}

fn bounded(history_seconds: u32, step_seconds: u32) -> Result<(), String> {
    if history_seconds / step_seconds > MAX_SAMPLES {
        return Err(format!("historyLength has more than {MAX_SAMPLES} samples"));
    }
    Ok(())
}

fn estimators(settings: &Estimators) -> Result<Vec<Estimator>, String> {
    if settings.fft.len().saturating_add(settings.max_value.len()) > MAX_ESTIMATORS {
        return Err(format!("there are more than {MAX_ESTIMATORS} estimators"));
    }
    let fft = |settings| filter(settings).map(Estimator::Fft);
    let max = |MaxValue { margin_fraction }: &MaxValue| {
        let margin = number("marginFraction", margin_fraction, 0.0)?;
        Ok(Estimator::MaxValue { margin })
    };
    let max = settings.max_value.iter().map(max);
    max.chain(settings.fft.iter().map(fft)).collect()
}

fn filter(settings: &Fft) -> Result<Filter, String> {
    let usual = Filter::default();
    let count = |count: Option<i32>, usual| {
        count.map_or(usual, |count| usize::try_from(count).unwrap_or_default())
    };
    Ok(Filter {
        margin: number("marginFraction", &settings.margin_fraction, usual.margin)?,
        high_frequency_hz: number(
            "highFrequencyThreshold",
            &settings.high_frequency_threshold,
            usual.high_frequency_hz,
        )?,
        low_amplitude: number(
            "lowAmplitudeThreshold",
            &settings.low_amplitude_threshold,
            usual.low_amplitude,
        )?,
        min_bins: count(settings.min_num_of_spectrum_items, usual.min_bins),
        max_bins: count(settings.max_num_of_spectrum_items, usual.max_bins),
    })
}

/// Crane's percentile predictor; `None` if not even its defaults are valid.
pub(super) fn percentile(settings: Option<&Percentile>) -> Option<Chosen> {
    let default = Percentile {
        aggregated: Some(true),
        history_length: "7d".to_owned(),
        sample_interval: "1m".to_owned(),
        histogram: Some(Histogram {
            half_life: "24h".to_owned(),
            ..Histogram::default()
        }),
        ..Percentile::default()
    };
    let default = read_percentile(&default).ok()?;
    let read = settings.map(read_percentile);
    Some(chosen("percentile", read, default))
}

fn read_percentile(settings: &Percentile) -> Result<Method, String> {
    let written = settings.histogram.clone().unwrap_or_default();
    let histogram = HistogramSettings {
        max_value: written.max_value,
        epsilon: written.epsilon,
        half_life: written.half_life,
        bucket_size: written.bucket_size,
        first_bucket_size: written.first_bucket_size,
        bucket_size_growth_ratio: written.bucket_size_growth_ratio,
    };
    let predictor = PercentilePredictor::parse(&PercentileSettings {
        aggregated: settings.aggregated.unwrap_or_default(),
        history_length: settings.history_length.clone(),
        sample_interval: settings.sample_interval.clone(),
        margin_fraction: settings.margin_fraction.clone(),
        target_utilization: settings.target_utilization.clone(),
        percentile: settings.percentile.clone(),
        min_sample_weight: settings.min_sample_weight.clone(),
        histogram,
    })?;
    let step_seconds = seconds("sampleInterval", &settings.sample_interval)?;
    let history_seconds = seconds("historyLength", &settings.history_length)?;
    bounded(history_seconds, step_seconds)?;
    Ok(Method::Percentile {
        predictor,
        step_seconds,
        history_seconds,
    })
}

/// A duration in whole seconds, at least one.
pub(super) fn seconds(field: &str, text: &str) -> Result<u32, String> {
    let nanoseconds = parse_crane_duration(text);
    let seconds = nanoseconds.and_then(|it| u32::try_from(it / 1_000_000_000).ok());
    let wrong = || {
        format!(
            "{field}: {} is not a duration such as 1m or 7d",
            quoted(text)
        )
    };
    seconds.filter(|seconds| *seconds > 0).ok_or_else(wrong)
}

fn number(field: &str, text: &str, usual: f64) -> Result<f64, String> {
    if text.is_empty() {
        return Ok(usual);
    }
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| format!("{field}: {} is not a number", quoted(text)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check_dsp(settings: &Value, expected: (u32, u32, usize), why: &str) {
        let read = serde_json::from_value(settings.clone()).expect("settings");
        let (method, note) = dsp(Some(&read));
        let Method::Dsp {
            dsp,
            history_seconds,
        } = method
        else {
            panic!("{method:?}")
        };
        let found = (dsp.step_seconds, history_seconds, dsp.estimators.len());
        assert_eq!(found, expected, "{settings}");
        assert_eq!(note.unwrap_or_default(), why, "{settings}");
    }

    #[test]
    fn settings_of_dsp_count_all_together_or_not_at_all() {
        let settings = |interval: &str, length: &str, estimators: Value| json!({"sampleInterval": interval, "historyLength": length, "estimators": estimators});
        check_dsp(&settings("60s", "3d", Value::Null), (60, 3 * DAY, 8), "");
        let fft = json!({"fft": [{"marginFraction": "0.2", "minNumOfSpectrumItems": 10}], "maxValue": [{}]});
        check_dsp(&settings("5m", "168h", fft), (300, 7 * DAY, 2), "");
        let usual = (60, 15 * DAY, 8);
        let short = "dsp: historyLength is shorter than 48h; Crane's defaults are used";
        check_dsp(&settings("60s", "1d", Value::Null), usual, short);
        let none = "dsp: sampleInterval: \"\" is not a duration such as 1m or 7d; Crane's defaults are used";
        check_dsp(&json!({}), usual, none);
        let fft = json!({"fft": [{"marginFraction": "much"}]});
        let wrong = "dsp: marginFraction: \"much\" is not a number; Crane's defaults are used";
        check_dsp(&settings("60s", "3d", fft), usual, wrong);
        let many = json!({"fft": vec![json!({}); 20], "maxValue": vec![json!({}); 13]});
        let too_many = "dsp: there are more than 32 estimators; Crane's defaults are used";
        check_dsp(&settings("60s", "3d", many), usual, too_many);
        let long = "dsp: historyLength has more than 50000 samples; Crane's defaults are used";
        check_dsp(&settings("1s", "3d", Value::Null), usual, long);
    }

    #[test]
    fn cranes_own_example_of_a_percentile_lacks_a_length_and_gets_the_defaults() {
        let example = json!({"aggregated": true, "sampleInterval": "1m", "histogram": {"maxValue": "10000.0", "halfLife": "24h"}});
        let example = serde_json::from_value(example).expect("settings");
        let read = |settings: Option<&_>| {
            let (method, note) = percentile(settings).expect("a method");
            (method.step_seconds(), method.history_seconds(), note)
        };
        let why = "percentile: historyLength is not a duration: \"\"; Crane's defaults are used";
        assert_eq!(read(Some(&example)), (60, 7 * DAY, Some(why.to_owned())));
        let (_, history, note) = read(None);
        assert_eq!((history, note), (7 * DAY, None));
    }
}
