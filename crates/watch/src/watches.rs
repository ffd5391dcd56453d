//! Keeps a [`View`] current: one task per kind of object, which lists and watches until
//! [`Watches`] is dropped.

mod installed;
mod nodes;

use std::sync::Arc;

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use api::substitute::Substitute;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;
use view::{
    CronSchedule, DisruptionBudget, LabelledPod, Prediction, StopSwitch, Stripped, WebhookLease,
};

use api::checkpoint::VerticalPodAutoscalerCheckpoint;
use api::sizing_policy::{ClusterSizingPolicy, SizingPolicy};
use api::vpa::VerticalPodAutoscaler;
use view::{
    Change, Checkpoint, Controller, Entry, Eviction, LimitRange, Namespace, ObjectKey, OomKill,
    Pod, Policy, Resource, Scope, Table, View, Vpa, WellKnown, oom_kill::oom_kills,
};

use crate::excluded_fields;
use crate::memory_limits::Limits;
use crate::parse::within;
use crate::reflector::{Source, follow};
use crate::scale::{self, ScaleRequests};
use crate::splitter::{ExcludedField, Item};
use crate::table_writer::{Reading, TableWriter};

pub use installed::MissingRights;

/// Field selector of the events that kubelets write about evictions.
const EVICTED: &str = "reason=Evicted";

/// Watches of some kinds of object into one [`View`]. Dropping it ends them. An object that does not
/// parse is logged and counted; its last good state stays.
#[must_use]
pub struct Watches {
    client: Client,
    scope: Scope,
    store: Arc<watch::Sender<View>>,
    tasks: JoinSet<()>,
    missing_rights: Option<MissingRights>,
    keeps_placements: bool,
    keeps_labels: bool,
    keeps_templates: bool,
}

impl Watches {
    /// Starts without watches, for the objects of `scope`.
    pub fn new(client: Client, scope: Scope) -> Self {
        let store = Arc::new(watch::Sender::new(View::default()));
        Self {
            client,
            scope,
            store,
            tasks: JoinSet::new(),
            missing_rights: None,
            keeps_placements: false,
            keeps_labels: false,
            keeps_templates: false,
        }
    }

    /// Shows in a metric what later calls have no right to list.
    pub fn counting(mut self, missing_rights: &MissingRights) -> Self {
        self.missing_rights = Some(missing_rights.clone());
        self
    }

    /// Receiver of the view, woken only by changes that can change a decision. Borrow it briefly.
    pub fn view(&self) -> watch::Receiver<View> {
        self.store.subscribe()
    }

    /// Watches pods that are not Pending, and reports new OOM kills. `report` must not block, since
    /// the watch waits for it.
    pub fn pods(self, report: impl Fn(OomKill) + Send + Sync + 'static) -> Self {
        let writer = self
            .writer(Resource::Pods, |view| &mut view.pods)
            .on_change(move |change| report_kills(&report, change));
        let keeps_placements = self.keeps_placements;
        let source = self
            .pod_source(excluded_fields::PODS)
            .with_fields("status.phase!=Pending");
        self.within_scope(source, writer, move |pod| {
            Pod::from_k8s(pod, keeps_placements)
        })
    }

    /// Watches events about evicted pods, and reports evictions under memory pressure as OOM kills.
    /// `report` must not block.
    pub fn evictions(self, report: impl Fn(OomKill) + Send + Sync + 'static) -> Self {
        let writer = self
            .writer(Resource::Evictions, |view| &mut view.evictions)
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
        self.followed(source, writer, read)
    }

    /// Keeps the labels of controllers that are watched by later calls.
    pub fn with_controller_labels(mut self) -> Self {
        self.keeps_labels = true;
        self
    }

    /// Keeps the resources of pod templates in the watches of workload controllers that follow.
    pub fn with_templates(mut self) -> Self {
        self.keeps_templates = true;
        self
    }

    pub fn controllers(self) -> Self {
        self.controller::<CronJob>(WellKnown::CronJob)
            .controller::<DaemonSet>(WellKnown::DaemonSet)
            .controller::<Deployment>(WellKnown::Deployment)
            .controller::<Job>(WellKnown::Job)
            .controller::<ReplicaSet>(WellKnown::ReplicaSet)
            .controller::<v1::ReplicationController>(WellKnown::ReplicationController)
            .controller::<StatefulSet>(WellKnown::StatefulSet)
    }

    fn controller<K>(self, kind: WellKnown) -> Self
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + DeserializeOwned
            + 'static,
        Controller: From<K>,
    {
        let writer = self.writer(Resource::Controllers(kind), move |view| {
            view.controllers_mut(kind)
        });
        let excluded = if self.keeps_labels {
            excluded_fields::LABELLED_CONTROLLERS
        } else if self.keeps_templates {
            excluded_fields::TEMPLATED_CONTROLLERS
        } else {
            excluded_fields::CONTROLLERS
        };
        let source = self.source::<K>(excluded).with_limits(Limits::CONTROLLERS);
        self.within_scope(source, writer, |controller: K| Controller::from(controller))
    }

    pub fn vpas(self) -> Self {
        let writer = self.writer(Resource::Vpas, |view| &mut view.vpas);
        let source = self.source::<VerticalPodAutoscaler>(excluded_fields::VPAS);
        let source = source.with_limits(Limits::VPAS);
        self.within_scope(source, writer, Vpa::from_k8s)
    }

    /// Watches `VerticalPodAutoscalerCheckpoint` objects. Each of our own writes changes
    /// the view, so use a view of their own.
    pub fn checkpoints(self) -> Self {
        let writer = self.writer(Resource::Checkpoints, |view| &mut view.checkpoints);
        let source = self.source::<VerticalPodAutoscalerCheckpoint>(excluded_fields::CHECKPOINTS);
        self.within_scope(source, writer, Checkpoint::from_k8s)
    }

    pub fn limit_ranges(self) -> Self {
        let writer = self.writer(Resource::LimitRanges, |view| &mut view.limit_ranges);
        let source = self.source::<v1::LimitRange>(excluded_fields::PLAIN);
        self.within_scope(source, writer, LimitRange::from_k8s)
    }

    /// Watches namespaces, or the one of the scope by its name, so that a right to that one is enough.
    /// The view waits for them, unless there is no right to list them; then it has none until there is.
    pub fn namespaces(self) -> Self {
        let writer = self.writer(Resource::Namespaces, |view| &mut view.namespaces);
        let scope = self.scope.clone();
        let read = move |item: &Item<'_>| {
            let name = item.name.to_owned();
            if scope.includes(&name) {
                Reading::of(name, item.parse().map(Namespace::from_k8s))
            } else {
                Reading::Outside(name)
            }
        };
        let mut source = self.cluster_source::<v1::Namespace>(excluded_fields::OTHERS);
        if let Some(name) = &self.scope.namespace {
            source = source.with_fields(format!("metadata.name={name}"));
        }
        self.followed_once_readable(source, writer, read)
    }

    /// Watches `SizingPolicy` objects. Unless the scope is one namespace, also watches
    /// `ClusterSizingPolicy` objects and the namespaces that they select.
    pub fn policies(self) -> Self {
        let writer = self.writer(Resource::Policies, |view| &mut view.policies);
        let source = self.source::<SizingPolicy>(excluded_fields::PLAIN);
        let watches = self.within_scope(source, writer, Policy::from_k8s);
        if watches.scope.namespace.is_some() {
            return watches;
        }
        let writer = watches.writer(Resource::ClusterPolicies, |view| &mut view.cluster_policies);
        // Cluster-scoped objects are in every scope.
        let read = within(Scope::default(), Policy::from_k8s_cluster);
        let source = watches.cluster_source::<ClusterSizingPolicy>(excluded_fields::PLAIN);
        watches.followed(source, writer, read).namespaces()
    }

    /// Returns a handle to request scale subresources in addition to those of VPA targets.
    pub fn scale_requests(&self) -> ScaleRequests {
        ScaleRequests::new(Arc::clone(&self.store))
    }

    pub fn scales(mut self) -> Self {
        self.tasks
            .spawn(scale::run(self.client.clone(), Arc::clone(&self.store)));
        self
    }

    /// Returns when a watch has ended, which only a panic causes; the view is invalid then. Never
    /// returns without watches.
    pub async fn ended(&mut self) {
        match self.tasks.join_next().await {
            Some(Err(error)) => tracing::error!(%error, "a watch ended"),
            Some(Ok(())) => {}
            None => std::future::pending().await,
        }
    }

    fn writer<T: Entry>(
        &self,
        resource: Resource,
        table: impl Fn(&mut View) -> &mut Table<T> + Send + Sync + 'static,
    ) -> TableWriter<T> {
        TableWriter::new(resource, &self.store, table)
    }

    fn followed<T>(
        mut self,
        source: Source,
        writer: TableWriter<T>,
        read: impl Fn(&Item<'_>) -> Reading<T> + Send + Sync + 'static,
    ) -> Self
    where
        T: Entry + Send + Sync + 'static,
        T::Key: Send,
    {
        self.tasks.spawn(follow(source, read, writer));
        self
    }

    /// Watches the objects of a source into a table, but for those out of scope.
    fn within_scope<K, T>(
        self,
        source: Source,
        writer: TableWriter<T>,
        from_k8s: impl Fn(K) -> T + Send + Sync + 'static,
    ) -> Self
    where
        K: kube::Resource<DynamicType = ()> + DeserializeOwned + 'static,
        T: Entry<Key = ObjectKey> + Send + Sync + 'static,
    {
        let read = within(self.scope.clone(), from_k8s);
        self.followed(source, writer, read)
    }

    /// Source of the objects of a kind, in the scope's namespace if it has one.
    fn source<K>(&self, excluded: &'static [ExcludedField]) -> Source
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let namespace = self.scope.namespace.as_deref();
        Source::new::<K>(self.client.clone(), namespace, excluded)
    }

    fn pod_source(&self, excluded: &'static [ExcludedField]) -> Source {
        self.source::<v1::Pod>(excluded).with_limits(Limits::PODS)
    }

    /// Source of cluster-scoped objects, or of those in every namespace.
    fn cluster_source<K: kube::Resource<DynamicType = ()>>(
        &self,
        excluded: &'static [ExcludedField],
    ) -> Source {
        Source::new::<K>(self.client.clone(), None, excluded)
    }

    fn one_source<K: kube::Resource<DynamicType = ()>>(
        &self,
        key: &ObjectKey,
        excluded: &'static [ExcludedField],
    ) -> Source {
        let source = Source::new::<K>(self.client.clone(), Some(&key.namespace), excluded);
        source.with_fields(format!("metadata.name={}", key.name))
    }

    /// Watches unfinished pods, Pending ones too, with their runtime details.
    pub fn live_pods(self) -> Self {
        let writer = self.writer(Resource::Pods, |view| &mut view.pods);
        let source = self
            .pod_source(excluded_fields::PODS)
            .with_fields("status.phase!=Succeeded,status.phase!=Failed");
        let keeps_placements = self.keeps_placements;
        self.within_scope(source, writer, move |pod| {
            Pod::from_k8s_running(pod, keeps_placements)
        })
    }

    /// Watches `PodDisruptionBudget` objects. The view waits for them, unless there is no right to list
    /// them; then it has none until there is: the API server enforces them in evictions anyway.
    pub fn disruption_budgets(self) -> Self {
        let writer = self.writer(Resource::DisruptionBudgets, |view| {
            &mut view.disruption_budgets
        });
        let source = self.source::<PodDisruptionBudget>(excluded_fields::PLAIN);
        let read = within(self.scope.clone(), DisruptionBudget::from_k8s);
        self.followed_once_readable(source, writer, read)
    }

    /// Watches the webhook's Lease, in or out of scope. It changes often, so use a view of its own.
    pub fn webhook_lease(self, lease: &ObjectKey) -> Self {
        let writer = self.writer(Resource::WebhookLeases, |view| &mut view.webhook_leases);
        let read = within(Scope::default(), WebhookLease::from_k8s);
        let source = self.one_source::<Lease>(lease, excluded_fields::PLAIN);
        self.followed(source, writer, read)
    }

    /// Watches the stop switch, one `ConfigMap` in or out of scope. It is on while it exists. The view
    /// waits for it, unless there is no right to list it; then it is off until there is.
    pub fn stop_switch(self, config_map: &ObjectKey) -> Self {
        let writer = self.writer(Resource::StopSwitches, |view| &mut view.stop_switches);
        // Kept at any size: only its existence counts.
        let read = |item: &Item<'_>| Reading::Keep(StopSwitch { key: item.key() });
        let source = self.one_source::<v1::ConfigMap>(config_map, excluded_fields::CONFIG_MAPS);
        self.followed_once_readable(source, writer, read)
    }

    /// Watches EHPAs and the objects that they own: HPAs, predictions and substitutes. HPAs change
    /// every few seconds, so use a view of their own.
    pub fn horizontal(self) -> Self {
        let (usual, large) = (Limits::OTHERS, Limits::PREDICTIONS);
        self.whole::<EffectiveHorizontalPodAutoscaler>(Resource::Ehpas, usual, |view| {
            &mut view.ehpas
        })
        .whole::<HorizontalPodAutoscaler>(Resource::Hpas, usual, |view| &mut view.hpas)
        .whole::<TimeSeriesPrediction>(Resource::Predictions, large, |view| &mut view.predictions)
        .whole::<Substitute>(Resource::Substitutes, usual, |view| &mut view.substitutes)
    }

    /// Watches the objects of a kind with all their fields.
    fn whole<K>(
        self,
        resource: Resource,
        limits: Limits,
        table: fn(&mut View) -> &mut Table<Stripped<K>>,
    ) -> Self
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + DeserializeOwned
            + PartialEq
            + Send
            + Sync
            + 'static,
    {
        let writer = self.writer(resource, table);
        let source = self.source::<K>(excluded_fields::WHOLE);
        self.within_scope(source.with_limits(limits), writer, Stripped::from_k8s)
    }

    pub fn predictions(self) -> Self {
        let writer = self.writer(Resource::Predictions, |view| &mut view.predicted_metrics);
        let source = self
            .source::<TimeSeriesPrediction>(excluded_fields::PREDICTED_METRICS)
            .with_limits(Limits::PREDICTIONS);
        self.within_scope(source, writer, Prediction::from_k8s)
    }

    pub fn predictions_and_schedules(self) -> Self {
        let watches = self.predictions();
        let writer = watches.writer(Resource::Ehpas, |view| &mut view.cron_schedules);
        let source = watches.source::<EffectiveHorizontalPodAutoscaler>(excluded_fields::OTHERS);
        watches.within_scope(source, writer, CronSchedule::from_k8s)
    }

    /// Watches the labels and phases of unfinished pods.
    pub fn labelled_pods(self) -> Self {
        let writer = self.writer(Resource::LabelledPods, |view| &mut view.labelled_pods);
        let source = self
            .pod_source(excluded_fields::LABELLED_PODS)
            .with_fields("status.phase!=Succeeded,status.phase!=Failed");
        self.within_scope(source, writer, LabelledPod::from_k8s)
    }

    /// Watches the most frequently scaled kinds: `Deployment` and `StatefulSet` objects.
    pub fn scaled_controllers(self) -> Self {
        self.controller::<Deployment>(WellKnown::Deployment)
            .controller::<StatefulSet>(WellKnown::StatefulSet)
    }
}

/// Reports the OOM kills of a change. Those in the first observed state of a pod are not reported:
/// the recommender finds them when it takes the pod over from the view.
fn report_kills(report: &impl Fn(OomKill), change: &Change<Pod>) {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return;
    };
    if old.uid == new.uid {
        oom_kills(Some(old), new).into_iter().for_each(report);
    }
}
