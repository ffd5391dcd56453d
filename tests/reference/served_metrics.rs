//! The metrics that the programs serve without an API server are those of the sources.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{SERVICES, cell, metrics};

/// A kubeconfig for a port that nothing listens on.
const KUBECONFIG: &str = "apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: \"http://127.0.0.1:9\"}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
users: [{name: none, user: {}}]
current-context: none
";

/// Files in the folder of a program.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const CONFIG: &str = "config.yaml";

/// The program ends when the test does.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address")
}

/// Flags with which a program serves on free ports, and registers what it can.
fn flags(program: &str) -> Vec<String> {
    let port = || free_address().port();
    let elects = "--leader-elect".to_owned();
    match program {
        "recommender" => vec![
            elects,
            format!("--config={{feed: {{address: '{}'}}}}", free_address()),
            "--config={recommendationMetrics: true}".to_owned(),
            "--shard=0/2".to_owned(),
        ],
        "updater" => vec![elects],
        "webhook" => vec![
            format!("--port={}", port()),
            "--manage-certificates".to_owned(),
        ],
        "adapter" => vec![format!("--secure-port={}", port())],
        _ => vec![
            format!("--secure-port={}", port()),
            format!("--tls-cert-file={CERTIFICATE}"),
            format!("--tls-private-key-file={KEY}"),
            format!("--config={CONFIG}"),
        ],
    }
}

fn get(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// The metrics that a program serves once their number stays for a second.
fn served(program: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, KUBECONFIG).expect("a file");
    let issued = rcgen::generate_simple_self_signed(vec!["plimsoll".to_owned()]);
    let issued = issued.expect("a certificate");
    std::fs::write(folder.path().join(CERTIFICATE), issued.cert.pem()).expect("a file");
    std::fs::write(folder.path().join(KEY), issued.signing_key.serialize_pem()).expect("a file");
    // The extender's; no other program names it.
    let config = format!("loadWatcher: {{address: '{}'}}", free_address());
    std::fs::write(folder.path().join(CONFIG), config).expect("a file");
    let address = free_address();
    let child = Command::new(e2e::program(program).expect("a folder of programs"))
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--address={address}"))
        .args(flags(program))
        .env_clear()
        .current_dir(&folder)
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let _running = Running(child);
    let (deadline, mut before) = (Instant::now() + Duration::from_mins(1), 0);
    while Instant::now() < deadline {
        sleep(Duration::from_secs(1));
        let text = get(address).unwrap_or_default();
        let families = text.matches("\n# TYPE ").count();
        if families > 4 && families == before {
            return text;
        }
        before = families;
    }
    panic!("{program} serves no metrics at {address} ({before} families)");
}

/// The names of labels in the series of a metric, but those of buckets.
fn labels(text: &str, name: &str) -> Vec<String> {
    let series = text.lines().find(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| {
            ["{", "_bucket{"]
                .iter()
                .any(|start| rest.starts_with(start))
        })
    });
    let inside = series.and_then(|line| line.split_once('{')?.1.rsplit_once('}'));
    let names = inside
        .map(|(inside, _)| inside)
        .into_iter()
        .flat_map(|text| text.split("\","));
    let mut names: Vec<String> = names
        .filter_map(|pair| Some(pair.split_once('=')?.0.to_owned()))
        .filter(|label| label != "le")
        .collect();
    names.sort();
    names
}

#[test]
fn each_served_metric_is_in_the_page_with_its_type_labels_and_help() {
    let page = metrics::page();
    for program in SERVICES {
        let text = served(program);
        let mut checked = 0;
        for line in text.lines() {
            let Some((name, kind)) = line
                .strip_prefix("# TYPE ")
                .and_then(|rest| rest.split_once(' '))
            else {
                continue;
            };
            if name.starts_with("process_") {
                continue;
            }
            let mark = format!("| `{name}` | {kind} | ");
            let row = page
                .split(&mark)
                .nth(1)
                .and_then(|rest| rest.lines().next());
            let row = row.unwrap_or_else(|| panic!("{program}: the page has no {kind} {name}"));
            let (documented, help) = row.split_once('|').expect("a cell");
            let mut documented: Vec<&str> = documented.split('`').skip(1).step_by(2).collect();
            documented.sort_unstable();
            assert_eq!(labels(&text, name), documented, "{program}: {name}");
            let found = text
                .split(&format!("# HELP {name} "))
                .nth(1)
                .and_then(|rest| rest.lines().next());
            let expected = cell(found.unwrap_or_default());
            assert!(
                help.contains(&expected),
                "{program}: {name}: {expected} is not {help}"
            );
            checked += 1;
        }
        assert!(checked > 4, "{program} serves {checked} metrics");
    }
}
