//! The field `caBundle` of the adapter's `APIService` objects, with which the API server verifies the
//! adapter. No other field is written; the objects come with the Deployment.
//!
//! An object that refers to another Service is never changed, nor is a bundle that cert-manager
//! injects. If one of the objects comes to refer to another Service, a message is logged. A bundle
//! that another client wrote into one of the adapter's objects is replaced, at most once a minute.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::{Api, Client};
use metric_routes::api_service::ApiServiceState::{
    self, Elsewhere, Injected, Insecure, Missing, Ours,
};
use metric_routes::api_service::{ADOPTER, API_SERVICES, CaBundle, standing, writers};
use runtime::ObjectWriter;
use serving::ca_bundles::CaBundleObjects;
use serving::certificates::ObservedCaBundle;
use serving::own_service::OwnService;

use crate::api_service_writer::{self, MANAGER};
use crate::metrics::Metrics;

/// Minimum interval between replacements of another program's bundle in the same object, which that
/// program may write again.
const REPLACE_INTERVAL: Duration = Duration::from_mins(1);

const NOT_MAINTAINING: &str = "not maintaining the CA bundle of an APIService";

pub struct ApiServices {
    api: Api<APIService>,
    own: OwnService,
    metrics: Metrics,
    objects: ObjectWriter,
    /// The bundle of all objects, once the API server reports each of them as available with it.
    trusted: Option<String>,
    bundles: BTreeMap<&'static str, String>,
    /// The last log message about each object.
    logged: BTreeMap<&'static str, String>,
    points_here: BTreeMap<&'static str, bool>,
    /// The time of the last replacement of another program's bundle in each object.
    replaced: BTreeMap<&'static str, Instant>,
}

impl CaBundleObjects for ApiServices {
    async fn reconcile(&mut self, bundle: Option<&str>) -> anyhow::Result<()> {
        let mut seen = Vec::new();
        self.bundles.clear();
        for name in API_SERVICES {
            let present = self
                .api
                .get_opt(name)
                .await
                .with_context(|| format!("cannot read APIService {name}"))?;
            let found = standing(present.as_ref(), &self.own);
            let text = self.log(name, &found);
            let points_here = matches!(found, Ours(_) | Injected(_));
            let owned = self.metrics.owned.with_label_values(&[name]);
            owned.set(points_here.into());
            if self.points_here.insert(name, points_here) == Some(true) && !points_here {
                self.report_change(name, present.as_ref(), &text).await;
            }
            let trusted = match (found, bundle) {
                (Ours(mut trusted), Some(bundle)) if trusted.bundle != bundle => {
                    if self.write(name, present, bundle).await? {
                        bundle.clone_into(&mut trusted.bundle);
                    }
                    trusted.is_available = false;
                    trusted
                }
                (Ours(trusted) | Injected(trusted), _) => trusted,
                (Missing | Elsewhere(_) | Insecure, _) => continue,
            };
            self.bundles.insert(name, trusted.bundle.clone());
            seen.push(trusted);
        }
        self.trusted = trusted_everywhere(&seen);
        Ok(())
    }

    fn trusted(&self) -> Option<&str> {
        self.trusted.as_deref()
    }

    fn observed(&self) -> Vec<ObservedCaBundle> {
        let observed = |(object, bundle): (&&str, &String)| ObservedCaBundle {
            object: (*object).to_owned(),
            name: self.own.server_name(),
            bundle: bundle.clone(),
        };
        self.bundles.iter().map(observed).collect()
    }
}

impl ApiServices {
    /// The objects that may point at `own`, not read yet.
    pub fn new(client: Client, own: OwnService, metrics: Metrics) -> Self {
        Self {
            api: Api::all(client.clone()),
            own,
            metrics,
            objects: ObjectWriter::new(client, MANAGER),
            trusted: None,
            bundles: BTreeMap::new(),
            logged: BTreeMap::new(),
            points_here: BTreeMap::new(),
            replaced: BTreeMap::new(),
        }
    }

    /// Writes a bundle to an object. Returns `false` if another program's bundle was replaced there
    /// less than [`REPLACE_INTERVAL`] ago.
    async fn write(
        &mut self,
        name: &'static str,
        present: Option<APIService>,
        bundle: &str,
    ) -> anyhow::Result<bool> {
        if let Some(writer) = present.as_ref().and_then(other_writer) {
            let now = Instant::now();
            if !may_replace(self.replaced.get(name).copied(), now) {
                return Ok(false);
            }
            self.replaced.insert(name, now);
            let note =
                format!("{writer} has written a CA bundle that is not the adapter's; replacing it");
            self.report_change(name, present.as_ref(), &note).await;
        }
        let version = present.and_then(|present| present.metadata.resource_version);
        let written = api_service_writer::trust(&self.api, name, version, bundle).await;
        written.with_context(|| format!("cannot write the CA bundle of APIService {name}"))?;
        tracing::info!(name, "wrote the CA bundle of an APIService");
        Ok(true)
    }

    async fn report_change(&self, name: &str, present: Option<&APIService>, note: &str) {
        tracing::warn!(name, "another program has changed an APIService: {note}");
        let changes = self.metrics.foreign_changes.with_label_values(&[name]);
        changes.inc();
        api_service_writer::record_change(&self.objects, name, present, note).await;
    }

    /// Logs once, and returns, the reason why the bundle of an object is not maintained.
    fn log(&mut self, name: &'static str, found: &ApiServiceState) -> String {
        let text: &str = match found {
            Missing => "the object does not exist",
            Elsewhere(service) => &format!("it points at the Service {service}"),
            Insecure => {
                "it has insecureSkipTLSVerify, which excludes a CA bundle; remove that field"
            }
            Injected(_) => "cert-manager maintains its CA bundle",
            Ours(_) => "",
        };
        let text = text.to_owned();
        let before = self.logged.insert(name, text.clone()).unwrap_or_default();
        match found {
            _ if text == before => {}
            Ours(_) => tracing::info!(name, "maintaining the CA bundle of an APIService again"),
            Insecure => tracing::error!(name, "{NOT_MAINTAINING}: {text}"),
            _ => tracing::warn!(name, "{NOT_MAINTAINING}: {text}"),
        }
        text
    }
}

/// The name of another program that has written the bundle of an object.
fn other_writer(present: &APIService) -> Option<&str> {
    writers(present).find(|writer| ![MANAGER, ADOPTER].contains(writer))
}

/// Whether another program's bundle may be replaced at `now`. `last` is the previous time.
fn may_replace(last: Option<Instant>, now: Instant) -> bool {
    last.is_none_or(|last| now.saturating_duration_since(last) >= REPLACE_INTERVAL)
}

/// The bundle of all objects. `None` while they differ, or while the API server does not report
/// each of them as available.
fn trusted_everywhere(seen: &[CaBundle]) -> Option<String> {
    let first = seen.first().filter(|first| first.is_available)?;
    let is_same = seen.iter().all(|other| other == first);
    is_same.then(|| first.bundle.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::request::ApiVersion;

    fn check(seen: &[(&str, bool)], expected: Option<&str>) {
        let trusted = |(bundle, is_available): &(&str, bool)| CaBundle {
            bundle: (*bundle).to_owned(),
            is_available: *is_available,
        };
        let seen_bundles: Vec<_> = seen.iter().map(trusted).collect();
        let found = trusted_everywhere(&seen_bundles);
        assert_eq!(found.as_deref(), expected, "{seen:?}");
    }

    #[test]
    fn bundles_of_other_programs_are_replaced_at_most_once_a_minute() {
        let now = Instant::now();
        assert!(may_replace(None, now));
        assert!(
            !may_replace(Some(now), now) && !may_replace(Some(now), now + REPLACE_INTERVAL / 2)
        );
        assert!(may_replace(Some(now), now + REPLACE_INTERVAL));
        let written_by = |writer: &str| -> APIService {
            let fields = json!({"f:spec": {"f:caBundle": {}}});
            let metadata = json!({"managedFields": [{"manager": writer, "fieldsV1": fields}]});
            serde_json::from_value(json!({"metadata": metadata})).expect("an object")
        };
        for (writer, expected) in [("keda", Some("keda")), (MANAGER, None), (ADOPTER, None)] {
            assert_eq!(other_writer(&written_by(writer)), expected);
        }
    }

    #[test]
    fn each_served_version_has_an_object() {
        let name = |version: ApiVersion| format!("{}.{}", version.version(), version.group());
        assert_eq!(ApiVersion::ALL.map(name), API_SERVICES);
    }

    #[test]
    fn a_bundle_is_trusted_once_all_objects_have_it_and_are_available() {
        check(&[], None);
        check(&[("new", true)], Some("new"));
        check(&[("new", true), ("new", true), ("new", true)], Some("new"));
        check(&[("new", true), ("old", true)], None);
        check(&[("new", true), ("new", false)], None);
    }
}
