//! With authorities of the API server's own certificate, other clients get no answer.

use anyhow::{Result, ensure};
use serving::certificates::{ManagedConfig, Source};
use serving::tls::ServingProfile;
use webhook::serve::LIMITS;

use crate::authority::Authority;
use crate::client::{Connection, trusting, trusting_as};
use crate::objects::Objects;
use crate::rotation::{bundles, managed};
use crate::running::{NAME, Replica};

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_the_api_servers_certificate_gets_no_answer() -> Result<()> {
    let (objects, folder) = (Objects::default(), tempfile::tempdir()?);
    let (clients, others) = (Authority::new("clients")?, Authority::new("others")?);
    let path = folder.path().join("ca");
    std::fs::write(&path, &clients.pem)?;
    let Source::Managed(source) =
        managed(&objects, serving::certificates::RotationPolicy::default())
    else {
        anyhow::bail!("not managed")
    };
    let serving = ServingProfile {
        client_authorities: Some(path),
        ..ServingProfile::default()
    };
    let source = Source::Managed(Box::new(ManagedConfig { serving, ..*source }));
    let mut replica = Replica::start(source, &objects, LIMITS).await?;
    replica.in_effect.wait_for(|is| *is).await?;
    let bundle = bundles(&objects)?.concat();

    let asks = async |connector| {
        Connection::open(replica.address, NAME, &connector)
            .await?
            .admit("1")
            .await
    };
    ensure!(
        asks(trusting(&bundle)?).await.is_err(),
        "without a certificate"
    );
    ensure!(
        asks(trusting_as(&bundle, others.issue(None)?)?)
            .await
            .is_err(),
        "with that of another authority"
    );
    asks(trusting_as(&bundle, clients.issue(None)?)?).await?;
    Ok(())
}
