//! A sandbox as its user holds it: brought up, used, and taken down. One that was brought up here goes down with this process, whatever
//! end that comes to, unless it is detached.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use kube::Client;
use rustix::process::Signal;
use tokio::{task::spawn_blocking, time::sleep};

use crate::{
    component::Component,
    control::{self, Order},
    layout::Layout,
    log_tail::log_tail,
    module::{CONTROL_PLANE, PROMETHEUS},
    plan::{DETACH, News, Plan},
    programs::ensure_built,
    record::{Record, Status},
    start,
};

/// Going down takes well under a second; after this long something is stuck and is killed.
const DOWN_PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two looks at a process or an API.
const POLL: Duration = Duration::from_millis(50);
/// metrics-server is ready after its first rounds of 10 s.
const METRICS_PATIENCE: Duration = Duration::from_mins(2);
/// A component that was started again, the API server above all, is ready within this time.
const READY_PATIENCE: Duration = Duration::from_mins(1);
/// How much of the supervisor's log is shown when it dies without a word.
const SHOWN_LINES: usize = 12;

/// What to bring up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// 1 to 32 of a-z, 0-9 and inner dashes; there is one sandbox per name.
    pub name: String,
    /// Number of nodes.
    pub nodes: u16,
    /// Whether a Prometheus is wanted.
    pub prometheus: bool,
    /// The `sandbox` program, which also runs as supervisor.
    pub program: PathBuf,
    /// Folder of the programs that hosted pods run.
    pub hosted_programs: PathBuf,
    /// First wait of a hosted container that ends again and again; a kubelet's is ten seconds.
    pub restart_back_off: Duration,
}

impl Options {
    /// Three nodes, no Prometheus, hosted programs beside `program`.
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        let hosted_programs = program.parent().map(Path::to_owned).unwrap_or_default();
        let restart_back_off = Duration::from_secs(10);
        Self { name: name.into(), nodes: 3, prometheus: false, program, hosted_programs, restart_back_off }
    }
}

/// A running sandbox.
#[derive(Debug)]
pub struct Sandbox {
    layout: Layout,
    record: Record,
    owned: Option<Owned>,
}

/// The supervisor of a sandbox that goes down with this process; closing its input cuts the leash.
#[derive(Debug)]
struct Owned {
    leash: ChildStdin,
    supervisor: Child,
}

impl Sandbox {
    /// Brings a sandbox up, or takes the one of this name that is up already. Builds the control plane first when it has to, which takes
    /// minutes. `step` is told what happens.
    pub async fn up(options: Options, mut step: impl FnMut(&str) + Send + 'static) -> Result<Self> {
        let layout = Layout::of(&options.name)?;
        spawn_blocking(move || {
            let _lock = lock(&layout)?;
            if let Some(record) = running(&layout)? {
                return Ok(Self { layout, record, owned: None });
            }
            remove_stale(&layout)?;
            let plan = plan(options)?;
            let owned = spawn_supervisor(&plan, &layout, &mut step)?;
            let record = Record::read(&layout).context("read the record of the sandbox")?;
            Ok(Self { layout, record, owned: Some(owned) })
        })
        .await
        .context("join")?
    }

    /// Takes the running sandbox of this name.
    pub fn attach(name: &str) -> Result<Self> {
        let layout = Layout::of(name)?;
        match Record::read(&layout) {
            Some(record) if record.ready && record.is_alive() => Ok(Self { layout, record, owned: None }),
            _ => bail!("no sandbox {name:?} is up; `sandbox up --name {name}` brings one up"),
        }
    }

    /// Whether this very value brought the sandbox up, so that it goes down with this process.
    pub fn is_owned(&self) -> bool {
        self.owned.is_some()
    }

    /// Lets the sandbox live on after this process.
    pub fn detach(&mut self) -> Result<()> {
        if let Some(mut owned) = self.owned.take() {
            writeln!(owned.leash, "{DETACH}").context("detach the sandbox")?;
        }
        Ok(())
    }

    /// Takes the sandbox down and waits until all its processes are gone.
    pub async fn down(mut self) -> Result<()> {
        let owned = self.owned.take();
        take_down(&self.layout).await?;
        if let Some(mut owned) = owned {
            spawn_blocking(move || owned.supervisor.wait())
                .await
                .context("join")?
                .context("wait for the supervisor")?;
        }
        Ok(())
    }

    /// The sandbox's name.
    pub fn name(&self) -> &str {
        self.layout.name()
    }

    /// A client with all rights.
    pub async fn client(&self) -> Result<Client> {
        start::client(&self.layout).await
    }

    /// A kubeconfig with all rights.
    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig()
    }

    /// The certificate of the authority that signed every certificate in the sandbox.
    pub fn authority(&self) -> PathBuf {
        self.layout.certificates().join("ca.crt")
    }

    /// A kubectl of the same version as the API server.
    pub fn kubectl(&self) -> PathBuf {
        self.record.programs.join("kubectl")
    }

    /// Folder of the control plane's programs.
    pub fn programs(&self) -> &Path {
        &self.record.programs
    }

    /// Folder with one log per component.
    pub fn logs_dir(&self) -> PathBuf {
        self.layout.logs()
    }

    /// A component's log.
    pub fn log(&self, component: Component) -> PathBuf {
        self.layout.log(component)
    }

    /// Folder with volumes and logs of hosted pods.
    pub fn pods_dir(&self) -> PathBuf {
        self.layout.pods()
    }

    /// Where Prometheus is reached, when the sandbox has one. Its certificate is signed by [`Self::authority`].
    pub fn prometheus_url(&self) -> Option<String> {
        self.record
            .components
            .contains_key(&Component::Prometheus)
            .then(|| format!("https://127.0.0.1:{}", self.record.ports.prometheus))
    }

    /// The sandbox's processes and ports as they are now.
    pub fn record(&self) -> Result<Record> {
        Record::read(&self.layout).context("the sandbox is gone")
    }

    /// How a component fares now.
    pub fn status(&self, component: Component) -> Result<Status> {
        self.record()?.components.remove(&component).with_context(|| format!("this sandbox has no {component}"))
    }

    /// Starts a component that was stopped; the API server is ready when this returns.
    pub async fn start(&self, component: Component) -> Result<()> {
        self.order(Order::Start(component)).await?;
        self.await_api_server(component).await
    }

    /// Ends a component at once and keeps it down.
    pub async fn stop(&self, component: Component) -> Result<()> {
        self.order(Order::Stop(component)).await
    }

    /// Freezes a component, as if its machine hung.
    pub async fn pause(&self, component: Component) -> Result<()> {
        self.order(Order::Pause(component)).await
    }

    /// Lets a frozen component go on.
    pub async fn resume(&self, component: Component) -> Result<()> {
        self.order(Order::Resume(component)).await
    }

    /// Waits until metrics.k8s.io answers. A pod's first values come two rounds of 10 s after it has started.
    pub async fn wait_metrics(&self) -> Result<()> {
        let client = self.client().await?;
        let deadline = Instant::now() + METRICS_PATIENCE;
        while Instant::now() < deadline {
            let request = http::Request::get("/apis/metrics.k8s.io/v1beta1/pods?limit=1")
                .body(Vec::new())
                .context("build a request")?;
            if client.request_text(request).await.is_ok() {
                return Ok(());
            }
            sleep(POLL * 4).await;
        }
        let log = self.log(Component::MetricsServer);
        bail!(
            "metrics.k8s.io did not answer for {} s; the end of {}:\n{}",
            METRICS_PATIENCE.as_secs(),
            log.display(),
            log_tail(&log, SHOWN_LINES)
        )
    }

    async fn order(&self, order: Order) -> Result<()> {
        control::send(&self.layout.control_socket(), order).await
    }

    async fn await_api_server(&self, component: Component) -> Result<()> {
        if !matches!(component, Component::KubeApiserver | Component::Etcd) {
            return Ok(());
        }
        let ready = tokio::time::timeout(READY_PATIENCE, start::ready_client(&self.layout)).await;
        ready
            .with_context(|| {
                format!("the API server was not ready {} s after {component} was started", READY_PATIENCE.as_secs())
            })?
            .map(drop)
    }
}

/// Takes the sandbox of this name down, if there is one, and removes all traces of it. Says whether there was one.
pub async fn down(name: &str) -> Result<bool> {
    let layout = Layout::of(name)?;
    let was_up = Record::read(&layout).is_some_and(|record| record.is_alive());
    take_down(&layout).await?;
    Ok(was_up)
}

async fn take_down(layout: &Layout) -> Result<()> {
    if let Some(record) = Record::read(layout).filter(Record::is_alive) {
        if control::send(&layout.control_socket(), Order::Down).await.is_err() {
            // It is still starting, or does not answer.
            record.supervisor.signal(Signal::TERM);
        }
        let deadline = Instant::now() + DOWN_PATIENCE;
        while record.is_alive() && Instant::now() < deadline {
            sleep(POLL).await;
        }
    }
    remove_stale(layout)
}

/// Held while a sandbox of this name is brought up.
fn lock(layout: &Layout) -> Result<File> {
    layout.create_root()?;
    let path = layout.lock();
    let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    file.lock().with_context(|| format!("lock {}", path.display()))?;
    Ok(file)
}

/// The record of a sandbox that is up. One that is going down is waited for.
fn running(layout: &Layout) -> Result<Option<Record>> {
    let deadline = Instant::now() + DOWN_PATIENCE;
    while let Some(record) = Record::read(layout).filter(Record::is_alive) {
        if record.ready {
            return Ok(Some(record));
        }
        ensure!(
            Instant::now() < deadline,
            "sandbox {:?} is neither up nor down; `sandbox down --name {0}` ends it",
            layout.name()
        );
        std::thread::sleep(POLL);
    }
    Ok(None)
}

/// Ends whatever a dead or stuck sandbox of this name left behind.
fn remove_stale(layout: &Layout) -> Result<()> {
    if let Some(record) = Record::read(layout) {
        record.processes().for_each(|process| process.signal(Signal::KILL));
    }
    layout.remove()
}

fn plan(options: Options) -> Result<Plan> {
    let control_plane = ensure_built(&CONTROL_PLANE, &options.program)?;
    let prometheus = options.prometheus.then(|| ensure_built(&PROMETHEUS, &options.program)).transpose()?;
    Ok(Plan {
        name: options.name,
        nodes: options.nodes,
        sandbox: options.program,
        control_plane,
        prometheus,
        hosted_programs: options.hosted_programs,
        restart_back_off: options.restart_back_off,
    })
}

fn spawn_supervisor(plan: &Plan, layout: &Layout, step: &mut dyn FnMut(&str)) -> Result<Owned> {
    layout.create()?;
    let log = File::create(layout.supervisor_log()).context("create the supervisor's log")?;
    let mut supervisor = Command::new(&plan.sandbox)
        .arg("supervise")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .with_context(|| format!("start {}", plan.sandbox.display()))?;
    let mut leash = supervisor.stdin.take().context("no pipe to the supervisor")?;
    let news = supervisor.stdout.take().context("no pipe from the supervisor")?;
    let line = serde_json::to_string(plan).context("render the plan")?;
    writeln!(leash, "{line}").context("send the plan")?;
    if let Err(error) = await_ready(news, layout, step) {
        drop(leash);
        supervisor.wait().context("wait for the supervisor")?;
        return Err(error);
    }
    Ok(Owned { leash, supervisor })
}

fn await_ready(news: ChildStdout, layout: &Layout, step: &mut dyn FnMut(&str)) -> Result<()> {
    for line in BufReader::new(news).lines().map_while(Result::ok) {
        match serde_json::from_str(&line).with_context(|| format!("the supervisor said {line:?}"))? {
            News::Step(what) => step(&what),
            News::Ready => return Ok(()),
            News::Failed(why) => bail!("the sandbox did not come up: {why}"),
        }
    }
    let log = layout.supervisor_log();
    bail!("the supervisor died; the end of its log {}:\n{}", log.display(), log_tail(&log, SHOWN_LINES))
}
