//! Writes of the objects of EHPAs, of the scale of a workload in a preview, and of status and
//! events of EHPAs.
//!
//! An existing object is changed only if the EHPA owns it, or adopts it by this plan, and only in
//! the version that was read. Fields of other writers stay, except in the spec. The spec of an
//! adopted HPA is saved in an annotation and restored at the end.
//!
//! Writes are replacements, not server-side applies. The spec of an adopted HPA must be exactly
//! ours and later exactly the original. With server-side apply, fields of other managers that we do
//! not set would stay, such as `behavior`, and giving a field up would delete it instead of
//! restoring its original value.

use std::collections::BTreeMap;

use api::ehpa::{
    ADOPTED_BY, Adopter, EffectiveHorizontalPodAutoscaler, EffectiveHorizontalPodAutoscalerStatus,
};
use horizontal::ehpa::{TargetScale, Writable, refusal, restored, with_original};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DynamicObject, Patch as Body};
use kube::core::ObjectMeta;
use kube::runtime::events::EventType;
use kube::{Error, Resource, ResourceExt as _};
use runtime::object_writer::{delete_owned, reference};
use runtime::{Leading, ObjectWriter};
use serde::Serialize;
use serde_json::{Value, json};
use sources::scaled_kinds::ScaledKinds;
use view::ObjectKey;

use crate::event_type;
use crate::status_writer::put_status;

const ACTION: &str = "Reconcile";
/// Event of an HPA: the adopted HPA has its former spec again.
const HPA_RESTORED: &str = "HPARestored";

/// Maximum number of attempts after conflicts with other writers.
const TRIES: u32 = 4;

#[derive(Clone)]
pub(crate) struct Writer {
    objects: ObjectWriter,
    kinds: ScaledKinds,
}

/// Reason of rejections by this program, in place of the API server.
const OUR_REFUSAL: &str = "RefusedByRecommender";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplyOutcome {
    Created,
    Changed,
    Unchanged,
}

impl Writer {
    pub(crate) fn new(objects: ObjectWriter) -> Self {
        Self {
            objects,
            kinds: ScaledKinds::default(),
        }
    }

    /// The writer for one term of leadership.
    pub(crate) fn during(self, leading: &Leading) -> Self {
        Self {
            objects: self.objects.during(leading),
            ..self
        }
    }

    pub(crate) async fn target(
        &self,
        object: &EffectiveHorizontalPodAutoscaler,
    ) -> Result<TargetScale, Error> {
        let api = self.scaled(object).await?;
        let scale = api.get_scale(&object.spec.scale_target_ref.name).await?;
        let (spec, status) = (scale.spec, scale.status.unwrap_or_default());
        Ok(TargetScale {
            spec_replicas: spec.and_then(|spec| spec.replicas).unwrap_or_default(),
            status_replicas: status.replicas,
            selector: status.selector.unwrap_or_default(),
        })
    }

    pub(crate) async fn scale(
        &self,
        object: &EffectiveHorizontalPodAutoscaler,
        replicas: i32,
    ) -> Result<(), Error> {
        let patch = Body::Merge(json!({"spec": {"replicas": replicas}}));
        let api = self.scaled(object).await?;
        let (name, params) = (&object.spec.scale_target_ref.name, self.objects.patching());
        api.patch_scale(name, &params, &patch).await.map(drop)
    }

    async fn scaled(
        &self,
        object: &EffectiveHorizontalPodAutoscaler,
    ) -> Result<Api<DynamicObject>, Error> {
        let target = &object.spec.scale_target_ref;
        let (client, namespace) = (self.objects.client(), object.namespace());
        let namespace = namespace.unwrap_or_default();
        let (version, kind) = (&target.api_version, &target.kind);
        self.kinds.api(client, &namespace, version, kind).await
    }

    /// Creates or updates `wanted`. Reads and changes the object anew after a conflict, as with the
    /// HPA controller's writes of the status.
    pub(crate) async fn apply<K>(
        &self,
        wanted: &K,
        writable: Writable,
    ) -> Result<ApplyOutcome, Error>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        retrying(async || self.try_apply(wanted, writable).await).await
    }

    async fn try_apply<K>(&self, wanted: &K, writable: Writable) -> Result<ApplyOutcome, Error>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let namespace = wanted.meta().namespace.as_deref().unwrap_or_default();
        let (api, posting) = (self.objects.untyped::<K>(namespace), self.objects.posting());
        let name = wanted.meta().name.as_deref().unwrap_or_default();
        let body = serde_json::to_value(wanted).map_err(Error::SerdeError)?;
        let Some(there) = api.get_opt(name).await? else {
            // Without an owner the object would outlive the EHPA.
            if wanted.meta().owner_references.is_none() {
                return Err(refused(&format!("{} is gone", named(wanted))));
            }
            let object = serde_json::from_value(body).map_err(Error::SerdeError)?;
            let created = api.create(&posting, &object).await;
            return created.map(|_| ApplyOutcome::Created);
        };
        if let Some(why) = refusal(&there, wanted.meta(), writable) {
            return Err(refused(&format!("{} {why}", named(wanted))));
        }
        let original = with_original(there.clone(), wanted.meta());
        let changed = merged(original, wanted.meta(), &body["spec"]);
        if changed == there {
            return Ok(ApplyOutcome::Unchanged);
        }
        let after = api.replace(name, &posting, &changed).await?;
        if after.metadata.resource_version == there.metadata.resource_version {
            return Ok(ApplyOutcome::Unchanged);
        }
        Ok(ApplyOutcome::Changed)
    }

    /// Restores the original spec of an adopted HPA. Returns false if the HPA is gone, or no longer
    /// adopted by this EHPA.
    pub(crate) async fn restore(&self, key: &ObjectKey, adopted_by: &str) -> Result<bool, Error> {
        let namespace = &key.namespace;
        let api = self.objects.untyped::<HorizontalPodAutoscaler>(namespace);
        let (name, posting) = (&key.name, self.objects.posting());
        let restored = retrying(async || {
            let there = api.get_opt(name).await?;
            let is_adopted = |there: &DynamicObject| {
                let adopter = there.annotations().get(ADOPTED_BY);
                adopter.is_some_and(|adopter| adopter == adopted_by)
            };
            let Some(there) = there.filter(is_adopted) else {
                return Ok(None);
            };
            let uid = there.uid().unwrap_or_default();
            api.replace(name, &posting, &restored(there)).await?;
            Ok(Some(uid))
        })
        .await?;
        if let Some(uid) = &restored {
            let adopter = adopted_by.split('/').next().unwrap_or_default();
            let object = reference::<HorizontalPodAutoscaler>(namespace, name, uid);
            let note = format!(
                "restored the spec that it had before EffectiveHorizontalPodAutoscaler {adopter} adopted it"
            );
            self.objects
                .record_event(&object, EventType::Normal, HPA_RESTORED, ACTION, &note)
                .await;
        }
        Ok(restored.is_some())
    }

    /// Whether the EHPA that adopted an HPA exists and is not being deleted.
    pub(crate) async fn exists(
        &self,
        namespace: &str,
        adopter: Adopter<'_>,
    ) -> Result<bool, Error> {
        let objects = &self.objects;
        let api = objects.untyped::<EffectiveHorizontalPodAutoscaler>(namespace);
        let found = api.get_metadata_opt(adopter.name).await?;
        let live = found.filter(|found| found.metadata.deletion_timestamp.is_none());
        Ok(live.is_some_and(|live| live.metadata.uid.as_deref() == Some(adopter.uid)))
    }

    pub(crate) async fn patch_status<K>(
        &self,
        key: &ObjectKey,
        status: &impl Serialize,
    ) -> Result<(), Error>
    where
        K: Resource<DynamicType = ()>,
    {
        let patch = Body::Merge(json!({ "status": status }));
        let api = self.objects.untyped::<K>(&key.namespace);
        let params = self.objects.patching();
        api.patch_status(&key.name, &params, &patch).await.map(drop)
    }

    /// Deletes an object of this owner. Returns false if it is absent.
    pub(crate) async fn delete<K>(&self, key: &ObjectKey, owner: &str) -> Result<bool, Error>
    where
        K: Resource<DynamicType = ()>,
    {
        let api = self.objects.untyped::<K>(&key.namespace);
        let is_owner = |reference: &OwnerReference| reference.uid == owner;
        delete_owned(&api, &key.name, is_owner).await
    }

    pub(crate) async fn update_status(
        &self,
        object: &EffectiveHorizontalPodAutoscaler,
        status: &EffectiveHorizontalPodAutoscalerStatus,
    ) -> Result<(), Error> {
        let key = ObjectKey::new(object.namespace().unwrap_or_default(), object.name_any());
        let uid = object.uid().unwrap_or_default();
        put_status::<EffectiveHorizontalPodAutoscaler>(&self.objects, &key, &uid, status).await
    }

    /// Records an event about an EHPA. Events are best effort: a failure is ignored.
    pub(crate) async fn record_event(
        &self,
        object: &EffectiveHorizontalPodAutoscaler,
        reason: &str,
        note: &str,
        is_bad: bool,
    ) {
        let namespace = object.namespace().unwrap_or_default();
        let (name, uid) = (object.name_any(), object.uid().unwrap_or_default());
        let object = reference::<EffectiveHorizontalPodAutoscaler>(&namespace, &name, &uid);
        self.objects
            .record_event(&object, event_type(is_bad), reason, ACTION, note)
            .await;
    }
}

/// Repeats an attempt after conflicts with other writers.
async fn retrying<T>(attempt: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 1..TRIES {
        match attempt().await {
            Err(Error::Api(answer)) if answer.code == 409 && answer.reason != OUR_REFUSAL => {}
            result => return result,
        }
    }
    attempt().await
}

/// The object with the wanted spec, owner, labels and annotations.
fn merged(mut there: DynamicObject, wanted: &ObjectMeta, spec: &Value) -> DynamicObject {
    type Texts = Option<BTreeMap<String, String>>;
    let extended = |there: Texts, wanted: &Texts| {
        let mut all = there.unwrap_or_default();
        all.extend(wanted.clone().unwrap_or_default());
        Some(all).filter(|all| !all.is_empty())
    };
    there.metadata.labels = extended(there.metadata.labels.take(), &wanted.labels);
    there.metadata.annotations = extended(there.metadata.annotations.take(), &wanted.annotations);
    for owner in wanted.owner_references.iter().flatten() {
        let owners = there.metadata.owner_references.get_or_insert_default();
        if owners.iter().all(|present| present.uid != owner.uid) {
            owners.push(owner.clone());
        }
    }
    there.data["spec"] = spec.clone();
    there
}

fn named<K: Resource<DynamicType = ()>>(object: &K) -> String {
    format!("{} {}", K::kind(&()), object.name_any())
}

fn refused(message: &str) -> Error {
    Error::Api(Box::new(
        kube::core::Status::failure(message, OUR_REFUSAL).with_code(409),
    ))
}
