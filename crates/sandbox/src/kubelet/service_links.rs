//! Service links: variables with the addresses of the Services of a pod's namespace, under the names
//! that a kubelet gives them. A Service `plimsoll-webhook` sets `PLIMSOLL_WEBHOOK_PORT`, for example.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;

use super::environment::Environment;

/// Adds the variables of all Services with an address of their own.
pub(super) fn add_service_links(environment: &mut Environment, services: &[Arc<Service>]) {
    for service in services {
        let Some(spec) = &service.spec else { continue };
        let Some(address) = spec.cluster_ip.as_deref().filter(|it| is_address(it)) else {
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

/// Headless Services have the address `None`.
fn is_address(cluster_ip: &str) -> bool {
    !matches!(cluster_ip, "" | "None")
}

fn variable(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

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
}
