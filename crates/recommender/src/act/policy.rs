//! Writes on behalf of sizing policies: their `VerticalPodAutoscaler` objects, their status and
//! their events.
//!
//! No write affects an object that no policy owns. Objects are created only if the name is free,
//! changed by a patch that tests UID and owners, and deleted only in the version in which the
//! policy owned them.

use std::time::Instant;

use api::patch::guarded;
use api::patch::put_status;
use api::sizing_policy::{
    API_VERSION, ClusterSizingPolicy, ShardReport, SizingPolicy, SizingPolicyStatus, report_patch,
};
use api::vpa::VerticalPodAutoscaler;
use json_patch::Patch;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ApiResource, DynamicObject, Patch as Body, PatchParams};
use kube::runtime::events::{Event, EventType};
use kube::{Client, Error};
use runtime::Leading;
use vertical::policies::desired::is_policy;
use vertical::policies::plan::Action;
use vertical::policies::status::{StatusEvent, StatusUpdate};
use view::{ObjectKey, Policy, PolicyScope};

use super::event::{Events, event};
use super::objects::{delete, loosely_typed, owned, patching, posting};
use crate::outcome::PolicyOutcome;

/// Action of the events.
const ACTION: &str = "ApplyPolicy";

/// Numbers of objects written for one policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WriteCounts {
    created: usize,
    changed: usize,
    removed: usize,
}

impl WriteCounts {
    /// Counts one write.
    pub(crate) fn add(&mut self, action: &Action) {
        match action {
            Action::Create(_) => self.created += 1,
            Action::Change(_) => self.changed += 1,
            Action::Remove => self.removed += 1,
        }
    }
}

/// Writes on behalf of policies. Clones share everything.
#[derive(Clone)]
pub(crate) struct Writer {
    client: Client,
    events: Events,
}

impl Writer {
    pub(crate) fn new(client: Client) -> Self {
        let events = Events::new(client.clone());
        Self { client, events }
    }

    /// Writes one object, if this process still leads.
    pub(crate) async fn write(
        &self,
        key: &ObjectKey,
        action: &Action,
        policy: &Policy,
        leading: &Leading,
    ) -> PolicyOutcome {
        if !leading.holds(Instant::now()) {
            return PolicyOutcome::NotLeading;
        }
        let sent = match action {
            Action::Create(object) => self.create(key, object).await,
            Action::Change(patch) => self.change(key, patch.clone()).await,
            Action::Remove => self.remove(key, &policy.uid).await,
        };
        outcome(sent, key, action.name())
    }

    /// Writes the status of a policy, if this process still leads.
    pub(crate) async fn write_status(
        &self,
        policy: &Policy,
        update: &StatusUpdate,
        leading: &Leading,
    ) -> PolicyOutcome {
        if !leading.holds(Instant::now()) {
            return PolicyOutcome::NotLeading;
        }
        let sent = match update {
            StatusUpdate::Status(status) => self.put_status(policy, status).await,
            StatusUpdate::Report(shard, report) => self.put_report(policy, *shard, report).await,
        };
        outcome(sent, &policy.key, "status")
    }

    /// Records the events of a policy. A failed event is no error, since the status has the same
    /// information.
    pub(crate) async fn record_events(
        &self,
        policy: &Policy,
        events: &[StatusEvent],
        counts: &WriteCounts,
    ) {
        let mut events: Vec<Event> = events
            .iter()
            .map(|change| event(EventType::Warning, &change.reason, ACTION, &change.note))
            .collect();
        if *counts != WriteCounts::default() {
            let WriteCounts {
                created,
                changed,
                removed,
            } = counts;
            let note =
                format!("{created} autoscalers created, {changed} changed, {removed} removed");
            events.push(event(
                EventType::Normal,
                "AutoscalersWritten",
                ACTION,
                &note,
            ));
        }
        for event in events {
            self.events.record(&reference(policy), &event).await;
        }
    }

    async fn create(&self, key: &ObjectKey, object: &VerticalPodAutoscaler) -> Result<(), Error> {
        let value = serde_json::to_value(object).map_err(Error::SerdeError)?;
        let object: DynamicObject = serde_json::from_value(value).map_err(Error::SerdeError)?;
        let api = loosely_typed::<VerticalPodAutoscaler>(&self.client, &key.namespace);
        match api.create(&posting(), &object).await {
            // What was seen may be a moment old: our own object need not be made twice.
            Err(Error::Api(answer)) if answer.code == 409 => {
                let owners = api
                    .get_metadata(&key.name)
                    .await?
                    .metadata
                    .owner_references
                    .unwrap_or_default();
                if owners.iter().any(is_policy) {
                    Ok(())
                } else {
                    Err(Error::Api(answer))
                }
            }
            created => created.map(drop),
        }
    }

    async fn change(&self, key: &ObjectKey, patch: Patch) -> Result<(), Error> {
        let api = loosely_typed::<VerticalPodAutoscaler>(&self.client, &key.namespace);
        api.patch(&key.name, &patching(), &Body::Json::<()>(patch))
            .await
            .map(drop)
    }

    async fn remove(&self, key: &ObjectKey, owner: &str) -> Result<(), Error> {
        let api = loosely_typed::<VerticalPodAutoscaler>(&self.client, &key.namespace);
        let is_right = |reference: &OwnerReference| is_policy(reference) && reference.uid == owner;
        let Some(seen) = owned(&api, &key.name, is_right).await? else {
            return Ok(());
        };
        delete(&api, &key.name, &seen).await.map(drop)
    }

    async fn put_status(&self, policy: &Policy, status: &SizingPolicyStatus) -> Result<(), Error> {
        let patch = guarded(&policy.uid, put_status(status).map_err(Error::SerdeError)?);
        let (api, params) = (self.policies(policy), PatchParams::default());
        api.patch_status(&policy.key.name, &params, &Body::Json::<()>(patch))
            .await
            .map(drop)
    }

    async fn put_report(
        &self,
        policy: &Policy,
        shard: u16,
        report: &ShardReport,
    ) -> Result<(), Error> {
        let patch = Body::Merge(report_patch(&policy.uid, shard, report));
        self.policies(policy)
            .patch_status(&policy.key.name, &PatchParams::default(), &patch)
            .await
            .map(drop)
    }

    fn policies(&self, policy: &Policy) -> Api<DynamicObject> {
        let client = self.client.clone();
        match policy.scope {
            PolicyScope::Namespace => Api::namespaced_with(
                client,
                &policy.key.namespace,
                &ApiResource::erase::<SizingPolicy>(&()),
            ),
            PolicyScope::Cluster(_) => {
                Api::all_with(client, &ApiResource::erase::<ClusterSizingPolicy>(&()))
            }
        }
    }
}

fn outcome(sent: Result<(), Error>, key: &ObjectKey, action: &str) -> PolicyOutcome {
    match sent {
        Ok(()) => PolicyOutcome::Written,
        Err(error) => {
            tracing::warn!(object = %key, action, %error, "cannot write on behalf of a sizing policy");
            let problem = match error {
                Error::Api(status) => status.message.clone(),
                error => error.to_string(),
            };
            PolicyOutcome::Failed(format!("{action} {key}: {problem}"))
        }
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
