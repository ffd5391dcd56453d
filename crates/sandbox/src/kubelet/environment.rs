//! A container's environment: variables of every hosted process, then service links, `envFrom`, and
//! `env` with `$(NAME)` expanded, later entries over earlier ones, as in a kubelet. Values are
//! rewritten to local paths last, when the process starts.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVarSource, Pod};
use kube::ResourceExt;
use runtime::address::LISTEN_IP_VARIABLE;

use super::address::PodAddress;
use super::config_objects::{Entries, Objects, present};
use super::expansion::expand;
use super::service_links::add_service_links;
use super::{WaitingReason, fields};

/// Variables by name.
pub(super) type Environment = BTreeMap<String, String>;

/// Variables that the image and the kubelet would set.
pub(super) fn base(pod: &Pod, address: PodAddress, api_server_port: u16) -> Environment {
    let entries = [
        (
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        ),
        (
            "HOSTNAME",
            pod.spec
                .as_ref()
                .and_then(|spec| spec.hostname.clone())
                .unwrap_or_else(|| pod.name_any()),
        ),
        ("HOME", "/".to_owned()),
        ("KUBERNETES_SERVICE_HOST", "127.0.0.1".to_owned()),
        ("KUBERNETES_SERVICE_PORT", api_server_port.to_string()),
        ("KUBERNETES_SERVICE_PORT_HTTPS", api_server_port.to_string()),
        (LISTEN_IP_VARIABLE, address.on_loopback().to_string()),
    ];
    entries.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Adds the container's own variables to the base.
pub(super) fn environment(
    mut environment: Environment,
    pod: &Pod,
    container: &Container,
    objects: &Objects,
    address: PodAddress,
) -> Result<Environment, WaitingReason> {
    let links = pod.spec.as_ref().and_then(|spec| spec.enable_service_links);
    if links.unwrap_or(true) {
        add_service_links(&mut environment, &objects.services);
    }
    add_whole_objects(&mut environment, container, objects)?;
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (_, Some(source)) => value_from(source, pod, objects, address)?,
            (value, None) => Some(expand(value.as_deref().unwrap_or_default(), &environment)),
        };
        if let Some(value) = value {
            environment.insert(variable.name.clone(), value);
        }
    }
    Ok(environment)
}

fn add_whole_objects(
    environment: &mut Environment,
    container: &Container,
    objects: &Objects,
) -> Result<(), WaitingReason> {
    for source in container.env_from.iter().flatten() {
        let mut entries = Entries::new();
        if let Some(reference) = &source.config_map_ref {
            entries.extend(objects.config_map(&reference.name, reference.optional)?);
        }
        if let Some(reference) = &source.secret_ref {
            entries.extend(objects.secret(&reference.name, reference.optional)?);
        }
        let prefix = source.prefix.as_deref().unwrap_or_default();
        for (key, value) in entries {
            environment.insert(
                format!("{prefix}{key}"),
                String::from_utf8_lossy(&value).into_owned(),
            );
        }
    }
    Ok(())
}

/// The value, or `None` when the key is missing and optional.
fn value_from(
    source: &EnvVarSource,
    pod: &Pod,
    objects: &Objects,
    address: PodAddress,
) -> Result<Option<String>, WaitingReason> {
    let entry = |mut entries: Entries, key: &str, optional: Option<bool>| {
        let value = entries
            .remove(key)
            .map(|value| String::from_utf8_lossy(&value).into_owned());
        present(value, optional, || format!("couldn't find key {key:?}"))
    };
    if let Some(reference) = &source.field_ref {
        fields::field(pod, address, &reference.field_path).map(Some)
    } else if let Some(reference) = &source.config_map_key_ref {
        let entries = objects.config_map(&reference.name, reference.optional)?;
        entry(entries, &reference.key, reference.optional)
    } else if let Some(reference) = &source.secret_key_ref {
        let entries = objects.secret(&reference.name, reference.optional)?;
        entry(entries, &reference.key, reference.optional)
    } else {
        Err(WaitingReason::unsupported("env.valueFrom of this kind"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::kubelet::fixture::{address, objects, pod};

    fn environment_of(container: Value) -> Result<Environment, WaitingReason> {
        let container: Container = serde_json::from_value(container).unwrap();
        environment(
            Environment::new(),
            &pod(&json!({})),
            &container,
            &objects(),
            address(),
        )
    }

    #[track_caller]
    fn check(container: Value, expected: &[(&str, &str)]) {
        let expected: Environment = expected
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        assert_eq!(environment_of(container), Ok(expected));
    }

    #[test]
    fn values_see_earlier_values() {
        let env =
            json!([{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}, {"name": "C"}]);
        check(
            json!({"name": "c", "env": env}),
            &[("A", "1"), ("B", "1$(C)"), ("C", "")],
        );
    }

    #[test]
    fn objects_give_single_keys_or_everything() {
        let env = json!([
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "tls", "key": "tls.key"}}},
            {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}},
            {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "k", "optional": true}}},
        ]);
        check(
            json!({"name": "c", "env": env}),
            &[("KEY", "key"), ("MODE", "fast")],
        );
        let env_from = json!([{"prefix": "S_", "configMapRef": {"name": "settings"}}, {"secretRef": {"name": "absent", "optional": true}}]);
        check(
            json!({"name": "c", "envFrom": env_from}),
            &[("S_mode", "fast")],
        );
    }

    #[test]
    fn a_variable_overrides_what_its_object_gave() {
        let container = json!({"name": "c", "envFrom": [{"configMapRef": {"name": "settings"}}], "env": [{"name": "mode", "value": "slow"}]});
        check(container, &[("mode", "slow")]);
    }

    #[test]
    fn what_is_missing_is_said() {
        let with = |source: Value| {
            environment_of(json!({"name": "c", "env": [{"name": "A", "valueFrom": source}]}))
                .unwrap_err()
                .message
        };
        assert_eq!(
            with(json!({"secretKeyRef": {"name": "absent", "key": "k"}})),
            "secret \"absent\" not found"
        );
        assert_eq!(
            with(json!({"secretKeyRef": {"name": "tls", "key": "k"}})),
            "couldn't find key \"k\""
        );
        assert!(
            with(json!({"resourceFieldRef": {"resource": "limits.cpu"}})).contains("not supported")
        );
    }

    #[test]
    fn every_process_finds_the_api_server_and_its_own_address() {
        let base = base(&pod(&json!({})), address(), 6443);
        assert_eq!(base["KUBERNETES_SERVICE_HOST"], "127.0.0.1");
        assert_eq!(base["KUBERNETES_SERVICE_PORT"], "6443");
        assert_eq!(base["HOSTNAME"], "pod");
        assert_eq!(base[LISTEN_IP_VARIABLE], "127.130.0.1");
    }
}
