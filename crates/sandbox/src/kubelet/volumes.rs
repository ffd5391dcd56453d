//! Files of a volume: a pure function of the pod, the Secrets and `ConfigMap`s it refers to, and
//! its tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, KeyToPath, Pod, ServiceAccountTokenProjection, Volume, VolumeProjection,
};

use super::address::PodAddress;
use super::config_objects::{Entries, Objects};
use super::mounts::inner_path;
use super::{WaitingReason, fields};

const DEFAULT_MODE: i32 = 0o644;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) content: Vec<u8>,
    /// Permission bits.
    pub(super) mode: u32,
}

/// Files by path below the volume's folder.
pub(super) type Files = BTreeMap<PathBuf, File>;

/// A `ServiceAccount` token that a pod requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TokenWanted {
    /// Audience; `None` is the API server.
    pub(super) audience: Option<String>,
    /// Requested lifetime.
    pub(super) expiration_seconds: i64,
}

impl TokenWanted {
    fn of(source: &ServiceAccountTokenProjection) -> Self {
        let audience = source.audience.clone();
        Self {
            audience: audience.filter(|audience| !audience.is_empty()),
            expiration_seconds: source.expiration_seconds.unwrap_or(3600),
        }
    }
}

pub(super) type Tokens = BTreeMap<TokenWanted, String>;

pub(super) fn tokens_wanted(pod: &Pod) -> BTreeSet<TokenWanted> {
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes).flatten();
    let projected = volumes.filter_map(|volume| volume.projected.as_ref());
    let projections = projected.flat_map(|source| source.sources.iter().flatten());
    projections
        .filter_map(|source| source.service_account_token.as_ref())
        .map(TokenWanted::of)
        .collect()
}

/// Input of a pod's volumes.
#[derive(Clone, Copy)]
pub(super) struct Material<'a> {
    pub(super) pod: &'a Pod,
    pub(super) address: PodAddress,
    pub(super) objects: &'a Objects,
    pub(super) tokens: &'a Tokens,
}

impl Material<'_> {
    /// The files of a volume, or `None` for an empty folder that belongs to the containers.
    pub(super) fn files(self, volume: &Volume) -> Result<Option<Files>, WaitingReason> {
        if volume.empty_dir.is_some() {
            return Ok(None);
        }
        let named = |problem: WaitingReason| {
            WaitingReason::volume(format!("volume {:?}: {}", volume.name, problem.message))
        };
        self.filled(volume).map(Some).map_err(named)
    }

    fn filled(self, volume: &Volume) -> Result<Files, WaitingReason> {
        let mode = |mode: Option<i32>| mode.unwrap_or(DEFAULT_MODE);
        if let Some(source) = &volume.secret {
            let name = source.secret_name.as_deref().unwrap_or_default();
            let entries = self.objects.secret(name, source.optional)?;
            let mode = mode(source.default_mode);
            chosen(&entries, source.items.as_deref(), source.optional, mode)
        } else if let Some(source) = &volume.config_map {
            let entries = self.objects.config_map(&source.name, source.optional)?;
            let mode = mode(source.default_mode);
            chosen(&entries, source.items.as_deref(), source.optional, mode)
        } else if let Some(source) = &volume.downward_api {
            self.downward(source.items.as_deref(), mode(source.default_mode))
        } else if let Some(source) = &volume.projected {
            let mut files = Files::new();
            for part in source.sources.iter().flatten() {
                files.extend(self.projection(part, mode(source.default_mode))?);
            }
            Ok(files)
        } else {
            Err(WaitingReason::unsupported("this type of volume"))
        }
    }

    fn projection(self, source: &VolumeProjection, mode: i32) -> Result<Files, WaitingReason> {
        if let Some(source) = &source.service_account_token {
            let token = self.tokens.get(&TokenWanted::of(source));
            let token = token.ok_or_else(|| WaitingReason::config("no token yet".to_owned()))?;
            file(&source.path, token.clone().into_bytes(), mode).map(|file| Files::from([file]))
        } else if let Some(source) = &source.secret {
            let entries = self.objects.secret(&source.name, source.optional)?;
            chosen(&entries, source.items.as_deref(), source.optional, mode)
        } else if let Some(source) = &source.config_map {
            let entries = self.objects.config_map(&source.name, source.optional)?;
            chosen(&entries, source.items.as_deref(), source.optional, mode)
        } else if let Some(source) = &source.downward_api {
            self.downward(source.items.as_deref(), mode)
        } else {
            Err(WaitingReason::unsupported("this type of projection"))
        }
    }

    fn downward(
        self,
        items: Option<&[DownwardAPIVolumeFile]>,
        mode: i32,
    ) -> Result<Files, WaitingReason> {
        let files = items
            .into_iter()
            .flatten()
            .map(|item| match &item.field_ref {
                Some(reference) => {
                    let value = fields::field(self.pod, self.address, &reference.field_path)?;
                    file(&item.path, value.into_bytes(), item.mode.unwrap_or(mode))
                }
                None => Err(WaitingReason::unsupported("resourceFieldRef in a volume")),
            });
        files.collect()
    }
}

/// All entries under their own names, or the selected ones under the given names.
fn chosen(
    entries: &Entries,
    items: Option<&[KeyToPath]>,
    optional: Option<bool>,
    mode: i32,
) -> Result<Files, WaitingReason> {
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return entries
            .iter()
            .map(|(key, content)| file(key, content.clone(), mode))
            .collect();
    };
    let files = items
        .iter()
        .filter_map(|item| match entries.get(&item.key) {
            Some(content) => Some(file(&item.path, content.clone(), item.mode.unwrap_or(mode))),
            None if optional == Some(true) => None,
            None => Some(Err(WaitingReason::config(format!(
                "references non-existent key {:?}",
                item.key
            )))),
        });
    files.collect()
}

fn file(path: &str, content: Vec<u8>, mode: i32) -> Result<(PathBuf, File), WaitingReason> {
    Ok((
        inner_path(path)?,
        File {
            content,
            mode: mode.cast_unsigned() & 0o777,
        },
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::kubelet::fixture::{address, objects, pod};

    fn files(volume: Value) -> Result<Option<Files>, WaitingReason> {
        let volume: Volume = serde_json::from_value(volume).unwrap();
        let pod = pod(&json!({"metadata": {"labels": {"app": "web"}}}));
        let tokens = [(
            TokenWanted {
                audience: None,
                expiration_seconds: 3607,
            },
            "token".to_owned(),
        )]
        .into();
        Material {
            pod: &pod,
            address: address(),
            objects: &objects(),
            tokens: &tokens,
        }
        .files(&volume)
    }

    #[track_caller]
    fn check(volume: Value, expected: &[(&str, &str, u32)]) {
        let file = |content: &str, mode| File {
            content: content.into(),
            mode,
        };
        let expected: Files = expected
            .iter()
            .map(|(path, content, mode)| (path.into(), file(content, *mode)))
            .collect();
        assert_eq!(files(volume), Ok(Some(expected)));
    }

    #[test]
    fn a_whole_object_or_chosen_keys() {
        check(
            json!({"name": "v", "secret": {"secretName": "tls"}}),
            &[("tls.crt", "cert", 0o644), ("tls.key", "key", 0o644)],
        );
        let items = json!([{"key": "tls.key", "path": "private/key", "mode": 0o400}]);
        check(
            json!({"name": "v", "secret": {"secretName": "tls", "items": items}}),
            &[("private/key", "key", 0o400)],
        );
        check(
            json!({"name": "v", "configMap": {"name": "settings", "defaultMode": 0o600}}),
            &[("mode", "fast", 0o600)],
        );
    }

    #[test]
    fn an_optional_object_may_be_missing() {
        check(
            json!({"name": "v", "secret": {"secretName": "absent", "optional": true}}),
            &[],
        );
        check(
            json!({"name": "v", "configMap": {"name": "absent", "optional": true}}),
            &[],
        );
    }

    #[test]
    fn a_projection_joins_token_objects_and_fields() {
        let sources = json!([
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
            {"configMap": {"name": "settings", "items": [{"key": "mode", "path": "mode"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        ]);
        let expected = [
            ("mode", "fast", 0o644),
            ("namespace", "default", 0o644),
            ("token", "token", 0o644),
        ];
        check(
            json!({"name": "v", "projected": {"sources": sources}}),
            &expected,
        );
    }

    #[test]
    fn an_empty_dir_has_no_files_of_its_own() {
        assert_eq!(files(json!({"name": "v", "emptyDir": {}})), Ok(None));
    }

    #[test]
    fn what_is_missing_or_unsupported_is_said() {
        let message = |volume| files(volume).unwrap_err().message;
        let missing = json!({"name": "v", "secret": {"secretName": "absent"}});
        assert_eq!(
            message(missing),
            "volume \"v\": secret \"absent\" not found"
        );
        let items = json!([{"key": "k", "path": "p"}]);
        let key = json!({"name": "v", "configMap": {"name": "settings", "items": items}});
        assert_eq!(
            message(key),
            "volume \"v\": references non-existent key \"k\""
        );
        assert!(message(json!({"name": "v", "hostPath": {"path": "/"}})).contains("not supported"));
        let outside = json!([{"key": "mode", "path": "../p"}]);
        assert!(
            files(json!({"name": "v", "configMap": {"name": "settings", "items": outside}}))
                .is_err()
        );
    }

    #[test]
    fn tokens_are_asked_for_once_per_audience_and_lifetime() {
        let source = |path: &str, audience: &str| json!({"serviceAccountToken": {"path": path, "audience": audience, "expirationSeconds": 600}});
        let sources = [source("a", "x"), source("b", "x"), source("c", "")];
        let pod =
            pod(&json!({"spec": {"volumes": [{"name": "v", "projected": {"sources": sources}}]}}));
        let wanted = |audience: Option<&str>| TokenWanted {
            audience: audience.map(str::to_owned),
            expiration_seconds: 600,
        };
        assert_eq!(
            tokens_wanted(&pod),
            [wanted(None), wanted(Some("x"))].into()
        );
    }
}
