//! What of an `EffectiveHorizontalPodAutoscaler` decides about its windows of time.

use api::ehpa::{self, CronSpec, EffectiveHorizontalPodAutoscaler, HolidaysError};
use jiff::Timestamp;
use jiff::civil::Date;
use model::WorkloadRef;

use crate::oldest_wins::Contender;
use crate::stripped::Stripped;
use crate::table::{Entry, ObjectKey};

/// An `EffectiveHorizontalPodAutoscaler` object by its windows of time.
#[derive(Debug, Clone, PartialEq)]
pub struct CronSchedule {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Unique identifier.
    pub uid: String,
    /// When it was made, in whole seconds.
    pub created_at: Option<Timestamp>,
    /// Whether it is being deleted.
    pub is_terminating: bool,
    /// The workload that is scaled.
    pub target: WorkloadRef,
    /// The least that it may have.
    pub min_replicas: i32,
    /// The windows.
    pub crons: Vec<CronSpec>,
    /// The dates on which none of them opens, or why these cannot be read.
    pub holidays: Result<Vec<Date>, HolidaysError>,
    /// Whether it is scaled by anything else too.
    pub has_metrics: bool,
}

impl CronSchedule {
    /// Keeps what can change an answer.
    pub fn from_k8s(object: EffectiveHorizontalPodAutoscaler) -> Self {
        let Stripped { key, object } = Stripped::from_k8s(object);
        let holidays = ehpa::holidays(&object);
        let min_replicas = object.spec.effective_min_replicas();
        let (metadata, target) = (object.metadata, object.spec.scale_target_ref);
        Self {
            uid: metadata.uid.unwrap_or_default(),
            created_at: metadata.creation_timestamp.map(|time| time.0),
            is_terminating: metadata.deletion_timestamp.is_some(),
            target: WorkloadRef {
                api_version: target.api_version,
                kind: target.kind,
                namespace: key.namespace.clone(),
                name: target.name,
            },
            key,
            min_replicas,
            crons: object.spec.crons,
            holidays,
            has_metrics: !object.spec.metrics.is_empty(),
        }
    }

    /// That it is to scale its workload.
    pub fn contender(&self) -> Contender<'_> {
        Contender {
            workload: (&self.target).into(),
            created_at: self.created_at,
            name: &self.key.name,
            uid: &self.uid,
            is_terminating: self.is_terminating,
        }
    }
}

impl Entry for CronSchedule {
    type Key = ObjectKey;

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn about(&self) -> Option<WorkloadRef> {
        Some(self.target.clone().of_any_version())
    }
}
