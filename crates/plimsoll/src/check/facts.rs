//! The input of the checks. Only `reader` reads it from a cluster.

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serving::certificates::ServedChain;
use view::OtherAutoscaler;

use super::finding::Read;
use crate::installation::{ObjectName, SecretEntry};

/// Facts about a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Namespace of the suite.
    pub(crate) system_namespace: String,
    /// Address of the API server.
    pub(crate) server: String,
    /// Version of the API server.
    pub(crate) version: ServerVersion,
    /// Time of the API server, by the `Date` header of its response.
    pub(crate) server_time: Option<Timestamp>,
    /// Time of this computer.
    pub(crate) local_time: Timestamp,
    /// All `APIService` objects.
    pub(crate) api_services: Read<Vec<APIService>>,
    /// Number of nodes.
    pub(crate) nodes: Read<usize>,
    /// Number of nodes with metrics.
    pub(crate) measured_nodes: Read<usize>,
    /// Deployments of the suite.
    pub(crate) deployments: Read<Vec<Deployment>>,
    /// Deployments of other autoscalers, in all namespaces.
    pub(crate) others: Read<Vec<OtherDeployment>>,
    /// Signs of other autoscalers that write the same objects: pods, Leases, Events.
    pub(crate) signs: Read<Vec<OtherAutoscaler>>,
    /// Leases of the programs; `None` for a missing one.
    pub(crate) leases: Vec<(ObjectName, Read<Option<Lease>>)>,
    /// All `CustomResourceDefinition`s of our names.
    pub(crate) definitions: Read<Vec<CustomResourceDefinition>>,
    /// Bounds of VPA objects and sizing policies whose unit is probably a slip.
    pub(crate) unit_slips: Read<Vec<String>>,
    /// All mutating webhooks.
    pub(crate) webhooks: Read<Vec<MutatingWebhookConfiguration>>,
    /// Ready endpoints of the Services that registrations of the suite name; `None` for a missing
    /// Service.
    pub(crate) services: Vec<(ObjectName, Read<Option<usize>>)>,
    /// Certificates of the programs.
    pub(crate) certificates: Vec<CertificateFact>,
    /// Creation time and reason of the stop switch; `None` without one.
    pub(crate) stop: (ObjectName, Read<Option<StopFact>>),
    /// Rights of the user.
    pub(crate) rights: Vec<(Right, Read<bool>)>,
    /// Prometheus of the recommender; `None` if it has none.
    pub(crate) prometheus: Option<PrometheusFact>,
}

/// Version of the API server.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerVersion {
    pub(crate) major: String,
    pub(crate) minor: String,
    pub(crate) text: String,
}

/// A Deployment of another autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherDeployment {
    pub(crate) name: ObjectName,
    /// Last part of the image's name, without the tag.
    pub(crate) image: String,
    /// Desired replicas.
    pub(crate) replicas: i32,
}

/// A certificate of a program.
#[derive(Clone, Debug)]
pub(crate) struct CertificateFact {
    pub(crate) program: &'static str,
    pub(crate) secret: ObjectName,
    pub(crate) entry: SecretEntry,
    pub(crate) chain: Read<StoredChain>,
}

/// Content of a Secret with a certificate.
#[derive(Clone, Debug)]
pub(crate) enum StoredChain {
    /// There is no Secret.
    NoSecret,
    /// Its entry has no valid certificate.
    Invalid,
    /// A certificate chain.
    Chain(ServedChain),
}

/// The stop switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StopFact {
    pub(crate) since: Option<Timestamp>,
    pub(crate) reason: Option<String>,
}

/// A right that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Right {
    pub(crate) verb: &'static str,
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    /// Commands that need it.
    pub(crate) commands: &'static str,
    /// Whether it is needed in the namespace of the suite only.
    pub(crate) in_system_namespace: bool,
}

/// Prometheus of the recommender.
#[derive(Clone, Debug)]
pub(crate) struct PrometheusFact {
    /// Address in the flags.
    pub(crate) address: String,
    /// Number of series of each metric, in the order of [`SERIES`](super::judge::SERIES).
    pub(crate) series: Read<Vec<u64>>,
}
