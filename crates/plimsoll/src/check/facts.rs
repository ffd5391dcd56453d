//! The input of the checks. Only `reader` reads it from a cluster.

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::version::Info;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serving::certificates::ServedChain;
use view::OtherAutoscaler;

use super::finding::Read;
use super::objects::ObjectFacts;
use crate::installation::{ObjectName, Program, SecretEntry, programs};

#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) system_namespace: String,
    pub(crate) server: String,
    pub(crate) version: Info,
    /// Time of the API server, by the `Date` header of its response.
    pub(crate) server_time: Option<Timestamp>,
    /// Time of this computer.
    pub(crate) local_time: Timestamp,
    pub(crate) api_services: Read<Vec<APIService>>,
    pub(crate) nodes: Read<usize>,
    pub(crate) measured_nodes: Read<usize>,
    pub(crate) deployments: Read<Vec<Deployment>>,
    /// Deployments of other autoscalers, in all namespaces.
    pub(crate) others: Read<Vec<OtherDeployment>>,
    /// Signs of other autoscalers that write the same objects: pods, Leases, Events.
    pub(crate) signs: Read<Vec<OtherAutoscaler>>,
    /// Leases of the programs; `None` for a missing one.
    pub(crate) leases: Vec<(ObjectName, Read<Option<Lease>>)>,
    /// All `CustomResourceDefinition`s of our names.
    pub(crate) definitions: Read<Vec<CustomResourceDefinition>>,
    pub(crate) objects: Read<ObjectFacts>,
    pub(crate) webhooks: Read<Vec<MutatingWebhookConfiguration>>,
    /// Ready endpoints of the Services that registrations of the suite name; `None` for a missing
    /// Service.
    pub(crate) services: Vec<(ObjectName, Read<Option<usize>>)>,
    pub(crate) certificates: Vec<CertificateFact>,
    /// Creation time and reason of the stop switch; `None` without one.
    pub(crate) stop: (ObjectName, Read<Option<StopFact>>),
    pub(crate) rights: Vec<(&'static str, Read<bool>)>,
    /// Prometheus of the recommender; `None` if it has none.
    pub(crate) prometheus: Option<PrometheusFact>,
}

impl Facts {
    pub(crate) fn programs(&self) -> Vec<Program<'_>> {
        programs(self.deployments.as_deref().unwrap_or_default())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherDeployment {
    pub(crate) name: ObjectName,
    /// Last part of the image's name, without the tag.
    pub(crate) image: String,
    pub(crate) replicas: i32,
}

#[derive(Clone, Debug)]
pub(crate) struct CertificateFact {
    pub(crate) program: &'static str,
    pub(crate) secret: ObjectName,
    pub(crate) entry: SecretEntry,
    pub(crate) chain: Read<StoredChain>,
}

#[derive(Clone, Debug)]
pub(crate) enum StoredChain {
    NoSecret,
    /// Its entry has no valid certificate.
    Invalid,
    Chain(ServedChain),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StopFact {
    pub(crate) since: Option<Timestamp>,
    pub(crate) reason: Option<String>,
}

impl StopFact {
    /// The time and the reason, to follow a sentence.
    pub(crate) fn text(&self) -> String {
        let since = self.since.map(|since| format!(" since {since}"));
        let reason = self.reason.as_ref().map(|reason| format!(": {reason}"));
        since.into_iter().chain(reason).collect()
    }
}

/// Rights that commands need, as `VERB RESOURCE.GROUP (COMMANDS)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights {
    pub(crate) of_cluster: &'static [&'static str],
    /// Those that are needed in the namespace of the suite only.
    pub(crate) own: &'static [&'static str],
}

#[derive(Clone, Debug)]
pub(crate) struct PrometheusFact {
    pub(crate) address: String,
    /// Number of series of each metric, in the order of [`SERIES`](super::judge::SERIES).
    pub(crate) series: Read<Vec<u64>>,
    /// Text of the refusal of a store with several clusters.
    pub(crate) refusal: Option<String>,
}
