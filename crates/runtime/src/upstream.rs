//! The flags that all of upstream's programs have, with their defaults, for the tests that hold ours to them.
//!
//! Source: upstream 1.8 `docs/flags.md` (common flags, leader election), and klog's `InitFlags`.

/// Name and default of each. The name of the Lease is each program's own; `v` is set by the programs, the others after it by klog.
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
