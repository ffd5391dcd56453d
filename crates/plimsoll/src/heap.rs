//! Programs that size their heap themselves: what a change of the memory limit does to it.
//!
//! | runtime | found by | heap |
//! |---|---|---|
//! | JVM | command, image, `JAVA_TOOL_OPTIONS` | `-Xmx`, or `-XX:MaxRAMPercentage` of the limit, 25 % by default |
//! | Go | `GOMEMLIMIT` | that |
//! | Node.js | `--max-old-space-size` | that |
//! | .NET | image, `DOTNET_GCHeapHardLimit` | that, or 75 % of the limit by default |

use k8s_openapi::api::core::v1::Container;
use model::{Memory, Quantity};

/// Variables with options of the JVM and of Node.js.
const OPTIONS: [&str; 4] = [
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "JAVA_OPTS",
    "NODE_OPTIONS",
];
/// Parts of names of images that run a JVM.
const JAVA_IMAGES: [&str; 7] = [
    "openjdk", "temurin", "corretto", "zulu", "java", "jdk", "jre",
];
const DOTNET_IMAGES: [&str; 2] = ["dotnet", "aspnet"];

/// The bound of a heap.
#[derive(Debug, PartialEq)]
enum Bound {
    /// The option that sets an amount, as written.
    Fixed(String),
    /// A percentage of the container's memory limit, and the option that says so.
    Share(f64, String),
}

/// The bound of the heap of a container's program in words; `None` if no runtime is found.
pub(crate) fn bound(container: &Container) -> Option<String> {
    let (runtime, bound) = heap(container)?;
    Some(match bound {
        Bound::Fixed(by) => format!("the heap of {runtime} stays at {by}"),
        Bound::Share(percent, by) => {
            let limit = memory_limit(container);
            let now = limit.map(|limit| {
                let heap = Memory::from_bytes((limit.bytes() as f64 * percent / 100.0) as i64);
                format!(", now {}", Quantity::from(heap))
            });
            let now = now.unwrap_or_default();
            format!("the heap of {runtime} grows to {percent} % of the memory limit ({by}){now}")
        }
    })
}

/// A sentence about it, with what a change of the limit does.
pub(crate) fn note(container: &Container) -> Option<String> {
    let effect = match heap(container)?.1 {
        Bound::Fixed(_) => {
            ", whatever the memory limit is: more than it needs is not used, and a limit below it \
             kills the program"
        }
        Bound::Share(..) => {
            ": it changes with the limit at the next start, and usage follows the limit more than \
             the need"
        }
    };
    Some(format!(
        "Container {}: {}{effect}.",
        container.name,
        bound(container)?
    ))
}

fn heap(container: &Container) -> Option<(&'static str, Bound)> {
    let command = container.command.iter().chain(&container.args).flatten();
    let command: Vec<&str> = command.map(String::as_str).collect();
    let variable = |name: &str| {
        let mut all = container.env.iter().flatten();
        all.find(|it| it.name == name)?.value.as_deref()
    };
    let variables = OPTIONS.iter().filter_map(|name| variable(name));
    let options = variables.chain(command.iter().copied());
    let options: Vec<&str> = options.flat_map(str::split_whitespace).collect();
    let option = |prefix: &str| {
        let found = options.iter().rev().find_map(|it| it.strip_prefix(prefix));
        found.map(|value| (value, format!("{prefix}{value}")))
    };
    let is_image = |parts: &[&str]| {
        let image = container.image.as_deref().unwrap_or_default();
        let mut names = image.split(['/', ':', '-', '_', '@']);
        names.any(|name| parts.contains(&name))
    };
    if let Some(value) = variable("GOMEMLIMIT") {
        return Some(("Go", Bound::Fixed(format!("GOMEMLIMIT={value}"))));
    }
    if let Some((_, by)) = option("--max-old-space-size=") {
        return Some(("Node.js", Bound::Fixed(by)));
    }
    let runs_java = command
        .iter()
        .any(|it| it.rsplit('/').next() == Some("java"));
    let has_options = OPTIONS[..3].iter().any(|name| variable(name).is_some());
    if runs_java || has_options || is_image(&JAVA_IMAGES) {
        let share = |(value, by): (&str, String)| Some(Bound::Share(value.parse().ok()?, by));
        let bound = option("-Xmx").map(|(_, by)| Bound::Fixed(by));
        let bound = bound.or_else(|| option("-XX:MaxRAMPercentage=").and_then(share));
        let default = || Bound::Share(25.0, "the default".to_owned());
        return Some(("the JVM", bound.unwrap_or_else(default)));
    }
    if let Some(value) = variable("DOTNET_GCHeapHardLimit") {
        let by = format!("DOTNET_GCHeapHardLimit={value}");
        return Some((".NET", Bound::Fixed(by)));
    }
    is_image(&DOTNET_IMAGES).then(|| (".NET", Bound::Share(75.0, "the default".to_owned())))
}

fn memory_limit(container: &Container) -> Option<Memory> {
    let limits = container.resources.as_ref()?.limits.as_ref()?;
    let limit: Quantity = limits.get("memory")?.0.parse().ok()?;
    Some(Memory::from(&limit))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fixed(by: &str) -> Bound {
        Bound::Fixed(by.to_owned())
    }

    #[test]
    fn runtimes_are_found_by_command_image_and_environment() {
        let env = |name: &str, value: &str| json!({"env": [{"name": name, "value": value}]});
        let jvm = |bound| Some(("the JVM", bound));
        let default = || jvm(Bound::Share(25.0, "the default".to_owned()));
        let share = "-XX:MaxRAMPercentage=75.0";
        let node = "--max-old-space-size=512";
        let cases = [
            (json!({}), None),
            (json!({"image": "docker.io/library/nginx:1"}), None),
            (json!({"image": "eclipse-temurin:21-jre"}), default()),
            (
                json!({"command": ["/usr/bin/java", "-jar", "a.jar"]}),
                default(),
            ),
            (
                json!({"command": ["java"], "args": ["-Xms1g", "-Xmx2g", "-jar", "a.jar"]}),
                jvm(fixed("-Xmx2g")),
            ),
            (
                env("JAVA_TOOL_OPTIONS", &format!("-Da=b {share}")),
                jvm(Bound::Share(75.0, share.to_owned())),
            ),
            (env("JAVA_OPTS", "-XX:MaxRAMPercentage=most"), default()),
            (
                env("GOMEMLIMIT", "1GiB"),
                Some(("Go", fixed("GOMEMLIMIT=1GiB"))),
            ),
            (env("NODE_OPTIONS", node), Some(("Node.js", fixed(node)))),
            (
                json!({"image": "mcr.microsoft.com/dotnet/aspnet:8.0"}),
                Some((".NET", Bound::Share(75.0, "the default".to_owned()))),
            ),
        ];
        for (mut fields, expected) in cases {
            fields["name"] = json!("app");
            let container = serde_json::from_value(fields.clone()).expect("a container");
            assert_eq!(heap(&container), expected, "{fields}");
        }
    }

    #[test]
    fn the_present_heap_is_a_share_of_the_limit() {
        let container = json!({
            "name": "app", "command": ["java"], "resources": {"limits": {"memory": "1Gi"}},
        });
        let container = serde_json::from_value(container).expect("a container");
        let found = note(&container).expect("a note");
        assert!(
            found.contains("25 % of the memory limit (the default), now 256Mi:"),
            "{found}"
        );
    }
}
