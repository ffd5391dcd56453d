//! The registration of the webhook and its `NetworkPolicy`.

use anyhow::Result;
use e2e::deployment::SYSTEM;
use e2e::helm::Helm;
use serde_json::{Value, json};

use super::{objects, rendered};

#[tokio::test]
async fn without_its_role_the_registration_is_part_of_the_release() -> Result<()> {
    let helm = Helm::find().await?;
    for (values, expected) in [
        (&["mode=vertical"][..], None),
        (&["mode=vertical", "rbac.create=false"], Some(Value::Null)),
        (
            &[
                "mode=vertical",
                "rbac.create=false",
                "certificates.mode=certManager",
            ],
            Some(json!({"cert-manager.io/inject-ca-from": "plimsoll-system/plimsoll-webhook"})),
        ),
    ] {
        let rendered = helm.template(values).await?;
        let objects = objects(&rendered)?;
        let registration =
            objects.get("\"MutatingWebhookConfiguration\" null \"vpa-webhook-config\"");
        let annotations = registration.map(|it| it["metadata"]["annotations"].clone());
        assert_eq!(annotations, expected, "{values:?}");
        let has_owner = rendered.contains(r#""ownerClusterRole":"plimsoll-webhook"}"#);
        assert_eq!(has_owner, expected.is_none(), "{values:?}");
    }
    Ok(())
}

#[tokio::test]
async fn only_api_servers_send_reviews_and_everyone_reads_metrics() -> Result<()> {
    for more in ["networkPolicy.enabled=false", "networkPolicy.enabled=true"] {
        let values = [
            "mode=vertical",
            "webhook.apiServerNetworks={10.0.0.0/28,fd00::/64}",
            more,
        ];
        let objects = rendered(&values).await?;
        let policy = &objects[&format!("\"NetworkPolicy\" \"{SYSTEM}\" \"plimsoll-webhook\"")];
        let blocks =
            json!([{"ipBlock": {"cidr": "10.0.0.0/28"}}, {"ipBlock": {"cidr": "fd00::/64"}}]);
        let expected = json!([
            {"ports": [{"port": "webhook"}], "from": blocks},
            {"ports": [{"port": "prometheus"}]},
        ]);
        assert_eq!(policy["spec"]["ingress"], expected, "{more}");
    }
    Ok(())
}
