//! A Lease by which a service says that it lives.
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
    /// When the Lease was made.
    pub created_at: Option<Timestamp>,
    /// When it was renewed last; none before it was for the first time.
    pub renewed_at: Option<Timestamp>,
}

impl WebhookLease {
    /// Keeps what can change a decision.
    pub fn from_k8s(lease: Lease) -> Self {
        let metadata = lease.metadata;
        Self {
            key: ObjectKey::new(
                metadata.namespace.unwrap_or_default(),
                metadata.name.unwrap_or_default(),
            ),
            created_at: metadata.creation_timestamp.map(|time| time.0),
            renewed_at: lease
                .spec
                .and_then(|spec| spec.renew_time)
                .map(|time| time.0),
        }
    }

    /// Until when the service is taken to live when nothing more is heard for `timeout`.
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
    fn it_stands_for_a_while_after_it_was_made_or_renewed() {
        let (made, renewed) = (
            json!("2026-01-01T00:00:00Z"),
            json!("2026-01-01T01:00:00.5Z"),
        );
        check(&made, &renewed, Some("2026-01-01T01:01:00.5Z"));
        check(&made, &Value::Null, Some("2026-01-01T00:01:00Z"));
        check(&Value::Null, &Value::Null, None);
    }
}
