//! The Secret of the certificates. A write fails when another writer has changed the Secret since
//! it was read.

use http::StatusCode;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use serde_json::{Map, Value, json};

use super::certificate_set::CertificateSet;
use super::{CertificateError, ManagedConfig};

/// The Secret as last read or written.
#[derive(Clone)]
pub(super) struct StoredSecret {
    pub(super) contents: CertificateSet,
    /// The resource version; absent if there is no Secret.
    version: Option<String>,
}

impl StoredSecret {
    pub(super) async fn read(managed: &ManagedConfig) -> Result<Self, CertificateError> {
        let secret = managed
            .secrets
            .get_opt(&managed.secret)
            .await
            .map_err(|error| failed(managed, error))?;
        Ok(secret.map_or_else(
            || Self {
                contents: CertificateSet::default(),
                version: None,
            },
            Self::of,
        ))
    }

    fn of(secret: Secret) -> Self {
        let contents = CertificateSet::read(&secret.data.unwrap_or_default());
        Self {
            contents,
            version: secret.metadata.resource_version,
        }
    }

    /// Writes `contents` unless the Secret has changed since it was read. Returns whether it was
    /// written, and the Secret afterwards.
    pub(super) async fn write(
        self,
        managed: &ManagedConfig,
        contents: CertificateSet,
    ) -> Result<(bool, Self), CertificateError> {
        let ManagedConfig {
            secrets,
            secret: name,
            ..
        } = managed;
        let written = if let Some(version) = &self.version {
            let change =
                json!({"metadata": {"resourceVersion": version}, "data": contents.entries()});
            secrets
                .patch(name, &PatchParams::default(), &Patch::Merge(change))
                .await
        } else {
            // Server-side apply, since RBAC can limit patch to a name, but not create. The random
            // field manager makes the request conflict with a Secret that another replica created
            // meanwhile.
            let applied_by = format!("plimsoll-{:016x}", rand::random::<u64>());
            secrets
                .patch(
                    name,
                    &PatchParams::apply(&applied_by),
                    &Patch::Apply(fresh(name, &contents)),
                )
                .await
        };
        match written {
            Ok(secret) => Ok((true, Self::of(secret))),
            Err(kube::Error::Api(status)) if status.code == StatusCode::CONFLICT.as_u16() => {
                Ok((false, Self::read(managed).await?))
            }
            Err(error) => Err(failed(managed, error)),
        }
    }
}

/// The complete Secret.
fn fresh(name: &str, contents: &CertificateSet) -> Value {
    let entries = contents
        .entries()
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
    let data: Map<String, Value> = entries.collect();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "plimsoll"}},
        "data": data,
    })
}

fn failed(managed: &ManagedConfig, error: kube::Error) -> CertificateError {
    CertificateError::Secret {
        name: managed.secret.clone(),
        error: Box::new(error),
    }
}
