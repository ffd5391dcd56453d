//! The cron schedule of an `EffectiveHorizontalPodAutoscaler`.

use api::ehpa::{self, CronSpec, EffectiveHorizontalPodAutoscaler, HolidaysError};
use jiff::Timestamp;
use jiff::civil::Date;
use model::WorkloadRef;

use crate::oldest_wins::Contender;
use crate::stripped::Stripped;
use crate::table::ObjectKey;

/// An `EffectiveHorizontalPodAutoscaler` object, reduced to its cron schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct CronSchedule {
    pub key: ObjectKey,
    pub uid: String,
    /// Creation time, in whole seconds.
    pub created_at: Option<Timestamp>,
    pub is_terminating: bool,
    pub target: WorkloadRef,
    pub min_replicas: i32,
    pub crons: Vec<CronSpec>,
    /// Dates on which no window opens, or the reason why they do not parse.
    pub holidays: Result<Vec<Date>, HolidaysError>,
    /// Whether it has other metrics too.
    pub has_metrics: bool,
}

impl CronSchedule {
    pub fn from_k8s(object: EffectiveHorizontalPodAutoscaler) -> Self {
        let Stripped { key, object } = Stripped::from_k8s(object);
        let holidays = ehpa::holidays(&object);
        let min_replicas = object.spec.effective_min_replicas();
        let metadata = object.metadata;
        Self {
            uid: metadata.uid.unwrap_or_default(),
            created_at: metadata.creation_timestamp.map(|time| time.0),
            is_terminating: metadata.deletion_timestamp.is_some(),
            target: object.spec.scale_target_ref.in_namespace(&key.namespace),
            key,
            min_replicas,
            crons: object.spec.crons,
            holidays,
            has_metrics: !object.spec.metrics.is_empty(),
        }
    }

    /// The contender for its workload.
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
