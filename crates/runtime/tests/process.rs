//! A whole process on the manager, from its start to its end.

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

struct Hello {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    _kubeconfig: TempDir,
}

impl Drop for Hello {
    fn drop(&mut self) {
        // Fails if the process has ended, as most tests expect.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Hello {
    /// Starts the example program. Nothing listens at its API server's address, and it does not
    /// ask.
    fn start(arguments: &[&str]) -> Self {
        let kubeconfig = tempfile::tempdir().unwrap();
        let path = kubeconfig.path().join("config");
        let text = "apiVersion: v1\nkind: Config\ncurrent-context: c\nusers: []\n\
            clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
            contexts: [{name: c, context: {cluster: c, user: ''}}]\n";
        std::fs::write(&path, text).unwrap();
        let mut child = Command::new(example())
            .args(["--log-format=json", "--address=127.0.0.1:0"])
            .args(arguments)
            .env("KUBECONFIG", path)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Self {
            child,
            lines,
            _kubeconfig: kubeconfig,
        }
    }

    fn line(&mut self, text: &str) -> serde_json::Value {
        let line = self
            .lines
            .find(|line| line.as_ref().unwrap().contains(text));
        let line = line
            .unwrap_or_else(|| panic!("no line with {text:?} before the end"))
            .unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line}"))
    }

    fn address(&mut self) -> SocketAddr {
        self.line("starting")["address"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

/// The path of the example, which is built next to the tests.
fn example() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let example = deps
        .parent()
        .and_then(|deps| deps.parent())
        .unwrap()
        .join("examples/hello");
    assert!(
        example.exists(),
        "`cargo test -p runtime` builds it; `--test process` alone does not"
    );
    example
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_process_serves_its_endpoints_and_ends_on_a_signal() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut hello = Hello::start(&[]);
        let address = hello.address();
        hello.line("hello");
        for (path, expected) in [
            ("/health-check", "OK"),
            ("/readyz", "ok\n"),
            ("/livez", "ok\n"),
            ("/metrics", "plimsoll_build_info{program=\"hello\""),
            ("/metrics", "process_resident_memory_bytes"),
        ] {
            let text = get(address, path);
            assert!(
                text.starts_with("HTTP/1.1 200") && text.contains(expected),
                "{path}: {text}"
            );
        }
        hello.signal(signal);
        assert_eq!(hello.code(), Some(0), "{signal:?}");
    }
}

#[test]
fn a_second_signal_ends_a_stubborn_process() {
    let mut hello = Hello::start(&["--stubborn"]);
    let address = hello.address();
    hello.line("hello");
    hello.signal(Signal::TERM);
    hello.line("a second signal exits at once");
    let text = get(address, "/readyz");
    assert!(
        text.starts_with("HTTP/1.1 503") && text.contains("shutting down"),
        "{text}"
    );
    hello.signal(Signal::TERM);
    assert_eq!(hello.code(), Some(143));
}

fn failure(arguments: &[&str]) -> String {
    let mut hello = Hello::start(arguments);
    let line = hello.line("\"ended\"");
    assert_eq!(hello.code(), Some(1), "{line}");
    line["error"].as_str().unwrap().to_owned()
}

#[test]
fn a_task_that_fails_ends_the_process_and_is_named() {
    let expected = "task greeting failed: no name to greet";
    assert_eq!(failure(&["--fail"]), expected);
}

#[test]
fn a_panic_is_a_log_line_and_ends_the_process() {
    let mut hello = Hello::start(&["--panic"]);
    let line = hello.line("\"panicked\"");
    assert!(
        line["panic"].as_str().unwrap().contains("no words"),
        "{line}"
    );
    assert_eq!(
        hello.line("\"ended\"")["error"],
        "task greeting panicked: no words"
    );
    assert_eq!(hello.code(), Some(1));
}

#[test]
fn a_taken_port_is_a_clear_error() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let flag = format!("--address={}", taken.local_addr().unwrap());
    let error = failure(&[&flag]);
    assert!(error.contains(&flag) && error.contains("in use"), "{error}");
}

#[test]
fn a_candidate_without_an_api_server_waits_and_still_ends_on_a_signal() {
    let mut hello = Hello::start(&["--leader-elect"]);
    let address = hello.address();
    hello.line("cannot take the lease");
    let text = get(address, "/readyz");
    assert!(text.contains("leader: not yet"), "{text}");
    hello.signal(Signal::TERM);
    assert_eq!(hello.code(), Some(0));
}

#[test]
fn periods_that_do_not_fit_are_refused() {
    let error = failure(&["--leader-elect", "--leader-elect-renew-deadline=20s"]);
    assert!(error.contains("--leader-elect-renew-deadline"), "{error}");
}
