//! The dashboard: pages on this computer about VPA objects, EHPAs, HPAs and the installation, read
//! from the API server with the rights of the user, and recorded usage from Prometheus. It writes
//! nothing.
//!
//! | path below the token | page |
//! |---|---|
//! | `/` | VPA objects with requested, recommended and used amounts |
//! | `/vpa/NAMESPACE/NAME`, `/ehpa/NAMESPACE/NAME` | explanation of one object, with the usage of its workload |
//! | `/horizontal` | EHPAs and HPAs |
//! | `/health` | programs, leaders, owners of the metrics APIs, findings of `check` |

mod access;
mod bands;
mod fleet;
mod forecast;
mod horizontal;
mod pages;
mod recorded;
mod timeline;

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::middleware::from_fn_with_state;
use clap::Args;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::cluster::block_on;
use crate::failure::Outcome;
use crate::installation::InstallationArgs;
use crate::prices::{PriceArgs, Prices};
use crate::usage::ConnectionArgs;
use access::{Access, guard};
use pages::Pages;

#[derive(Clone, Debug, Args)]
pub(crate) struct DashboardArgs {
    /// Port on 127.0.0.1; 0 is a free one.
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) prices: PriceArgs,
    #[command(flatten)]
    pub(crate) prometheus: ConnectionArgs,
    #[command(flatten)]
    pub(crate) installation: InstallationArgs,
}

pub(crate) fn run(args: &DashboardArgs) -> anyhow::Result<Outcome> {
    let prices = Prices::read(&args.prices)?;
    block_on(async {
        let cluster = args.installation.cluster.connect().await?;
        cluster.version().await?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await;
        let listener =
            listener.with_context(|| format!("cannot listen on --port={}", args.port))?;
        let access = Arc::new(Access::new(listener.local_addr()?));
        println!("{}", access.url());
        let pages = Pages {
            cluster,
            args: args.clone(),
            prices,
            folder: access.folder(),
            recorded: Mutex::default(),
            kept: Mutex::default(),
        };
        let router = pages.router().layer(from_fn_with_state(access, guard));
        let serving = axum::serve(listener, router);
        // Without waiting for connections: browsers keep them open.
        tokio::select! {
            ended = serving => ended?,
            interrupted = tokio::signal::ctrl_c() => interrupted?,
        }
        Ok(Outcome::Done)
    })
}
