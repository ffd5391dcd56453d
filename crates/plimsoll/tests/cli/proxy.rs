//! The proxy that the environment names.

use std::io::Read as _;
use std::net::TcpListener;

use crate::program::run_with;

/// Runs `status` for a server with these variables, and returns the first line that the proxy has
/// received, if any. `PROXY` stands for the address of the proxy. The proxy closes the connection.
fn line_at_proxy(server: &str, variables: &[(&str, &str)]) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
         clusters: [{{name: a, cluster: {{server: '{server}'}}}}]\n\
         contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
         users: [{{name: a, user: {{}}}}]\n"
    );
    std::fs::write(&path, text).expect("a written file");
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
    variables.push(("KUBECONFIG", path.to_str().expect("UTF-8")));
    // The proxy's end: without it, a program that waits for the proxy would run for seconds.
    let serving = listener.try_clone().expect("a second handle");
    let proxy = std::thread::spawn(move || {
        let (mut stream, _) = serving.accept().ok()?;
        let mut head = Vec::new();
        let mut piece = [0; 1024];
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut piece) {
                Ok(0) | Err(_) => break,
                Ok(count) => head.extend_from_slice(&piece[..count]),
            }
        }
        String::from_utf8(head).ok()
    });
    let run = run_with(&variables, &["status"]);
    assert_ne!(run.code, 0, "{run:?}");
    // Ends the thread if the program has not connected.
    let _ = std::net::TcpStream::connect(&address);
    drop(listener);
    let head = proxy.join().expect("no panic")?;
    head.lines().next().map(str::to_owned)
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
