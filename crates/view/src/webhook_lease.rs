//! The Lease that the webhook renews while it serves.
//!
//! Source: upstream `pkg/utils/status/status_object.go` (`isStatusValid`).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;

use crate::table::{Entry, ObjectKey};

/// The Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookLease {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Creation time.
    pub created_at: Option<Timestamp>,
    /// Time of the last renewal; `None` before the first one.
    pub renewed_at: Option<Timestamp>,
}

impl WebhookLease {
    /// Converts an API object; fields that no decision reads are dropped.
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

    /// Time at which the Lease expires, `timeout` after the later of creation and renewal.
    pub fn valid_until(&self, timeout: Duration) -> Option<Timestamp> {
        let last = self.created_at.max(self.renewed_at)?;
        last.checked_add(timeout).ok()
    }
}

impl Entry for WebhookLease {
    type Key = ObjectKey;

    fn key(&self) -> &ObjectKey {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(created: &Value, renewed: &Value, expected: Option<&str>) {
        let lease = json!({
            "metadata": {"namespace": "kube-system", "name": "hook", "creationTimestamp": created},
            "spec": {"renewTime": renewed},
        });
        let lease = WebhookLease::from_k8s(serde_json::from_value(lease).expect("a lease"));
        let until = lease
            .valid_until(Duration::from_mins(1))
            .map(|time| time.to_string());
        assert_eq!(until.as_deref(), expected, "{created} {renewed}");
    }

    #[test]
    fn it_expires_after_its_creation_or_renewal() {
        let (made, renewed) = (
            json!("2026-01-01T00:00:00Z"),
            json!("2026-01-01T01:00:00.5Z"),
        );
        check(&made, &renewed, Some("2026-01-01T01:01:00.5Z"));
        check(&made, &Value::Null, Some("2026-01-01T00:01:00Z"));
        check(&Value::Null, &Value::Null, None);
    }
}
