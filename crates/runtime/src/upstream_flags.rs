//! The flags of all of upstream's programs with their defaults, for tests of compatibility.
//!
//! Source: upstream 1.8.1 `docs/flags.md` (common flags, leader election), and klog's `InitFlags`.

use std::fmt::Debug;

use crate::pflag::Program;

/// Names and defaults. The name of the Lease differs per program. The programs set `v`; klog sets
/// the flags after it.
pub const FLAGS: [(&str, &str); 31] = [
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
    ("alsologtostderrthreshold", "0"),
    ("legacy-stderr-threshold-behavior", "true"),
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
    // Three of them in klog's spelling.
    ("log_backtrace_at", ":0"),
    ("log_file_max_size", "1800"),
    ("skip_log_headers", "false"),
];

/// The parsed arguments in debug format.
///
/// # Panics
///
/// If the program rejects the command line.
pub fn shown<A: clap::Parser + Debug>(program: &Program, words: &[String]) -> String {
    let words = std::iter::once(program.name.to_owned()).chain(words.iter().cloned());
    let args: A = program
        .try_parse_from(words)
        .unwrap_or_else(|error| panic!("{error}"));
    format!("{args:?}")
}

/// Checks that a program accepts all flags of its counterpart with upstream's defaults. `own` are
/// the flags that are not common to all programs.
///
/// # Panics
///
/// If a flag is rejected or a default differs.
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
