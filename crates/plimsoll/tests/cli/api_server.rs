//! An API server with one pod, a Prometheus behind a Service, the suite's updater and its stop switch.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};

/// Starts one until the process ends, and returns its address.
pub(crate) fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let is_stopped = Arc::new(AtomicBool::new(false));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let is_stopped = Arc::clone(&is_stopped);
            thread::spawn(move || answer(stream, &is_stopped));
        }
    });
    format!("http://{address}")
}

fn answer(stream: TcpStream, is_stopped: &AtomicBool) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim().to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    let body = String::from_utf8(body).ok()?;
    let (code, object) = object(method, path, &body, is_stopped);
    let text = object.to_string();
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let mut stream = reader.into_inner();
    stream.write_all((head + &text).as_bytes()).ok()
}

fn object(method: &str, path: &str, body: &str, is_stopped: &AtomicBool) -> (u16, Value) {
    let status = |code: u16, reason: &str| {
        let status = if code < 300 { "Success" } else { "Failure" };
        let object = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": status,
            "code": code, "reason": reason, "message": reason,
        });
        (code, object)
    };
    let list = |items: &[Value]| {
        let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items});
        (200, list)
    };
    let (resource, query) = path.split_once('?').unwrap_or((path, body));
    match (method, resource.rsplit('/').next().unwrap_or_default()) {
        (_, "query" | "query_range" | "values") => {
            (200, usage(resource, &format!("{query}&{body}")))
        }
        ("GET", "version") => {
            let names = [
                "buildDate",
                "compiler",
                "gitCommit",
                "gitTreeState",
                "gitVersion",
                "goVersion",
                "major",
                "minor",
                "platform",
            ];
            let fields = names.map(|name| (name.to_owned(), json!("1")));
            (200, Value::Object(fields.into_iter().collect()))
        }
        ("GET", "deployments") => list(&[updater()]),
        ("GET", "pods") => list(&[pod()]),
        ("GET", "replicasets" | "jobs" | "horizontalpodautoscalers") => list(&[]),
        ("GET", "prometheus") => (200, service()),
        ("POST", "configmaps") if is_stopped.swap(true, Ordering::SeqCst) => {
            status(409, "AlreadyExists")
        }
        ("POST", "configmaps") => (201, serde_json::from_str(body).expect("JSON")),
        ("DELETE", _) if is_stopped.swap(false, Ordering::SeqCst) => status(200, ""),
        _ => status(404, "NotFound"),
    }
}

fn updater() -> Value {
    let labels =
        json!({"app.kubernetes.io/name": "updater", "app.kubernetes.io/part-of": "plimsoll"});
    let containers = json!([{"name": "updater", "image": "updater:1"}]);
    json!({
        "metadata": {"name": "plimsoll-updater", "namespace": "plimsoll-system", "labels": labels},
        "spec": {"replicas": 1, "selector": {}, "template": {"spec": {"containers": containers}}},
        "status": {"readyReplicas": 1},
    })
}

fn pod() -> Value {
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "1", "controller": true,
    });
    let resources = json!({"requests": {"cpu": "2", "memory": "2Gi"}});
    json!({
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "2", "ownerReferences": [owner]},
        "spec": {"nodeName": "a", "containers": [{"name": "app", "resources": resources}]},
        "status": {"phase": "Running"},
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "prometheus", "namespace": "monitoring"},
        "spec": {"ports": [{"name": "http", "port": 9090}]},
    })
}

/// A tenth of a core and a GiB in each step of the range.
fn usage(resource: &str, query: &str) -> Value {
    let number = |name: &str| -> f64 {
        let found = query
            .split('&')
            .find_map(|it| it.strip_prefix(name)?.strip_prefix('='));
        found.and_then(|text| text.parse().ok()).unwrap_or(0.0)
    };
    let amount = if query.contains("memory") {
        "1073741824"
    } else {
        "0.1"
    };
    // The first names of cAdvisor's labels that are tried.
    let labels = json!({"namespace": "shop", "pod_name": "web-0", "name": "app"});
    if resource.ends_with("values") {
        return json!({"status": "success", "data": ["present"]});
    }
    let (kind, result) = if resource.ends_with("query_range") {
        let (start, end, step) = (number("start"), number("end"), number("step").max(60.0));
        let times = (0..).map(|index| start + f64::from(index) * step);
        let values: Vec<Value> = times
            .take_while(|time| *time <= end)
            .map(|time| json!([time, amount]))
            .collect();
        ("matrix", json!([{"metric": labels, "values": values}]))
    } else {
        ("vector", json!([{"metric": labels, "value": [0, amount]}]))
    };
    json!({"status": "success", "data": {"resultType": kind, "result": result}})
}
