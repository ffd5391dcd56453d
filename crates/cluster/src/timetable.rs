//! What of an `EffectiveHorizontalPodAutoscaler` decides about its windows of time.

use api::ParseError;
use api::effective_hpa::{self, CronSpec, EffectiveHorizontalPodAutoscaler, HolidaysError};
use jiff::civil::Date;
use kube::core::DynamicObject;
use model::WorkloadRef;

use crate::table::{Entry, ObjectKey};
use crate::whole::Whole;

/// An `EffectiveHorizontalPodAutoscaler` object by its windows of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Timetable {
    /// Namespace and name.
    pub key: ObjectKey,
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

impl Timetable {
    /// Reads an object, or says which field cannot be read.
    pub(crate) fn read(loose: DynamicObject) -> Result<Self, ParseError> {
        Whole::read(loose, effective_hpa::parse).map(Self::trim)
    }

    fn trim(whole: Whole<EffectiveHorizontalPodAutoscaler>) -> Self {
        let Whole { key, object } = whole;
        let holidays = effective_hpa::holidays(&object);
        let min_replicas = object.spec.effective_min_replicas();
        let target = object.spec.scale_target_ref;
        Self {
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
}

impl Entry for Timetable {
    type Key = ObjectKey;

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn about(&self) -> Option<WorkloadRef> {
        Some(self.target.clone().of_any_version())
    }
}
