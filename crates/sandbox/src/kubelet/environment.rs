//! A container's environment: variables of every hosted process, then service links, `envFrom`, and
//! `env` with `$(NAME)` expanded, later entries over earlier ones, as in a kubelet. Values are
//! rewritten to local paths last, when the process starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, EnvVarSource, Pod, Service};
use kube::ResourceExt;
use runtime::address::LISTEN_IP_VARIABLE;

use super::address::PodAddress;
use super::config_objects::{Entries, Objects, present};
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

/// Adds the variables of all Services with an address of their own.
/// They have the names that a kubelet gives them, such as `PLIMSOLL_WEBHOOK_PORT`.
pub(super) fn add_service_links(environment: &mut Environment, services: &[Arc<Service>]) {
    for service in services {
        let Some(spec) = &service.spec else { continue };
        // Headless Services have the address `None`.
        let address = spec.cluster_ip.as_deref();
        let Some(address) = address.filter(|it| !matches!(*it, "" | "None")) else {
            continue;
        };
        let name = variable(&service.name_any());
        let mut set = |suffix: &str, value: String| {
            environment.insert(format!("{name}_{suffix}"), value);
        };
        set("SERVICE_HOST", address.to_owned());
        for (index, port) in spec.ports.iter().flatten().enumerate() {
            let number = port.port;
            if index == 0 {
                set("SERVICE_PORT", number.to_string());
            }
            if let Some(port_name) = port.name.as_deref().filter(|it| !it.is_empty()) {
                let suffix = format!("SERVICE_PORT_{}", variable(port_name));
                set(&suffix, number.to_string());
            }
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let lower = protocol.to_lowercase();
            let url = format!("{lower}://{address}:{number}");
            if index == 0 {
                set("PORT", url.clone());
            }
            let prefix = format!("PORT_{number}_{protocol}");
            set(&prefix, url);
            set(&format!("{prefix}_PROTO"), lower);
            set(&format!("{prefix}_PORT"), number.to_string());
            set(&format!("{prefix}_ADDR"), address.to_owned());
        }
    }
}

fn variable(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

/// `$(NAME)` in commands, arguments and environment values, as a kubelet expands it (upstream
/// `third_party/forked/golang/expansion`): known names are replaced, unknown ones stay as written,
/// `$$` is a plain `$`.
pub(super) fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, after)) = rest
            .strip_prefix('(')
            .and_then(|inner| inner.split_once(')'))
        {
            match variables.get(name) {
                Some(value) => expanded.push_str(value),
                None => expanded.extend(["$(", name, ")"]),
            }
            rest = after;
        } else {
            expanded.push('$');
        }
    }
    expanded.push_str(rest);
    expanded
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

    fn service(name: &str, cluster_ip: &str, ports: &Value) -> Arc<Service> {
        let object = json!({
            "metadata": {"name": name}, "spec": {"clusterIP": cluster_ip, "ports": ports},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn variables_have_the_names_that_a_kubelet_gives_them() {
        let ports = json!([
            {"name": "https-main", "port": 443},
            {"port": 53, "protocol": "UDP"},
        ]);
        let services = [
            service("plimsoll-webhook", "10.0.0.7", &ports),
            service("headless", "None", &ports),
        ];
        let mut found = Environment::new();
        add_service_links(&mut found, &services);
        let expected = [
            ("PLIMSOLL_WEBHOOK_SERVICE_HOST", "10.0.0.7"),
            ("PLIMSOLL_WEBHOOK_SERVICE_PORT", "443"),
            ("PLIMSOLL_WEBHOOK_SERVICE_PORT_HTTPS_MAIN", "443"),
            ("PLIMSOLL_WEBHOOK_PORT", "tcp://10.0.0.7:443"),
            ("PLIMSOLL_WEBHOOK_PORT_443_TCP", "tcp://10.0.0.7:443"),
            ("PLIMSOLL_WEBHOOK_PORT_443_TCP_PROTO", "tcp"),
            ("PLIMSOLL_WEBHOOK_PORT_443_TCP_PORT", "443"),
            ("PLIMSOLL_WEBHOOK_PORT_443_TCP_ADDR", "10.0.0.7"),
            ("PLIMSOLL_WEBHOOK_PORT_53_UDP", "udp://10.0.0.7:53"),
            ("PLIMSOLL_WEBHOOK_PORT_53_UDP_PROTO", "udp"),
            ("PLIMSOLL_WEBHOOK_PORT_53_UDP_PORT", "53"),
            ("PLIMSOLL_WEBHOOK_PORT_53_UDP_ADDR", "10.0.0.7"),
        ];
        let expected: Environment = expected
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        assert_eq!(found, expected);
    }

    #[track_caller]
    fn check_expansion(text: &str, expected: &str) {
        let variables = [("NAME", "web"), ("EMPTY", ""), ("NESTED", "$(NAME)")];
        let variables = variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        assert_eq!(expand(text, &variables), expected, "{text}");
    }

    #[test]
    fn known_names_are_replaced_once() {
        check_expansion("plain", "plain");
        check_expansion("$(NAME)", "web");
        check_expansion("--id=$(NAME)-$(NAME)$(EMPTY)", "--id=web-web");
        check_expansion("$(NESTED)", "$(NAME)");
    }

    #[test]
    fn unknown_names_stay() {
        check_expansion("$(OTHER)/x", "$(OTHER)/x");
        check_expansion("$()", "$()");
    }

    #[test]
    fn a_double_dollar_is_one_dollar() {
        check_expansion("$$(NAME)", "$(NAME)");
        check_expansion("$$$(NAME)", "$web");
        check_expansion("$$$$", "$$");
    }

    #[test]
    fn unfinished_expressions_stay() {
        check_expansion("$", "$");
        check_expansion("$(NAME", "$(NAME");
        check_expansion("price: 5$ or $NAME", "price: 5$ or $NAME");
    }
}
