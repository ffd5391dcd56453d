//! VPA objects whose recommendation a test writes, so that no usage decides it.

use anyhow::Result;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{target, with};
use serde_json::{Value, json};

use super::fixture::Fixture;

impl Fixture {
    /// Creates a VPA object of a Deployment that recommends this amount for each container `app`.
    pub(crate) async fn size_to(&self, name: &str, mode: &str, amount: &Value) -> Result<()> {
        self.size_with(name, mode, json!({}), amount).await
    }

    /// The same with these fields of `spec` in addition.
    pub(crate) async fn size_with(
        &self,
        name: &str,
        mode: &str,
        spec: Value,
        amount: &Value,
    ) -> Result<()> {
        let fixed = json!({
            "targetRef": target("Deployment", name),
            "recommenders": [{"name": "e2e"}],
            "updatePolicy": {"updateMode": mode},
        });
        self.create::<Vpa>(json!({"metadata": {"name": name}, "spec": with(fixed, spec)}))
            .await?;
        self.recommend(name, amount).await
    }

    /// Recommends this amount, and no other one is within the bounds.
    pub(crate) async fn recommend(&self, name: &str, amount: &Value) -> Result<()> {
        let container = json!({
            "containerName": "app",
            "target": amount,
            "lowerBound": amount,
            "upperBound": amount,
            "uncappedTarget": amount,
        });
        let status = json!({
            "recommendation": {"containerRecommendations": [container]},
            "conditions": [],
        });
        self.patch_status::<Vpa>(name, &status).await?;
        Ok(())
    }
}
