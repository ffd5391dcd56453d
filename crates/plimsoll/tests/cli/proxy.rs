//! The proxy that the environment names.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;

use crate::program::{kubeconfig, run_with};

/// Runs `status` for a server with these variables, and returns the first line that the proxy has
/// received, if any. `PROXY` stands for the address of the proxy. The proxy closes the connection.
fn line_at_proxy(server: &str, variables: &[(&str, &str)]) -> Option<String> {
    let (_folder, path) = kubeconfig(server);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    let variables: Vec<(&str, String)> = variables
        .iter()
        .map(|(name, value)| (*name, value.replace("PROXY", &address)))
        .collect();
    let mut variables: Vec<(&str, &str)> = variables
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    variables.push(("KUBECONFIG", &path));
    // The proxy's end: without it, a program that waits for the proxy would run for seconds.
    let serving = listener.try_clone().expect("a second handle");
    let proxy = std::thread::spawn(move || {
        let (stream, _) = serving.accept().ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        Some(line.trim_end().to_owned()).filter(|line| !line.is_empty())
    });
    let run = run_with(&variables, &["status"]);
    assert_ne!(run.code, 0, "{run:?}");
    // Ends the thread if the program has not connected.
    let _ = std::net::TcpStream::connect(&address);
    drop(listener);
    proxy.join().expect("no panic")
}

#[test]
fn the_environment_names_the_proxy_unless_it_excepts_the_api_server() {
    // An address that refuses connections, and which is not a loopback address.
    let server = "https://0.0.0.0:1";
    let tunnel = Some("CONNECT 0.0.0.0:1 HTTP/1.1".to_owned());
    let proxy = ("HTTPS_PROXY", "http://PROXY");
    for (server, variables, expected) in [
        (server, &[proxy][..], tunnel.clone()),
        (server, &[("https_proxy", "PROXY")], tunnel.clone()),
        (server, &[proxy, ("NO_PROXY", "127.0.0.1")], tunnel),
        (server, &[proxy, ("NO_PROXY", "example.com,0.0.0.0")], None),
        (server, &[proxy, ("no_proxy", "0.0.0.0/8")], None),
        (server, &[("HTTP_PROXY", "http://PROXY")], None),
        ("https://127.0.0.1:1", &[proxy], None),
    ] {
        assert_eq!(line_at_proxy(server, variables), expected, "{variables:?}");
    }
}
