//! Content of a checkpoint object, as a new object and as a patch.

use std::collections::BTreeMap;

use api::checkpoint::{
    SIZING_HISTORY, VerticalPodAutoscalerCheckpoint, VerticalPodAutoscalerCheckpointSpec,
    VerticalPodAutoscalerCheckpointStatus, status_patch,
};
use api::patch::put_status;
use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch, PatchOperation, TestOperation};

#[derive(Clone, Debug, Default)]
pub struct CheckpointContent {
    /// The VPA object and the container.
    pub spec: VerticalPodAutoscalerCheckpointSpec,
    /// The histograms.
    pub status: VerticalPodAutoscalerCheckpointStatus,
    /// History of the sizing method, as text.
    pub history: Option<String>,
    /// Operations that bring that history into the existing object.
    pub operations: Vec<PatchOperation>,
}

impl CheckpointContent {
    pub fn object(&self, name: &str) -> VerticalPodAutoscalerCheckpoint {
        let mut object = VerticalPodAutoscalerCheckpoint::new(name, self.spec.clone());
        object.status = Some(self.status.clone());
        let annotation =
            |text: &String| BTreeMap::from([(SIZING_HISTORY.to_owned(), text.clone())]);
        object.metadata.annotations = self.history.as_ref().map(annotation);
        object
    }

    /// The patch of the existing object; `has_status`: whether it has a status. The patch fails if
    /// the object belongs to another container: `a-b` and `c` make the same name as `a` and `b-c`.
    pub fn patch(&self, has_status: bool) -> Result<Patch, serde_json::Error> {
        let status = if has_status {
            status_patch(&self.status)?
        } else {
            put_status(&self.status)?
        };
        let tests = [
            ("vpaObjectName", &self.spec.vpa_object_name),
            ("containerName", &self.spec.container_name),
        ]
        .map(|(field, value)| {
            PatchOperation::Test(TestOperation {
                path: PointerBuf::from_tokens(["spec", field]),
                value: value.as_str().into(),
            })
        });
        let operations = status.0.into_iter().chain(self.operations.iter().cloned());
        Ok(Patch(tests.into_iter().chain(operations).collect()))
    }
}
