//! Destinations of the API server's connections to pods and Services: a pure function of the
//! requested address, the Services and the hosted pods.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::pod_table::{Entry, PodTable};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    host: String,
    port: u16,
}

impl Target {
    /// Reads `host:port`.
    pub(super) fn parse(authority: &str) -> Result<Self, String> {
        let malformed = || format!("address {authority:?} is not host:port");
        let (host, port) = authority.rsplit_once(':').ok_or_else(malformed)?;
        let port = port.parse().map_err(|_| malformed())?;
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .trim_end_matches('.')
            .to_ascii_lowercase();
        if host.is_empty() {
            Err(malformed())
        } else {
            Ok(Self { host, port })
        }
    }

    /// The local addresses that serve it, all equivalent.
    pub(super) fn resolve<'a>(
        &self,
        services: impl IntoIterator<Item = &'a Service>,
        registry: &PodTable,
    ) -> Result<Vec<SocketAddr>, String> {
        if let Some(service) = services.into_iter().find(|service| self.names(service)) {
            return self.through(service, registry);
        }
        let address = match self.host.parse() {
            Ok(IpAddr::V4(address)) if address.is_loopback() => Some(address),
            Ok(IpAddr::V4(address)) => registry.on_loopback(address),
            Ok(IpAddr::V6(address)) if address.is_loopback() => Some(Ipv4Addr::LOCALHOST),
            Ok(IpAddr::V6(_)) => None,
            Err(_) => (self.host == "localhost").then_some(Ipv4Addr::LOCALHOST),
        };
        let address = address.ok_or_else(|| unknown(&self.host))?;
        Ok(vec![SocketAddr::from((address, self.port))])
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        let address: Ipv4Addr = self.host.parse().ok()?;
        (!address.is_loopback()).then(|| SocketAddr::from((address, self.port)))
    }

    /// Whether this is the Service's cluster address or DNS name, such as `service.namespace.svc`.
    fn names(&self, service: &Service) -> bool {
        let Some(spec) = &service.spec else {
            return false;
        };
        let address = spec
            .cluster_ip
            .as_deref()
            .is_some_and(|address| address != "None" && address == self.host);
        let mut labels = self.host.splitn(4, '.');
        let (name, namespace, svc, domain) =
            (labels.next(), labels.next(), labels.next(), labels.next());
        let domain = domain.is_none_or(|domain| domain == "cluster.local");
        let metadata = &service.metadata;
        address
            || (svc == Some("svc")
                && domain
                && name == metadata.name.as_deref()
                && namespace == metadata.namespace.as_deref())
    }

    fn through(&self, service: &Service, registry: &PodTable) -> Result<Vec<SocketAddr>, String> {
        let metadata = &service.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = format!(
            "{namespace}/{}",
            metadata.name.as_deref().unwrap_or_default()
        );
        let not_ready = || format!("service {name} has no ready hosted pod");
        let spec = service.spec.as_ref().ok_or_else(not_ready)?;
        if let (Some("ExternalName"), Some(external)) =
            (spec.type_.as_deref(), spec.external_name.as_deref())
        {
            return if external == "localhost" {
                Ok(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))])
            } else {
                Err(unknown(external))
            };
        }
        let port = spec
            .ports
            .iter()
            .flatten()
            .find(|port| port.port == i32::from(self.port));
        let port = port.ok_or_else(|| format!("service {name} has no port {}", self.port))?;
        let nothing = BTreeMap::new();
        let pods = registry.ready(namespace, spec.selector.as_ref().unwrap_or(&nothing));
        let addresses: Vec<SocketAddr> = pods.iter().filter_map(|pod| target(port, pod)).collect();
        if addresses.is_empty() {
            Err(not_ready())
        } else {
            Ok(addresses)
        }
    }
}

fn unknown(host: &str) -> String {
    format!("{host} is neither a service, nor a hosted pod, nor a loopback address")
}

fn target(port: &ServicePort, pod: &Entry) -> Option<SocketAddr> {
    let number = match &port.target_port {
        Some(IntOrString::Int(number)) if *number != 0 => *number,
        Some(IntOrString::String(name)) => {
            pod.ports
                .iter()
                .find(|port| port.name.as_ref() == Some(name))?
                .container_port
        }
        _ => port.port,
    };
    Some(SocketAddr::from((
        pod.address.on_loopback(),
        u16::try_from(number).ok()?,
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubelet::address::Pool;
    use crate::kubelet::fixture::pod;

    fn services() -> Vec<Service> {
        let service = |name: &str, spec: serde_json::Value| {
            serde_json::from_value(
                json!({"metadata": {"name": name, "namespace": "demo"}, "spec": spec}),
            )
            .unwrap()
        };
        let ports = json!([{"port": 443, "targetPort": "https"}, {"port": 80, "targetPort": 8080}, {"port": 9}]);
        vec![
            service(
                "web",
                json!({"clusterIP": "10.96.0.9", "selector": {"app": "web"}, "ports": ports}),
            ),
            service(
                "idle",
                json!({"clusterIP": "10.96.0.10", "selector": {"app": "idle"}, "ports": [{"port": 80}]}),
            ),
            service(
                "headless",
                json!({"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 80}]}),
            ),
            service(
                "here",
                json!({"type": "ExternalName", "externalName": "localhost"}),
            ),
            service(
                "away",
                json!({"type": "ExternalName", "externalName": "example.com"}),
            ),
        ]
    }

    /// A registry with one ready pod, the first of block 130.
    fn registry() -> PodTable {
        let registry = PodTable::new(Pool::new(130));
        let ports = json!([{"name": "https", "containerPort": 8443}]);
        let web = pod(
            &json!({"metadata": {"namespace": "demo", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "ports": ports}]}}),
        );
        registry.admit(&web);
        registry.update(&web, true);
        registry
    }

    #[track_caller]
    fn check(authority: &str, expected: Result<&str, &str>) {
        let found =
            Target::parse(authority).and_then(|target| target.resolve(&services(), &registry()));
        let found = found.map(|addresses| addresses[0].to_string());
        assert_eq!(
            found,
            expected.map(str::to_owned).map_err(str::to_owned),
            "{authority}"
        );
    }

    #[test]
    fn a_service_leads_to_a_ready_pod() {
        check("web.demo.svc:443", Ok("127.130.0.1:8443"));
        check("web.demo.svc.cluster.local:443", Ok("127.130.0.1:8443"));
        check("10.96.0.9:80", Ok("127.130.0.1:8080"));
        check("10.96.0.9:9", Ok("127.130.0.1:9"));
        check("headless.demo.svc:80", Ok("127.130.0.1:80"));
    }

    #[test]
    fn a_pods_address_leads_to_the_pod() {
        check("10.130.0.1:8443", Ok("127.130.0.1:8443"));
        check(
            "10.130.0.2:8443",
            Err("10.130.0.2 is neither a service, nor a hosted pod, nor a loopback address"),
        );
    }

    #[test]
    fn this_machine_is_reached_by_itself() {
        check("127.0.0.1:10250", Ok("127.0.0.1:10250"));
        check("localhost:10250", Ok("127.0.0.1:10250"));
        check("here.demo.svc:4443", Ok("127.0.0.1:4443"));
    }

    #[test]
    fn nothing_else_is_reached() {
        check(
            "192.0.2.1:443",
            Err("192.0.2.1 is neither a service, nor a hosted pod, nor a loopback address"),
        );
        check(
            "example.com:443",
            Err("example.com is neither a service, nor a hosted pod, nor a loopback address"),
        );
        check(
            "away.demo.svc:443",
            Err("example.com is neither a service, nor a hosted pod, nor a loopback address"),
        );
        check(
            "web.other.svc:443",
            Err("web.other.svc is neither a service, nor a hosted pod, nor a loopback address"),
        );
        check("web.demo.svc:1", Err("service demo/web has no port 1"));
        check(
            "idle.demo.svc:80",
            Err("service demo/idle has no ready hosted pod"),
        );
        check(
            "None:80",
            Err("none is neither a service, nor a hosted pod, nor a loopback address"),
        );
        check("web", Err("address \"web\" is not host:port"));
        check("web:http", Err("address \"web:http\" is not host:port"));
    }
}
