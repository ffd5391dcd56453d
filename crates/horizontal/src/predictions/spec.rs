//! Resolved spec of a prediction: its metrics, their methods and queries, and the window.
//!
//! For the algorithm `dsp` a Plimsoll method is used unless an annotation requests Crane's: it is
//! better on nearly every known series (`docs/measurements/forecasts.md`). The prediction of an EHPA
//! gets the peak of the time until new pods are ready, unless a quantile is requested
//! (`docs/measurements/replicas.md`); any other prediction gets the series. For `percentile` Crane's
//! method is used, since a constant was requested. Annotations are read from the prediction, and
//! from the EHPA that owns it.

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::{Algorithm, AlgorithmKind, PredictionMetric, TimeSeriesPrediction};
use forecast::PeakConfig;
use kube::ResourceExt as _;
use view::ObjectKey;

use super::access::ObjectAccess;
use super::annotations::{Annotations, CAUTION, METHOD, QUANTILE, WINDOW};
use super::crane_settings;
use super::method::{Method, Quantile};
use super::peak_settings::{price_of_failure, requested_window};
use super::query::Query;
use super::{quoted, truncate};
use crate::ehpa::DEFAULT_WINDOW;

const DAY: u32 = 86_400;
const PLIMSOLL_SLOT: u32 = 300;
const HOUR: u32 = 3600;
/// Maximum length of the reason and of each note of a metric, in characters.
const MAX_TEXT: usize = 500;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredictionSpec {
    pub key: ObjectKey,
    pub uid: String,
    pub generation: i64,
    pub window_seconds: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ForecastSpec {
    pub identifier: String,
    /// Query for the history, or its error.
    pub query: Result<Query, String>,
    pub method: Method,
    /// Note for the user about the method.
    pub note: Option<String>,
}

impl ForecastSpec {
    pub fn text_bytes(&self) -> usize {
        let query = self.query.as_ref();
        let query = query.map_or_else(String::len, Query::text_bytes);
        self.identifier.len() + query + self.note.as_ref().map_or(0, String::len)
    }

    /// Usual memory with a complete history. Without a query there is no history, only the reason.
    pub fn usual_bytes(&self) -> usize {
        match self.query {
            Ok(_) => self.method.usual_bytes(),
            Err(_) => 2 * self.text_bytes(),
        }
    }
}

impl PredictionSpec {
    pub(super) fn new(key: ObjectKey, object: &TimeSeriesPrediction) -> Self {
        Self {
            key,
            uid: object.uid().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            window_seconds: object.spec.effective_window_seconds().unsigned_abs(),
        }
    }
}

pub(super) fn forecast_spec(
    object: &TimeSeriesPrediction,
    metric: &PredictionMetric,
    annotations: Annotations<'_>,
    access: &ObjectAccess,
) -> ForecastSpec {
    let mut notes = Vec::new();
    let owner = access.owner.as_ref();
    let measured_window = owner.map(|owner| measured_window(&owner.object));
    let method = method(&metric.algorithm, annotations, measured_window, &mut notes);
    if object.spec.effective_window_seconds() < object.spec.prediction_window_seconds {
        notes.push(
            "predictionWindowSeconds is above the maximum of one week; one week is forecast"
                .to_owned(),
        );
    }
    ForecastSpec {
        identifier: metric.resource_identifier.clone(),
        query: Query::of(object, metric, access).map_err(|why| truncate(&why, MAX_TEXT)),
        method,
        note: (!notes.is_empty()).then(|| {
            let notes: Vec<_> = notes.iter().map(|note| truncate(note, MAX_TEXT)).collect();
            notes.join("; ")
        }),
    }
}

/// Window in the status of an EHPA, or the default.
fn measured_window(ehpa: &EffectiveHorizontalPodAutoscaler) -> u32 {
    let status = ehpa.status.as_ref();
    let prediction = status.and_then(|status| status.prediction.as_ref());
    let seconds = prediction.and_then(|prediction| u32::try_from(prediction.window_seconds).ok());
    seconds.map_or(DEFAULT_WINDOW, |seconds| seconds.clamp(PLIMSOLL_SLOT, DAY))
}

/// Method of an algorithm. `measured_window` is that of the EHPA, if one owns the prediction.
pub(crate) fn method(
    algorithm: &Algorithm,
    annotations: Annotations<'_>,
    measured_window: Option<u32>,
    notes: &mut Vec<String>,
) -> Method {
    let is_percentile = algorithm.algorithm_type == Some(AlgorithmKind::Percentile);
    let is_own = match annotations.get(METHOD) {
        Some("own") => true,
        Some("crane") => false,
        None | Some("") => !is_percentile,
        Some(other) => {
            let other = quoted(other);
            notes.push(format!(
                "annotation {METHOD}: {other} is neither own nor crane"
            ));
            !is_percentile
        }
    };
    let chosen = if is_own {
        None
    } else if is_percentile {
        crane_settings::percentile(algorithm.percentile.as_ref())
    } else {
        Some(crane_settings::dsp(algorithm.dsp.as_ref()))
    };
    match chosen {
        Some((method, note)) => {
            notes.extend(note);
            method
        }
        None => own(algorithm, annotations, measured_window, notes),
    }
}

/// The peak for the prediction of an EHPA, and the series where a quantile is requested or no EHPA
/// scales by it.
fn own(
    algorithm: &Algorithm,
    annotations: Annotations<'_>,
    measured_window: Option<u32>,
    notes: &mut Vec<String>,
) -> Method {
    let step_seconds = plimsoll_step(sample_interval(algorithm, notes));
    let quantile = quantile(annotations, notes);
    if let (Some(measured), None) = (measured_window, quantile) {
        return Method::Peak(PeakConfig {
            step_seconds,
            window_seconds: requested_window(annotations, notes).unwrap_or(measured),
            price_of_failure: price_of_failure(annotations, notes),
        });
    }
    for key in [CAUTION, WINDOW] {
        if annotations.get(key).is_some() {
            let why = match quantile {
                Some(_) => format!("with annotation {QUANTILE}"),
                None => "since no EHPA owns the prediction".to_owned(),
            };
            notes.push(format!("annotation {key} has no effect {why}"));
        }
    }
    Method::Plimsoll {
        step_seconds,
        quantile: quantile.unwrap_or_default(),
    }
}

fn sample_interval(algorithm: &Algorithm, notes: &mut Vec<String>) -> u32 {
    let dsp = algorithm.dsp.as_ref().map(|it| &it.sample_interval);
    let percentile = algorithm.percentile.as_ref().map(|it| &it.sample_interval);
    let interval = dsp.or(percentile).filter(|interval| !interval.is_empty());
    let step = interval.map_or(Ok(60), |interval| {
        crane_settings::seconds("sampleInterval", interval)
    });
    step.unwrap_or_else(|why| {
        notes.push(format!("{why}; 1m is used"));
        60
    })
}

/// Requested quantile; `None` without one, or with an unknown one, which a note reports.
fn quantile(annotations: Annotations<'_>, notes: &mut Vec<String>) -> Option<Quantile> {
    match annotations.get(QUANTILE)? {
        "" => None,
        "p90" => Some(Quantile::P90),
        "expected" => Some(Quantile::Expected),
        "p95" => Some(Quantile::P95),
        "p99" => Some(Quantile::P99),
        other => {
            notes.push(format!(
                "annotation {QUANTILE}: {} is not one of expected, p90, p95 and p99",
                quoted(other)
            ));
            None
        }
    }
}

/// Step of the Plimsoll method: at least a minute, and above the slot a divisor of a day.
fn plimsoll_step(step: u32) -> u32 {
    if step <= PLIMSOLL_SLOT {
        return step.max(60);
    }
    let divisor = (step..=HOUR).find(|step| DAY.is_multiple_of(*step));
    divisor.unwrap_or(HOUR)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    fn check(
        annotations: &[(&str, &str)],
        algorithm: &Value,
        measured_window: Option<u32>,
        expected: (&str, u32, u32),
        note: &str,
    ) -> Method {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let owner = annotations.iter().map(pair).collect();
        let annotations = Annotations {
            own: &BTreeMap::new(),
            owner: Some(&owner),
        };
        let mut notes = Vec::new();
        let algorithm = serde_json::from_value(algorithm.clone()).expect("an algorithm");
        let method = method(&algorithm, annotations, measured_window, &mut notes);
        let (step, history) = (method.step_seconds(), method.history_seconds());
        assert_eq!((method.name(), step, history), expected, "{owner:?}");
        assert_eq!(notes.join("; "), note);
        method
    }

    fn dsp() -> Value {
        json!({"algorithmType": "dsp", "dsp": {"sampleInterval": "30s", "historyLength": "3d"}})
    }

    #[test]
    fn an_annotation_chooses_between_the_plimsoll_methods_and_cranes() {
        let percentile = json!({"algorithmType": "percentile"});
        let of_crane = ("dsp", 30, 3 * DAY + HOUR);
        let wrong = "annotation plimsoll.dev/forecast: \"theirs\" is neither own nor crane";
        for (window, own) in [
            (Some(420), ("peak", 60, 14 * DAY)),
            (None, ("own", 60, 14 * DAY)),
        ] {
            check(&[], &dsp(), window, own, "");
            check(&[], &json!({}), window, own, "");
            check(&[(METHOD, "crane")], &dsp(), window, of_crane, "");
            let constant = ("percentile", 60, 7 * DAY);
            check(&[], &percentile, window, constant, "");
            check(&[(METHOD, "own")], &percentile, window, own, "");
            check(&[(METHOD, "theirs")], &dsp(), window, own, wrong);
            let wrong = "annotation plimsoll.dev/forecast-quantile: \"max\" is not one of expected, p90, p95 and p99";
            check(&[(QUANTILE, "max")], &dsp(), window, own, wrong);
            check(&[(QUANTILE, "")], &dsp(), window, own, "");
        }
    }

    #[test]
    fn a_quantile_keeps_the_series_and_reports_settings_without_effect() {
        let own = ("own", 60, 14 * DAY);
        for (name, quantile) in [
            ("expected", Quantile::Expected),
            ("p90", Quantile::P90),
            ("p95", Quantile::P95),
            ("p99", Quantile::P99),
        ] {
            let method = check(&[(QUANTILE, name)], &dsp(), Some(420), own, "");
            let step_seconds = 60;
            assert_eq!(
                method,
                Method::Plimsoll {
                    step_seconds,
                    quantile
                }
            );
        }
        let unused = "annotation plimsoll.dev/forecast-caution has no effect with annotation plimsoll.dev/forecast-quantile";
        let asked = [(QUANTILE, "p95"), (CAUTION, "high")];
        check(&asked, &dsp(), Some(420), own, unused);
        let unused = "annotation plimsoll.dev/forecast-window has no effect since no EHPA owns the prediction";
        check(&[(WINDOW, "20m")], &dsp(), None, own, unused);
    }

    #[test]
    fn the_peak_has_the_measured_window_unless_one_is_requested() {
        let wrong = "annotation plimsoll.dev/forecast-window: \"1m\" is not a duration from 5m to 24h; the measured window is used";
        for (window, caution, expected, note) in [
            ("", "", (420, 0.5), ""),
            ("20m", "high", (1200, 1.0), ""),
            ("1m", "0.1", (420, 0.1), wrong),
        ] {
            let annotations = [(WINDOW, window), (CAUTION, caution)];
            let peak = ("peak", 60, 14 * DAY);
            let found = check(&annotations, &dsp(), Some(420), peak, note);
            let expected = Method::Peak(PeakConfig {
                step_seconds: 60,
                window_seconds: expected.0,
                price_of_failure: forecast::PriceOfFailure(expected.1),
            });
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn the_window_of_an_ehpa_is_in_its_status() {
        for (status, expected) in [
            (json!({}), DEFAULT_WINDOW),
            (
                json!({"prediction": {"method": "peak", "windowSeconds": 900}}),
                900,
            ),
            (
                json!({"prediction": {"method": "peak", "windowSeconds": -1}}),
                DEFAULT_WINDOW,
            ),
            (
                json!({"prediction": {"method": "peak", "windowSeconds": 1}}),
                300,
            ),
            (
                json!({"prediction": {"method": "peak", "windowSeconds": 9_000_000}}),
                DAY,
            ),
        ] {
            let object = json!({
                "metadata": {"name": "web"}, "status": status,
                "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3},
            });
            let object = serde_json::from_value(object).expect("an EHPA");
            assert_eq!(measured_window(&object), expected, "{status}");
        }
    }

    #[test]
    fn a_window_of_more_than_a_week_is_shortened_with_a_note() {
        for (days, expected, is_cut) in [(7, 7, false), (8, 7, true)] {
            let metric =
                json!({"resourceIdentifier": "a", "type": "ResourceQuery", "resourceQuery": "cpu"});
            let object = json!({"metadata": {"name": "web"}, "spec": {
                "predictionMetrics": [metric], "targetRef": {"name": "web"}, "predictionWindowSeconds": days * DAY,
            }});
            let object: TimeSeriesPrediction = serde_json::from_value(object).expect("an object");
            let annotations = Annotations {
                own: &BTreeMap::new(),
                owner: None,
            };
            let spec = PredictionSpec::new(ObjectKey::new("shop", "web"), &object);
            let metric = &object.spec.prediction_metrics[0];
            let access = ObjectAccess::to_namespace("shop");
            let metric = forecast_spec(&object, metric, annotations, &access);
            let found = (spec.window_seconds, metric.note.is_some());
            assert_eq!(found, (expected * DAY, is_cut), "{days}");
        }
    }

    #[test]
    fn steps_of_the_plimsoll_method_divide_a_day() {
        let steps = [
            (1, 60),
            (90, 90),
            (300, 300),
            (420, 432),
            (3600, 3600),
            (7200, 3600),
        ];
        for (step, expected) in steps {
            assert_eq!(plimsoll_step(step), expected, "{step}");
        }
    }
}
