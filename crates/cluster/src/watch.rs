//! Keeps a [`View`] current: one task per kind of object, each listing and watching for ever.

mod expected;
mod failure;
mod feed;
mod follow;
mod horizontal;
mod moving;
mod retry;
mod schedulable;

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use kube::{Client, Resource as _};
use model::Labels;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;

use api::ParseError;
use api::checkpoint::VerticalPodAutoscalerCheckpoint;
use api::sizing_policy::{ClusterSizingPolicy, SizingPolicy};
use api::vpa::VerticalPodAutoscaler;

use crate::autoscaler::{self, Autoscaler};
use crate::checkpoint::Checkpoint;
use crate::controller::{Controller, WellKnown};
use crate::eviction::{self, Eviction};
use crate::freshness::Resource;
use crate::limit_range::LimitRange;
use crate::oom::{OomKill, oom_kills};
use crate::pod::Pod;
use crate::policy::Policy;
use crate::scale::{self, ScaleQuestions};
use crate::scope::Scope;
use crate::table::{Change, ObjectKey};
use crate::view::{Namespace, View};
use feed::{Feed, Reading};
use follow::follow;

/// Watches of some kinds of object into one [`View`]. They end when this is dropped.
pub struct Watches {
    client: Client,
    scope: Scope,
    store: Arc<watch::Sender<View>>,
    tasks: JoinSet<()>,
    keeps_placements: bool,
}

impl Watches {
    /// No watches yet, over the objects of `scope`.
    pub fn new(client: Client, scope: Scope) -> Self {
        let store = Arc::new(watch::Sender::new(View::default()));
        Self { client, scope, store, tasks: JoinSet::new(), keeps_placements: false }
    }

    /// The view, which wakes its readers only for changes that can change a decision. Borrow it briefly.
    pub fn view(&self) -> watch::Receiver<View> {
        self.store.subscribe()
    }

    /// Watches pods that are not Pending, and reports kills for want of memory that happen meanwhile. `report` must not wait:
    /// the watch does.
    #[must_use]
    pub fn pods(mut self, report: impl Fn(OomKill) + Send + Sync + 'static) -> Self {
        let feed = Feed::new(Resource::Pods, &self.store, |view| &mut view.pods)
            .on_change(move |change| report_kills(&report, change));
        let (scope, keeps_placements) = (self.scope.clone(), self.keeps_placements);
        let read = move |pod: v1::Pod| keep_within(&scope, pod, |pod| Pod::trim(pod, keeps_placements));
        self.tasks.spawn(follow(self.namespaced(), Some("status.phase!=Pending".to_owned()), read, feed));
        self
    }

    /// Watches events about evicted pods, and reports those evicted for want of memory as kills. `report` must not wait.
    #[must_use]
    pub fn evictions(mut self, report: impl Fn(OomKill) + Send + Sync + 'static) -> Self {
        let feed = Feed::new(Resource::Evictions, &self.store, |view| &mut view.evictions).on_change(
            move |change: &Change<Eviction>| {
                if let (None, Some(eviction)) = (&change.old, &change.new) {
                    eviction.kills().for_each(&report);
                }
            },
        );
        let scope = self.scope.clone();
        let includes = move |eviction: &Eviction| scope.includes(&eviction.pod.namespace);
        let read = move |event: v1::Event| match Eviction::trim(&event).filter(&includes) {
            Some(eviction) => Reading::Keep(eviction),
            None => Reading::Outside(autoscaler::key(event.meta())),
        };
        self.tasks.spawn(follow(self.namespaced(), Some(eviction::FIELDS.to_owned()), read, feed));
        self
    }

    /// Watches workload controllers of the well-known kinds.
    #[must_use]
    pub fn controllers(mut self) -> Self {
        self.controller::<CronJob>(WellKnown::CronJob);
        self.controller::<DaemonSet>(WellKnown::DaemonSet);
        self.controller::<Deployment>(WellKnown::Deployment);
        self.controller::<Job>(WellKnown::Job);
        self.controller::<ReplicaSet>(WellKnown::ReplicaSet);
        self.controller::<v1::ReplicationController>(WellKnown::ReplicationController);
        self.controller::<StatefulSet>(WellKnown::StatefulSet);
        self
    }

    fn controller<K>(&mut self, kind: WellKnown)
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + Debug
            + Send
            + 'static,
        Controller: From<K>,
    {
        let feed = Feed::new(Resource::Controllers(kind), &self.store, move |view| view.controllers_mut(kind));
        let scope = self.scope.clone();
        let read = move |object: K| keep_within(&scope, object, Controller::from);
        self.tasks.spawn(follow(self.namespaced::<K>(), None, read, feed));
    }

    /// Watches `VerticalPodAutoscaler` objects. One that does not parse is logged and counted; its last good state stays.
    #[must_use]
    pub fn autoscalers(mut self) -> Self {
        let api = self.loosely_typed::<VerticalPodAutoscaler>();
        let feed = Feed::new(Resource::Autoscalers, &self.store, |view| &mut view.autoscalers);
        let scope = self.scope.clone();
        self.tasks.spawn(follow(api, None, move |object| read_loose(&scope, object, Autoscaler::trim), feed));
        self
    }

    /// Watches `VerticalPodAutoscalerCheckpoint` objects. One that does not parse is logged and counted; its last good
    /// state stays. Each of our own writes changes the view, so these are best watched into a view of their own.
    #[must_use]
    pub fn checkpoints(mut self) -> Self {
        let api = self.loosely_typed::<VerticalPodAutoscalerCheckpoint>();
        let feed = Feed::new(Resource::Checkpoints, &self.store, |view| &mut view.checkpoints);
        let scope = self.scope.clone();
        self.tasks.spawn(follow(api, None, move |object| read_loose(&scope, object, Checkpoint::trim), feed));
        self
    }

    /// Watches `LimitRange` objects.
    #[must_use]
    pub fn limit_ranges(mut self) -> Self {
        let feed = Feed::new(Resource::LimitRanges, &self.store, |view| &mut view.limit_ranges);
        let scope = self.scope.clone();
        let read = move |object: v1::LimitRange| keep_within(&scope, object, LimitRange::trim);
        self.tasks.spawn(follow(self.namespaced(), None, read, feed));
        self
    }

    /// Watches namespaces.
    #[must_use]
    pub fn namespaces(mut self) -> Self {
        let feed = Feed::new(Resource::Namespaces, &self.store, |view| &mut view.namespaces);
        let scope = self.scope.clone();
        let read = move |object: v1::Namespace| {
            let name = object.metadata.name.unwrap_or_default();
            let labels = object.metadata.labels.map(Labels::from).unwrap_or_default();
            let annotations = object.metadata.annotations.into_iter().flatten();
            let annotations = annotations.filter(|(key, _)| key.starts_with("plimsoll.dev/")).collect();
            let namespace = Namespace { name, labels, annotations };
            if scope.includes(&namespace.name) { Reading::Keep(namespace) } else { Reading::Outside(namespace.name) }
        };
        self.tasks.spawn(follow(Api::<v1::Namespace>::all(self.client.clone()), None, read, feed));
        self
    }

    /// Watches `SizingPolicy` objects, and those of the cluster with the namespaces that they select unless only one
    /// namespace is looked at. One that does not parse is logged and counted; its last good state stays.
    #[must_use]
    pub fn policies(mut self) -> Self {
        let api = self.loosely_typed::<SizingPolicy>();
        let feed = Feed::new(Resource::Policies, &self.store, |view| &mut view.policies);
        let scope = self.scope.clone();
        self.tasks.spawn(follow(api, None, move |object| read_loose(&scope, object, Policy::trim), feed));
        if self.scope.namespace.is_some() {
            return self;
        }
        let api = self.loosely_typed::<ClusterSizingPolicy>();
        let feed = Feed::new(Resource::ClusterPolicies, &self.store, |view| &mut view.cluster_policies);
        // They are in no namespace, and so in everybody's scope.
        let everything = Scope::default();
        self.tasks.spawn(follow(api, None, move |object| read_loose(&everything, object, Policy::trim_cluster), feed));
        self.namespaces()
    }

    /// Asks for more scale subresources than the targets of autoscalers need.
    pub fn scale_questions(&self) -> ScaleQuestions {
        ScaleQuestions::new(Arc::clone(&self.store))
    }

    /// Keeps the scale subresources current that the targets of autoscalers ask for.
    #[must_use]
    pub fn scales(mut self) -> Self {
        self.tasks.spawn(scale::keep(self.client.clone(), Arc::clone(&self.store)));
        self
    }

    /// Returns when one of the watches has ended. They never do by themselves, so the view can no longer be trusted
    /// then. Where nothing is watched, it does not return.
    pub async fn ended(&mut self) {
        match self.tasks.join_next().await {
            Some(Err(error)) => tracing::error!(%error, "a watch ended"),
            Some(Ok(())) => {}
            None => std::future::pending().await,
        }
    }

    /// Objects of which one may not parse and the others must not suffer.
    fn loosely_typed<K: kube::Resource<DynamicType = ()>>(&self) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<K>(&());
        match &self.scope.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    fn namespaced<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match &self.scope.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }
}

/// Trims nothing that does not count: in a cluster of many shards that is most of what passes by.
fn keep_within<K: kube::Resource, T: crate::Entry<Key = ObjectKey>>(
    scope: &Scope,
    object: K,
    trim: impl FnOnce(K) -> T,
) -> Reading<T> {
    if scope.includes(object.meta().namespace.as_deref().unwrap_or_default()) {
        Reading::Keep(trim(object))
    } else {
        Reading::Outside(autoscaler::key(object.meta()))
    }
}

fn read_loose<T: crate::Entry<Key = ObjectKey>>(
    scope: &Scope,
    object: DynamicObject,
    trim: impl FnOnce(DynamicObject) -> Result<T, ParseError>,
) -> Reading<T> {
    let key = autoscaler::key(object.meta());
    if !scope.includes(&key.namespace) {
        return Reading::Outside(key);
    }
    match trim(object) {
        Ok(object) => Reading::Keep(object),
        Err(error) => Reading::Broken(key, error.to_string()),
    }
}

/// Kills in the first state that is seen of a pod are not reported: whoever takes the pod over from the view finds them.
fn report_kills(report: &impl Fn(OomKill), change: &Change<Pod>) {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return };
    if old.uid == new.uid {
        oom_kills(Some(old), new).into_iter().for_each(report);
    }
}
