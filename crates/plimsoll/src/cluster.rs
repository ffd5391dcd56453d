//! Connection to the cluster, with the rights of the user.

mod contexts;
mod proxy;
mod target;

use std::env;
use std::fmt::Debug;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use k8s_openapi::NamespaceResourceScope as Namespaced;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::api::{ApiResource, DynamicObject, ListParams, PartialObjectMeta};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::core::{ObjectList, Status};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;

use crate::failure::Failure;

pub(crate) use contexts::{Answers, ContextArgs, worst};
pub(crate) use target::Target;

const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);
const PAGE: u32 = 500;
const MAX_PAGES: u32 = 1000;

/// Flags of the connection, with the names of kubectl.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ClusterArgs {
    /// Kubeconfig; the default is the one of kubectl: `KUBECONFIG`, else `~/.kube/config`, else the
    /// service account of the pod.
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; the default is its current context.
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub(crate) context: Option<String>,
}

pub(crate) trait Object: Clone + DeserializeOwned + Debug {}

impl<T: Clone + DeserializeOwned + Debug> Object for T {}

pub(crate) trait Kind: Resource<DynamicType = ()> + Object {}

impl<K: Resource<DynamicType = ()> + Object> Kind for K {}

#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// Namespace of the context; `default` without one.
    pub(crate) namespace: String,
    pub(crate) server: String,
    config: Config,
}

impl Cluster {
    fn of(config: Config) -> anyhow::Result<Self> {
        Ok(Self {
            namespace: config.default_namespace.clone(),
            server: config.cluster_url.to_string(),
            client: client(config.clone(), REQUEST_TIMEOUT)?,
            config,
        })
    }

    /// Client for requests that the API server forwards, with their time limit.
    pub(crate) fn patient_client(&self, limit: Duration) -> anyhow::Result<Client> {
        // This one is for a connection that hangs.
        client(self.config.clone(), limit.saturating_add(REQUEST_TIMEOUT))
    }

    pub(crate) fn all<K: Kind>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    pub(crate) fn within<K: Kind<Scope = Namespaced>>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Objects of a kind as JSON, since our types may not accept each object that the API server
    /// accepts; in all namespaces without one.
    pub(crate) fn untyped<K: Kind>(&self, namespace: Option<&str>) -> Api<DynamicObject> {
        self.dynamic(&ApiResource::erase::<K>(&()), namespace)
    }

    pub(crate) fn dynamic(
        &self,
        kind: &ApiResource,
        namespace: Option<&str>,
    ) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, kind),
            None => Api::all_with(self.client.clone(), kind),
        }
    }

    /// The version of the API server: it responds, and accepts the credentials.
    pub(crate) async fn version(&self) -> anyhow::Result<Info> {
        let version = self.client.apiserver_version().await;
        version.map_err(self.failed("the version of the API server"))
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> kube::Result<T> {
        let request = http::Request::get(path).body(Vec::new());
        let request = request.map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }

    /// Error of a request; `subject` is what was requested, such as `pods`.
    pub(crate) fn failed(&self, subject: &str) -> impl Fn(kube::Error) -> anyhow::Error {
        let server = &self.server;
        move |error| match error {
            kube::Error::Api(status) if status.code == 401 => {
                anyhow!("the API server {server} does not accept your credentials")
            }
            kube::Error::Api(status) => anyhow!(
                "cannot read {subject}: {}",
                status.message.trim_end_matches('.')
            ),
            error @ (kube::Error::HyperError(_) | kube::Error::Service(_)) => {
                let error = anyhow!(error).context(format!("cannot reach the API server {server}"));
                Failure::Unreachable(error).into()
            }
            error => anyhow!(error).context(format!("cannot read {subject}")),
        }
    }
}

/// Visits the objects page by page, so that a large list is never held.
pub(crate) async fn each<K: Object>(
    api: &Api<K>,
    params: &ListParams,
    visit: impl FnMut(K),
) -> kube::Result<()> {
    pages(params, async |params| api.list(params).await, visit).await
}

/// The same of their metadata alone: an object with fields that our types do not accept counts too.
pub(crate) async fn each_metadata<K: Object>(
    api: &Api<K>,
    visit: impl FnMut(PartialObjectMeta<K>),
) -> kube::Result<()> {
    let list = async |params: &ListParams| api.list_metadata(params).await;
    pages(&ListParams::default(), list, visit).await
}

pub(crate) async fn list<K: Object>(api: &Api<K>, params: &ListParams) -> kube::Result<Vec<K>> {
    let mut objects = Vec::new();
    each(api, params, |object| objects.push(object)).await?;
    Ok(objects)
}

async fn pages<T: Clone>(
    params: &ListParams,
    list: impl AsyncFn(&ListParams) -> kube::Result<ObjectList<T>>,
    visit: impl FnMut(T),
) -> kube::Result<()> {
    let (mut params, mut visit) = (params.clone().limit(PAGE), visit);
    for _ in 0..MAX_PAGES {
        let page = list(&params).await?;
        page.items.into_iter().for_each(&mut visit);
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(());
        }
    }
    let message = format!("there are more than {} objects", PAGE * MAX_PAGES);
    Err(kube::Error::Api(Status::failure(&message, "").boxed()))
}

impl ClusterArgs {
    /// Client for the API server of the flags. Does not send a request.
    pub(crate) async fn connect(&self) -> anyhow::Result<Cluster> {
        Cluster::of(self.config().await?)
    }

    /// The same with the token of another user in place of all credentials.
    pub(crate) async fn connect_with(&self, token: String) -> anyhow::Result<Cluster> {
        let mut config = self.config().await?;
        config.auth_info = AuthInfo {
            token: Some(token.into()),
            ..AuthInfo::default()
        };
        Cluster::of(config)
    }

    pub(crate) fn is_named(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let kubeconfig = match self.kubeconfig() {
            Ok(kubeconfig) => kubeconfig,
            // A file that cannot be used must not lead to the cluster of this pod.
            Err(error) if self.is_named() || has_kubeconfig() => return Err(error),
            Err(error) => {
                return Config::incluster().map_err(|_| {
                    let message = "no cluster: name a kubeconfig with --kubeconfig or KUBECONFIG, or read files";
                    error.context(message)
                });
            }
        };
        if let Some(name) = &self.context
            && !kubeconfig.contexts.iter().any(|it| it.name == *name)
        {
            bail!("{}: it has no context {name}", self.unusable());
        }
        let config = Config::from_custom_kubeconfig(kubeconfig.clone(), &options).await;
        let mut config = config.with_context(|| self.unusable())?;
        let context = self.context.as_deref();
        // kube compares NO_PROXY with the address of the proxy instead of the API server's.
        let proxy = proxy::proxy(&kubeconfig, context, &config.cluster_url);
        config.proxy_url = proxy.with_context(|| self.unusable())?;
        Ok(config)
    }

    fn kubeconfig(&self) -> anyhow::Result<Kubeconfig> {
        let read = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        read.with_context(|| self.unusable())
    }

    fn unusable(&self) -> String {
        let path = self.kubeconfig.as_ref();
        let path = path.map_or_else(String::new, |path| format!(" {}", path.display()));
        format!("cannot use the kubeconfig{path}")
    }
}

fn client(mut config: Config, read_timeout: Duration) -> anyhow::Result<Client> {
    runtime::client::install_crypto_provider();
    config.read_timeout = Some(read_timeout);
    config.default_retry = false;
    Client::try_from(config).context("cannot set up the client of the cluster")
}

/// Whether `KUBECONFIG` is set, or its default file exists.
fn has_kubeconfig() -> bool {
    env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty())
        || env::home_dir().is_some_and(|home| home.join(".kube/config").exists())
}

/// Runs the future of a command on a runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(future)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use k8s_openapi::api::core::v1::Pod;
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::failure::is_unreachable;

    pub(super) fn kubeconfig(server: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("temporary file");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
             clusters: [{{name: a, cluster: {{server: '{server}'}}}}]\n\
             contexts: [{{name: a, context: {{cluster: a, user: a, namespace: shop}}}}]\n\
             users: [{{name: a, user: {{}}}}]\n"
        );
        file.write_all(text.as_bytes()).expect("written");
        file
    }

    fn connect(args: &ClusterArgs) -> anyhow::Result<Cluster> {
        block_on(args.connect())
    }

    #[test]
    fn the_context_names_server_and_namespace() {
        let file = kubeconfig("http://127.0.0.1:1");
        let args = ClusterArgs {
            kubeconfig: Some(file.path().to_owned()),
            context: None,
        };
        let Ok(cluster) = connect(&args) else {
            panic!("not connected");
        };
        assert_eq!(cluster.namespace, "shop");
        assert_eq!(cluster.server, "http://127.0.0.1:1/");
        let missing = ClusterArgs {
            context: Some("other".to_owned()),
            ..args
        };
        let error = connect(&missing).err().expect("no such context");
        assert!(
            error.to_string().ends_with(": it has no context other"),
            "{error}"
        );
    }

    #[test]
    fn missing_files_are_named() {
        let args = ClusterArgs {
            kubeconfig: Some("missing.kubeconfig".into()),
            context: None,
        };
        let error = connect(&args).err().expect("no such file");
        assert!(error.to_string().contains("missing.kubeconfig"), "{error}");
    }

    #[test]
    fn an_unreachable_server_has_an_exit_code_of_its_own() {
        // Nothing listens on port 1.
        let file = kubeconfig("http://127.0.0.1:1");
        let args = ClusterArgs {
            kubeconfig: Some(file.path().to_owned()),
            context: None,
        };
        let failure = block_on(async {
            let cluster = args.connect().await?;
            let listed = list(&cluster.all::<Pod>(), &ListParams::default()).await;
            listed.map_err(cluster.failed("pods"))
        });
        let failure = failure.expect_err("unreachable");
        assert!(is_unreachable(&failure), "{failure}");
        assert!(failure.to_string().contains("cannot reach the API server"));
    }

    /// Reads the lines of a request up to the empty one, and returns the first.
    async fn request_line(stream: &mut BufReader<TcpStream>) -> String {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.expect("a line");
            if line.trim().is_empty() {
                return lines.swap_remove(0);
            }
            lines.push(line);
        }
    }

    /// Accepts a connection as a CONNECT proxy. Returns the connection and its target.
    async fn accept_connect(listener: TcpListener) -> (BufReader<TcpStream>, String) {
        let (stream, _) = listener.accept().await.expect("a connection");
        let mut stream = BufReader::new(stream);
        let line = request_line(&mut stream).await;
        let established = b"HTTP/1.1 200 Connection established\r\n\r\n";
        stream.write_all(established).await.expect("written");
        let target = line.strip_prefix("CONNECT ").expect("a tunnel");
        let target = target.strip_suffix(" HTTP/1.1\r\n").expect("HTTP/1.1");
        (stream, target.to_owned())
    }

    /// The same as a SOCKS5 proxy (RFC 1928), which resolves the name.
    async fn accept_socks(listener: TcpListener) -> (BufReader<TcpStream>, String) {
        const NO_AUTHENTICATION: u8 = 0;
        const NAME: u8 = 3;
        let (stream, _) = listener.accept().await.expect("a connection");
        let mut stream = BufReader::new(stream);
        let [version, methods] = read(&mut stream).await;
        let mut offered = vec![0; methods.into()];
        stream.read_exact(&mut offered).await.expect("methods");
        assert!(version == 5 && offered.contains(&NO_AUTHENTICATION));
        let chosen = [5, NO_AUTHENTICATION];
        stream.write_all(&chosen).await.expect("written");
        let [version, command, _, kind, length] = read(&mut stream).await;
        assert_eq!([version, command, kind], [5, 1, NAME]);
        let mut name = vec![0; length.into()];
        stream.read_exact(&mut name).await.expect("a name");
        let port = u16::from_be_bytes(read(&mut stream).await);
        let granted = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        stream.write_all(&granted).await.expect("written");
        let name = String::from_utf8(name).expect("text");
        (stream, format!("{name}:{port}"))
    }

    async fn read<const LENGTH: usize>(stream: &mut BufReader<TcpStream>) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        stream.read_exact(&mut bytes).await.expect("bytes");
        bytes
    }

    /// Answers a request as an API server without pods. Returns its first line.
    async fn answer(stream: &mut BufReader<TcpStream>) -> String {
        let request = request_line(stream).await;
        let body = r#"{"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": []}"#;
        let response = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream
            .write_all(response.as_bytes())
            .await
            .expect("written");
        request
    }

    /// Lists pods through a proxy of the kubeconfig, whose address is `PROXY` in `url`.
    fn check_proxy<F: Future<Output = (BufReader<TcpStream>, String)>>(
        url: &str,
        accept: impl FnOnce(TcpListener) -> F,
    ) {
        let found = block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let url = url.replace("PROXY", &listener.local_addr()?.to_string());
            // The rest of the cluster's entry.
            let file = kubeconfig(&format!("http://api.example.com:6443', proxy-url: '{url}"));
            let args = ClusterArgs {
                kubeconfig: Some(file.path().to_owned()),
                context: None,
            };
            let pods: Api<Pod> = Api::all(args.connect().await?.client);
            let params = ListParams::default();
            let proxy = async {
                let (mut stream, target) = accept(listener).await;
                let line = answer(&mut stream).await;
                (target, line, stream)
            };
            let ((target, line, _open), listed) = tokio::join!(proxy, pods.list(&params));
            assert!(listed.is_ok_and(|pods| pods.items.is_empty()), "{url}");
            Ok((target, line))
        });
        let (target, line) = found.expect("an answer");
        assert_eq!(target, "api.example.com:6443", "{url}");
        assert!(line.starts_with("GET /api/v1/pods"), "{line}");
    }

    #[test]
    fn requests_go_through_the_proxy_of_the_kubeconfig() {
        check_proxy("http://PROXY", accept_connect);
        check_proxy("socks5://PROXY", accept_socks);
        check_proxy("socks5h://PROXY", accept_socks);
    }
}
