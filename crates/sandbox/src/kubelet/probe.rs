//! Probes with the defaults of their fields, and their thresholds of consecutive successes and
//! failures, as in a kubelet (upstream `pkg/kubelet/prober/worker.go`).

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe as ProbeSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::WaitingReason;

/// An HTTP request of a probe or a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Get {
    pub(super) tls: bool,
    /// Name or address; `None` is the pod's address.
    pub(super) host: Option<String>,
    pub(super) port: u16,
    /// Path and query.
    pub(super) path: String,
    /// Headers, which replace the default ones.
    pub(super) headers: Vec<(String, String)>,
}

/// Action of a probe or a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Handler {
    /// A GET that must answer with status 200 to 399.
    Http(Get),
    /// A connection that must be accepted.
    Tcp {
        /// Host; `None` is the pod's address.
        host: Option<String>,
        port: u16,
    },
    /// A command that must exit with 0.
    Exec(Vec<String>),
}

/// A probe with its defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) handler: Handler,
    pub(super) initial_delay: Duration,
    /// Time between attempts.
    pub(super) period: Duration,
    /// Limit of one attempt.
    pub(super) timeout: Duration,
    success_threshold: i32,
    failure_threshold: i32,
}

impl Probe {
    pub(super) fn of(probe: &ProbeSpec, container: &Container) -> Result<Self, WaitingReason> {
        let seconds = |value: Option<i32>, default: u64| {
            value.map_or(default, |value| u64::try_from(value).unwrap_or(default))
        };
        let at_least_one =
            |value: Option<i32>, default: u64| Duration::from_secs(seconds(value, default).max(1));
        Ok(Self {
            handler: handler(probe, container)?,
            initial_delay: Duration::from_secs(seconds(probe.initial_delay_seconds, 0)),
            period: at_least_one(probe.period_seconds, 10),
            timeout: at_least_one(probe.timeout_seconds, 1),
            success_threshold: probe.success_threshold.unwrap_or(1).max(1),
            failure_threshold: probe.failure_threshold.unwrap_or(3).max(1),
        })
    }

    pub(super) fn counter(&self) -> ResultCounter {
        ResultCounter {
            success_threshold: self.success_threshold,
            failure_threshold: self.failure_threshold,
            last: None,
            run: 0,
        }
    }
}

fn handler(probe: &ProbeSpec, container: &Container) -> Result<Handler, WaitingReason> {
    if let Some(get) = &probe.http_get {
        http(get, container)
    } else if let Some(tcp) = &probe.tcp_socket {
        Ok(Handler::Tcp {
            host: given(tcp.host.as_deref()),
            port: port(&tcp.port, container)?,
        })
    } else if let Some(exec) = &probe.exec {
        Ok(Handler::Exec(exec.command.clone().unwrap_or_default()))
    } else {
        Err(WaitingReason::unsupported("a probe of this kind"))
    }
}

/// Reads an HTTP request of a probe or a hook.
pub(super) fn http(get: &HTTPGetAction, container: &Container) -> Result<Handler, WaitingReason> {
    let path = get.path.as_deref().unwrap_or_default();
    Ok(Handler::Http(Get {
        tls: get.scheme.as_deref() == Some("HTTPS"),
        host: given(get.host.as_deref()),
        port: port(&get.port, container)?,
        path: if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        },
        headers: get
            .http_headers
            .iter()
            .flatten()
            .map(|header| (header.name.clone(), header.value.clone()))
            .collect(),
    }))
}

fn given(host: Option<&str>) -> Option<String> {
    host.filter(|host| !host.is_empty()).map(str::to_owned)
}

pub(super) fn port(port: &IntOrString, container: &Container) -> Result<u16, WaitingReason> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => {
            let named = container
                .ports
                .iter()
                .flatten()
                .find(|port| port.name.as_deref() == Some(name));
            named
                .map(|port| port.container_port)
                .or_else(|| name.parse().ok())
        }
    };
    number
        .and_then(|number| u16::try_from(number).ok())
        .filter(|number| *number != 0)
        .ok_or_else(|| {
            WaitingReason::config(format!(
                "container {:?} has no port {port:?}",
                container.name
            ))
        })
}

#[derive(Clone, Debug)]
pub(super) struct ResultCounter {
    success_threshold: i32,
    failure_threshold: i32,
    last: Option<bool>,
    run: i32,
}

impl ResultCounter {
    /// Counts one result; returns it once it has reached its threshold.
    pub(super) fn count(&mut self, success: bool) -> Option<bool> {
        self.run = if self.last == Some(success) {
            self.run.saturating_add(1)
        } else {
            1
        };
        self.last = Some(success);
        let threshold = if success {
            self.success_threshold
        } else {
            self.failure_threshold
        };
        (self.run >= threshold).then_some(success)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn probe(fields: Value) -> Result<Probe, WaitingReason> {
        let container = json!({"name": "c", "ports": [{"name": "health", "containerPort": 8942}]});
        Probe::of(
            &serde_json::from_value(fields).unwrap(),
            &serde_json::from_value(container).unwrap(),
        )
    }

    #[track_caller]
    fn check(thresholds: &Value, attempts: &str, results: &str) {
        let mut fields = json!({"tcpSocket": {"port": 1}});
        json_patch::merge(&mut fields, thresholds);
        let mut counter = probe(fields).unwrap().counter();
        let result = |attempt| match counter.count(attempt == '+') {
            Some(true) => '+',
            Some(false) => '-',
            None => '.',
        };
        assert_eq!(attempts.chars().map(result).collect::<String>(), results);
    }

    #[test]
    fn enough_of_the_same_in_a_row_decide() {
        check(&json!({}), "+---+-", "+..-+.");
        check(
            &json!({"successThreshold": 2, "failureThreshold": 1}),
            "++-+++",
            ".+-.++",
        );
    }

    #[test]
    fn fields_have_upstreams_defaults() {
        let probe = probe(json!({"httpGet": {"port": "health"}})).unwrap();
        assert_eq!(
            (
                probe.initial_delay.as_secs(),
                probe.period.as_secs(),
                probe.timeout.as_secs()
            ),
            (0, 10, 1)
        );
        let expected = Handler::Http(Get {
            tls: false,
            host: None,
            port: 8942,
            path: "/".to_owned(),
            headers: vec![],
        });
        assert_eq!(probe.handler, expected);
    }

    #[test]
    fn every_kind_of_check_is_read() {
        let headers = json!([{"name": "X-A", "value": "b"}]);
        let https = json!({"httpGet": {"port": 1, "scheme": "HTTPS", "path": "readyz?x=1", "host": "h", "httpHeaders": headers}});
        let expected = Handler::Http(Get {
            tls: true,
            host: Some("h".to_owned()),
            port: 1,
            path: "/readyz?x=1".to_owned(),
            headers: vec![("X-A".to_owned(), "b".to_owned())],
        });
        assert_eq!(probe(https).unwrap().handler, expected);
        assert_eq!(
            probe(json!({"tcpSocket": {"port": 2}})).unwrap().handler,
            Handler::Tcp {
                host: None,
                port: 2
            }
        );
        assert_eq!(
            probe(json!({"exec": {"command": ["a", "b"]}}))
                .unwrap()
                .handler,
            Handler::Exec(vec!["a".to_owned(), "b".to_owned()])
        );
    }

    #[test]
    fn what_cannot_be_asked_is_said() {
        let message = |fields| probe(fields).unwrap_err().message;
        assert_eq!(
            message(json!({"grpc": {"port": 1}})),
            "a probe of this kind is not supported in a hosted pod"
        );
        assert_eq!(
            message(json!({"httpGet": {"port": "absent"}})),
            "container \"c\" has no port String(\"absent\")"
        );
        assert_eq!(
            message(json!({"tcpSocket": {"port": 70000}})),
            "container \"c\" has no port Int(70000)"
        );
    }
}
