//! `SizingPolicy` and `ClusterSizingPolicy` of `plimsoll.dev/v1alpha1`: sizing for all workloads
//! matched by selectors, without a hand-written `VerticalPodAutoscaler` for each.
//!
//! Upstream has no such kind. Fields have the names and types of the `VerticalPodAutoscaler`.

mod selector;
mod status;

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::parse::ParseError;
use crate::vpa::{
    DEFAULT_RECOMMENDER, EvictionRequirement, HpaMode, PodResourcePolicy, StartupBoost, UpdateMode,
};
use crate::well_known::WellKnown;

pub use selector::{
    LabelOperator, LabelRequirement, LabelSelector, MAX_CUSTOM_KINDS, WorkloadKind,
};
pub use status::{
    CONFLICTING, MAX_LISTED, OVERRIDDEN, PolicyCounts, READY, ShardReport, SizingPolicyStatus,
    WorkloadConflict, report_patch,
};

/// `apiVersion` of both kinds.
pub const API_VERSION: &str = "plimsoll.dev/v1alpha1";
/// Label that Plimsoll writes on a VPA: name of the sizing policy that owns the object; see
/// docs/sizing.md#a-vpa-for-each-workload.
pub const POLICY_LABEL: &str = "plimsoll.dev/policy";
/// Annotation that Plimsoll writes on a VPA: the time from which on a sizing policy with waves lets it update
/// pods; see docs/updating.md#waves.
pub const UPDATES_SINCE: &str = "plimsoll.dev/updates-since";
/// Maximum length of a policy's name, which is used as a label value.
pub const MAX_NAME: usize = 63;

/// Selection of workloads and settings of their `VerticalPodAutoscaler`s.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "SizingPolicy",
    plural = "sizingpolicies",
    namespaced,
    shortname = "szp",
    status = "SizingPolicyStatus",
    derive = "PartialEq",
    doc = "Manages a VerticalPodAutoscaler for each selected workload of its namespace."
)]
#[serde(rename_all = "camelCase")]
pub struct SizingPolicySpec {
    /// Selects workloads by their labels. Absent means all workloads of these kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,

    /// Kinds of workloads. Absent means Deployment, StatefulSet and DaemonSet. Others with a scale
    /// subresource are written with their API group, such as Rollout.argoproj.io, at most 10 of
    /// them; the selector then selects by the labels of their pods. Workloads controlled by another
    /// workload, such as ReplicaSets of a Deployment, are never selected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 17), extend("x-kubernetes-list-type" = "set"))]
    pub kinds: Vec<WorkloadKind>,

    /// Mode of changing the resources of pods. The default is Off: recommend only. Modes that change running
    /// pods reach ten or more workloads one after the other: docs/updating.md#waves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "update_mode")]
    pub update_mode: Option<UpdateMode>,

    /// Minimum number of live replicas of a workload for evictions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_replicas: Option<i32>,

    /// Conditions for an eviction. All of them must be met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eviction_requirements: Vec<EvictionRequirement>,

    /// A container that is OOM-killed within this many seconds of its start makes its pod a
    /// candidate for eviction.
    #[serde(
        default,
        rename = "evictAfterOOMSeconds",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1))]
    pub evict_after_oom_seconds: Option<i32>,

    /// Constraints on the recommendations, per container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_policy: Option<PodResourcePolicy>,

    /// Limits, given the requests: proportional, equal, none, request-plus with a share such as
    /// request-plus:20%, or a list by resource such as cpu=none,memory=request-plus:200Mi. Absent
    /// means proportional. Without effect on containers with the controlledValues RequestsOnly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "limit_mode")]
    pub limit_mode: Option<String>,

    /// Sources of caps to what can be scheduled: nodes, quotas and limit-ranges, separated by
    /// commas, or none. Absent means those of the recommender's flags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "cap_to_schedulable")]
    pub cap_to_schedulable: Option<String>,

    /// Query of Prometheus with a value for each pod, larger is worse, which new requests must not
    /// double: docs/updating.md#health-by-prometheus. At most 8000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8000))]
    pub wave_query: Option<String>,

    /// Additional CPU while pods start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_boost: Option<StartupBoost>,

    /// Sizing method. Absent means the policy plimsoll with normal caution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizing: Option<Sizing>,

    /// Handling of a resource by whose utilization a HorizontalPodAutoscaler scales the workload.
    /// Absent means Respect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hpa: Option<HpaMode>,

    /// Recommender for this policy and its objects. Absent means the recommender named default.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub recommender: String,
}

/// Selection of namespaces and workloads, and settings of their `VerticalPodAutoscaler`s.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "plimsoll.dev",
    version = "v1alpha1",
    kind = "ClusterSizingPolicy",
    plural = "clustersizingpolicies",
    shortname = "cszp",
    status = "SizingPolicyStatus",
    derive = "PartialEq",
    doc = "Manages a VerticalPodAutoscaler for each selected workload in the selected namespaces. A SizingPolicy in the \
           namespace takes precedence."
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSizingPolicySpec {
    /// Selects namespaces by their labels. Absent means all. kube-system and Plimsoll's own
    /// namespaces are excluded unless selected by the label kubernetes.io/metadata.name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,

    /// The fields of a namespaced policy.
    #[serde(flatten)]
    pub policy: SizingPolicySpec,
}

/// Kinds of workloads selected by default.
pub const DEFAULT_KINDS: [WellKnown; 3] = [
    WellKnown::Deployment,
    WellKnown::StatefulSet,
    WellKnown::DaemonSet,
];

/// Sizing method and its settings.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.settings) || self.settings.all(key, key != 'policy' && key.matches('^[a-z0-9]([-a-z0-9]{0,54}[a-z0-9])?$'))",
        "message": "settings have names of lower-case letters, digits and hyphens, at most 56 of them, and none is called policy",
    },
    {
        "rule": "!has(self.policy) || self.policy != 'vpa' || !has(self.settings) || self.settings.all(key, key == 'margin-fraction' || key.matches('^(cpu|memory)(-lower-bound|-upper-bound)?-percentile$'))",
        "message": "the policy vpa has no settings but margin-fraction and percentiles: the others are flags of the recommender and fields of resourcePolicy",
    },
    {
        "rule": "!has(self.caution) || !has(self.policy) || self.policy == 'plimsoll'",
        "message": "only the policy plimsoll has a caution",
    },
    {
        "rule": "!has(self.settings) || !('caution' in self.settings)",
        "message": "caution is a field of sizing and not one of settings",
    },
]))]
pub struct Sizing {
    /// Sizing method. Absent means plimsoll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<SizingMethod>,
    /// Price of a failure in the policy plimsoll: low, normal, high, or a number from 0.1 to 10.
    /// A failure is an OOM kill or a moment without enough CPU. The policy chooses the request at
    /// which the request and the expected failures cost least, so twice the caution means fewer
    /// failures and larger requests. low is 0.5, normal 1 and high 2.5. Absent means normal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "caution")]
    pub caution: Option<String>,
    /// Settings of the method, as in the annotations plimsoll.dev/sizing-KEY of a
    /// VerticalPodAutoscaler.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "settings")]
    pub settings: BTreeMap<String, String>,
}

/// Sizing method.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum SizingMethod {
    /// Method of the Vertical Pod Autoscaler.
    Vpa,
    /// Our own method: the request at which the request and the expected failures cost least.
    #[default]
    Plimsoll,
    /// Method of Crane's resource recommender.
    Crane,
    /// Google Autopilot's moving window method.
    AutopilotWindow,
    /// Google Autopilot's machine learning method.
    AutopilotMl,
}

impl SizingMethod {
    /// Name in the object.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vpa => "vpa",
            Self::Plimsoll => "plimsoll",
            Self::Crane => "crane",
            Self::AutopilotWindow => "autopilot-window",
            Self::AutopilotMl => "autopilot-ml",
        }
    }
}

impl SizingPolicySpec {
    /// Selected kinds of Kubernetes' own, with their default.
    pub fn well_known_kinds(&self) -> Vec<WellKnown> {
        if self.kinds.is_empty() {
            return DEFAULT_KINDS.to_vec();
        }
        let known = self.kinds.iter().filter_map(|kind| match kind {
            WorkloadKind::WellKnown(known) => Some(*known),
            WorkloadKind::Custom { .. } => None,
        });
        known.collect()
    }

    /// Other selected kinds, with their API groups.
    pub fn custom_kinds(&self) -> impl Iterator<Item = (&str, &str)> {
        self.kinds.iter().filter_map(|kind| match kind {
            WorkloadKind::WellKnown(_) => None,
            WorkloadKind::Custom { kind, group } => Some((kind.as_str(), group.as_str())),
        })
    }

    /// Update mode, with its default.
    pub fn effective_update_mode(&self) -> UpdateMode {
        self.update_mode.unwrap_or(UpdateMode::Off)
    }

    /// Whether the policy belongs to this recommender.
    pub fn is_handled_by(&self, recommender: &str) -> bool {
        let wanted = if self.recommender.is_empty() {
            DEFAULT_RECOMMENDER
        } else {
            &self.recommender
        };
        wanted == recommender
    }
}

/// Parses a namespaced policy. The error names the invalid field.
pub fn parse(object: serde_json::Value) -> Result<SizingPolicy, ParseError> {
    crate::parse::parse(object)
}

/// Without upstream's deprecated Auto.
fn update_mode(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace"]})
}

fn caution(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "pattern": r"^(low|normal|high|0\.[1-9][0-9]{0,3}|[1-9](\.[0-9]{1,4})?|10(\.0{1,4})?)$",
        "maxLength": 7,
    })
}

fn cap_to_schedulable(_: &mut SchemaGenerator) -> Schema {
    const SOURCE: &str = "(nodes|quotas|limit-ranges)";
    let pattern = format!("^(none|{SOURCE}(,{SOURCE}){{0,2}})$");
    json_schema!({"type": "string", "maxLength": 40, "pattern": pattern})
}

fn limit_mode(_: &mut SchemaGenerator) -> Schema {
    const MODE: &str = "(proportional|equal|none|request-plus:[0-9][0-9A-Za-z.]{0,20}%?)";
    let [cpu, memory] = ["cpu", "memory"].map(|resource| format!("{resource}={MODE}"));
    let pattern = format!("^({MODE}|{cpu}(,{memory})?|{memory}(,{cpu})?)$");
    json_schema!({"type": "string", "maxLength": 128, "pattern": pattern})
}

fn settings(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": {"type": "string", "maxLength": 4096},
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_kinds_say_the_same_in_the_same_words() {
        let rules = json!({
            "selector": {"matchLabels": {"tier": "web"}},
            "kinds": ["Deployment", "CronJob", "Rollout.argoproj.io"],
            "updateMode": "InPlaceOrRecreate",
            "minReplicas": 3,
            "evictAfterOOMSeconds": 60,
            "resourcePolicy": {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "2"}}]},
            "limitMode": "cpu=none,memory=equal",
            "capToSchedulable": "nodes,quotas",
            "sizing": {"policy": "autopilot-window", "settings": {"cpu-statistic": "p95"}},
            "hpa": "KeepScalePoint",
            "recommender": "frugal",
        });
        let spec: SizingPolicySpec = serde_json::from_value(rules.clone()).expect("a spec");
        assert_eq!(serde_json::to_value(&spec).expect("JSON"), rules);
        let mut of_cluster = rules;
        of_cluster["namespaceSelector"] =
            json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]});
        let cluster: ClusterSizingPolicySpec =
            serde_json::from_value(of_cluster.clone()).expect("a spec");
        assert_eq!(cluster.policy, spec);
        assert_eq!(serde_json::to_value(&cluster).expect("JSON"), of_cluster);
    }

    #[test]
    fn a_policy_that_says_nothing_recommends_for_the_usual_kinds_and_is_the_default_recommenders() {
        let spec: SizingPolicySpec = serde_json::from_value(json!({})).expect("a spec");
        assert_eq!(spec.well_known_kinds(), DEFAULT_KINDS);
        assert_eq!(spec.custom_kinds().count(), 0);
        assert_eq!(spec.effective_update_mode(), UpdateMode::Off);
        assert!(spec.is_handled_by("default") && !spec.is_handled_by("frugal"));
    }

    #[test]
    fn ways_of_sizing_are_written_as_in_annotations() {
        for method in [
            SizingMethod::Vpa,
            SizingMethod::Plimsoll,
            SizingMethod::Crane,
            SizingMethod::AutopilotWindow,
            SizingMethod::AutopilotMl,
        ] {
            assert_eq!(
                serde_json::to_value(method).expect("JSON"),
                json!(method.as_str())
            );
        }
    }
}
