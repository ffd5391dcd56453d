//! Images of ours: `[registry/]plimsoll/<program>[:tag][@digest]`. A pod with such a container is
//! hosted as local processes; KWOK simulates every other pod.

use k8s_openapi::api::core::v1::Pod;

/// jq expression for a KWOK stage selector: yields `true` for each container whose image is ours.
/// Stages that simulate pods use it as a key with operator `NotIn` and the value `"true"`, so that
/// KWOK leaves hosted pods alone. It accepts exactly the images that [`program_of`] accepts.
pub(crate) const HOSTED_IMAGE_JQ: &str = r#".spec.containers[].image | test("(^|/)plimsoll/[a-z0-9]([a-z0-9._-]*[a-z0-9])?(:[^/@]+)?(@[^/@]+)?$")"#;

/// The repository folder that marks an image as ours.
const OWNER: &str = "plimsoll";

/// The program in an image of ours; `None` for other images.
pub(super) fn program_of(image: &str) -> Option<&str> {
    let (reference, digest) = match image.split_once('@') {
        Some((reference, digest)) => (reference, Some(digest)),
        None => (image, None),
    };
    if digest.is_some_and(|digest| digest.is_empty() || digest.contains(['/', '@'])) {
        return None;
    }
    let (path, last) = reference.rsplit_once('/')?;
    let owner = path.rsplit_once('/').map_or(path, |(_, owner)| owner);
    let (program, tag) = match last.split_once(':') {
        Some((program, tag)) => (program, Some(tag)),
        None => (last, None),
    };
    (owner == OWNER && tag != Some("") && is_program_name(program)).then_some(program)
}

/// Whether a pod has at least one container of ours.
pub(super) fn is_hosted(pod: &Pod) -> bool {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.any(|container| container.image.as_deref().and_then(program_of).is_some())
}

/// Image names are lower case, and neither begin nor end with a separator: such a name is one plain
/// file name.
fn is_program_name(name: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.starts_with(alphanumeric)
        && name.ends_with(alphanumeric)
        && name
            .chars()
            .all(|c| alphanumeric(c) || matches!(c, '.' | '_' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(image: &str, expected: Option<&str>) {
        assert_eq!(program_of(image), expected, "{image}");
    }

    #[test]
    fn the_last_two_path_components_decide() {
        check("plimsoll/recommender", Some("recommender"));
        check("plimsoll/recommender:dev", Some("recommender"));
        check("ghcr.io/plimsoll/recommender:dev", Some("recommender"));
        check(
            "localhost:5000/plimsoll/recommender@sha256:0123",
            Some("recommender"),
        );
        check(
            "localhost:5000/mirror/plimsoll/load-test:1.2@sha256:0123",
            Some("load-test"),
        );
    }

    #[test]
    fn other_images_are_not_ours() {
        check("recommender", None);
        check("recommender:dev", None);
        check("registry.k8s.io/pause:3.10", None);
        check("ghcr.io/plimsoll-fork/recommender", None);
        check("ghcr.io/plimsoll/charts/recommender", None);
        check("ghcr.io/plimsoll/", None);
        check("plimsoll/recommender:", None);
    }

    #[test]
    fn a_program_is_never_a_path() {
        check("plimsoll/..", None);
        check("plimsoll/.hidden", None);
        check("plimsoll/..:dev", None);
    }
}
