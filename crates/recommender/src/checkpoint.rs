//! Checkpoints: one `VerticalPodAutoscalerCheckpoint` object per container of each VPA object.

pub(crate) mod keep;
