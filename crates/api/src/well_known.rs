//! The built-in kinds of workloads. Kinds of the same name in other API groups, such as OpenKruise's
//! `StatefulSet`, are custom ones; upstream takes them for the built-in ones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of workload.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
pub enum WellKnown {
    /// `batch/v1` `CronJob`
    CronJob,
    /// `apps/v1` `DaemonSet`
    DaemonSet,
    /// `apps/v1` `Deployment`
    Deployment,
    /// `batch/v1` `Job`
    Job,
    /// `apps/v1` `ReplicaSet`
    ReplicaSet,
    /// `v1` `ReplicationController`
    ReplicationController,
    /// `apps/v1` `StatefulSet`
    StatefulSet,
}

/// API groups of the kinds, with that of Deployments in old manifests.
const BUILT_IN_GROUPS: [&str; 4] = ["", "apps", "batch", "extensions"];

impl WellKnown {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::CronJob,
        Self::DaemonSet,
        Self::Deployment,
        Self::Job,
        Self::ReplicaSet,
        Self::ReplicationController,
        Self::StatefulSet,
    ];

    /// The kind of an object; `None` if it is not well known. The version does not matter, and an empty
    /// `apiVersion` is any.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        let (group, _) = api_version.split_once('/').unwrap_or_default();
        Self::of_kind(kind).filter(|_| BUILT_IN_GROUPS.contains(&group))
    }

    /// Parses a kind; `None` if it is not well known.
    pub fn of_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.kind() == kind)
    }

    /// The kind, such as `Deployment`.
    pub fn kind(self) -> &'static str {
        self.names()[0]
    }

    /// The `apiVersion`, such as `apps/v1`.
    pub fn api_version(self) -> &'static str {
        self.names()[1]
    }

    /// The plural resource name in URLs.
    pub fn plural(self) -> &'static str {
        self.names()[2]
    }

    fn names(self) -> [&'static str; 3] {
        match self {
            Self::CronJob => ["CronJob", "batch/v1", "cronjobs"],
            Self::DaemonSet => ["DaemonSet", "apps/v1", "daemonsets"],
            Self::Deployment => ["Deployment", "apps/v1", "deployments"],
            Self::Job => ["Job", "batch/v1", "jobs"],
            Self::ReplicaSet => ["ReplicaSet", "apps/v1", "replicasets"],
            Self::ReplicationController => {
                ["ReplicationController", "v1", "replicationcontrollers"]
            }
            Self::StatefulSet => ["StatefulSet", "apps/v1", "statefulsets"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_parsed_by_name() {
        for known in WellKnown::ALL {
            assert_eq!(WellKnown::of_kind(known.kind()), Some(known));
        }
        assert_eq!(WellKnown::of_kind("Rollout"), None);
    }

    #[test]
    fn kinds_of_other_groups_are_not_well_known() {
        let stateful_set = Some(WellKnown::StatefulSet);
        for (api_version, expected) in [
            ("apps/v1", stateful_set),
            ("apps/v1beta1", stateful_set),
            ("", stateful_set),
            ("apps.kruise.io/v1beta1", None),
        ] {
            assert_eq!(
                WellKnown::of(api_version, "StatefulSet"),
                expected,
                "{api_version}"
            );
        }
    }
}
