//! A server in its own process whose objects change all the time: this test program, started with a
//! single test.

use std::io::{BufRead as _, Write as _};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use feed::{Metrics, Publisher, Recommendation, Server, ServerLimits};
use jiff::Timestamp;
use prometheus::Registry;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use crate::certificates::{Authority, server_from};
use crate::fixture::{LIMIT, recommendation};

pub(crate) const OBJECTS: i64 = 10_000;
const FOLDER: &str = "PLIMSOLL_FEED_TEST_FOLDER";

/// Handle of the server process. Dropping it ends the process.
pub(crate) struct ChangingServer {
    pub(crate) address: String,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    _certificates: TempDir,
}

pub(crate) fn uid(object: i64) -> String {
    format!("uid-{object:05}")
}

/// The CPU of an object after a number of rounds.
pub(crate) fn millicores(round: i64, object: i64) -> i64 {
    round * OBJECTS + object + 1
}

impl ChangingServer {
    pub(crate) async fn start(authority: &Authority) -> Self {
        let certificates = tempfile::tempdir().unwrap();
        authority.write_server(certificates.path());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "changing_server::serve", "--nocapture"])
            .env(FOLDER, certificates.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut server = Self {
            address: String::new(),
            child,
            lines,
            _certificates: certificates,
        };
        server.address = server.line("address ").await;
        server
    }

    /// Waits for a line with this prefix and returns the rest of it.
    async fn line(&mut self, beginning: &str) -> String {
        let search = async {
            loop {
                let line = self
                    .lines
                    .next_line()
                    .await
                    .unwrap()
                    .expect("the server goes on");
                if let Some(rest) = line.strip_prefix(beginning) {
                    return rest.to_owned();
                }
            }
        };
        tokio::time::timeout(LIMIT, search).await.expect(beginning)
    }

    /// Waits until all objects have changed `count` times.
    pub(crate) async fn rounds(&mut self, count: i64) {
        for _ in 0..count {
            self.line("round ").await;
        }
    }

    /// Stops the changes and returns the number of the last round.
    pub(crate) async fn stop(&mut self) -> i64 {
        self.child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(b"stop\n")
            .await
            .unwrap();
        self.line("last ").await.parse().unwrap()
    }

    /// Resident memory of the process.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.child.id().unwrap())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        line.trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
    }
}

/// All objects of a round.
fn round(round: i64) -> impl Iterator<Item = Recommendation> {
    (0..OBJECTS).map(move |object| recommendation(&uid(object), millicores(round, object)))
}

/// Server process; does nothing in the test process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serve() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let tls = server_from(Path::new(&folder));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let publisher = Publisher::default();
    let server = Server {
        publisher: publisher.clone(),
        forecasts: feed::Publisher::default(),
        reports: Arc::new(|_| ()),
        tls: Arc::new(move || Arc::clone(&tls)),
        allowed: "plimsoll-updater".parse().unwrap(),
        reporting: "plimsoll-updater".parse().unwrap(),
        limits: ServerLimits::default(),
        metrics: Metrics::register(&Registry::new()).unwrap(),
    };
    tokio::spawn(async move {
        server
            .serve(listener, CancellationToken::new())
            .await
            .unwrap();
    });
    let (enough, ended) = (CancellationToken::new(), CancellationToken::new());
    let (on_line, on_end) = (enough.clone(), ended.clone().drop_guard());
    std::thread::spawn(move || {
        std::io::stdin()
            .lock()
            .lines()
            .map_while(Result::ok)
            .for_each(|_| on_line.cancel());
        on_line.cancel();
        drop(on_end);
    });

    // It leads and has values before its address is known.
    let term = publisher.begin(1);
    term.reset(round(0), Timestamp::now());
    // The test harness has started a line.
    let mut out = std::io::stdout();
    writeln!(out, "\naddress {address}").unwrap();
    let mut number = 0;
    while !enough.is_cancelled() {
        term.reset(round(number), Timestamp::now());
        writeln!(out, "round {number}").unwrap();
        number += 1;
        tokio::task::yield_now().await;
    }
    writeln!(out, "last {}", number - 1).unwrap();
    ended.cancelled().await;
}
