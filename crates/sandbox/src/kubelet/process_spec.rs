//! The local process of a container: program, arguments, environment and working folder.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;

use super::WaitingReason;
use super::environment::{Environment, expand};
use super::image::program_of;
use super::mounts::{Mount, rewrite_argument, rewrite_path};

/// Mount path of a pod's `ServiceAccount` in every container that may use it.
pub(super) const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessSpec {
    pub(super) program: PathBuf,
    /// Arguments, expanded and rewritten.
    pub(super) arguments: Vec<String>,
    /// Complete environment: nothing is inherited.
    pub(super) environment: Environment,
    /// Working folder below the container's own, unless it is in a volume.
    pub(super) working_folder: PathBuf,
    mounts: Vec<Mount>,
}

/// Folders and files that a launch refers to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folders<'a> {
    /// Folder of our programs.
    pub(super) binaries: &'a Path,
    /// Local folder for the container's `/`.
    pub(super) root: &'a Path,
    pub(super) kubeconfig: &'a Path,
}

impl ProcessSpec {
    /// The process of this container; `None` when its image is not ours.
    pub(super) fn of(
        container: &Container,
        environment: &Environment,
        mounts: Vec<Mount>,
        folders: Folders<'_>,
    ) -> Result<Option<Self>, WaitingReason> {
        let Some(program) = container.image.as_deref().and_then(program_of) else {
            return Ok(None);
        };
        let mut environment = environment.clone();
        if mounts.iter().any(|mount| mount.inside == SERVICE_ACCOUNT) {
            environment
                .entry("KUBECONFIG".to_owned())
                .or_insert_with(|| folders.kubeconfig.display().to_string());
        }
        let mut command = container
            .command
            .iter()
            .flatten()
            .map(|word| expand(word, &environment));
        if let Some(entry) = command.next() {
            check_entry(&entry, program)?;
        }
        let arguments = container
            .args
            .iter()
            .flatten()
            .map(|word| expand(word, &environment));
        let arguments = command
            .chain(arguments)
            .map(|word| rewrite_argument(&word, &mounts))
            .collect();
        let environment: Environment = environment
            .iter()
            .map(|(name, value)| (name.clone(), rewrite_path(value, &mounts)))
            .collect();
        let inside = container.working_dir.as_deref().unwrap_or("/");
        Ok(Some(Self {
            program: folders.binaries.join(program),
            arguments,
            environment,
            working_folder: working_folder(inside, &mounts, folders.root),
            mounts,
        }))
    }

    /// Arguments of another command of the container, which must be in its image.
    pub(super) fn arguments_of(&self, command: &[String]) -> Result<Vec<String>, WaitingReason> {
        let program = self.program.file_name().unwrap_or_default();
        let (entry, arguments) = match command {
            [entry, arguments @ ..] => (entry.as_str(), arguments),
            [] => ("", command),
        };
        check_entry(entry, &program.to_string_lossy())?;
        let rewritten = |word: &String| rewrite_argument(word, &self.mounts);
        Ok(arguments.iter().map(rewritten).collect())
    }
}

/// Checks an entry point: our images contain one program each, so a command or an exec probe can
/// start only that.
fn check_entry(entry: &str, program: &str) -> Result<(), WaitingReason> {
    if Path::new(entry)
        .file_name()
        .is_some_and(|name| name == program)
    {
        Ok(())
    } else {
        Err(WaitingReason::run(format!(
            "exec: {entry:?}: the image contains only {program:?}"
        )))
    }
}

fn working_folder(inside: &str, mounts: &[Mount], root: &Path) -> PathBuf {
    let rewritten = rewrite_path(inside, mounts);
    if rewritten == inside {
        root.join(inside.trim_start_matches('/'))
    } else {
        PathBuf::from(rewritten)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn launch(
        fields: &Value,
        mounts: &[(&str, &str)],
    ) -> Result<Option<ProcessSpec>, WaitingReason> {
        let mut object = json!({"name": "c", "image": "plimsoll/recommender:dev"});
        json_patch::merge(&mut object, fields);
        let container: Container = serde_json::from_value(object).unwrap();
        let mounts: Vec<Mount> = mounts
            .iter()
            .map(|(inside, local)| Mount {
                inside: (*inside).to_owned(),
                local: local.into(),
            })
            .collect();
        let folders = Folders {
            binaries: Path::new("/bin"),
            root: Path::new("/pod/c"),
            kubeconfig: Path::new("/pod/kubeconfig"),
        };
        let environment = [("NAME", "web"), ("CERT", "/certs/tls.crt")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        ProcessSpec::of(&container, &environment.into(), mounts, folders)
    }

    #[track_caller]
    fn check(fields: &Value, arguments: &[&str]) {
        let launch = launch(fields, &[("/certs", "/pod/tls")]).unwrap().unwrap();
        assert_eq!(launch.program, Path::new("/bin/recommender"));
        assert_eq!(launch.arguments, arguments);
    }

    #[test]
    fn arguments_follow_the_command() {
        check(&json!({}), &[]);
        check(
            &json!({"args": ["--name=$(NAME)", "--cert=$(CERT)"]}),
            &["--name=web", "--cert=/pod/tls/tls.crt"],
        );
        check(
            &json!({"command": ["/recommender", "run"], "args": ["now"]}),
            &["run", "now"],
        );
        check(&json!({"command": ["recommender"]}), &[]);
    }

    #[test]
    fn only_the_images_own_program_can_start() {
        assert_eq!(
            launch(&json!({"command": ["sh", "-c", "true"]}), &[])
                .unwrap_err()
                .reason,
            "RunContainerError"
        );
        assert_eq!(
            launch(&json!({"image": "registry.k8s.io/pause"}), &[]),
            Ok(None)
        );
    }

    #[test]
    fn values_that_are_paths_move_with_their_volume() {
        let launch = launch(&json!({}), &[("/certs", "/pod/tls")])
            .unwrap()
            .unwrap();
        assert_eq!(launch.environment["CERT"], "/pod/tls/tls.crt");
        assert_eq!(launch.environment.get("KUBECONFIG"), None);
    }

    #[test]
    fn a_service_account_comes_as_a_kubeconfig() {
        let launch = launch(&json!({}), &[(SERVICE_ACCOUNT, "/pod/token")])
            .unwrap()
            .unwrap();
        assert_eq!(launch.environment["KUBECONFIG"], "/pod/kubeconfig");
    }

    #[test]
    fn the_working_folder_never_leaves_the_pod() {
        let folder = |inside: &str| {
            launch(&json!({"workingDir": inside}), &[("/data", "/pod/data")])
                .unwrap()
                .unwrap()
                .working_folder
        };
        assert_eq!(folder("/"), Path::new("/pod/c"));
        assert_eq!(folder("/srv/x"), Path::new("/pod/c/srv/x"));
        assert_eq!(folder("/data/x"), Path::new("/pod/data/x"));
    }
}
