//! Construction of the controllers of policies, EHPAs and predictions from shared parts.

use std::time::Duration;

use feed::{Forecast, Publisher};
use kube::Client;
use vertical::policies::status::ShardIdentity;
use view::Shard;
use watch::Watches;

use crate::act::{ehpa, policy, prediction};
use crate::args::{CraneMetricsArgs, EhpaArgs, PredictionArgs};
use crate::ehpa::controller::EhpaController;
use crate::ehpa::crane_metrics::CraneMetricsTask;
use crate::ehpa::rule_file::RulesReceiver;
use crate::metrics::Metrics;
use crate::predictions::PredictionStore;
use crate::predictions::collector::{HistoryCollector, Source};
use crate::predictions::controller::PredictionController;
use crate::sizing_policies::controller::PolicyController;

/// Inputs that the controllers share.
pub(super) struct Parts<'a> {
    pub(super) client: &'a Client,
    /// Name of the recommender in `spec.recommenders`.
    pub(super) recommender: &'a str,
    /// Pods, workloads and VPA objects.
    pub(super) watches: &'a Watches,
    /// EHPAs, predictions, and the objects that EHPAs own.
    pub(super) horizontal: &'a Watches,
    /// Number of concurrent writes.
    pub(super) workers: usize,
    pub(super) metrics: &'a Metrics,
}

impl Parts<'_> {
    pub(super) fn policies(&self, policies: &Watches, shard: Shard) -> PolicyController {
        PolicyController {
            view: self.watches.view(),
            policies: policies.view(),
            questions: self.watches.scale_requests(),
            recommender: self.recommender.to_owned(),
            shard: ShardIdentity {
                index: shard.index(),
                count: shard.count(),
            },
            writer: policy::Writer::new(self.client.clone()),
            workers: self.workers,
            metrics: self.metrics.policies.clone(),
        }
    }

    pub(super) fn ehpas(&self, args: EhpaArgs, rules: Option<RulesReceiver>) -> EhpaController {
        EhpaController {
            view: self.watches.view(),
            horizontal: self.horizontal.view(),
            recommender: self.recommender.to_owned(),
            writer: ehpa::Writer::new(self.client.clone()),
            propagation: args.propagation(),
            rules,
            workers: self.workers,
        }
    }

    pub(super) fn crane_metrics(
        &self,
        registry: &prometheus::Registry,
        args: &CraneMetricsArgs,
    ) -> Result<CraneMetricsTask, prometheus::Error> {
        Ok(CraneMetricsTask {
            horizontal: self.horizontal.view(),
            recommender: self.recommender.to_owned(),
            metrics: Metrics::with_cranes(registry, args.crane_metrics_limit as usize)?,
        })
    }

    pub(super) fn collector(
        &self,
        source: Source,
        args: &PredictionArgs,
        rules: Option<RulesReceiver>,
    ) -> HistoryCollector {
        HistoryCollector {
            horizontal: self.horizontal.view(),
            recommender: self.recommender.to_owned(),
            source,
            access: args.access(rules.is_some()),
            rules,
            intervals: args.intervals(),
            limits: args.limits(),
            concurrency: usize::from(args.prometheus_query_concurrency),
            store: PredictionStore::default(),
            metrics: self.metrics.clone(),
        }
    }

    pub(super) fn predictions(
        &self,
        store: PredictionStore,
        frequency: Duration,
        publisher: Option<Publisher<Forecast>>,
    ) -> PredictionController {
        PredictionController {
            store,
            horizontal: self.horizontal.view(),
            publisher,
            writer: prediction::Writer::new(self.client.clone()),
            workers: self.workers,
            frequency,
            metrics: self.metrics.clone(),
        }
    }
}
