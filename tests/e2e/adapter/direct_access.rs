//! Access to the adapter without the API server in between.

use anyhow::{Context as _, Result, ensure};
use e2e::deployment::{ADAPTER, replicas};
use e2e::{Namespace, create, eventually, until};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::config::AuthInfo;
use kube::{Api, Client, Config};
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use super::fixture::Fixture;

const SECURE_PORT: u16 = 6443;
/// Headers of a client that claims to be an administrator.
const CLAIM: [(&str, &str); 2] = [
    ("X-Remote-User", "admin"),
    ("X-Remote-Group", "system:masters"),
];

/// A client that connects to a replica without the API server in between.
struct Direct(Client);

impl Direct {
    async fn to(fixture: &Fixture, identity: AuthInfo) -> Result<Self> {
        let replicas = replicas(&fixture.client, ADAPTER).await?;
        let address = replicas.first().context("there is a replica")?.address;
        let services: Api<APIService> = Api::all(fixture.client.clone());
        let service = services.get("v1beta1.external.metrics.k8s.io").await?;
        let bundle = service.spec.and_then(|spec| spec.ca_bundle);
        let ByteString(bundle) = bundle.context("a bundle")?;
        let roots = CertificateDer::pem_slice_iter(&bundle).map(|root| Ok(root?.to_vec()));
        let roots = roots.collect::<Result<Vec<_>>>()?;
        let mut config = Config::new(format!("https://{address}:{SECURE_PORT}").parse()?);
        config.root_cert = Some(roots);
        config.tls_server_name = Some("plimsoll-adapter.plimsoll-system.svc".to_owned());
        config.auth_info = identity;
        config.default_retry = false;
        Ok(Self(Client::try_from(config)?))
    }

    /// The code and the message of the answer.
    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Result<(u16, String)> {
        let request = headers
            .iter()
            .fold(http::Request::get(path), |request, (name, value)| {
                request.header(*name, *value)
            });
        match self.0.request::<Value>(request.body(Vec::new())?).await {
            Ok(answer) => Ok((200, answer.to_string())),
            Err(kube::Error::Api(status)) => Ok((status.code, status.message)),
            Err(error) => Err(error.into()),
        }
    }
}

fn showing(certificate: &str, key: &KeyPair) -> Result<AuthInfo> {
    let encoded = |pem: &str| serde_json::to_value(ByteString(pem.as_bytes().to_vec()));
    let data = json!({
        "client-certificate-data": encoded(certificate)?,
        "client-key-data": encoded(&key.serialize_pem())?,
    });
    Ok(serde_json::from_value(data)?)
}

/// A certificate for an ordinary user, signed by the cluster.
async fn certificate_of_the_cluster(fixture: &Fixture, user: &str) -> Result<AuthInfo> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new([])?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    let request = params.serialize_request(&key)?.pem()?;
    let requests: Api<CertificateSigningRequest> = Api::all(fixture.client.clone());
    let wanted = json!({
        "metadata": {"name": user},
        "spec": {
            "request": ByteString(request.into_bytes()), "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    });
    create(&requests, wanted).await?;
    fixture
        .kubectl(&format!("certificate approve {user}"))
        .await?;
    let ByteString(pem) = eventually("the certificate is signed", async || {
        let status = requests.get(user).await?.status.unwrap_or_default();
        status.certificate.context("not yet")
    })
    .await?;
    showing(&String::from_utf8(pem)?, &key)
}

#[tokio::test]
async fn direct_clients_are_authenticated() -> Result<()> {
    let fixture = Fixture::together("direct").await?;
    let namespace = &fixture.namespace;
    let path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/queue");

    let anonymous = Direct::to(&fixture, AuthInfo::default()).await?;
    let (code, message) = anonymous.get(&path, &CLAIM).await?;
    let is_anonymous = message.contains("User \"system:anonymous\" cannot list");
    ensure!(code == 403 && is_anonymous, "{code} {message}");
    let probe = anonymous
        .0
        .request_text(http::Request::get("/readyz").body(Vec::new())?)
        .await?;
    ensure!(probe.starts_with("ok"), "{probe}");

    let user = format!("ordinary-{namespace}");
    let ordinary = Direct::to(&fixture, certificate_of_the_cluster(&fixture, &user).await?).await?;
    let unauthorized = (401, "Unauthorized".to_owned());
    assert_eq!(ordinary.get(&path, &CLAIM).await?, unauthorized);

    let key = KeyPair::generate()?;
    let own = CertificateParams::new(["front-proxy-client".to_owned()])?.self_signed(&key)?;
    let untrusted = Direct::to(&fixture, showing(&own.pem(), &key)?).await?;
    assert_eq!(untrusted.get(&path, &CLAIM).await?, unauthorized);
    let bearer = ("Authorization", "Bearer made.up.token");
    assert_eq!(anonymous.get(&path, &[bearer]).await?, unauthorized);

    // With a token of its own a service account is itself, and may what its role says.
    let create = format!("-n {namespace} create");
    let account = format!("{create} serviceaccount reader");
    fixture.kubectl(&account).await?;
    let token = fixture.kubectl(&format!("{create} token reader")).await?;
    let bearer = format!("Bearer {}", token.trim());
    let bearer = [("Authorization", bearer.as_str()), CLAIM[0], CLAIM[1]];
    let (code, message) = anonymous.get(&path, &bearer).await?;
    let user = format!("User \"system:serviceaccount:{namespace}:reader\"");
    ensure!(code == 403 && message.contains(&user), "{code} {message}");
    let subject = json!({"kind": "ServiceAccount", "name": "reader", "namespace": namespace});
    may_read_queue(&fixture, &subject).await?;
    eventually("the role counts", async || {
        let (code, message) = anonymous.get(&path, &bearer).await?;
        let is_unknown = message.contains("could not find the metric queue");
        ensure!(code == 404 && is_unknown, "{code} {message}");
        Ok(())
    })
    .await?;
    // The role is about one metric.
    let other = path.replace("queue", "other");
    let (code, message) = anonymous.get(&other, &bearer).await?;
    ensure!(code == 403, "{code} {message}");
    Ok(())
}

#[tokio::test]
async fn through_the_api_server_the_autoscaler_may_ask_and_others_what_their_roles_say()
-> Result<()> {
    let fixture = Fixture::together("proxied").await?;
    let namespace = &fixture.namespace;
    let path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/queue");
    let autoscaler = "system:serviceaccount:kube-system:horizontal-pod-autoscaler";
    let anonymous = format!("system:serviceaccount:{namespace}:default");
    let refused = async |who: &str| {
        let answer = fixture.kubectl(&format!("get --raw {path} {who}")).await;
        let error = answer.err().map(|error| error.to_string());
        error.context("there is no such metric")
    };
    let error = refused(&format!("--as {autoscaler}")).await?;
    ensure!(
        error.contains("(NotFound)") && error.contains("could not find the metric queue"),
        "{error}"
    );
    let error = refused(&format!("--as {anonymous}")).await?;
    ensure!(error.contains("(Forbidden)"), "{error}");

    // The API server's answer about a user reaches the adapter whole: here one of several groups
    // has the role.
    let subject = json!({"kind": "Group", "name": "team", "apiGroup": "rbac.authorization.k8s.io"});
    may_read_queue(&fixture, &subject).await?;
    until(
        "the role counts",
        async || refused("--as joe --as-group other --as-group team").await,
        |error| error.contains("could not find the metric queue"),
    )
    .await?;
    let error = refused("--as joe --as-group other").await?;
    ensure!(error.contains("(Forbidden)"), "{error}");
    Ok(())
}

/// Lets a user read one external metric of a namespace. Discovery lists no object of it, so
/// `kubectl create role` does not know it.
async fn may_read_queue(namespace: &Namespace, subject: &Value) -> Result<()> {
    let right = json!({"apiGroups": ["external.metrics.k8s.io"], "resources": ["queue"], "verbs": ["list"]});
    let role = json!({"metadata": {"name": "queue"}, "rules": [right]});
    namespace.create::<Role>(role).await?;
    let reference =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "queue"});
    let binding =
        json!({"metadata": {"name": "queue"}, "roleRef": reference, "subjects": [subject]});
    namespace.create::<RoleBinding>(binding).await?;
    Ok(())
}
