{{/*
The templates render the manifests of deploy/base and deploy/components, which are in files/: each
object is read, moved into the namespace of the release, and changed by the values.
*/}}

{{/* Labels of all objects, besides those of the manifests. */}}
{{- define "plimsoll.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.global.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Whether the mode has a program: "true" or nothing. Takes the root and the program. */}}
{{- define "plimsoll.has" -}}
{{- $root := index . 0 -}}
{{- $program := index . 1 -}}
{{- $mode := $root.Values.mode -}}
{{- if eq $program "extender" -}}
{{- if $root.Values.extender.enabled }}true{{ end -}}
{{- else if eq $program "adapter" -}}
{{- if has $mode (list "horizontal" "all") }}true{{ end -}}
{{- else if has $mode (list "vertical" "all") -}}
true
{{- end -}}
{{- end }}

{{/* The objects of a file. Takes the root and the path below files/. */}}
{{- define "plimsoll.file" -}}
{{- $root := index . 0 -}}
{{- $text := $root.Files.Get (printf "files/%s" (index . 1)) -}}
{{- if not $text }}{{ fail (printf "the chart has no file %s" (index . 1)) }}{{ end -}}
{{- range splitList "\n---\n" ($text | replace "plimsoll-system" $root.Release.Namespace) }}
{{ include "plimsoll.object" (list $root (fromYaml .)) }}
{{- end }}
{{- end }}

{{/* An object with the labels and annotations of the release. Takes the root and the object. */}}
{{- define "plimsoll.object" -}}
{{- $root := index . 0 -}}
{{- $object := index . 1 -}}
{{- if hasKey $object "Error" }}{{ fail $object.Error }}{{ end -}}
{{- $isRight := hasSuffix "Role" $object.kind | or (hasSuffix "RoleBinding" $object.kind) -}}
{{- if or $root.Values.rbac.create (not $isRight) -}}
{{- $metadata := $object.metadata -}}
{{- $labels := merge (deepCopy (default dict $metadata.labels)) (fromYaml (include "plimsoll.labels" $root)) -}}
{{- $_ := set $metadata "labels" $labels -}}
{{- with $root.Values.global.annotations -}}
{{- $_ := set $metadata "annotations" (merge (deepCopy (default dict $metadata.annotations)) .) -}}
{{- end -}}
{{- $isOfLease := or (contains "lease" $metadata.name) (contains "feed" $metadata.name) -}}
{{- if and $isRight $isOfLease -}}
{{- $_ := set $metadata "namespace" (include "plimsoll.leaseNamespace" $root) -}}
{{- end -}}
---
{{ toYaml $object }}
{{- end -}}
{{- end }}

{{- define "plimsoll.leaseNamespace" -}}
{{ default .Release.Namespace .Values.leaderElection.namespace }}
{{- end }}

{{/* Rights of which some are for the recommender's Lease: with shards, for that of each shard. Takes
the root and the file. */}}
{{- define "plimsoll.leaseRights" -}}
{{- $root := index . 0 -}}
{{- $shards := int $root.Values.recommender.shards -}}
{{- range splitList "\n---\n" (include "plimsoll.text" .) }}
{{- $object := fromYaml . -}}
{{- if gt $shards 1 }}
{{- $names := list }}
{{- range $index := until $shards }}{{ $names = append $names (printf "vpa-recommender-lease-%d" $index) }}{{ end }}
{{- range $rule := $object.rules }}
{{- if has "vpa-recommender-lease" (default list $rule.resourceNames) }}
{{- $_ := set $rule "resourceNames" $names }}
{{- if has "update" $rule.verbs }}
{{- /* Each shard also checks for a leader without shards. */}}
{{- $check := dict "apiGroups" $rule.apiGroups "resources" $rule.resources "resourceNames" (list "vpa-recommender-lease") "verbs" (list "get") }}
{{- $_ := set $object "rules" (append $object.rules $check) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{ include "plimsoll.object" (list $root $object) }}
{{- end }}
{{- end }}
