//! Who answers: the first provider that knows the metric.

use std::sync::Arc;

use jiff::Timestamp;

use crate::answer::{ExternalValue, MetricNames, MetricValue};
use crate::ask::{CustomAsk, ExternalAsk, Subject};
use crate::expected::Expected;
use crate::flow::{Flow, PriorityLevel};
use crate::refusal::Refusal;
use crate::routes::{Hops, Left, Routes};
use crate::rules::Rules;
use delegated_auth::{Attributes, DelegatedAuth, User};

/// Whoever knows metrics.
#[derive(Debug, Default)]
pub struct Providers {
    /// Predictions and windows of time.
    pub expected: Expected,
    /// Metrics from queries, where there is a rule file.
    pub rules: Option<Rules>,
    /// Other providers of external metrics.
    pub routes: Option<Routes>,
}

/// Whoever asks, and was admitted.
#[derive(Debug)]
pub struct Caller<'a> {
    /// Who.
    pub user: &'a User,
    /// For what.
    pub attributes: &'a Attributes,
    /// By what way.
    pub hops: Hops,
    /// By whom admitted.
    pub auth: &'a DelegatedAuth,
    /// The share of limits that the request draws on.
    pub flow: Flow,
}

impl Providers {
    /// The metrics that discovery names: those of rules, as users of prometheus-adapter look there
    /// for what their rules make.
    pub fn names(&self) -> Arc<MetricNames> {
        self.rules.as_ref().map(Rules::names).unwrap_or_default()
    }

    /// The values of a metric of objects.
    pub async fn custom(
        &self,
        ask: &CustomAsk,
        caller: &Caller<'_>,
        now: Timestamp,
    ) -> Result<Vec<MetricValue>, Refusal> {
        if let Some(values) = self.expected.custom(ask, now)? {
            return Ok(values);
        }
        if let Some(rules) = &self.rules {
            if rules.needs_cluster_scope(ask) {
                caller.confirm_cluster_scope().await?;
            }
            if let Some(values) = rules.custom(ask, &caller.flow, now).await? {
                return Ok(values);
            }
        }
        let CustomAsk {
            resource,
            subject,
            metric,
            ..
        } = ask;
        let of = match subject {
            Subject::Named(name) => format!("{resource} {name}"),
            Subject::Selected(_) => resource.to_string(),
        };
        Err(Refusal::NotFound(format!(
            "the server could not find the metric {metric} for {of}"
        )))
    }

    /// The values of a metric that belongs to no object: of another provider to whom a route leaves
    /// it, else our own, else of the provider that has all the rest.
    pub async fn external(
        &self,
        ask: &ExternalAsk,
        caller: &Caller<'_>,
        now: Timestamp,
    ) -> Result<Vec<ExternalValue>, Refusal> {
        if let Some(left) = self.routes.as_ref().and_then(|routes| routes.owner(ask)) {
            return caller.leave(ask, &left).await;
        }
        if let Some(values) = self.expected.external(ask, &caller.flow, now).await? {
            return Ok(values);
        }
        if let Some(rules) = &self.rules
            && let Some(values) = rules.external(ask, &caller.flow, now).await?
        {
            return Ok(values);
        }
        if let Some(left) = self.routes.as_ref().and_then(Routes::rest) {
            return caller.leave(ask, &left).await;
        }
        let ExternalAsk {
            metric, namespace, ..
        } = ask;
        Err(Refusal::NotFound(format!(
            "the server could not find the metric {metric} in the namespace {namespace}"
        )))
    }
}

impl Caller<'_> {
    /// Makes sure that the caller may read this metric of objects of the whole cluster: it was
    /// admitted for one namespace.
    async fn confirm_cluster_scope(&self) -> Result<(), Refusal> {
        if self.flow.level == PriorityLevel::ClusterWide {
            return Ok(());
        }
        self.auth
            .authorize_at_cluster_scope(self.user, self.attributes)
            .await?;
        Ok(())
    }

    /// Asks another provider in our own name, once the API server has said that this caller may
    /// know.
    async fn leave(&self, ask: &ExternalAsk, left: &Left) -> Result<Vec<ExternalValue>, Refusal> {
        self.auth
            .ensure_reviewed(self.user, self.attributes)
            .await?;
        left.ask(ask, &self.hops).await
    }
}
