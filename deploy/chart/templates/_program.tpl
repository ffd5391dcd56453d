{{/* The name of a program's ServiceAccount. Takes the root and the program. */}}
{{- define "plimsoll.accountName" -}}
{{- $root := index . 0 -}}
{{- $program := index . 1 -}}
{{- $account := (index $root.Values $program).serviceAccount -}}
{{- if not (or $account.create $account.name) -}}
{{- fail (printf "%s.serviceAccount.create=false needs %s.serviceAccount.name" $program $program) -}}
{{- end -}}
{{ default (printf "plimsoll-%s" $program) $account.name }}
{{- end }}

{{/* The ServiceAccount of a program. Takes the root, the program and its folder. */}}
{{- define "plimsoll.account" -}}
{{- $root := index . 0 -}}
{{- $values := (index $root.Values (index . 1)).serviceAccount -}}
{{- if $values.create -}}
{{- $file := printf "%s/service-account.yaml" (index . 2) -}}
{{- $account := fromYaml (include "plimsoll.text" (list $root $file)) -}}
{{- $_ := set $account.metadata "name" (include "plimsoll.accountName" .) -}}
{{- with $values.annotations }}{{ $_ := set $account.metadata "annotations" . }}{{ end -}}
{{- if not $values.automount }}{{ $_ := set $account "automountServiceAccountToken" false }}{{ end -}}
{{ include "plimsoll.object" (list $root $account) }}
{{- end -}}
{{- end }}

{{/* The Deployment of a program, and its disruption budget. Takes a dict: root, program, folder,
args, and optionally env, volumes, volumeMounts, withoutArgs, annotations of the pods, image, scheme of
probes, and shard. */}}
{{- define "plimsoll.program" -}}
{{- $root := .root -}}
{{- $values := index $root.Values .program -}}
{{ include "plimsoll.deployment" . }}
{{- if $values.disruptionBudget.enabled }}
{{- $budget := fromYaml (include "plimsoll.text" (list $root (printf "%s/disruption-budget.yaml" .folder))) }}
{{- $_ := set $budget.spec "maxUnavailable" $values.disruptionBudget.maxUnavailable }}
{{- with $values.disruptionBudget.unhealthyPodEvictionPolicy }}
{{- $_ := set $budget.spec "unhealthyPodEvictionPolicy" . }}
{{- end }}
{{- with .shard }}
{{- $_ := set $budget.metadata "name" (printf "%s-%s" $budget.metadata.name .) }}
{{- $_ := set $budget.metadata.labels "plimsoll.dev/shard" . }}
{{- $_ := set $budget.spec.selector.matchLabels "plimsoll.dev/shard" . }}
{{- end }}
{{ include "plimsoll.object" (list $root $budget) }}
{{- end }}
{{- end }}

{{/* Flags of all programs. */}}
{{- define "plimsoll.globalFlags" -}}
{{- with .Values.global.kubeApiQps }}
- --kube-api-qps={{ . }}
{{- end }}
{{- with .Values.global.kubeApiBurst }}
- --kube-api-burst={{ int . }}
{{- end }}
{{- if ne .Values.global.logLevel nil }}
- --v={{ .Values.global.logLevel }}
{{- end }}
{{- with .Values.global.logFormat }}
- --log-format={{ . }}
{{- end }}
{{- end }}

{{/* Flags of recommender, updater and webhook. */}}
{{- define "plimsoll.vpaFlags" -}}
{{- with .Values.watchNamespace }}
- --vpa-object-namespace={{ . }}
{{- end }}
{{- if ne .Values.otherAutoscalers "hold" }}
{{ include "plimsoll.settings" (dict "otherAutoscalers" .Values.otherAutoscalers) }}
{{- end }}
{{- with .Values.featureGates }}
- --feature-gates={{ . }}
{{- end }}
{{- end }}

{{/* Settings as flags, one for each. Takes a dict of them. */}}
{{- define "plimsoll.settings" -}}
{{- range $name, $value := . }}
{{ list (dict $name $value | toRawJson | printf "--config=%s") | toYaml }}
{{- end }}
{{- end }}

{{/* Flags of programs with a leader. */}}
{{- define "plimsoll.leaderFlags" -}}
{{- with .Values.leaderElection.namespace }}
- --leader-elect-resource-namespace={{ . }}
{{- end }}
{{- with .Values.leaderElection }}
{{- with .leaseDuration }}
- --leader-elect-lease-duration={{ . }}
{{- end }}
{{- with .renewDeadline }}
- --leader-elect-renew-deadline={{ . }}
{{- end }}
{{- with .retryPeriod }}
- --leader-elect-retry-period={{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Settings of the readers of the recommender's feed, as flags. */}}
{{- define "plimsoll.feedFlags" -}}
{{- with .Values.leaderElection.namespace }}
{{ include "plimsoll.settings" (dict "feed" (dict "leaseNamespace" .)) }}
{{- end }}
{{- if gt (int .Values.recommender.shards) 1 }}
{{ include "plimsoll.settings" (dict "feed" (dict "shards" (int .Values.recommender.shards))) }}
{{- end }}
{{- end }}

{{/* Environment of a program that reads Prometheus. Takes the root and the prefix of its variables. */}}
{{- define "plimsoll.prometheusVariables" -}}
{{- $root := index . 0 -}}
{{- $prefix := index . 1 -}}
{{- $prometheus := $root.Values.prometheus -}}
{{- if ne (empty $prometheus.username) (empty $prometheus.passwordKey) -}}
{{- fail "prometheus.username and prometheus.passwordKey need each other" -}}
{{- end -}}
- name: {{ $prefix }}_PROMETHEUS_ADDRESS
  value: {{ $prometheus.address | quote }}
{{- with $prometheus.username }}
- name: {{ $prefix }}_USERNAME
  value: {{ . | quote }}
{{- end }}
{{- range $value, $variable := dict "caKey" "PROMETHEUS_CA_FILE" "tokenKey" "PROMETHEUS_BEARER_TOKEN_FILE"
      "passwordKey" "PASSWORD_FILE" "certificateKey" "PROMETHEUS_CLIENT_CERT_FILE"
      "privateKeyKey" "PROMETHEUS_CLIENT_KEY_FILE" }}
{{- with index $prometheus $value }}
{{- if not $prometheus.secretName }}
{{- fail (printf "prometheus.%s needs prometheus.secretName" $value) }}
{{- end }}
- name: {{ $prefix }}_{{ $variable }}
  value: /etc/plimsoll/prometheus/{{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Headers of requests to Prometheus, as flags. */}}
{{- define "plimsoll.prometheusFlags" -}}
{{- range $name, $value := .Values.prometheus.headers }}
- {{ printf "--prometheus-header=%s=%s" $name $value | quote }}
{{- end }}
{{- with .Values.prometheus.matchers }}
- {{ printf "--prometheus-matchers=%s" . | quote }}
{{- end }}
{{- end }}

{{/* The setting `prometheus` of a program, by the values of that name. */}}
{{- define "plimsoll.prometheusSetting" -}}
{{- $values := .Values.prometheus -}}
{{- $setting := dict -}}
{{- $tls := dict -}}
{{- $file := "/etc/plimsoll/prometheus/%s" -}}
{{- with $values.address }}{{ $_ := set $setting "address" . }}{{ end }}
{{- with $values.matchers }}{{ $_ := set $setting "matchers" . }}{{ end }}
{{- with $values.tokenKey }}{{ $_ := set $setting "authorization" (dict "credentialsFile" (printf $file .)) }}{{ end }}
{{- with $values.passwordKey }}
{{- $_ := set $setting "basicAuth" (dict "username" $values.username "passwordFile" (printf $file .)) }}
{{- end }}
{{- with $values.caKey }}{{ $_ := set $tls "caFile" (printf $file .) }}{{ end }}
{{- with $values.certificateKey }}{{ $_ := set $tls "certFile" (printf $file .) }}{{ end }}
{{- with $values.privateKeyKey }}{{ $_ := set $tls "keyFile" (printf $file .) }}{{ end }}
{{- with $tls }}{{ $_ := set $setting "tlsConfig" . }}{{ end }}
{{- $headers := dict -}}
{{- range $name, $value := $values.headers }}{{ $_ := set $headers $name (dict "values" (list $value)) }}{{ end }}
{{- with $headers }}{{ $_ := set $setting "httpHeaders" . }}{{ end }}
{{- toYaml $setting }}
{{- end }}

{{- define "plimsoll.prometheusVolumes" -}}
{{- with .Values.prometheus.secretName }}
- name: prometheus
  secret:
    secretName: {{ . }}
{{- end }}
{{- end }}

{{- define "plimsoll.prometheusMounts" -}}
{{- if .Values.prometheus.secretName }}
- name: prometheus
  mountPath: /etc/plimsoll/prometheus
  readOnly: true
{{- end }}
{{- end }}

{{/* Reference of an image. Takes the root, the program and the image. */}}
{{- define "plimsoll.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 2 -}}
{{- $name := default (printf "%s/%s" $root.Values.global.imageRegistry (index . 1)) $image.repository -}}
{{- if $image.digest -}}
{{ $name }}@{{ $image.digest }}
{{- else -}}
{{ $name }}:{{ default $root.Chart.AppVersion $image.tag }}
{{- end -}}
{{- end }}

{{/* The security context of a pod, with the user of the values. Takes the root and the context. */}}
{{- define "plimsoll.podSecurity" -}}
{{- $user := (index . 0).Values.global.runAsUser -}}
{{- $context := omit (index . 1) "runAsUser" "runAsGroup" -}}
{{- if ne $user nil -}}
{{- $context = merge $context (dict "runAsUser" (int $user) "runAsGroup" (int $user)) -}}
{{- end -}}
{{ toYaml $context }}
{{- end }}

{{/* The nodes of a pod, its priority and its pull secrets. Takes the root and the values of the pod, which come before
the global ones. */}}
{{- define "plimsoll.nodes" -}}
{{- $global := (index . 0).Values.global -}}
{{- $pod := index . 1 -}}
{{- $fields := pick $global "imagePullSecrets" -}}
{{- range $field := list "nodeSelector" "affinity" "tolerations" "priorityClassName" -}}
{{- $_ := set $fields $field (default (index $global $field) (index $pod $field)) -}}
{{- end -}}
{{- range $field, $value := $fields -}}
{{- with $value }}
{{ toYaml (dict $field .) }}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "plimsoll.deployment" -}}
{{- $root := .root -}}
{{- $values := index $root.Values .program -}}
{{- $pod := $values.pod -}}
{{- $deployment := fromYaml (include "plimsoll.text" (list $root (printf "%s/deployment.yaml" .folder))) -}}
{{- $spec := $deployment.spec -}}
{{- if hasKey $values "replicas" }}{{ $_ := set $spec "replicas" (int $values.replicas) }}{{ end -}}
{{- if $pod.hostNetwork -}}
{{- /* A node has each port once: a new pod waits for the end of an old one. */ -}}
{{- $_ := set $spec "strategy" (dict "rollingUpdate" (dict "maxUnavailable" 1 "maxSurge" 0)) -}}
{{- $_ := set $spec.template.spec "dnsPolicy" "ClusterFirstWithHostNet" -}}
{{- end -}}
{{- with $values.updateStrategy }}{{ $_ := set $spec "strategy" . }}{{ end -}}
{{- if ne $values.revisionHistoryLimit nil -}}
{{- $_ := set $spec "revisionHistoryLimit" (int $values.revisionHistoryLimit) -}}
{{- end -}}
{{- $metadata := $spec.template.metadata -}}
{{- $_ := set $metadata "labels" (merge (deepCopy $metadata.labels) $pod.labels $root.Values.global.labels) -}}
{{- $_ := set $metadata "annotations" (merge (deepCopy $metadata.annotations) (default dict .annotations) $pod.annotations $root.Values.global.annotations) -}}
{{- with .shard -}}
{{- $_ := set $deployment.metadata "name" (printf "%s-%s" $deployment.metadata.name .) -}}
{{- range list $deployment.metadata.labels $spec.selector.matchLabels $metadata.labels -}}
{{- $_ := set . "plimsoll.dev/shard" $.shard -}}
{{- end -}}
{{- range $spec.template.spec.topologySpreadConstraints -}}
{{- $_ := set .labelSelector.matchLabels "plimsoll.dev/shard" $.shard -}}
{{- end -}}
{{- end -}}
{{- $podSpec := $spec.template.spec -}}
{{- $account := include "plimsoll.accountName" (list $root .program) -}}
{{- $_ := set $podSpec "serviceAccountName" $account -}}
{{- if not $values.serviceAccount.automount -}}
{{- $_ := set $podSpec "automountServiceAccountToken" true -}}
{{- end -}}
{{- $_ := merge $podSpec (include "plimsoll.nodes" (list $root $pod) | fromYaml) -}}
{{- range $field := list "topologySpreadConstraints" "hostNetwork" -}}
{{- with index $pod $field }}{{ $_ := set $podSpec $field . }}{{ end -}}
{{- end -}}
{{- if ne $pod.terminationGracePeriodSeconds nil -}}
{{- $_ := set $podSpec "terminationGracePeriodSeconds" (int $pod.terminationGracePeriodSeconds) -}}
{{- end -}}
{{- $_ := set $podSpec "securityContext" (mergeOverwrite (include "plimsoll.podSecurity" (list $root $podSpec.securityContext) | fromYaml) $pod.securityContext) -}}
{{- with concat (default list .volumes) $pod.extraVolumes -}}
{{- $_ := set $podSpec "volumes" (concat (default list $podSpec.volumes) .) -}}
{{- end -}}
{{- if eq $root.Values.certificates.mode "existing" -}}
{{- range $volume := $podSpec.volumes -}}
{{- if eq $volume.name "feed-tls" -}}
{{- $_ := set $volume.secret "secretName" (index $root.Values.certificates.secrets.feed $.program) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $container := first $podSpec.containers -}}
{{- $_ := set $container "image" (include "plimsoll.image" (list $root (default .program .image) $pod.image)) -}}
{{- with $pod.image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" . }}{{ end -}}
{{- /* The command-line tool has none of the flags of services. */ -}}
{{- $global := list -}}
{{- if not .image }}{{ $global = default list (fromYamlArray (include "plimsoll.globalFlags" $root)) }}{{ end -}}
{{- $args := $container.args -}}
{{- range default list .withoutArgs }}{{ $args = without $args . }}{{ end -}}
{{- $args = concat $args .args -}}
{{- $port := first $container.ports -}}
{{- $flag := eq .program "webhook" | ternary "port" "secure-port" -}}
{{- with $values.port -}}
{{- if ne (int .) (int $port.containerPort) -}}
{{- $_ := set $port "containerPort" (int .) -}}
{{- $args = append $args (printf "--%s=%d" $flag (int .)) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $container "args" (concat $args $global $pod.extraArgs) -}}
{{- with concat (default list .env) $pod.extraEnv -}}
{{- $_ := set $container "env" (concat (default list $container.env) .) -}}
{{- end -}}
{{- with concat (default list .volumeMounts) $pod.extraVolumeMounts -}}
{{- $_ := set $container "volumeMounts" (concat (default list $container.volumeMounts) .) -}}
{{- end -}}
{{- with $pod.resources }}{{ $_ := set $container "resources" . }}{{ end -}}
{{- $_ := set $container "securityContext" (mergeOverwrite (deepCopy $container.securityContext) $pod.containerSecurityContext) -}}
{{- with $pod.startupProbe -}}
{{- $_ := set $container "startupProbe" (deepCopy $container.livenessProbe) -}}
{{- end -}}
{{- range $probe := list "livenessProbe" "readinessProbe" "startupProbe" -}}
{{- with and $.scheme (dig $probe "httpGet" dict $container) }}{{ $_ := set . "scheme" $.scheme }}{{ end -}}
{{- with index $pod $probe -}}
{{- $_ := set $container $probe (mergeOverwrite (deepCopy (index $container $probe)) .) -}}
{{- end -}}
{{- end -}}
{{ include "plimsoll.object" (list $root $deployment) }}
{{- end }}
