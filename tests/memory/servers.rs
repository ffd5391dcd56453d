//! Clients of each server that send less than they promise, or more than is kept, while another one is
//! answered.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::EXTENDER_CONFIG;
use crate::api_server::ApiServer;
use crate::connection::{Client, Connection, post};
use crate::objects::Population;
use crate::program::{Process, Program};
use crate::table::{Row, SHORTEST_REQUEST, Times, check, turn};

/// Minimum number of requests that are timed.
const ASKED: usize = 30;
const HELD: usize = 500;
/// Address of the other client.
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// Time until a program serves.
const STARTS_WITHIN: Duration = Duration::from_mins(2);

pub(crate) struct Server {
    program: &'static str,
    /// Flags of the program, and that of its address.
    flags: &'static [&'static str],
    listen: fn(SocketAddr) -> String,
    /// The Secret of its certificates and its DNS name; `None` without TLS.
    tls: Option<(&'static str, &'static str)>,
    /// Maximum number of connections that are not authenticated.
    connections: usize,
    /// Bytes of the headers of a request that are kept.
    header_bytes: usize,
    request: Vec<u8>,
}

/// A server that runs, and its client.
pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) client: Client,
    pub(crate) most_bytes: usize,
    api_server: ApiServer,
}

impl Running {
    /// Waits until all of these are listed, and watched.
    pub(crate) fn await_watches(&self, plurals: &[&str]) {
        let deadline = Instant::now() + STARTS_WITHIN;
        while !self.api_server.has_watches_of(plurals) {
            assert!(Instant::now() < deadline, "{:?}", self.api_server.watches());
            self.api_server.wait_for_news(Duration::from_secs(1));
        }
    }
}

impl Server {
    pub(crate) fn start(&self, population: Population) -> Running {
        let api_server = ApiServer::start(population);
        let address = e2e::free_address().expect("a free address");
        let program = Program::new(self.program, self.flags);
        let listen = (self.listen)(address);
        let mut process = program.start_at(&api_server.url(), address.ip(), &[listen]);
        let deadline = Instant::now() + STARTS_WITHIN;
        let client = loop {
            assert!(process.lives(), "{} ended", self.program);
            assert!(Instant::now() < deadline, "{} does not serve", self.program);
            let client = self.client(&api_server, address);
            let asked = client
                .as_ref()
                .map(|client| client.open()?.ask(&self.request));
            match asked {
                Some(Ok(code)) if code < 300 => break client.expect("it was asked"),
                _ => api_server.wait_for_news(Duration::from_millis(100)),
            }
        };
        Running {
            process,
            client,
            most_bytes: program.memory_limit() / 2,
            api_server,
        }
    }

    /// `None` before there is a certificate.
    fn client(&self, api_server: &ApiServer, address: SocketAddr) -> Option<Client> {
        let Some((secret, name)) = self.tls else {
            return Some(Client::plain(address));
        };
        let authorities = api_server.secret(secret, "caCert.pem")?;
        Some(Client::trusting(address, name, &authorities))
    }

    /// Times requests of a client that keeps its connection, for at least this time.
    pub(crate) fn times(&self, connection: &mut Connection, at_least: Duration) -> Times {
        let (started, mut times) = (Instant::now(), Vec::new());
        while times.len() < ASKED || started.elapsed() < at_least {
            let began = Instant::now();
            let code = connection.ask(&self.request).expect("a response");
            assert!(code < 300, "{code}");
            times.push(began.elapsed());
        }
        Times::of(times)
    }

    /// Checks the memory and the times of others while what `attack` returns is held.
    fn check<T>(
        &self,
        running: &Running,
        shape: &str,
        most_bytes: usize,
        attack: impl Fn(&Client) -> T,
    ) {
        let client = &running.client;
        let memory = running.process.memory();
        let other = client.with_own_address(OTHER);
        check(|| {
            let mut peer = other.open().expect("a connection");
            let before = self.times(&mut peer, Duration::ZERO);
            memory.reset_peak();
            let resident = memory.resident_bytes();
            let held = attack(client);
            let meanwhile = self.times(&mut peer, Duration::ZERO);
            let code = other.open().and_then(|mut new| new.ask(&self.request));
            assert!(code.as_ref().is_ok_and(|code| *code < 300), "{code:?}");
            let grown_bytes = memory.peak_bytes().saturating_sub(resident);
            drop(held);
            let after = self.times(&mut peer, Duration::ZERO);
            let usual = if after.median > before.median {
                after
            } else {
                before
            };
            Row {
                program: self.program,
                shape: shape.to_owned(),
                grown_bytes,
                most_bytes,
                times: Some([usual, meanwhile]),
                shortest: SHORTEST_REQUEST,
            }
        });
    }

    /// Checks open connections and heads that do not end. All connections that the server accepts
    /// take less than half of the memory.
    fn check_connections(&self, running: &Running) {
        let most_bytes = running.most_bytes * HELD.min(self.connections) / self.connections;
        let shape = format!("{HELD} open connections");
        self.check(running, &shape, most_bytes, |client| {
            let open = |_| client.connect().expect("a connection");
            (0..HELD).map(open).collect::<Vec<_>>()
        });
        let head = format!(
            "GET / HTTP/1.1\r\nx: {}",
            "a".repeat(self.header_bytes - 100)
        );
        let shape = format!("{HELD} heads of {} kB that do not end", head.len() / 1000);
        self.check(running, &shape, most_bytes, |client| {
            let send = |_| {
                let mut connection = client.open().ok()?;
                // A connection may be closed for the next one.
                connection.send(head.as_bytes()).ok()?;
                Some(connection)
            };
            (0..HELD).map(send).collect::<Vec<_>>()
        });
    }

    /// Checks bodies of which the last byte is missing.
    fn check_bodies(&self, running: &Running, path: &str, count: usize, length: usize) {
        let shape = format!(
            "{count} bodies of {} MB that do not end",
            length / 1_000_000
        );
        let request = post(path, &vec![b' '; length - 1], length);
        self.check(running, &shape, running.most_bytes, |client| {
            let send = |_| {
                let mut connection = client.open().expect("a connection");
                // It may be refused for the memory of others.
                drop(connection.send(&request));
                connection
            };
            (0..count).map(send).collect::<Vec<_>>()
        });
    }
}

fn review() -> Vec<u8> {
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "kind": kind, "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "shop", "operation": "CREATE",
            "object": {"apiVersion": "v1", "kind": "Pod",
                       "metadata": {"generateName": "web-", "namespace": "shop"},
                       "spec": {"containers": [{"name": "app", "image": "web"}]}},
        },
    });
    let body = review.to_string();
    post("/", body.as_bytes(), body.len())
}

fn args(uid: &str) -> Vec<u8> {
    let pod = json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": uid},
        "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]},
    });
    let body = json!({"Pod": pod, "NodeNames": ["o00000"]}).to_string();
    post("/prioritize", body.as_bytes(), body.len())
}

pub(crate) fn webhook() -> Server {
    Server {
        program: "webhook",
        flags: &["--manage-certificates"],
        listen: |address| format!("--port={}", address.port()),
        tls: Some(("vpa-tls-certs", "vpa-webhook.plimsoll-system.svc")),
        connections: 2048,
        header_bytes: 25_600,
        request: review(),
    }
}

#[test]
fn clients_of_the_webhook_have_bounds() {
    let _turn = turn();
    let server = webhook();
    let running = server.start(Population::Given(BTreeMap::new()));
    server.check_connections(&running);
    server.check_bodies(&running, "/", 20, 5 << 20);
}

#[test]
fn clients_of_the_adapter_have_bounds() {
    let _turn = turn();
    let server = Server {
        program: "adapter",
        flags: &["--manage-certificates"],
        listen: |address| format!("--secure-port={}", address.port()),
        tls: Some((
            "plimsoll-adapter-certificates",
            "plimsoll-adapter.plimsoll-system.svc",
        )),
        connections: 256,
        header_bytes: 2048 * 256,
        request: b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(),
    };
    let running = server.start(Population::Given(BTreeMap::new()));
    server.check_connections(&running);
    server.check_bodies(&running, "/apis", 20, 5 << 20);
}

#[test]
fn clients_of_the_extender_have_bounds() {
    let _turn = turn();
    let server = Server {
        program: "extender",
        flags: &["--manage-certificates", EXTENDER_CONFIG],
        listen: |address| format!("--secure-port={}", address.port()),
        tls: Some((
            "plimsoll-extender-certificates",
            "plimsoll-extender.plimsoll-system.svc",
        )),
        connections: 256,
        header_bytes: 25_600,
        request: args("1"),
    };
    let running = server.start(Population::Given(BTreeMap::new()));
    server.check_connections(&running);
    server.check_bodies(&running, "/prioritize", 8, 16 << 20);
    let uid = args(&"u".repeat(15 << 20));
    let shape = "20 pods with a UID of 15 MB, one after the other";
    server.check(&running, shape, running.most_bytes, |client| {
        for _ in 0..20 {
            let code = client
                .open()
                .and_then(|mut connection| connection.ask(&uid));
            assert!(code.as_ref().is_ok_and(|code| *code == 400), "{code:?}");
        }
    });
}

#[test]
fn clients_of_the_metrics_port_have_bounds() {
    let _turn = turn();
    let server = Server {
        program: "updater",
        flags: &["--leader-elect=true"],
        listen: |address| format!("--address={address}"),
        tls: None,
        connections: 256,
        header_bytes: 25_600,
        request: b"GET /health-check HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(),
    };
    let running = server.start(Population::Given(BTreeMap::new()));
    server.check_connections(&running);
}
