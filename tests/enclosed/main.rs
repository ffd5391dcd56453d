//! Runs a server that listens on all addresses in a network namespace of its own, and forwards
//! connections to the address of the hosted pod: of a pod on a simulated node, only loopback addresses
//! may be in use. The server is the program beside this one with `.server` behind its name.

use std::env;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, exit, id};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use rustix::process::geteuid;
use rustix::thread::UnshareFlags;

/// A flag that agnhost 2.40 has, which the specs name, and the agnhost of today has not.
const OLD_FLAG: &str = "--alsologtostderr";

fn main() -> Result<()> {
    let this = PathBuf::from(env::args_os().next().context("a name of this program")?);
    let arguments: Vec<String> = env::args().skip(1).filter(|it| it != OLD_FLAG).collect();
    let port = arguments.iter().find_map(|it| it.strip_prefix("--port="));
    let port: u16 = port.context("no --port")?.parse().context("--port")?;
    let address: IpAddr = env::var("PLIMSOLL_LISTEN_IP")?.parse()?;
    // A socket stays in the namespace in which it was made.
    let listener = TcpListener::bind((address, port)).context("listen")?;
    enter_own_network()?;
    let mut server = this.clone().into_os_string();
    server.push(".server");
    let mut server = Command::new(this.with_file_name("sandbox"))
        .args(["exec", &id().to_string(), "--"])
        .arg(server)
        .args(arguments)
        .spawn()
        .context("start the server")?;
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || forward(&client, port));
        }
    });
    let status = server.wait().context("wait for the server")?;
    exit(status.code().unwrap_or(1))
}

/// Moves this process, which has one thread, into a network namespace with nothing but loopback.
fn enter_own_network() -> Result<()> {
    let user = if geteuid().is_root() {
        UnshareFlags::empty()
    } else {
        UnshareFlags::NEWUSER
    };
    #[expect(
        deprecated,
        reason = "the other function is unsafe, which this workspace forbids"
    )]
    rustix::thread::unshare(UnshareFlags::NEWNET | user).context("create a network namespace")?;
    let ip = ["/usr/sbin/ip", "/sbin/ip"].map(Path::new);
    let ip = ip.into_iter().find(|path| path.exists());
    let up = Command::new(ip.unwrap_or(Path::new("ip")))
        .args(["link", "set", "lo", "up"])
        .status()
        .context("run ip, of the package iproute2")?;
    ensure!(up.success(), "ip: {up}");
    Ok(())
}

/// Carries bytes both ways until both ends are closed.
fn forward(client: &TcpStream, port: u16) -> io::Result<()> {
    // It may not listen yet: the client then sees a closed connection, and comes again.
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    thread::scope(|scope| {
        scope.spawn(|| carry(client, &server));
        carry(&server, client)
    })
}

fn carry(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    io::copy(&mut from, &mut to)?;
    to.shutdown(Shutdown::Write)
}
