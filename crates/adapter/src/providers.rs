//! Lookup order of a metric: routes, predictions, rules, default route.

use std::sync::Arc;

use jiff::Timestamp;

use super::request::{CustomMetricRequest, ExternalMetricRequest, ObjectSelector, StatusError};
use crate::flow_limiter::{Flow, PriorityLevel};
use crate::predictions::Predictions;
use crate::routes::{Routes, Via};
use crate::rules::Rules;
use crate::value::{ExternalValue, MetricNames, MetricValue};
use delegated_auth::{Attributes, DelegatedAuth, User};

#[derive(Default)]
pub struct Providers {
    pub predictions: Predictions,
    /// Metrics from rules, if there is a rule file.
    pub rules: Option<Rules>,
    /// Routes to other providers of external metrics.
    pub routes: Option<Routes>,
}

pub struct Caller<'a> {
    pub user: &'a User,
    pub attributes: &'a Attributes,
    /// The adapters that the request has passed.
    pub via: Via,
    /// The authorization of further access.
    pub auth: &'a DelegatedAuth,
    /// The share of limits that the request draws on.
    pub flow: Flow,
}

impl Providers {
    pub fn names(&self) -> Arc<MetricNames> {
        self.rules.as_ref().map(Rules::names).unwrap_or_default()
    }

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
            let is_namespaced = caller.flow.level == PriorityLevel::Namespaced;
            if is_namespaced && rules.needs_cluster_scope(request) {
                let (user, attributes) = (caller.user, caller.attributes);
                let auth = caller.auth.authorize_at_cluster_scope(user, attributes);
                auth.await?;
            }
            if let Some(values) = rules.custom(request, &caller.flow, now).await? {
                return Ok(values);
            }
        }
        let resource = &request.resource;
        let of = match &request.objects {
            ObjectSelector::Name(name) => format!("{resource} {name}"),
            ObjectSelector::Labels(_) => resource.to_string(),
        };
        Err(StatusError::NotFound(format!(
            "the server could not find the metric {} for {of}",
            request.metric
        )))
    }

    /// Returns the values of an external metric: from the provider of a matching route, else our
    /// own, else from the default upstream.
    pub async fn external(
        &self,
        request: &ExternalMetricRequest,
        caller: &Caller<'_>,
        now: Timestamp,
    ) -> Result<Vec<ExternalValue>, StatusError> {
        let routes = self.routes.as_ref();
        if let Some(route) = routes.and_then(|routes| routes.route_for(request)) {
            return route.forward(request, &caller.via).await;
        }
        let (predictions, flow) = (&self.predictions, &caller.flow);
        if let Some(values) = predictions.external(request, flow, now).await? {
            return Ok(values);
        }
        if let Some(rules) = &self.rules
            && let Some(values) = rules.external(request, flow, now).await?
        {
            return Ok(values);
        }
        if let Some(route) = routes.and_then(Routes::default_route) {
            return route.forward(request, &caller.via).await;
        }
        let why = self.rules.as_ref().and_then(Rules::unlisted);
        let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
        let (metric, namespace) = (&request.metric, &request.namespace);
        Err(StatusError::NotFound(format!(
            "the server could not find the metric {metric} in the namespace {namespace}{why}"
        )))
    }
}
