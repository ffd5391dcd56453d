//! A program of the suite as a child process.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

pub(crate) struct Program {
    pub(crate) name: &'static str,
    flags: &'static [&'static str],
}

/// It is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    folder: TempDir,
}

impl Program {
    pub(crate) fn new(name: &'static str, flags: &'static [&'static str]) -> Self {
        Self { name, flags }
    }

    /// The memory limit of its container, in bytes.
    pub(crate) fn memory_limit(&self) -> usize {
        let folder = e2e::repository().join("deploy");
        let files = [
            format!("base/{}/deployment.yaml", self.name),
            format!("base/{}/workload/deployment.yaml", self.name),
            format!("components/{}/deployment.yaml", self.name),
        ];
        let files = files.map(|file| folder.join(file));
        let text = files
            .iter()
            .find_map(|file| fs::read_to_string(file).ok())
            .expect("a deployment");
        let deployment: serde_json::Value = serde_yaml_ng::from_str(&text).expect("YAML");
        let limit = &deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
            ["memory"];
        let quantity: model::Quantity = limit
            .as_str()
            .expect("a limit")
            .parse()
            .expect("a quantity");
        usize::try_from(model::Memory::from(&quantity).bytes()).expect("not negative")
    }

    pub(crate) fn start(&self, api_server: &str) -> Process {
        let address = "--address=127.0.0.1:0".to_owned();
        self.start_at(api_server, Ipv4Addr::LOCALHOST.into(), &[address])
    }

    /// Listens on this address of the machine.
    pub(crate) fn start_at(&self, api_server: &str, ip: IpAddr, flags: &[String]) -> Process {
        let folder = tempfile::tempdir().expect("a folder");
        let kubeconfig = folder.path().join("config");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nusers: []\nclusters: [{{name: c, cluster: {{server: '{api_server}'}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: ''}}}}]\n"
        );
        fs::write(&kubeconfig, text).expect("a file");
        let log = fs::File::create(folder.path().join("log")).expect("a file");
        let mut command = Command::new(e2e::program(self.name).expect("it is built"));
        command
            .arg("--log-format=json")
            .args(self.flags)
            .args(flags);
        command
            .env("PLIMSOLL_LISTEN_IP", ip.to_string())
            .env("KUBECONFIG", &kubeconfig)
            .env("NAMESPACE", "plimsoll-system")
            .env("HOSTNAME", "test");
        let child = command
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("it starts");
        Process { child, folder }
    }
}

impl Process {
    pub(crate) fn lives(&mut self) -> bool {
        let lives = self.child.try_wait().expect("it can be asked").is_none();
        if !lives {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            eprintln!(
                "{}",
                log.lines().rev().take(5).collect::<Vec<_>>().join("\n")
            );
        }
        lives
    }

    pub(crate) fn memory(&self) -> Memory {
        Memory(self.child.id())
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Memory(u32);

impl Memory {
    /// The most memory that was resident since the start or since [`Self::reset_peak`].
    pub(crate) fn peak_bytes(self) -> usize {
        self.status_bytes("VmHWM:")
    }

    /// The memory that is resident now.
    pub(crate) fn resident_bytes(self) -> usize {
        self.status_bytes("VmRSS:")
    }

    /// Begins a measurement of the peak.
    pub(crate) fn reset_peak(self) {
        fs::write(format!("/proc/{}/clear_refs", self.0), "5").expect("it lives");
    }

    fn status_bytes(self, field: &str) -> usize {
        e2e::process_usage::status_bytes(self.0, field).expect("it lives")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails where it has ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
