//! Commands, flags, metrics and objects in the documents exist.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::flags::{CommandHelp, all_commands};
use crate::sources::consists_of;
use crate::{metrics, page, repository};

/// Flags of other programs in the texts, such as KEDA's.
const OTHER_FLAGS: &str = "tests/reference/other-flags.txt";

/// All documents but those of measurements, whose rows are names of policies.
fn documents() -> Vec<PathBuf> {
    let files = repository::files().into_iter();
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .filter(|path| !path.to_string_lossy().starts_with("docs/measurements/"))
        .collect()
}

/// Each block of code with its language, and each piece of code in a sentence with an empty one.
fn codes(text: &str) -> Vec<(String, String)> {
    let (mut found, mut block) = (Vec::new(), None::<(String, String)>);
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            match block.take() {
                Some(ended) => found.push(ended),
                None => block = Some((format!("block {language}"), String::new())),
            }
        } else if let Some((_, code)) = &mut block {
            code.push_str(line);
            code.push('\n');
        } else {
            let pieces = line.split('`').skip(1).step_by(2);
            found.extend(pieces.map(|code| (String::new(), code.to_owned())));
        }
    }
    found
}

/// The code of all documents, with the name of the document for messages.
fn all_codes() -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    for path in documents() {
        let path = path.to_string_lossy().into_owned();
        for (language, code) in codes(&page(&path)) {
            all.push((path.clone(), language, code));
        }
    }
    all
}

/// The commands of a line: its parts between pipes, `&&` and `;`, without the comment, the prompt
/// and the folder of the program.
fn commands_of(line: &str) -> Vec<Vec<String>> {
    let line = line.split(" #").next().unwrap_or_default();
    let line = line.replace("&&", "|").replace("; ", " | ");
    let parts = line.split(" |").map(|part| {
        let words = part
            .split_whitespace()
            .skip_while(|word| *word == "$" || word.contains('=') && !word.starts_with('-'));
        let mut words: Vec<String> = words.map(str::to_owned).collect();
        if let Some(first) = words.first_mut() {
            *first = first.rsplit('/').next().unwrap_or_default().to_owned();
        }
        words
    });
    parts.filter(|words| !words.is_empty()).collect()
}

fn fault(words: &[String], all: &[CommandHelp]) -> Option<String> {
    let command = (1..=words.len())
        .rev()
        .find_map(|count| all.iter().find(|command| command.words == words[..count]));
    let command = command.expect("the program has a help text");
    let rest = &words[command.words.len()..];
    if !command.subcommands.is_empty() && rest.first().is_some_and(|word| !word.starts_with('-')) {
        return Some(format!("there is no command {}", rest[0]));
    }
    let flags = rest
        .iter()
        .filter(|word| word.starts_with("--") && word.len() > 2);
    let names = flags.map(|flag| flag.split('=').next().unwrap_or_default());
    let mut unknown = names.filter(|name| !command.flags.iter().any(|flag| flag.name == *name));
    unknown
        .next()
        .map(|name| format!("{} has no flag {name}", command.words.join(" ")))
}

#[test]
fn each_command_line_of_plimsoll_in_a_document_is_valid() {
    let all = all_commands();
    let mut checked = 0;
    for (path, _, code) in all_codes() {
        // Not the name of a folder in a list.
        for line in code
            .lines()
            .filter(|line| !line.trim_start().contains("  ") || line.contains(" #"))
        {
            for mut words in commands_of(line) {
                if words.len() > 1 && words[0] == "kubectl" && words[1] == "plimsoll" {
                    words.remove(0);
                }
                let is_program = ["plimsoll", "sandbox"].contains(&words[0].as_str());
                if !is_program || words.len() == 1 || words[1].starts_with(['-', '{', '"', '[']) {
                    continue;
                }
                checked += 1;
                let fault = fault(&words, &all);
                assert!(fault.is_none(), "{path}: {}: {fault:?}", words.join(" "));
            }
        }
    }
    assert!(checked > 60, "{checked} command lines");
}

#[test]
fn each_command_line_with_the_bundled_sample_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lines = BTreeSet::new();
    for (_, _, code) in all_codes() {
        for words in code.lines().flat_map(commands_of) {
            let has_sample = words.iter().any(|word| word == "--sample");
            if words[0] == "plimsoll" && has_sample {
                lines.insert(words);
            }
        }
    }
    assert!(!lines.is_empty(), "no document has such a line");
    for words in lines {
        let output = Command::new(e2e::program("plimsoll").expect("a folder of programs"))
            .args(&words[1..])
            .current_dir(&folder)
            .output()
            .expect("the program starts");
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
}

#[test]
fn each_flag_in_a_sentence_exists() {
    let commands = all_commands();
    let flags: BTreeSet<&str> = commands
        .iter()
        .flat_map(|command| &command.flags)
        .map(|flag| flag.name.as_str())
        .collect();
    let other = page(OTHER_FLAGS);
    let other: BTreeSet<&str> = other
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    let mut used = BTreeSet::new();
    for (path, language, code) in all_codes() {
        let Some(name) = code.strip_prefix("--").filter(|_| language.is_empty()) else {
            continue;
        };
        // Groups of flags (`--feed-*`) begin the name of one, and a flag may have a value.
        let name = name.split(['=', ' ', '[']).next().unwrap_or_default();
        let name = format!("--{}", name.trim_end_matches('*').replace('_', "-"));
        let exists = if code.contains('*') {
            flags.iter().any(|flag| flag.starts_with(&name))
        } else {
            flags.contains(name.as_str())
        };
        if !exists {
            assert!(
                other.contains(name.as_str()),
                "{path}: {code} is no flag; one of another program belongs into {OTHER_FLAGS}"
            );
            used.insert(name);
        }
    }
    let unused: Vec<_> = other.iter().filter(|flag| !used.contains(**flag)).collect();
    assert!(
        unused.is_empty(),
        "{OTHER_FLAGS} has flags that no document has: {unused:?}"
    );
}

#[test]
fn each_metric_in_a_document_exists() {
    let names = metrics::names();
    let mut checked = 0;
    for (path, _, code) in all_codes() {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_*".contains(letter);
        for word in code.split(|letter| !is_letter(letter)) {
            let is_metric = metrics::PREFIXES
                .iter()
                .any(|prefix| word.starts_with(prefix));
            if !is_metric || word.contains('*') {
                continue;
            }
            checked += 1;
            let series = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| word.strip_suffix(suffix));
            let exists = names.contains(word) || series.is_some_and(|name| names.contains(name));
            assert!(
                exists || MISSING.contains(&word),
                "{path}: there is no metric {word}"
            );
        }
    }
    assert!(checked > 150, "{checked} metrics");
}

/// Metrics of upstream that the documents name as missing here.
const MISSING: [&str; 1] = ["vpa_resources_get_resources_count"];

#[test]
fn each_target_of_make_in_a_document_exists() {
    let makefile = page("Makefile");
    let mut checked = 0;
    for (path, _, code) in all_codes() {
        for words in code.lines().flat_map(commands_of) {
            let targets = words[1..].iter().filter(|word| !word.contains('='));
            if words[0] != "make" {
                continue;
            }
            for target in targets {
                checked += 1;
                assert!(
                    makefile.contains(&format!("\n{target}:")),
                    "{path}: make {target}"
                );
            }
        }
    }
    assert!(checked > 20, "{checked} targets");
}

#[test]
fn each_path_in_a_command_exists() {
    let mut checked = 0;
    for (path, language, code) in all_codes() {
        let words = code
            .split_whitespace()
            .filter(|_| language.starts_with("block"));
        for word in words.filter(|word| word.starts_with("deploy/") && !word.contains(['*', '<'])) {
            checked += 1;
            assert!(repository::root().join(word).exists(), "{path}: {word}");
        }
    }
    assert!(checked > 10, "{checked} paths");
}

/// The values of the chart in a command or a sentence.
fn names_of_values(code: &str, values: &Value) -> Vec<String> {
    let words: Vec<&str> = code.split_whitespace().collect();
    let flags = ["--set", "--set-string", "--set-file"];
    let pairs = words.windows(2).filter(|pair| flags.contains(&pair[0]));
    let set = pairs.flat_map(|pair| pair[1].split(','));
    let set = set.map(|value| value.split('=').next().unwrap_or_default().to_owned());
    // Names with dots that are no groups of APIs and no files. Parts in capitals stand for others.
    let last = code.rsplit('.').next().unwrap_or_default();
    let is_name = !["io", "json"].contains(&last);
    let parts = code
        .split('.')
        .take_while(|part| consists_of(part, |it| it.is_ascii_alphabetic()));
    let parts = parts.take_while(|part| part.to_uppercase() != **part);
    let parts: Vec<&str> = parts.collect();
    let named =
        (is_name && parts.len() > 1 && values.get(parts[0]).is_some()).then(|| parts.join("."));
    set.chain(named).collect()
}

#[test]
fn each_value_of_the_chart_in_a_document_exists() {
    let values: Value = serde_yaml_ng::from_str(&page("deploy/chart/values.yaml")).expect("values");
    let mut checked = 0;
    for (path, _, code) in all_codes() {
        for name in names_of_values(&code, &values) {
            checked += 1;
            let pointer = format!("/{}", name.replace('.', "/"));
            assert!(
                values.pointer(&pointer).is_some(),
                "{path}: the chart has no value {name}"
            );
        }
    }
    assert!(checked > 20, "{checked} values");
}

fn unknown_fields(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let fields = schema["properties"].as_object();
    match value {
        Value::Array(items) => {
            let items = items.iter();
            items
                .flat_map(|item| unknown_fields(&schema["items"], item, path))
                .collect()
        }
        Value::Object(map) => {
            let each = map.iter().flat_map(|(name, value)| {
                let path = format!("{path}.{name}");
                match fields.map(|fields| fields.get(name)) {
                    Some(Some(schema)) => unknown_fields(schema, value, &path),
                    Some(None) => vec![path],
                    None => Vec::new(),
                }
            });
            each.collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn each_object_in_a_document_has_the_fields_of_its_definition() {
    let files = repository::files().into_iter();
    let definitions: Vec<Value> = files
        .filter(|path| {
            path.starts_with("deploy/chart/files/crds") && !path.ends_with("kustomization.yaml")
        })
        .map(|path| serde_yaml_ng::from_str(&page(&path.to_string_lossy())).expect("a definition"))
        .collect();
    let mut checked = 0;
    for (path, language, code) in all_codes() {
        if language != "block yaml" {
            continue;
        }
        for document in code.split("\n---\n") {
            let parsed = serde_yaml_ng::from_str::<Value>(document);
            let object = parsed.unwrap_or_else(|error| panic!("{path}: {error}:\n{document}"));
            let is_of = |definition: &&Value| definition["spec"]["names"]["kind"] == object["kind"];
            let Some(definition) = definitions.iter().find(is_of) else {
                continue;
            };
            checked += 1;
            let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let unknown = unknown_fields(&schema["properties"]["spec"], &object["spec"], "spec");
            assert!(
                unknown.is_empty(),
                "{path}: {} has no {unknown:?}",
                object["kind"]
            );
        }
    }
    assert!(checked > 3, "{checked} objects");
}
