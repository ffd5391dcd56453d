//! Starts everything.

use std::sync::Arc;

use anyhow::Context as _;
use cluster::{View, Watches};
use runtime::address::listen_ip_from_environment;
use runtime::serve::{Limits, serve};
use runtime::tls::{RELOAD_PERIOD, ServingTls, TlsFiles};
use runtime::{Chassis, ListenAddress};

use crate::args::{Args, ServingArgs, scope};
use crate::metrics::Metrics;
use crate::serve::Reviews;

/// The webhook's work.
pub async fn run(args: Args, chassis: Chassis) -> anyhow::Result<()> {
    let Args { common: _, serving, review, vpa_object_namespace, ignored_vpa_object_namespaces } = args;
    let scope = scope(&vpa_object_namespace, &ignored_vpa_object_namespaces)?;
    let settings = Arc::new(review.settings()?);
    let metrics = Metrics::register(&chassis.registry)?;

    let mut watches = Watches::new(chassis.client.clone(), scope).controllers().autoscalers().limit_ranges().scales();
    let mut view = watches.view();
    chassis.tasks.spawn_until_shutdown("watches", async move { watches.ended().await });
    let synced = chassis.readiness.condition("watches");
    if chassis.shutdown.run_until_cancelled(view.wait_for(View::is_synced)).await.is_none() {
        return Ok(());
    }
    synced.ready();

    let ServingArgs { port, serving_cert_file, serving_private_key } = serving;
    let files = TlsFiles { certificate: serving_cert_file, private_key: serving_private_key, authorities: None };
    let tls = ServingTls::load(files).await.context("--tls-cert-file and --tls-private-key")?;
    chassis.tasks.spawn_until_shutdown("certificates", tls.clone().follow_files(RELOAD_PERIOD));
    let listen: ListenAddress = format!(":{port}").parse()?;
    let listen = listen.or_host(listen_ip_from_environment()?);
    let listener = listen.bind().await.with_context(|| format!("cannot listen on --port={port}"))?;
    tracing::info!(address = %listener.local_addr()?, "answering reviews");
    let reviews = Reviews { view, heard: None, settings, metrics };
    serve(listener, reviews.router(), Some(tls), Limits::default(), chassis.shutdown.clone()).await;
    Ok(())
}
