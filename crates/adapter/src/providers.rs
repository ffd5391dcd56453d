//! Who answers: the first provider that knows the metric.

use std::sync::Arc;

use jiff::Timestamp;

use crate::flow::{Flow, PriorityLevel};
use crate::predictions::Predictions;
use crate::request::{CustomMetricRequest, ExternalMetricRequest, ObjectSelector};
use crate::routes::{MatchedRoute, Routes, Via};
use crate::rules::Rules;
use crate::status_error::StatusError;
use crate::value::{ExternalValue, MetricNames, MetricValue};
use delegated_auth::{Attributes, DelegatedAuth, User};

/// Whoever knows metrics.
#[derive(Debug, Default)]
pub struct Providers {
    /// Predictions and windows of time.
    pub predictions: Predictions,
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
    pub via: Via,
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
        request: &CustomMetricRequest,
        caller: &Caller<'_>,
        now: Timestamp,
    ) -> Result<Vec<MetricValue>, StatusError> {
        if let Some(values) = self.predictions.custom(request, now)? {
            return Ok(values);
        }
        if let Some(rules) = &self.rules {
            if rules.needs_cluster_scope(request) {
                caller.confirm_cluster_scope().await?;
            }
            if let Some(values) = rules.custom(request, &caller.flow, now).await? {
                return Ok(values);
            }
        }
        let CustomMetricRequest {
            resource,
            objects,
            metric,
            ..
        } = request;
        let of = match objects {
            ObjectSelector::Name(name) => format!("{resource} {name}"),
            ObjectSelector::Labels(_) => resource.to_string(),
        };
        Err(StatusError::NotFound(format!(
            "the server could not find the metric {metric} for {of}"
        )))
    }

    /// The values of a metric that belongs to no object: of another provider to whom a route leaves
    /// it, else our own, else of the provider that has all the rest.
    pub async fn external(
        &self,
        request: &ExternalMetricRequest,
        caller: &Caller<'_>,
        now: Timestamp,
    ) -> Result<Vec<ExternalValue>, StatusError> {
        if let Some(route) = self
            .routes
            .as_ref()
            .and_then(|routes| routes.route_for(request))
        {
            return caller.forward(request, &route).await;
        }
        if let Some(values) = self
            .predictions
            .external(request, &caller.flow, now)
            .await?
        {
            return Ok(values);
        }
        if let Some(rules) = &self.rules
            && let Some(values) = rules.external(request, &caller.flow, now).await?
        {
            return Ok(values);
        }
        if let Some(route) = self.routes.as_ref().and_then(Routes::default_route) {
            return caller.forward(request, &route).await;
        }
        let ExternalMetricRequest {
            metric, namespace, ..
        } = request;
        Err(StatusError::NotFound(format!(
            "the server could not find the metric {metric} in the namespace {namespace}"
        )))
    }
}

impl Caller<'_> {
    /// Makes sure that the caller may read this metric of objects of the whole cluster: it was
    /// admitted for one namespace.
    async fn confirm_cluster_scope(&self) -> Result<(), StatusError> {
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
    async fn forward(
        &self,
        request: &ExternalMetricRequest,
        route: &MatchedRoute,
    ) -> Result<Vec<ExternalValue>, StatusError> {
        self.auth
            .ensure_reviewed(self.user, self.attributes)
            .await?;
        route.ask(request, &self.via).await
    }
}
