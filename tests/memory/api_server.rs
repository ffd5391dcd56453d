//! A fake API server without storage: it generates the objects of a list on the fly, and one watch
//! event per kind.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read as _, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::objects::{self, Population};

/// Requests and bytes so far.
#[derive(Default)]
struct State {
    watches: BTreeSet<String>,
    listed: BTreeSet<String>,
    unknown: Vec<String>,
    sent_bytes: usize,
    /// Objects that the program made, by their paths.
    made: BTreeMap<String, Value>,
    /// Paths of the program's writes, with the time of the first.
    written: BTreeMap<String, Instant>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server. Its connections end with the program that opened them.
pub(crate) struct ApiServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl ApiServer {
    pub(crate) fn start(population: Population) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let (shared, population) = (Arc::new(Shared::default()), Arc::new(population));
        let served = Arc::clone(&shared);
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let (shared, population) = (Arc::clone(&served), Arc::clone(&population));
                // Ends with an error when the program is gone.
                thread::spawn(move || drop(serve(&connection, &population, &shared)));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Whether all of these were listed, and are watched.
    pub(crate) fn has_watches_of(&self, plurals: &[&str]) -> bool {
        let state = self.shared.state();
        plurals.iter().all(|plural| state.watches.contains(*plural))
    }

    /// Whether all objects of a kind were listed.
    pub(crate) fn has_listed(&self, plural: &str) -> bool {
        self.shared.state().listed.contains(plural)
    }

    pub(crate) fn watches(&self) -> Vec<String> {
        self.shared.state().watches.iter().cloned().collect()
    }

    /// The content of a Secret that the program wrote.
    pub(crate) fn secret(&self, name: &str, key: &str) -> Option<Vec<u8>> {
        let state = self.shared.state();
        let is_it = |(path, _): &(&String, &Value)| path.ends_with(&format!("/secrets/{name}"));
        let (_, secret) = state.made.iter().find(is_it)?;
        let content: ByteString = serde_json::from_value(secret["data"][key].clone()).ok()?;
        Some(content.0)
    }

    /// The time of the first write to a path that contains this.
    pub(crate) fn written(&self, part: &str) -> Option<Instant> {
        let state = self.shared.state();
        let found = state.written.iter().filter(|(path, _)| path.contains(part));
        found.map(|(_, time)| *time).min()
    }

    /// Lists of kinds that are not known here.
    pub(crate) fn unknown(&self) -> Vec<String> {
        self.shared.state().unknown.clone()
    }

    /// Returns when another watch is open, or after this time.
    pub(crate) fn wait_for_news(&self, most: Duration) {
        let state = self.shared.state();
        drop(
            self.shared
                .news
                .wait_timeout(state, most)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}

struct Request {
    method: String,
    path: String,
    query: String,
    body: Vec<u8>,
}

impl Request {
    fn read(reader: &mut impl std::io::BufRead) -> std::io::Result<Self> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let length = lines.iter().find_map(|line| {
            line.to_ascii_lowercase()
                .strip_prefix("content-length:")?
                .trim()
                .parse()
                .ok()
        });
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body)?;
        let mut words = lines
            .first()
            .map(String::as_str)
            .unwrap_or_default()
            .split(' ');
        let (method, target) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Ok(Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            body,
        })
    }

    fn asks(&self, parameter: &str) -> Option<&str> {
        self.query
            .split('&')
            .find_map(|pair| pair.strip_prefix(parameter)?.strip_prefix('='))
    }
}

fn serve(connection: &TcpStream, population: &Population, shared: &Shared) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection);
    loop {
        let request = Request::read(&mut reader)?;
        let plural = request.path.rsplit('/').next().unwrap_or_default();
        if request.asks("watch").is_some() {
            return watch(connection, plural, population, shared);
        }
        if request.method == "GET" && request.asks("limit").is_some() {
            list(connection, plural, &request, population, shared)?;
        } else {
            let (code, body) = answer(&request, population, shared);
            let body = body.to_string();
            let head = format!(
                "HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            (&mut &*connection).write_all((head + &body).as_bytes())?;
        }
    }
}

/// A body whose length is not known before it ends.
struct Chunked<'a>(&'a TcpStream, &'a Shared);

impl Chunked<'_> {
    fn begin(&mut self) -> std::io::Result<()> {
        self.0.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
    }

    fn send(&mut self, part: &str) -> std::io::Result<()> {
        self.1.state().sent_bytes += part.len();
        if part.is_empty() {
            return Ok(());
        }
        self.0
            .write_all(format!("{:x}\r\n", part.len()).as_bytes())?;
        self.0.write_all(part.as_bytes())?;
        self.0.write_all(b"\r\n")
    }
}

/// Whether this is a list of a namespace in which no tenant writes.
fn is_of_administrators(path: &str) -> bool {
    let namespaces = ["kube-system", "vpa", "crane-system"];
    let is_in = |namespace| path.contains(&format!("/namespaces/{namespace}/"));
    namespaces.into_iter().any(is_in)
}

fn list(
    connection: &TcpStream,
    plural: &str,
    request: &Request,
    population: &Population,
    shared: &Shared,
) -> std::io::Result<()> {
    let mut body = Chunked(connection, shared);
    body.begin()?;
    if !objects::is_known(plural) {
        shared.state().unknown.push(request.path.clone());
    }
    let first: usize = request
        .asks("continue")
        .and_then(|token| token.parse().ok())
        .unwrap_or_default();
    let limit: usize = request
        .asks("limit")
        .and_then(|limit| limit.parse().ok())
        .unwrap_or(usize::MAX);
    let count = if is_of_administrators(&request.path) {
        0
    } else {
        population.count(plural)
    };
    let end = count.min(first.saturating_add(limit));
    let next = if end < count {
        end.to_string()
    } else {
        String::new()
    };
    body.send(&format!(
        r#"{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"9","continue":"{next}"}},"items":["#
    ))?;
    for number in first..end {
        body.send(if number > first { "," } else { "" })?;
        population
            .object(plural, number)
            .iter()
            .try_for_each(|part| body.send(part))?;
    }
    body.send("]}")?;
    body.0.write_all(b"0\r\n\r\n")?;
    if end == count {
        shared.state().listed.insert(plural.to_owned());
        shared.news.notify_all();
    }
    Ok(())
}

fn watch(
    connection: &TcpStream,
    plural: &str,
    population: &Population,
    shared: &Shared,
) -> std::io::Result<()> {
    let mut body = Chunked(connection, shared);
    body.begin()?;
    if population.count(plural) > 0 {
        body.send(r#"{"type":"MODIFIED","object":"#)?;
        population
            .object(plural, 0)
            .iter()
            .try_for_each(|part| body.send(part))?;
        body.send("}\n")?;
    }
    body.send("{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"10\"}}}\n")?;
    shared.state().watches.insert(plural.to_owned());
    shared.news.notify_all();
    // Until the program closes it.
    let mut rest = Vec::new();
    (&mut &*connection).read_to_end(&mut rest).map(drop)
}

/// Answers what is neither a list in pages nor a watch.
fn answer(request: &Request, population: &Population, shared: &Shared) -> (u16, Value) {
    let Request {
        method, path, body, ..
    } = request;
    let status = |code: u16, reason: &str| {
        (
            code,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason}),
        )
    };
    if method != "GET" {
        let mut state = shared.state();
        state
            .written
            .entry(path.clone())
            .or_insert_with(Instant::now);
        shared.news.notify_all();
    }
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let made = serde_json::from_slice::<Value>(body)
        .ok()
        .filter(Value::is_object);
    match (method.as_str(), parts.as_slice(), made) {
        ("GET", ["apis"], _) => (200, json!({"kind": "APIGroupList", "groups": []})),
        ("GET", ["apis", _, _], _) => (
            200,
            json!({"kind": "APIResourceList", "groupVersion": parts[1..].join("/"), "resources": []}),
        ),
        ("GET", ["apis", "metrics.k8s.io", ..], _) => (200, population.usage()),
        // A JSON patch.
        (
            "PATCH",
            [
                ..,
                "namespaces",
                namespace,
                "verticalpodautoscalers",
                name,
                "status",
            ],
            None,
        ) => (
            200,
            json!({"metadata": {"namespace": namespace, "name": name}, "spec": {}}),
        ),
        ("GET", _, _) => match shared.state().made.get(path) {
            Some(object) => (200, object.clone()),
            None => status(404, "NotFound"),
        },
        ("POST", [.., "events"], Some(event)) => (201, event),
        ("POST" | "PUT" | "PATCH", _, Some(change)) => {
            let mut state = shared.state();
            let path = match change["metadata"]["name"].as_str() {
                Some(name) if method == "POST" => format!("{path}/{name}"),
                _ => path.clone(),
            };
            let version = (state.made.len() + state.sent_bytes).to_string();
            let before = state.made.remove(&path).filter(|_| method == "PATCH");
            let mut object = before.unwrap_or_else(|| json!({}));
            json_patch::merge(&mut object, &change);
            if !object["metadata"]["name"].is_string() {
                return status(404, "NotFound");
            }
            object["metadata"]["resourceVersion"] = json!(version);
            object["metadata"]["uid"] = json!("made");
            state.made.insert(path, object.clone());
            (201, object)
        }
        _ => status(404, "NotFound"),
    }
}
