//! Writes on behalf of sizing policies: their `VerticalPodAutoscaler` objects, their status and events about them.
//!
//! No write can hit an object that no policy owns. One is made only where there is none of its name; it is changed by a patch that
//! tests its uid and its owners first; and it is removed only in the very version in which the policy was seen to own it.

use std::time::Instant;

use api::sizing_policy::{
    API_VERSION, ClusterSizingPolicy, ShardReport, SizingPolicy, SizingPolicyStatus, report_patch, status_patch,
};
use api::vpa::VerticalPodAutoscaler;
use cluster::{ObjectKey, Policy, Reach};
use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch, PatchOperation, TestOperation};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch as Body, PatchParams, PostParams, Preconditions};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Error};
use runtime::Leading;

use super::event::CONTROLLER;
use crate::sizing_policies::plan::Action;
use crate::sizing_policies::status::{News, Said};
use crate::sizing_policies::wanted::is_policy;

/// The API server takes notes of up to 1024 bytes; a character here has one, but for a few in words of others.
const MAX_NOTE: usize = 1000;

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is as it should be.
    Written,
    /// It did not get through, and why.
    Failed(String),
    /// It was not sent, because this process no longer leads.
    NotLeading,
}

impl Outcome {
    /// The label of the metric.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Failed(_) => "failed",
            Self::NotLeading => "not_leading",
        }
    }

    /// The label of every outcome.
    pub(crate) const NAMES: [&'static str; 3] = ["written", "failed", "not_leading"];
}

/// What was written for one policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Made {
    created: usize,
    changed: usize,
    removed: usize,
}

impl Made {
    /// One more.
    pub(crate) fn add(&mut self, action: &Action) {
        match action {
            Action::Create(_) => self.created += 1,
            Action::Change(_) => self.changed += 1,
            Action::Remove => self.removed += 1,
        }
    }
}

/// Writes on behalf of policies.
#[derive(Clone)]
pub(crate) struct Writer {
    client: Client,
    events: Recorder,
}

impl Writer {
    pub(crate) fn new(client: Client) -> Self {
        let events = Recorder::new(client.clone(), Reporter { controller: CONTROLLER.to_owned(), instance: None });
        Self { client, events }
    }

    /// Writes one object, if this process still leads.
    pub(crate) async fn write(&self, key: &ObjectKey, action: &Action, policy: &Policy, leading: &Leading) -> Outcome {
        if !leading.holds(Instant::now()) {
            return Outcome::NotLeading;
        }
        let sent = match action {
            Action::Create(object) => self.create(key, object).await,
            Action::Change(patch) => self.change(key, patch.clone()).await,
            Action::Remove => self.remove(key, &policy.uid).await,
        };
        outcome(sent, key, action.name())
    }

    /// Writes what there is to say into the status of a policy, if this process still leads.
    pub(crate) async fn write_status(&self, policy: &Policy, said: &Said, leading: &Leading) -> Outcome {
        if !leading.holds(Instant::now()) {
            return Outcome::NotLeading;
        }
        let sent = match said {
            Said::Status(status) => self.put_status(policy, status).await,
            Said::Report(shard, report) => self.put_report(policy, *shard, report).await,
        };
        outcome(sent, &policy.key, "status")
    }

    /// Tells people of a policy what is new. They are told best, so an event that cannot be written is no failure.
    pub(crate) async fn tell(&self, policy: &Policy, news: &[News], made: &Made) {
        let mut events: Vec<Event> =
            news.iter().map(|news| event(EventType::Warning, &news.reason, &news.note)).collect();
        if *made != Made::default() {
            let Made { created, changed, removed } = made;
            let note = format!("{created} autoscalers created, {changed} changed, {removed} removed");
            events.push(event(EventType::Normal, "AutoscalersWritten", &note));
        }
        for event in events {
            if let Err(error) = self.events.publish(&event, &reference(policy)).await {
                tracing::debug!(policy = %policy.key, reason = event.reason, %error, "cannot write an event");
            }
        }
    }

    async fn create(&self, key: &ObjectKey, object: &VerticalPodAutoscaler) -> Result<(), Error> {
        let value = serde_json::to_value(object).map_err(Error::SerdeError)?;
        let object: DynamicObject = serde_json::from_value(value).map_err(Error::SerdeError)?;
        let params = PostParams { field_manager: Some(CONTROLLER.to_owned()), ..PostParams::default() };
        let api = self.autoscalers(&key.namespace);
        match api.create(&params, &object).await {
            // What was seen may be a moment old: our own object need not be made twice.
            Err(Error::Api(answer)) if answer.code == 409 => {
                let owners = api.get_metadata(&key.name).await?.metadata.owner_references.unwrap_or_default();
                if owners.iter().any(is_policy) { Ok(()) } else { Err(Error::Api(answer)) }
            }
            created => created.map(drop),
        }
    }

    async fn change(&self, key: &ObjectKey, patch: Patch) -> Result<(), Error> {
        let params = PatchParams { field_manager: Some(CONTROLLER.to_owned()), ..PatchParams::default() };
        self.autoscalers(&key.namespace).patch(&key.name, &params, &Body::Json::<()>(patch)).await.map(drop)
    }

    async fn remove(&self, key: &ObjectKey, owner: &str) -> Result<(), Error> {
        let api = self.autoscalers(&key.namespace);
        let Some(seen) = api.get_metadata_opt(&key.name).await? else { return Ok(()) };
        let owners = seen.metadata.owner_references.unwrap_or_default();
        if !owners.iter().any(|reference| is_policy(reference) && reference.uid == owner) {
            return Ok(());
        }
        let (uid, resource_version) = (seen.metadata.uid, seen.metadata.resource_version);
        let preconditions = Some(Preconditions { uid, resource_version });
        let removed = api.delete(&key.name, &DeleteParams { preconditions, ..DeleteParams::default() }).await;
        match removed {
            Err(Error::Api(answer)) if answer.code == 404 => Ok(()),
            removed => removed.map(drop),
        }
    }

    async fn put_status(&self, policy: &Policy, status: &SizingPolicyStatus) -> Result<(), Error> {
        let uid =
            TestOperation { path: PointerBuf::from_tokens(["metadata", "uid"]), value: policy.uid.clone().into() };
        let put = status_patch(status).map_err(Error::SerdeError)?;
        let patch = Patch(std::iter::once(PatchOperation::Test(uid)).chain(put.0).collect());
        let (api, params) = (self.policies(policy), PatchParams::default());
        api.patch_status(&policy.key.name, &params, &Body::Json::<()>(patch)).await.map(drop)
    }

    async fn put_report(&self, policy: &Policy, shard: u16, report: &ShardReport) -> Result<(), Error> {
        let patch = Body::Merge(report_patch(&policy.uid, shard, report));
        self.policies(policy).patch_status(&policy.key.name, &PatchParams::default(), &patch).await.map(drop)
    }

    fn policies(&self, policy: &Policy) -> Api<DynamicObject> {
        let client = self.client.clone();
        match policy.reach {
            Reach::Namespace => {
                Api::namespaced_with(client, &policy.key.namespace, &ApiResource::erase::<SizingPolicy>(&()))
            }
            Reach::Cluster(_) => Api::all_with(client, &ApiResource::erase::<ClusterSizingPolicy>(&())),
        }
    }

    /// The answers are read loosely: what others wrote into an object must not make our write look failed.
    fn autoscalers(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<VerticalPodAutoscaler>(&());
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }
}

fn outcome(sent: Result<(), Error>, key: &ObjectKey, action: &str) -> Outcome {
    match sent {
        Ok(()) => Outcome::Written,
        Err(error) => {
            tracing::warn!(object = %key, action, %error, "cannot write on behalf of a sizing policy");
            let problem = match error {
                Error::Api(status) => status.message.clone(),
                error => error.to_string(),
            };
            Outcome::Failed(format!("{action} {key}: {problem}"))
        }
    }
}

fn event(type_: EventType, reason: &str, note: &str) -> Event {
    Event {
        type_,
        reason: reason.to_owned(),
        note: Some(note.chars().take(MAX_NOTE).collect()),
        action: "ApplyPolicy".to_owned(),
        secondary: None,
    }
}

fn reference(policy: &Policy) -> ObjectReference {
    let namespace = Some(policy.key.namespace.clone()).filter(|namespace| !namespace.is_empty());
    ObjectReference {
        api_version: Some(API_VERSION.to_owned()),
        kind: Some(policy.kind().to_owned()),
        namespace,
        name: Some(policy.key.name.clone()),
        uid: Some(policy.uid.clone()),
        ..ObjectReference::default()
    }
}
