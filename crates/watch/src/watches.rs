//! Keeps a [`View`] current: one task per kind of object, each listing and watching for ever.

mod horizontal;
mod moving;
mod predicted;
mod schedulable;

use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1;
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;

use api::checkpoint::VerticalPodAutoscalerCheckpoint;
use api::sizing_policy::{ClusterSizingPolicy, SizingPolicy};
use api::vpa::VerticalPodAutoscaler;
use view::{
    Autoscaler, Change, Checkpoint, Controller, Eviction, LimitRange, Namespace, ObjectKey,
    OomKill, Pod, Policy, Resource, Scope, View, WellKnown, oom::oom_kills,
};

use crate::allowance::Limits;
use crate::excluded_fields;
use crate::follow::{Source, follow};
use crate::read::within;
use crate::scale::{self, ScaleRequests};
use crate::splitter::{ExcludedField, Item};
use crate::table_writer::{Reading, TableWriter};

/// The reason that kubelets give.
const EVICTED: &str = "reason=Evicted";

/// Watches of some kinds of object into one [`View`]. They end when this is dropped.
pub struct Watches {
    client: Client,
    scope: Scope,
    store: Arc<watch::Sender<View>>,
    tasks: JoinSet<()>,
    keeps_placements: bool,
    keeps_labels: bool,
}

impl Watches {
    /// No watches yet, over the objects of `scope`.
    pub fn new(client: Client, scope: Scope) -> Self {
        let store = Arc::new(watch::Sender::new(View::default()));
        Self {
            client,
            scope,
            store,
            tasks: JoinSet::new(),
            keeps_placements: false,
            keeps_labels: false,
        }
    }

    /// The view, which wakes its readers only for changes that can change a decision. Borrow it
    /// briefly.
    pub fn view(&self) -> watch::Receiver<View> {
        self.store.subscribe()
    }

    /// Watches pods that are not Pending, and reports kills for want of memory that happen
    /// meanwhile. `report` must not wait: the watch does.
    #[must_use]
    pub fn pods(mut self, report: impl Fn(OomKill) + Send + Sync + 'static) -> Self {
        let writer = TableWriter::new(Resource::Pods, &self.store, |view| &mut view.pods)
            .on_change(move |change| report_kills(&report, change));
        let (scope, keeps_placements) = (self.scope.clone(), self.keeps_placements);
        let read =
            move |item: &Item<'_>| within(&scope, item, |pod| Pod::from_k8s(pod, keeps_placements));
        let source = self
            .pod_source(excluded_fields::PODS)
            .with_fields("status.phase!=Pending");
        self.tasks.spawn(follow(source, read, writer));
        self
    }

    /// Watches events about evicted pods, and reports those evicted for want of memory as kills.
    /// `report` must not wait.
    #[must_use]
    pub fn evictions(mut self, report: impl Fn(OomKill) + Send + Sync + 'static) -> Self {
        let writer = TableWriter::new(Resource::Evictions, &self.store, |view| &mut view.evictions)
            .on_change(move |change: &Change<Eviction>| {
                if let (None, Some(eviction)) = (&change.old, &change.new) {
                    eviction.kills().for_each(&report);
                }
            });
        let scope = self.scope.clone();
        let read = move |item: &Item<'_>| {
            let includes = |eviction: &Eviction| scope.includes(&eviction.pod.namespace);
            let event = item
                .parse::<v1::Event>()
                .map(|event| Eviction::from_k8s(&event).filter(includes));
            match event.transpose() {
                Some(eviction) => Reading::of(item.key(), eviction),
                None => Reading::Outside(item.key()),
            }
        };
        let source = self
            .source::<v1::Event>(excluded_fields::EVENTS)
            .with_fields(EVICTED);
        self.tasks.spawn(follow(source, read, writer));
        self
    }

    /// Controllers that are watched from here on keep their labels.
    #[must_use]
    pub fn with_controller_labels(mut self) -> Self {
        self.keeps_labels = true;
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
            + 'static,
        Controller: From<K>,
    {
        let writer = TableWriter::new(Resource::Controllers(kind), &self.store, move |view| {
            view.controllers_mut(kind)
        });
        let scope = self.scope.clone();
        let read = move |item: &Item<'_>| within::<K, _>(&scope, item, Controller::from);
        let excluded = if self.keeps_labels {
            excluded_fields::CONTROLLERS
        } else {
            excluded_fields::UNLABELLED_CONTROLLERS
        };
        self.tasks.spawn(follow(
            self.source::<K>(excluded).with_limits(Limits::CONTROLLERS),
            read,
            writer,
        ));
    }

    /// Watches `VerticalPodAutoscaler` objects. One that does not parse is logged and counted; its
    /// last good state stays.
    #[must_use]
    pub fn autoscalers(mut self) -> Self {
        let writer = TableWriter::new(Resource::Autoscalers, &self.store, |view| {
            &mut view.autoscalers
        });
        let scope = self.scope.clone();
        let read = move |item: &Item<'_>| within(&scope, item, Autoscaler::from_k8s);
        self.tasks.spawn(follow(
            self.source::<VerticalPodAutoscaler>(excluded_fields::AUTOSCALERS),
            read,
            writer,
        ));
        self
    }

    /// Watches `VerticalPodAutoscalerCheckpoint` objects. One that does not parse is logged and
    /// counted; its last good state stays. Each of our own writes changes the view, so these are
    /// best watched into a view of their own.
    #[must_use]
    pub fn checkpoints(mut self) -> Self {
        let writer = TableWriter::new(Resource::Checkpoints, &self.store, |view| {
            &mut view.checkpoints
        });
        let scope = self.scope.clone();
        let read = move |item: &Item<'_>| within(&scope, item, Checkpoint::from_k8s);
        self.tasks.spawn(follow(
            self.source::<VerticalPodAutoscalerCheckpoint>(excluded_fields::PLAIN),
            read,
            writer,
        ));
        self
    }

    /// Watches `LimitRange` objects.
    #[must_use]
    pub fn limit_ranges(mut self) -> Self {
        let writer = TableWriter::new(Resource::LimitRanges, &self.store, |view| {
            &mut view.limit_ranges
        });
        let scope = self.scope.clone();
        let read = move |item: &Item<'_>| within(&scope, item, LimitRange::from_k8s);
        self.tasks.spawn(follow(
            self.source::<v1::LimitRange>(excluded_fields::PLAIN),
            read,
            writer,
        ));
        self
    }

    /// Watches namespaces.
    #[must_use]
    pub fn namespaces(mut self) -> Self {
        let writer = TableWriter::new(Resource::Namespaces, &self.store, |view| {
            &mut view.namespaces
        });
        let scope = self.scope.clone();
        let read = move |item: &Item<'_>| {
            let name = item.name.to_owned();
            if scope.includes(&name) {
                Reading::of(name, item.parse().map(Namespace::from_k8s))
            } else {
                Reading::Outside(name)
            }
        };
        self.tasks.spawn(follow(
            self.cluster_source::<v1::Namespace>(excluded_fields::OTHERS),
            read,
            writer,
        ));
        self
    }

    /// Watches `SizingPolicy` objects, and those of the cluster with the namespaces that they
    /// select unless only one namespace is looked at. One that does not parse is logged and
    /// counted; its last good state stays.
    #[must_use]
    pub fn policies(mut self) -> Self {
        let writer = TableWriter::new(Resource::Policies, &self.store, |view| &mut view.policies);
        let scope = self.scope.clone();
        let read = move |item: &Item<'_>| within(&scope, item, Policy::from_k8s);
        self.tasks.spawn(follow(
            self.source::<SizingPolicy>(excluded_fields::PLAIN),
            read,
            writer,
        ));
        if self.scope.namespace.is_some() {
            return self;
        }
        let writer = TableWriter::new(Resource::ClusterPolicies, &self.store, |view| {
            &mut view.cluster_policies
        });
        // They are in no namespace, and so in everybody's scope.
        let everything = Scope::default();
        let read = move |item: &Item<'_>| within(&everything, item, Policy::from_k8s_cluster);
        self.tasks.spawn(follow(
            self.cluster_source::<ClusterSizingPolicy>(excluded_fields::PLAIN),
            read,
            writer,
        ));
        self.namespaces()
    }

    /// Asks for more scale subresources than the targets of autoscalers need.
    pub fn scale_requests(&self) -> ScaleRequests {
        ScaleRequests::new(Arc::clone(&self.store))
    }

    /// Keeps the scale subresources current that the targets of autoscalers ask for.
    #[must_use]
    pub fn scales(mut self) -> Self {
        self.tasks
            .spawn(scale::run(self.client.clone(), Arc::clone(&self.store)));
        self
    }

    /// Returns when one of the watches has ended. They never do by themselves, so the view can no
    /// longer be trusted then. Where nothing is watched, it does not return.
    pub async fn ended(&mut self) {
        match self.tasks.join_next().await {
            Some(Err(error)) => tracing::error!(%error, "a watch ended"),
            Some(Ok(())) => {}
            None => std::future::pending().await,
        }
    }

    /// The objects of a kind, in the only namespace if there is one, without these parts.
    fn source<K>(&self, excluded: &'static [ExcludedField]) -> Source
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Source::new::<K>(
            self.client.clone(),
            self.scope.namespace.as_deref(),
            excluded,
        )
    }

    /// Pods in scope, without these parts.
    fn pod_source(&self, excluded: &'static [ExcludedField]) -> Source {
        self.source::<v1::Pod>(excluded).with_limits(Limits::PODS)
    }

    /// The objects of a kind of the cluster, or those of every namespace.
    fn cluster_source<K: kube::Resource<DynamicType = ()>>(
        &self,
        excluded: &'static [ExcludedField],
    ) -> Source {
        Source::new::<K>(self.client.clone(), None, excluded)
    }

    /// The object of this name in a namespace, in or out of scope.
    fn one_source<K: kube::Resource<DynamicType = ()>>(
        &self,
        key: &ObjectKey,
        excluded: &'static [ExcludedField],
    ) -> Source {
        let source = Source::new::<K>(self.client.clone(), Some(&key.namespace), excluded);
        source.with_fields(format!("metadata.name={}", key.name))
    }
}

/// Kills in the first state that is seen of a pod are not reported: whoever takes the pod over from
/// the view finds them.
fn report_kills(report: &impl Fn(OomKill), change: &Change<Pod>) {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return;
    };
    if old.uid == new.uid {
        oom_kills(Some(old), new).into_iter().for_each(report);
    }
}
