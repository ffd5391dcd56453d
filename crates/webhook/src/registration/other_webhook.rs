//! Webhooks of other installations that size pods: upstream's admission controller, or this one in
//! another namespace. Upstream's Helm chart has a configuration with a name of its own.

use std::future::Future;

use axum::http::StatusCode;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, ServiceReference,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use runtime::Holds;

use super::write::REGISTERED_BY;
use super::{Address, CONFIGURATION, WEBHOOK};

/// Part of the program that holds, in messages and metrics.
const PART: &str = "webhook";

#[derive(Clone)]
pub struct OtherWebhooks {
    client: Client,
    holds: Holds,
}

impl OtherWebhooks {
    /// Reports what it finds to `holds`.
    pub fn new(client: Client, holds: Holds) -> Self {
        holds.hold(PART, true);
        Self { client, holds }
    }

    /// Another webhook that is served. `own` is the address of this one.
    pub(super) async fn find(&self, own: &Address) -> kube::Result<Option<String>> {
        let configurations = self.configurations().await?;
        let mut signs = Vec::new();
        for configuration in &configurations {
            for webhook in configuration.webhooks.iter().flatten() {
                if let Some(sign) = self.sign(configuration, webhook, own).await? {
                    signs.push(sign);
                }
            }
        }
        signs.dedup();
        let found = (!signs.is_empty()).then(|| signs.join(", "));
        let reasons = found.is_some().then_some((PART, signs));
        self.holds.set(reasons.into_iter().collect()).await;
        Ok(found)
    }

    /// All configurations, or the one that this webhook writes if it may not list them.
    async fn configurations(&self) -> kube::Result<Vec<MutatingWebhookConfiguration>> {
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
        if let Some(all) = permitted(api.list(&ListParams::default())).await? {
            return Ok(all.items);
        }
        Ok(api.get_opt(CONFIGURATION).await?.into_iter().collect())
    }

    async fn sign(
        &self,
        configuration: &MutatingWebhookConfiguration,
        webhook: &MutatingWebhook,
        own: &Address,
    ) -> kube::Result<Option<String>> {
        let name = configuration.name_any();
        let client = &webhook.client_config;
        if webhook.name != WEBHOOK {
            return Ok(None);
        }
        if let Some(service) = &client.service {
            let (namespace, service_name) = (&service.namespace, &service.name);
            let is_own = matches!(own, Address::Service { namespace, name }
                if *namespace == service.namespace && *name == service.name);
            let is_other = !is_own && self.is_served(service).await?;
            return Ok(is_other.then(|| {
                format!("the Service {namespace}/{service_name} of the MutatingWebhookConfiguration {name}")
            }));
        }
        // Whether a URL is served cannot be seen from here; an earlier one of this webhook is no other.
        let is_own = configuration.annotations().contains_key(REGISTERED_BY)
            || matches!(own, Address::Url(_));
        let url = client.url.as_ref().filter(|_| !is_own);
        Ok(url.map(|url| format!("the URL {url} of the MutatingWebhookConfiguration {name}")))
    }

    /// Whether a Service has a ready endpoint. One that may not be read counts as served by nothing.
    async fn is_served(&self, service: &ServiceReference) -> kube::Result<bool> {
        let api: Api<EndpointSlice> = Api::namespaced(self.client.clone(), &service.namespace);
        let label = format!("kubernetes.io/service-name={}", service.name);
        let slices = permitted(api.list(&ListParams::default().labels(&label))).await?;
        let slices = slices.into_iter().flatten();
        let mut endpoints = slices.flat_map(|slice| slice.endpoints.into_iter().flatten());
        Ok(endpoints.any(|endpoint| endpoint.conditions.unwrap_or_default().ready != Some(false)))
    }
}

/// The response, or `None` if the request is not permitted.
pub(super) async fn permitted<T>(
    response: impl Future<Output = kube::Result<T>>,
) -> kube::Result<Option<T>> {
    match response.await {
        Err(kube::Error::Api(status)) if status.code == StatusCode::FORBIDDEN.as_u16() => Ok(None),
        response => response.map(Some),
    }
}
