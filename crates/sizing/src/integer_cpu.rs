//! Whole cores for containers selected by annotation, for example because they are pinned to cores.
//!
//! Source: upstream `pkg/recommender/routines/cpu_integer_post_processor.go`.

use std::collections::BTreeSet;

/// Annotation that users set on a VPA: upstream's `CONTAINER_integerCPU`, whole cores for this
/// container.
const PREFIX: &str = "vpa-post-processor.kubernetes.io/";
const SUFFIX: &str = "_integerCPU";

/// The containers whose annotation `vpa-post-processor.kubernetes.io/<container>_integerCPU` is
/// `"true"`.
pub fn integer_cpu_containers<'a>(
    annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> BTreeSet<String> {
    let asks = |(key, value): (&'a str, &'a str)| {
        let container = key.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
        (value == "true").then(|| container.to_owned())
    };
    annotations.into_iter().filter_map(asks).collect()
}
