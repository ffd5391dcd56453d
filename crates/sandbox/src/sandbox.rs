//! A sandbox for its users: brought up, used, and taken down. A sandbox that this process brought
//! up goes down with it, unless it is detached.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use kube::Client;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::node::image_archive::Image;
use crate::client::{client, ready_client};
use crate::component::Component;
use crate::control_socket::{self, ControlRequest};
use crate::layout::Layout;
use crate::node::images;
use crate::programs;
use crate::start_supervisor::{OwnedSupervisor, bring_up};
use crate::startup_protocol::Options;
use crate::state_file::{Record, Status};
use crate::take_down::take_down;

/// Limit for a restarted API server beside other sandboxes on two cores.
const READY_TIMEOUT: Duration = Duration::from_mins(3);

/// Kind of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NodeKind {
    /// KWOK is the kubelet.
    Simulated,
    /// A kubelet and containers.
    Real,
}

#[derive(Debug)]
pub struct Sandbox {
    layout: Layout,
    record: Record,
    owned: Option<OwnedSupervisor>,
}

impl Sandbox {
    /// Brings a sandbox up, or attaches to the one of this name that is up already. Builds the
    /// control plane first if necessary, which takes minutes. Passes each step to `step`.
    pub async fn up(options: Options, mut step: impl FnMut(&str) + Send + 'static) -> Result<Self> {
        let layout = Layout::of(&options.name)?;
        spawn_blocking(move || {
            let (record, owned) = bring_up(options, &layout, &mut step)?;
            Ok(Self {
                layout,
                record,
                owned,
            })
        })
        .await
        .context("join")?
    }

    pub fn attach(name: &str) -> Result<Self> {
        let layout = Layout::of(name)?;
        match Record::read(&layout) {
            Some(record) if record.ready && record.is_alive() => Ok(Self {
                layout,
                record,
                owned: None,
            }),
            _ => bail!("no sandbox {name:?} is up; `sandbox up --name {name}` brings one up"),
        }
    }

    /// Whether this value brought the sandbox up, so that it goes down with this process.
    pub fn is_owned(&self) -> bool {
        self.owned.is_some()
    }

    /// Keeps the sandbox running after this process.
    pub fn detach(&mut self) -> Result<()> {
        self.owned.take().map_or(Ok(()), OwnedSupervisor::detach)
    }

    /// Takes the sandbox down and waits until all its processes are gone.
    pub async fn down(mut self) -> Result<()> {
        let owned = self.owned.take();
        take_down(&self.layout).await?;
        match owned {
            Some(owned) => spawn_blocking(|| owned.wait()).await.context("join")?,
            None => Ok(()),
        }
    }

    pub fn name(&self) -> &str {
        self.layout.name()
    }

    pub async fn client(&self) -> Result<Client> {
        client(&self.layout).await
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig()
    }

    /// A kubeconfig with the rights of a component that has its own.
    pub fn kubeconfig_of(&self, component: Component) -> PathBuf {
        self.layout.kubeconfig_of(component)
    }

    /// The certificate of the authority that signed every certificate in the sandbox.
    pub fn authority(&self) -> PathBuf {
        self.layout.certificates().join("ca.crt")
    }

    /// A kubectl of the same version as the API server.
    pub fn kubectl(&self) -> PathBuf {
        self.record.programs.join("kubectl")
    }

    /// Folder of etcd and of the programs of Kubernetes.
    pub fn programs(&self) -> &Path {
        &self.record.programs
    }

    /// Folder with one log per component.
    pub fn logs_dir(&self) -> PathBuf {
        self.layout.logs()
    }

    pub fn log(&self, component: Component) -> PathBuf {
        self.layout.log(component)
    }

    /// URL of Prometheus, if the sandbox has one. [`Self::authority`] signed its certificate.
    pub fn prometheus_url(&self) -> Option<String> {
        self.record
            .components
            .contains_key(&Component::Prometheus)
            .then(|| format!("https://127.0.0.1:{}", self.record.ports.prometheus))
    }

    /// Folder of further files of Prometheus: rules in `rules-*.yaml`, scrapes in `scrape-*.yaml`.
    /// `POST /-/reload` loads changes.
    pub fn prometheus_files(&self) -> PathBuf {
        self.layout.prometheus_files()
    }

    /// The sandbox's processes and ports as they are now.
    pub fn record(&self) -> Result<Record> {
        Record::read(&self.layout).context("the sandbox is gone")
    }

    pub fn status(&self, component: Component) -> Result<Status> {
        self.record()?
            .components
            .remove(&component)
            .with_context(|| format!("this sandbox has no {component}"))
    }

    /// Starts a component that was stopped; the API server is ready when this returns.
    pub async fn start(&self, component: Component) -> Result<()> {
        self.request(ControlRequest::Start(component)).await?;
        self.await_api_server(component).await
    }

    /// Kills a component; it is not restarted.
    pub async fn stop(&self, component: Component) -> Result<()> {
        self.request(ControlRequest::Stop(component)).await
    }

    /// Suspends a component with SIGSTOP, as if its machine hung.
    pub async fn pause(&self, component: Component) -> Result<()> {
        self.request(ControlRequest::Pause(component)).await
    }

    pub async fn resume(&self, component: Component) -> Result<()> {
        self.request(ControlRequest::Resume(component)).await
    }

    /// Makes images of programs of this machine and imports them to the real node.
    pub async fn import(&self, images: Vec<Image>) -> Result<()> {
        let node = self.record.real_node.as_ref();
        let node = node.context("this sandbox has no real node")?;
        let pack = spawn_blocking(move || programs::image_archive(&images));
        let archive = pack.await.context("join")??;
        let programs = &node.container_runtime;
        images::import(&node.sandbox, programs, node.init.pid, &archive).await
    }

    async fn request(&self, request: ControlRequest) -> Result<()> {
        control_socket::send(&self.layout.control_socket(), request).await
    }

    async fn await_api_server(&self, component: Component) -> Result<()> {
        if !matches!(component, Component::KubeApiserver | Component::Etcd) {
            return Ok(());
        }
        let ready = timeout(READY_TIMEOUT, ready_client(&self.layout)).await;
        ready
            .with_context(|| {
                format!(
                    "the API server was not ready {} s after {component} was started",
                    READY_TIMEOUT.as_secs()
                )
            })?
            .map(drop)
    }
}
