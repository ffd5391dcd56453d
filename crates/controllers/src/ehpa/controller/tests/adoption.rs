//! Adoption of HPAs, and their restoration.

use view::Table;

use super::*;

#[tokio::test]
async fn an_adopted_hpa_keeps_its_metadata_and_has_no_owner() {
    let mut fixture = Fixture::new().effective("Auto");
    let first = native("mine", &json!({"labels": {"team": "a"}}));
    fixture.server.put(NATIVE, &first);
    fixture.pass().await;
    let (metadata, spec) = fixture.native("mine");
    assert_eq!(spec["maxReplicas"], 10);
    assert_eq!(
        (&metadata["ownerReferences"], &metadata["labels"]),
        (&Value::Null, &json!({"team": "a"}))
    );
    let original = metadata["annotations"]["plimsoll.dev/original-spec"]
        .as_str()
        .unwrap_or_default();
    assert_eq!(
        serde_json::from_str::<Value>(original).ok(),
        Some(first["spec"].clone())
    );
}

impl Fixture {
    /// An EHPA with this strategy that has adopted the HPA `mine` of a user.
    async fn adopted(strategy: &str) -> (Self, Value) {
        let mut fixture = Self::new().effective("Auto");
        let first = native(
            "mine",
            &json!({"labels": {"team": "a"}, "annotations": {"team": "a"}}),
        );
        fixture.server.put(NATIVE, &first);
        fixture.pass().await;
        assert_eq!(fixture.native("mine").1["maxReplicas"], 10);
        (fixture.effective(strategy), first)
    }

    /// Checks that the HPA is as the user created it.
    fn check_restored(&self, first: &Value) {
        let (mut metadata, spec) = self.native("mine");
        metadata
            .as_object_mut()
            .expect("metadata")
            .remove("resourceVersion");
        assert_eq!((&metadata, &spec), (&first["metadata"], &first["spec"]));
    }
}

#[tokio::test]
async fn an_adopted_hpa_is_restored_when_the_ehpa_is_deleted() {
    let (mut fixture, first) = Fixture::adopted("Auto").await;
    fixture.server.delete(EFFECTIVE, "php-apache");
    fixture.pass().await;
    fixture.check_restored(&first);
    fixture.pass().await;
    assert_eq!(fixture.server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn an_adopted_hpa_is_restored_in_a_preview_and_for_a_recreated_ehpa() {
    let (mut fixture, first) = Fixture::adopted("Preview").await;
    fixture.pass().await;
    fixture.check_restored(&first);

    let (mut fixture, first) = Fixture::adopted("Auto").await;
    let mut another = effective("Preview");
    another["metadata"]["uid"] = json!("u2");
    fixture.server.put(EFFECTIVE, &another);
    fixture.pass().await;
    fixture.check_restored(&first);
}

#[tokio::test]
async fn an_adopted_hpa_stays_adopted_while_its_ehpa_exists_but_is_invalid() {
    let (mut fixture, _) = Fixture::adopted("Auto").await;
    let adopted = fixture.native("mine");
    let mut view = fixture.server.view();
    view.ehpas = Table::default();
    fixture.pass_over(view).await;
    assert_eq!(fixture.native("mine"), adopted);
}

#[tokio::test]
async fn a_later_hpa_replaces_the_created_one() {
    let mut fixture = Fixture::new().effective("Auto");
    fixture.pass().await;
    fixture.server.put(NATIVE, &native("mine", &json!({})));
    fixture.pass().await;
    assert_eq!(fixture.server.find(NATIVE, "ehpa-php-apache"), None);
    assert_eq!(fixture.native("mine").1["maxReplicas"], 10);
}

#[tokio::test]
async fn an_hpa_that_argo_cd_writes_is_not_adopted() {
    let mut fixture = Fixture::new().effective("Auto");
    let first = native(
        "mine",
        &json!({"managedFields": [{"manager": "argocd-controller"}]}),
    );
    fixture.server.put(NATIVE, &first);
    fixture.pass().await;
    fixture.check_restored(&first);
    assert_eq!(fixture.server.find(NATIVE, "ehpa-php-apache"), None);
}
