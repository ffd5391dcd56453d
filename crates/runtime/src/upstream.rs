//! The flags that all of upstream's programs have, with their defaults, for the tests that hold
//! ours to them.
//!
//! Source: upstream 1.8 `docs/flags.md` (common flags, leader election), and klog's `InitFlags`.

use std::fmt::Debug;

use crate::flags::Program;
use crate::ignored_flags;

/// Name and default of each. The name of the Lease is each program's own; `v` is set by the
/// programs, the others after it by klog.
pub const FLAGS: [(&str, &str); 30] = [
    ("kubeconfig", ""),
    ("kube-api-qps", "50"),
    ("kube-api-burst", "100"),
    ("profiling", "false"),
    ("vpa-object-namespace", ""),
    ("ignored-vpa-object-namespaces", ""),
    ("feature-gates", ""),
    ("leader-elect", "false"),
    ("leader-elect-lease-duration", "15s"),
    ("leader-elect-renew-deadline", "10s"),
    ("leader-elect-retry-period", "2s"),
    ("leader-elect-resource-lock", "leases"),
    ("leader-elect-resource-namespace", "kube-system"),
    ("v", "4"),
    ("add-dir-header", "false"),
    ("alsologtostderr", "false"),
    ("legacy-stderr-threshold-behavior", "false"),
    ("log-backtrace-at", ":0"),
    ("log-dir", ""),
    ("log-file", ""),
    ("log-file-max-size", "1800"),
    ("logtostderr", "true"),
    ("one-output", "false"),
    ("skip-headers", "false"),
    ("skip-log-headers", "false"),
    ("stderrthreshold", "0"),
    ("vmodule", ""),
    // Three of them as klog spells them.
    ("log_backtrace_at", ":0"),
    ("log_file_max_size", "1800"),
    ("skip_log_headers", "false"),
];

/// The arguments as the program understands a command line.
///
/// # Panics
///
/// When the program does not take it.
pub fn shown<A: clap::Parser + Debug>(program: &Program, words: &[String]) -> String {
    let words = std::iter::once(program.name.to_owned()).chain(words.iter().cloned());
    let args: A = program
        .try_parse_from(words)
        .unwrap_or_else(|error| panic!("{error}"));
    format!("{args:?}")
}

/// Holds a program to all flags of its counterpart, of which `own` are those that not all programs
/// have: it takes each one, and its own default is upstream's.
///
/// # Panics
///
/// When it does not.
pub fn check_defaults<A: clap::Parser + Debug>(program: &Program, own: &[(&str, &str)]) {
    let nothing = shown::<A>(program, &[]);
    let flags = own.iter().copied().chain(FLAGS);
    let words: Vec<String> = flags
        .map(|(flag, default)| format!("--{flag}={default}"))
        .collect();
    for word in &words {
        assert_eq!(
            shown::<A>(program, std::slice::from_ref(word)),
            nothing,
            "{word}"
        );
    }
    assert_eq!(shown::<A>(program, &words), nothing);
}

/// Holds a program's README to naming every flag without effect.
///
/// # Panics
///
/// When it does not.
pub fn check_readme(readme: &str) {
    for flag in ignored_flags::FLAGS {
        assert!(
            readme.contains(&format!("`--{}`", flag.name)),
            "--{}",
            flag.name
        );
    }
}
