use super::*;

#[test]
fn kubernetes_gets_its_own_version() {
    let flags = CONTROL_PLANE.linker_flags();
    let version = required_version(CONTROL_PLANE.go_mod, "k8s.io/kubernetes").unwrap();
    assert!(
        flags.contains(&format!("client-go/pkg/version.gitVersion={version}")),
        "{flags}"
    );
    assert!(flags.contains(".gitMajor=1 "), "{flags}");
}

#[test]
fn the_oldest_kubernetes_says_so_and_its_staging_modules_are_of_its_release() {
    let oldest = OLDEST_KUBERNETES.kubernetes().unwrap();
    assert_eq!((oldest.major, oldest.minor), (1, 33));
    assert!(
        OLDEST_KUBERNETES.linker_flags().contains(".gitMinor=33"),
        "{}",
        OLDEST_KUBERNETES.linker_flags()
    );
    let lines = OLDEST_KUBERNETES.go_mod.lines();
    let replaced: Vec<&str> = lines.filter(|line| line.contains(" => ")).collect();
    let staged = required_version(OLDEST_KUBERNETES.go_mod, KUBERNETES).unwrap();
    let staged = staged.replacen("v1.", "v0.", 1);
    assert!(replaced.len() > 30, "{replaced:?}");
    for line in replaced {
        assert!(line.ends_with(&staged), "{line}");
    }
}

#[test]
fn programs_are_the_tools_of_the_go_mod() {
    for module in [
        CONTROL_PLANE,
        NODE,
        CONTAINER_RUNTIME,
        NODES_AND_METRICS,
        OLDEST_KUBERNETES,
        PROMETHEUS,
    ] {
        for program in module.programs {
            let line = |line: &str| line.trim_start_matches("tool").trim() == program.package;
            assert!(module.go_mod.lines().any(line), "{}", program.package);
            assert!(!module.releases(program).is_empty(), "{}", program.name);
        }
    }
    assert_eq!(CONTROL_PLANE.programs[0].built_name(), "server");
    assert_eq!(CONTROL_PLANE.programs[1].built_name(), "kube-apiserver");
}

#[test]
fn a_prometheus_release_follows_from_the_version_of_its_go_module() {
    let releases = PROMETHEUS.releases(&PROMETHEUS.programs[0]);
    assert_eq!(releases.len(), 1);
    assert_eq!(releases[0].major, 3, "{}", releases[0]);
}

#[test]
fn another_pin_is_another_folder() {
    let other = Module {
        go_sum: "",
        ..CONTROL_PLANE
    };
    assert_ne!(other.folder(), CONTROL_PLANE.folder());
    let hash = CONTROL_PLANE.folder();
    let hash = hash.strip_prefix("control-plane-").unwrap();
    assert_eq!(hash.len(), 16, "{hash}");
}
