//! Requests for the objects of an EHPA.

use std::future::ready;

use anyhow::anyhow;
use api::ehpa::{Adopter, EffectiveHorizontalPodAutoscaler as Ehpa};
use api::prediction::TimeSeriesPrediction as Prediction;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler as Hpa;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt as _;
use kube::api::ListParams;

use crate::explain::reader::{Found, Reader, WithOthers, oldest};
use crate::subject::{Subject, is_name};

/// Objects that explain the replicas of an EHPA's workload.
#[derive(Clone, Debug)]
pub(in crate::explain) struct EhpaFacts {
    pub(in crate::explain) ehpa: Ehpa,
    /// Names of further EHPAs with the same target.
    pub(in crate::explain) others: Vec<String>,
    /// The HPA that it created or adopted.
    pub(in crate::explain) hpa: Option<Hpa>,
    pub(in crate::explain) hpa_is_read: bool,
    pub(in crate::explain) prediction: Option<Prediction>,
    pub(in crate::explain) events: Vec<Event>,
    pub(in crate::explain) now: Timestamp,
    /// Parts that could not be read, one sentence each.
    pub(in crate::explain) missing: Vec<String>,
}

pub(in crate::explain) async fn read(
    reader: Reader<'_>,
    (object, others): WithOthers,
) -> anyhow::Result<Found> {
    let ehpa = api::ehpa::parse(object).map_err(|error| anyhow!("invalid object: {error}"))?;
    let all = ListParams::default();
    let hpas = reader.list::<Hpa>("horizontalpodautoscalers", &all).await;
    let hpa_is_read = hpas.is_ok();
    let hpas = reader.or_missing("the HPA", ready(hpas)).await;
    let hpa = hpas.into_iter().find(|hpa| is_of(hpa, &ehpa));
    let prediction = prediction(&reader, &ehpa);
    let prediction = reader.or_missing("the prediction", prediction).await;
    let events = events(&reader, &ehpa, hpa.as_ref());
    let events = reader.or_missing("events", events).await;
    Ok(Found::Ehpa(Box::new(EhpaFacts {
        ehpa,
        others,
        hpa,
        hpa_is_read,
        prediction,
        events,
        now: Timestamp::now(),
        missing: reader.missing.into_inner(),
    })))
}

/// The oldest EHPA that scales one of the workloads, and the names of the others. Only the oldest one
/// has an HPA.
pub(in crate::explain) async fn of_workload(
    reader: &Reader<'_>,
    workloads: &[Subject],
) -> anyhow::Result<Option<WithOthers>> {
    let ehpas = reader.untyped::<Ehpa>("effectivehorizontalpodautoscalers");
    Ok(oldest(&ehpas.await?, "scaleTargetRef", workloads))
}

/// Whether the EHPA created or adopted the HPA.
fn is_of(hpa: &Hpa, ehpa: &Ehpa) -> bool {
    let uid = ehpa.metadata.uid.as_deref().filter(|uid| !uid.is_empty());
    let mut owners = hpa.owner_references().iter();
    match owners.find(|owner| owner.controller == Some(true)) {
        Some(owner) => uid == Some(owner.uid.as_str()),
        None => Adopter::of(hpa.annotations()).is_some_and(|it| uid == Some(it.uid)),
    }
}

async fn prediction(reader: &Reader<'_>, ehpa: &Ehpa) -> anyhow::Result<Option<Prediction>> {
    let name = format!("ehpa-{}", ehpa.name_any());
    if ehpa.spec.prediction.is_none() || !is_name(&name) {
        return Ok(None);
    }
    let found = reader.untyped_opt::<Prediction>("the prediction", &name);
    let Some(object) = found.await? else {
        return Ok(None);
    };
    let prediction = api::prediction::parse(object);
    let prediction = prediction.map_err(|error| anyhow!("invalid object: {error}"))?;
    let uid = ehpa.uid().unwrap_or_default();
    let mut owners = prediction.owner_references().iter();
    let is_of = owners.any(|owner| owner.uid == uid);
    Ok(Some(prediction).filter(|_| is_of))
}

async fn events(reader: &Reader<'_>, ehpa: &Ehpa, hpa: Option<&Hpa>) -> anyhow::Result<Vec<Event>> {
    let hpa = hpa.map(|hpa| ("HorizontalPodAutoscaler", hpa.name_any()));
    let about = [("EffectiveHorizontalPodAutoscaler", ehpa.name_any())];
    let mut events = Vec::new();
    for (kind, name) in about.into_iter().chain(hpa) {
        let of_object = format!("involvedObject.kind={kind},involvedObject.name={name}");
        let params = ListParams::default().fields(&of_object);
        events.extend(reader.list::<Event>("events", &params).await?);
    }
    Ok(events)
}
