//! Sources of PEM texts: files, and entries of objects that another program maintains.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

use super::{FileError, ensure, refuse};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PemSource {
    File(PathBuf),
    Entry(ObjectEntry),
}

/// An entry of a Secret or of a `ConfigMap`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectEntry {
    pub object: ObjectRef,
    pub key: String,
}

/// A Secret or a `ConfigMap`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    pub kind: ObjectKind,
    pub namespace: String,
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    ConfigMap,
    Secret,
}

/// The field `caFrom`: the entry with the CA bundle of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CaFrom {
    /// An entry of a Secret; an alternative to `config_map`.
    secret: Option<EntrySpec>,
    /// An entry of a `ConfigMap`; an alternative to `secret`.
    config_map: Option<EntrySpec>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EntrySpec {
    namespace: String,
    name: String,
    #[serde(default = "ca_key")]
    key: String,
}

/// The field `certFrom`: the Secret of type `kubernetes.io/tls` with a client certificate.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CertFrom {
    secret: SecretSpec,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SecretSpec {
    namespace: String,
    name: String,
}

fn ca_key() -> String {
    "ca.crt".to_owned()
}

impl CaFrom {
    /// Checks the fields; `field` is the path of this one.
    pub(super) fn check(&self, field: &str) -> Result<(), FileError> {
        let Some(ObjectEntry { object, key }) = self.entry() else {
            let why = "either secret or configMap is required, not both";
            return Err(refuse(field, why));
        };
        check_names(field, &[&object.namespace, &object.name, &key])
    }

    pub(super) fn entry(&self) -> Option<ObjectEntry> {
        let (kind, spec) = match (&self.secret, &self.config_map) {
            (Some(spec), None) => (ObjectKind::Secret, spec),
            (None, Some(spec)) => (ObjectKind::ConfigMap, spec),
            _ => return None,
        };
        Some(entry(kind, &spec.namespace, &spec.name, &spec.key))
    }
}

impl CertFrom {
    pub(super) fn check(&self, field: &str) -> Result<(), FileError> {
        check_names(field, &[&self.secret.namespace, &self.secret.name])
    }

    pub(super) fn entry(&self, key: &str) -> ObjectEntry {
        let SecretSpec { namespace, name } = &self.secret;
        entry(ObjectKind::Secret, namespace, name, key)
    }
}

fn entry(kind: ObjectKind, namespace: &str, name: &str, key: &str) -> ObjectEntry {
    let object = ObjectRef {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let key = key.to_owned();
    ObjectEntry { object, key }
}

fn check_names(field: &str, names: &[&String]) -> Result<(), FileError> {
    let are_complete = names.iter().all(|name| !name.is_empty());
    let why = || "namespace, name and key must not be empty".to_owned();
    ensure(are_complete, field, why)
}

impl fmt::Display for PemSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Entry(entry) => entry.fmt(f),
        }
    }
}

impl fmt::Display for ObjectEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.key, self.object)
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ObjectKind::ConfigMap => "ConfigMap",
            ObjectKind::Secret => "Secret",
        };
        write!(f, "{kind} {}/{}", self.namespace, self.name)
    }
}
