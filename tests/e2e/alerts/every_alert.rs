//! Every alert fires by a real fault and is cleared by its remedy, and every query of the dashboards
//! returns data meanwhile.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, ensure};
use e2e::dashboards::{Query, queries};
use e2e::eventually;
use tokio::{select, try_join};

use super::cluster::Cluster;
use super::rules::rules;
use super::{faults, program_faults, slow_readers};

/// Texts of the queries that have returned data.
type Seen = Mutex<BTreeSet<String>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_alert_fires_and_clears_and_every_panel_has_data() -> Result<()> {
    let cluster = Cluster::start().await?;
    program_faults::all_scraped(&cluster).await?;
    cluster.quiet().await?;
    let (queries, seen) = (queries("30s")?, Seen::default());
    // Some data come with the last fault only, so the wait for them is limited from then on.
    select! {
        faults = cause_faults(&cluster) => faults?,
        never = look_at_panels(&cluster, &queries, &seen) => match never {},
    }
    panels_have_data(&cluster, &queries, &seen).await?;
    cluster.quiet().await?;

    let names = cluster.prometheus.names().await?;
    for rule in rules()? {
        for metric in rule.metrics() {
            ensure!(names.contains(metric), "{}: no metric {metric}", rule.alert);
        }
    }
    let all: BTreeSet<String> = rules()?.into_iter().map(|rule| rule.alert).collect();
    assert_eq!(cluster.fired(), all);
    Ok(())
}

async fn cause_faults(cluster: &Cluster) -> Result<()> {
    program_faults::deploy_other_adapter(cluster).await?;
    try_join!(
        faults::of_objects(cluster),
        writes_and_evictions(cluster),
        faults::of_resizes(cluster),
        faults::of_oom_kills(cluster),
        faults::of_rollbacks(cluster),
        slow_readers::of_readers(cluster),
        program_faults::of_configuration(cluster),
    )?;
    try_join!(
        program_faults::of_updater(cluster),
        program_faults::of_extender(cluster),
        program_faults::of_recommender(cluster),
        program_faults::of_clock(cluster),
    )?;
    try_join!(
        program_faults::of_source(cluster),
        program_faults::of_webhook_service(cluster),
        program_faults::of_api_service(cluster),
    )?;
    program_faults::of_api_server(cluster).await
}

/// One after the other: evictions that succeed would hide those that fail.
async fn writes_and_evictions(cluster: &Cluster) -> Result<()> {
    faults::of_writes(cluster).await?;
    faults::of_evictions(cluster).await
}

/// Waits for the data of each panel as long as there are faults.
async fn look_at_panels(cluster: &Cluster, queries: &[Query], seen: &Seen) -> Infallible {
    while panels_have_data(cluster, queries, seen).await.is_err() {}
    future::pending().await
}

/// Waits until each query of the dashboards has returned data once.
async fn panels_have_data(cluster: &Cluster, queries: &[Query], seen: &Seen) -> Result<()> {
    let is_seen = |query: &Query| {
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.contains(&query.text)
    };
    eventually("all panels have data", async || {
        cluster.ask_metric("plimsoll_build_info").await?;
        for query in queries.iter().filter(|it| !is_seen(it)) {
            let text = query.text.replace(" or vector(0)", "");
            if cluster.prometheus.count(&text).await? > 0 {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.insert(query.text.clone());
            }
        }
        let missing: Vec<&Query> = queries.iter().filter(|it| !is_seen(it)).collect();
        ensure!(missing.is_empty(), "no data: {missing:#?}");
        Ok(())
    })
    .await
}
