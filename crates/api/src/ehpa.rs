//! `EffectiveHorizontalPodAutoscaler` (EHPA) of `autoscaling.crane.io/v1alpha1`.
//!
//! Source: gocrane/api `autoscaling/v1alpha1/ehpa_types.go`. Metrics and behaviour are those of
//! `autoscaling/v2`, where Crane uses `v2beta2`, which current servers no longer have; every field
//! name is the same.

mod holidays;
mod hpa;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, ResourceExt as _};
use model::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::parse::ParseError;
use crate::prediction::Algorithm;
use crate::schema;
use crate::vpa::CrossVersionObjectReference;

pub use holidays::{HOLIDAYS, HolidaysError, holidays};
pub use hpa::{
    Behavior, ContainerResourceSource, ExternalSource, MetricIdentifier, MetricKind, MetricSpec,
    MetricTarget, ObjectSource, PodsSource, PolicyKind, ResourceSource, ScalingPolicy,
    ScalingRules, SelectPolicy, TargetKind,
};

/// Scaling of a workload.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "autoscaling.crane.io",
    version = "v1alpha1",
    kind = "EffectiveHorizontalPodAutoscaler",
    plural = "effectivehorizontalpodautoscalers",
    namespaced,
    shortname = "ehpa",
    status = "EffectiveHorizontalPodAutoscalerStatus",
    derive = "PartialEq",
    doc = "Scales a workload through a HorizontalPodAutoscaler, by current and predicted metrics and by cron schedules.",
    printcolumn(name = "STRATEGY", type_ = "string", json_path = ".spec.scaleStrategy"),
    printcolumn(name = "MINPODS", type_ = "integer", json_path = ".spec.minReplicas"),
    printcolumn(name = "MAXPODS", type_ = "integer", json_path = ".spec.maxReplicas"),
    printcolumn(
        name = "SPECIFICPODS",
        type_ = "integer",
        json_path = ".spec.specificReplicas"
    ),
    printcolumn(
        name = "REPLICAS",
        type_ = "integer",
        json_path = ".status.expectReplicas"
    ),
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
        "message": "minReplicas must not be above maxReplicas",
    },
    {
        "rule": "!has(self.crons) || self.crons.all(one, self.crons.exists_one(other, (has(one.name) ? one.name : '') == (has(other.name) ? other.name : '')))",
        "message": "crons must have different names",
    },
]))]
pub struct EffectiveHorizontalPodAutoscalerSpec {
    /// Workload to scale: any object with a scale subresource.
    pub scale_target_ref: CrossVersionObjectReference,

    /// Minimum number of replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_replicas: Option<i32>,

    /// Maximum number of replicas.
    #[schemars(range(min = 1))]
    pub max_replicas: i32,

    /// Whether the workload is scaled or only the effect is reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_strategy: Option<ScaleStrategy>,

    /// Number of replicas with the strategy Preview, independent of metrics and not limited by
    /// minReplicas and maxReplicas. No effect while another HorizontalPodAutoscaler scales the
    /// workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub specific_replicas: Option<i32>,

    /// Metrics of the HorizontalPodAutoscaler. The one that asks for most replicas wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub metrics: Vec<MetricSpec>,

    /// Schedules with a minimum number of replicas. Of several active ones the largest wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub crons: Vec<CronSpec>,

    /// Scaling behaviour of the HorizontalPodAutoscaler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior: Option<Behavior>,

    /// Prediction of metrics. Absent means no prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
}

/// Mode of scaling.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScaleStrategy {
    /// The workload is scaled.
    #[default]
    Auto,
    /// The workload is not scaled; the status shows the proposed number of replicas.
    Preview,
}

/// Prediction of metrics.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Prediction {
    /// Time to predict ahead in seconds, so that replicas are ready before the load arrives: the
    /// largest predicted value within it is used. By default it is the maximum of a window that is
    /// measured: the time until new pods are ready, plus five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 600))]
    pub prediction_window_seconds: Option<i32>,

    /// Algorithm of the prediction. Absent means no prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction_algorithm: Option<Algorithm>,
}

/// Default of `predictionWindowSeconds`.
pub const DEFAULT_PREDICTION_WINDOW_SECONDS: i32 = 3600;

impl EffectiveHorizontalPodAutoscalerSpec {
    /// Minimum number of replicas, with its default.
    pub fn effective_min_replicas(&self) -> i32 {
        self.min_replicas.unwrap_or(1)
    }

    /// Scaling strategy, with its default.
    pub fn effective_strategy(&self) -> ScaleStrategy {
        self.scale_strategy.unwrap_or_default()
    }
}

/// Syntax of a cron expression: five fields, a word such as @daily, or @every and a duration, with
/// an optional leading time zone. The values of the fields are checked later.
const CRON: &str = r"^\s*((CRON_)?TZ=\S+\s+)?(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every \S+|\S+(\s+\S+){4})\s*$";

/// Recurring time window.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CronSpec {
    /// Name of the schedule, unique within the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,

    /// Purpose of the schedule.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 4096))]
    pub description: String,

    /// IANA time zone of start and end. Absent means UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub timezone: Option<String>,

    /// Start of the window as a cron expression of five fields.
    #[schemars(length(max = 253), regex(pattern = CRON))]
    pub start: String,

    /// End of the window as a cron expression of five fields. A window past midnight ends on the
    /// next day.
    #[schemars(length(max = 253), regex(pattern = CRON))]
    pub end: String,

    /// Minimum number of replicas in the window. The HorizontalPodAutoscaler does not scale while
    /// the current number is within its tolerance, by default 10 percent: with 100 replicas, a
    /// window for 105 has no effect.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub target_replicas: i32,
}

/// Condition of an EHPA and a prediction: the object is valid and works.
pub const READY: &str = "Ready";
/// Condition of an EHPA: `Ready` of its prediction.
pub const PREDICTION_READY: &str = "PredictionReady";

/// Condition of an EHPA: False if metrics cannot be predicted.
///
/// Present only then.
pub const METRICS_PREDICTABLE: &str = "MetricsPredictable";

/// Condition of an EHPA: whether one of its schedules is open; the message has the times of seven days;
/// see docs/horizontal.md#schedules.
///
/// Present only with schedules.
pub const SCHEDULE_ACTIVE: &str = "ScheduleActive";

/// Condition of an EHPA: False if the rule file cannot be used; see docs/rules.md.
///
/// Present only then.
pub const METRIC_RULES_USABLE: &str = "MetricRulesUsable";

/// Prediction of the EHPA's metrics.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PredictionSummary {
    /// Method of the prediction: peak (the largest sample of the coming window), own (a series of
    /// quantiles), dsp or percentile (Crane's).
    pub method: String,
    /// Length of the window in seconds, of which the largest predicted value counts. With the
    /// method peak it is the time until new pods are ready, plus five minutes.
    pub window_seconds: i32,
    /// Time from creation to readiness in seconds that nine of ten recently created pods did not
    /// exceed. Absent before one was measured, and with another method than peak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_ready_seconds: Option<i32>,
}

/// Observed state of the EHPA.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveHorizontalPodAutoscalerStatus {
    /// Desired number of replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_replicas: Option<i32>,
    /// Current number of replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_replicas: Option<i32>,
    /// Last time the number of replicas changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_scale_time: Option<Time>,
    /// Prediction of its metrics. Absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<PredictionSummary>,
    /// Amounts per pod at which replicas are added, in place of a utilization, while a
    /// VerticalPodAutoscaler of the workload has the annotation plimsoll.dev/hpa set to
    /// KeepScalePoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub scale_points: Vec<ScalePoint>,
    /// Conditions of the EHPA.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Amount per pod at which replicas are added.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ScalePoint {
    /// Name of the resource.
    pub resource: String,
    /// Name of the container; absent for all containers of a pod together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Average request of the running pods when the amount was fixed.
    #[schemars(schema_with = "schema::quantity")]
    pub average_request: Quantity,
    /// Target of the HorizontalPodAutoscaler: averageUtilization percent of averageRequest.
    #[schemars(schema_with = "schema::quantity")]
    pub average_value: Quantity,
}

/// Parses an object. The error names the invalid field.
pub fn parse(object: serde_json::Value) -> Result<EffectiveHorizontalPodAutoscaler, ParseError> {
    crate::parse::parse(object)
}

/// Annotation that Plimsoll writes on an HPA: name and UID of the EHPA that adopted it, separated
/// by a slash.
pub const ADOPTED_BY: &str = "plimsoll.dev/adopted-by";
/// Annotation that Plimsoll writes on an HPA: the spec before the adoption, as JSON.
pub const ORIGINAL_SPEC: &str = "plimsoll.dev/original-spec";
/// Annotation that users set on an EHPA: name of an HPA that it adopts although Helm, Argo CD or
/// Flux installed it; see docs/horizontal.md#an-existing-hpa.
pub const ADOPT: &str = "plimsoll.dev/adopt-hpa";

/// EHPA that adopted an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adopter<'a> {
    /// Name of the EHPA.
    pub name: &'a str,
    /// UID of the EHPA. A recreated EHPA of the same name is not the adopter.
    pub uid: &'a str,
}

impl<'a> Adopter<'a> {
    /// Reads the annotation; `None` if it is absent or does not [parse](Self::parse).
    pub fn of(annotations: &'a BTreeMap<String, String>) -> Option<Self> {
        Self::parse(annotations.get(ADOPTED_BY)?)
    }

    /// Parses the value of the annotation; `None` unless name and UID are valid and have at most
    /// 253 characters each.
    pub fn parse(adopted_by: &'a str) -> Option<Self> {
        let (name, uid) = adopted_by.split_once('/')?;
        (is_name(name) && is_uid(uid)).then_some(Self { name, uid })
    }
}

/// Maximum length of an object's name.
const MOST_CHARACTERS: usize = 253;

/// Whether the API server accepts this as a name: labels of lower-case letters, digits and hyphens,
/// separated by dots.
fn is_name(text: &str) -> bool {
    let is_end = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        is_end(bytes.first())
            && is_end(bytes.last())
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
    };
    text.len() <= MOST_CHARACTERS && text.split('.').all(is_label)
}

fn is_uid(text: &str) -> bool {
    let is_of_uid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=MOST_CHARACTERS).contains(&text.len()) && text.bytes().all(is_of_uid)
}

/// The value of [`ADOPTED_BY`] for this object.
pub fn adopted_by(object: &EffectiveHorizontalPodAutoscaler) -> String {
    format!("{}/{}", object.name_any(), object.uid().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adopter_has_a_name_and_a_uid_that_an_object_can_have() {
        let longest = "a".repeat(253);
        for (name, uid) in [
            ("web", "u1"),
            ("a.b-c.9", "0c5a7d24-1b52-4d62-9f4d-6c4f3a6f0c55"),
            (longest.as_str(), "u"),
        ] {
            assert_eq!(
                Adopter::parse(&format!("{name}/{uid}")),
                Some(Adopter { name, uid })
            );
        }
        let too_long = format!("a{longest}/u1");
        let refused = [
            "",
            "web",
            "/u1",
            "web/",
            "Web/u1",
            "a b/u1",
            "-a/u1",
            "a./u1",
            "a..b/u1",
            "web/u1/u2",
            "web/u 1",
        ];
        for text in refused.into_iter().chain([too_long.as_str()]) {
            assert_eq!(Adopter::parse(text), None, "{text}");
        }
    }
}
