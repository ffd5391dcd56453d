//! The Secret in which the certificates are kept. A write is refused when somebody else's came in
//! between.

use http::StatusCode;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use serde_json::{Map, Value, json};

use super::certificate_set::CertificateSet;
use super::{CertificateError, ManagedConfig};

/// What was read or written last.
#[derive(Clone)]
pub(super) struct StoredSecret {
    pub(super) contents: CertificateSet,
    /// None where there is no Secret.
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

    /// Writes `contents` if nobody else wrote since; hands back whether it did, and what is there
    /// then.
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
            // Applied, since the right to apply can be limited to a name, and that to post cannot.
            // What another replica made meanwhile belongs to another manager, so that this is
            // refused then.
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

/// The whole Secret.
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
