//! The objects that VPA objects target.

use anyhow::{anyhow, ensure};
use api::vpa::CrossVersionObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::DynamicObject;
use kube::core::{GroupVersionKind, Selector};
use kube::{Api, discovery};
use serde::Deserialize as _;

use super::Cluster;
use crate::subject::is_name;

pub(crate) struct Target {
    pub(crate) object: DynamicObject,
    pub(crate) selector: String,
}

impl Cluster {
    /// The objects of a kind in a namespace.
    pub(crate) async fn api_of(
        &self,
        namespace: &str,
        api_version: &str,
        kind: &str,
    ) -> anyhow::Result<Api<DynamicObject>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let is_valid = (group.is_empty() || is_name(group)) && is_name(version);
        ensure!(is_valid, "invalid apiVersion {api_version:?}");
        let kind_of = GroupVersionKind::gvk(group, version, kind);
        let resource = discovery::pinned_kind(&self.client, &kind_of).await;
        let (resource, _) = resource.map_err(self.failed(kind))?;
        Ok(self.dynamic(&resource, Some(namespace)))
    }

    pub(crate) async fn target(
        &self,
        namespace: &str,
        reference: &CrossVersionObjectReference,
    ) -> anyhow::Result<Target> {
        let name = &reference.name;
        ensure!(is_name(name), "targetRef.name is invalid");
        let api = self.api_of(namespace, &reference.api_version, &reference.kind);
        let api = api.await?;
        let object = api.get(name).await.map_err(self.failed(&reference.kind))?;
        let written = &object.data["spec"]["selector"];
        let selector = match LabelSelector::deserialize(written) {
            Ok(selector) if selector != LabelSelector::default() => {
                let selector = Selector::try_from(selector);
                selector
                    .map_err(|error| anyhow!(error).context("spec.selector"))?
                    .to_string()
            }
            _ => {
                let scale = api.get_scale(name).await;
                let scale = scale.map_err(self.failed("the selector of the target"))?;
                let selector = scale.status.and_then(|status| status.selector);
                selector.unwrap_or_default()
            }
        };
        ensure!(!selector.is_empty(), "the target has no selector");
        Ok(Target { object, selector })
    }
}
