//! The Secret of the certificates. A write fails if another one came after the read.

use std::collections::BTreeMap;

use anyhow::Result;
use http::StatusCode;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::certificate_set::CertificateSet;
use super::{ManagedConfig, failed};

/// The Secret as last read or written.
#[derive(Clone)]
pub(super) struct StoredSecret {
    pub(super) contents: CertificateSet,
    /// The resource version; absent if there is no Secret.
    version: Option<String>,
}

impl StoredSecret {
    pub(super) async fn read(managed: &ManagedConfig) -> Result<Self> {
        let secret = managed.secrets.get_opt(&managed.secret).await;
        let secret = secret.map_err(|error| failed(&managed.secret, &error))?;
        Ok(Self::of(secret.unwrap_or_default()))
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
    ) -> Result<(bool, Self)> {
        let ManagedConfig {
            secrets,
            secret: name,
            ..
        } = managed;
        let written = if let Some(version) = &self.version {
            let change =
                json!({"metadata": {"resourceVersion": version}, "data": contents.entries()});
            let params = PatchParams::default();
            secrets.patch(name, &params, &Patch::Merge(change)).await
        } else {
            // The random field manager makes the request conflict with a Secret that another replica
            // created meanwhile.
            let applied_by = format!("plimsoll-{:016x}", rand::random::<u64>());
            let params = PatchParams::apply(&applied_by);
            let secret = Patch::Apply(complete(name, &contents.entries()));
            secrets.patch(name, &params, &secret).await
        };
        match written {
            Ok(secret) => Ok((true, Self::of(secret))),
            Err(kube::Error::Api(status)) if status.code == StatusCode::CONFLICT.as_u16() => {
                Ok((false, Self::read(managed).await?))
            }
            Err(error) => Err(failed(name, &error)),
        }
    }
}

/// The complete Secret for a server-side apply, since RBAC can limit patch to a name, but not create.
pub(super) fn complete(name: &str, entries: &BTreeMap<&str, Option<ByteString>>) -> Value {
    let data: BTreeMap<_, _> = entries
        .iter()
        .filter(|(_, value)| value.is_some())
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "plimsoll"}},
        "data": data,
    })
}
