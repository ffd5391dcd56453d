//! The HTTP/1.1 server: one request per connection.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::parameters::Parameters;
use crate::state::State;

/// Connections at a time. Others wait in the listener's queue, which the kernel bounds.
const CONNECTIONS: usize = 4;
const REQUEST_BYTES: usize = 8 << 10;
const REQUEST_TIME: Duration = Duration::from_secs(2);

type Response = (&'static str, String);

pub(crate) fn serve(listener: TcpListener, state: &'static State) -> io::Result<()> {
    let listener = Arc::new(listener);
    for number in 0..CONNECTIONS {
        let listener = Arc::clone(&listener);
        let builder = thread::Builder::new().name(format!("http-{number}"));
        builder.spawn(move || {
            loop {
                match listener.accept() {
                    // A client that went away is its own matter.
                    Ok((stream, _)) => _ = handle(stream, state),
                    Err(_) => thread::sleep(Duration::from_millis(10)),
                }
            }
        })?;
    }
    Ok(())
}

fn handle(mut stream: TcpStream, state: &State) -> io::Result<()> {
    stream.set_write_timeout(Some(REQUEST_TIME))?;
    let head = read_head(&mut stream)?;
    let (status, body) = response(&head, state);
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Reads up to the end of the headers. A body is not read: parameters are in the query.
fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let deadline = Instant::now() + REQUEST_TIME;
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let read = stream.read(&mut buffer)?;
        head.extend_from_slice(&buffer[..read]);
        if read == 0 || head.len() > REQUEST_BYTES || left.is_zero() {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn response(head: &str, state: &State) -> Response {
    let mut words = head.split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    if !matches!(method, Some("GET" | "POST")) {
        return ("405 Method Not Allowed", "use GET or POST\n".to_owned());
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match path {
        "/set" => match Parameters::from_query(query) {
            Ok(parameters) => {
                state.apply(&parameters);
                ("200 OK", state.status())
            }
            Err(error) => ("400 Bad Request", format!("{error}\n")),
        },
        "/status" => ("200 OK", state.status()),
        "/metrics" => ("200 OK", state.metrics()),
        "/live" => ("200 OK", "ok\n".to_owned()),
        "/ready" if state.is_ready() => ("200 OK", "ok\n".to_owned()),
        "/ready" => ("503 Service Unavailable", "not ready yet\n".to_owned()),
        _ => ("404 Not Found", format!("{path}: unknown path\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_change_and_read_the_state() {
        let state = State::default();
        for (request, status, body) in [
            ("GET /live", "200", "ok"),
            ("GET /ready", "200", "ok"),
            (
                "POST /set?ready-after-seconds=900",
                "200",
                "\"wanted_mib\":0,",
            ),
            ("GET /ready", "503", "not ready"),
            ("GET /set?memory-mib=7", "200", "\"wanted_mib\":7,"),
            (
                "GET /status",
                "200",
                "\"held_mib\":0,\"wanted_mib\":7,\"held_since_unix_ms\":null,",
            ),
            (
                "POST /set?memory-mib=1&memory=2",
                "400",
                "memory: unknown parameter",
            ),
            ("GET /status", "200", "\"wanted_mib\":7,"),
            ("PUT /set?memory-mib=1", "405", "use GET or POST"),
            ("GET /metrics", "200", "load_work_seconds 0"),
            ("GET /other", "404", "/other: unknown path"),
        ] {
            let (got, text) = response(&format!("{request} HTTP/1.1\r\n\r\n"), &state);
            assert!(got.starts_with(status), "{request}: {got}");
            assert!(text.contains(body), "{request}: {text}");
        }
    }

    #[test]
    fn a_connection_closes_after_its_response() -> io::Result<()> {
        let state: &'static State = Box::leak(Box::default());
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        serve(listener, state)?;
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"GET /live HTTP/1.1\r\nHost: load\r\n")?;
        stream.write_all(b"\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(response.ends_with("\r\n\r\nok\n"), "{response}");
        Ok(())
    }
}
