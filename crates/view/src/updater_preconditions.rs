//! Objects that the updater acts by: the Lease that the webhook renews while it serves, and the stop
//! switch.
//!
//! Source: upstream `pkg/utils/status/status_object.go` (`isStatusValid`).

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;

use crate::table::ObjectKey;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookLease {
    pub key: ObjectKey,
    pub created_at: Option<Timestamp>,
    /// Time of the last renewal; `None` before the first one.
    pub renewed_at: Option<Timestamp>,
}

impl WebhookLease {
    pub fn from_k8s(lease: Lease) -> Self {
        let metadata = lease.metadata;
        Self {
            key: ObjectKey::of(metadata.namespace, metadata.name),
            created_at: metadata.creation_timestamp.map(|time| time.0),
            renewed_at: lease
                .spec
                .and_then(|spec| spec.renew_time)
                .map(|time| time.0),
        }
    }
}

/// The stop switch while it is on: a `ConfigMap` that an operator creates to stop all evictions and
/// resizes, and deletes to resume them. Its content does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopSwitch {
    pub key: ObjectKey,
}
