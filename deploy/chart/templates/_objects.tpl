{{/*
The templates render the manifests of files/base and files/components, to which deploy/ has links: each
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

{{/* Whether the chart sees the cluster: "true" or nothing. `helm template`, and so Argo CD, sees none, and
another provider might be there. */}}
{{- define "plimsoll.seesCluster" -}}
{{- if lookup "v1" "Namespace" "" "kube-system" }}true{{ end -}}
{{- end }}

{{/* Whether there is a program: "true" or nothing. Takes the root and the program. */}}
{{- define "plimsoll.has" -}}
{{- $root := index . 0 -}}
{{- $program := index . 1 -}}
{{- $vertical := list "vertical" "all" -}}
{{- $modes := dict "updater" $vertical "webhook" $vertical "adapter" (list "horizontal" "all") -}}
{{- $isInMode := has $root.Values.mode (default (list $root.Values.mode) (get $modes $program)) -}}
{{- if and $isInMode (index $root.Values $program).enabled }}true{{ end -}}
{{- end }}

{{/* The text of a file in the namespace of the release. Takes the root and the path below files/. */}}
{{- define "plimsoll.text" -}}
{{- $root := index . 0 -}}
{{- $text := $root.Files.Get (printf "files/%s" (index . 1)) -}}
{{- if not $text -}}
{{- fail (printf "the chart has no file %s" (index . 1)) -}}
{{- end -}}
{{ $text | replace "plimsoll-system" $root.Release.Namespace }}
{{- end }}

{{/* The objects of a file. Takes the root and the path below files/. */}}
{{- define "plimsoll.file" -}}
{{- $root := index . 0 -}}
{{- range splitList "\n---\n" (include "plimsoll.text" .) }}
{{ include "plimsoll.object" (list $root (fromYaml .)) }}
{{- end }}
{{- end }}

{{/* A ConfigMap with one file. Takes the root, its name, and the name and the text of the file. */}}
{{- define "plimsoll.configMap" -}}
{{- $root := index . 0 -}}
{{ include "plimsoll.object" (list $root (dict "apiVersion" "v1" "kind" "ConfigMap"
      "metadata" (dict "name" (index . 1) "namespace" $root.Release.Namespace)
      "data" (dict (index . 2) (index . 3)))) }}
{{- end }}

{{/* The name of an object outside of the namespace of the release. With watchNamespace there can be
several releases. Takes the root and the name. */}}
{{- define "plimsoll.outerName" -}}
{{- $root := index . 0 -}}
{{ index . 1 }}{{ if $root.Values.watchNamespace }}-{{ $root.Release.Namespace }}{{ end }}
{{- end }}

{{/* An object of the release. Takes the root and the object. */}}
{{- define "plimsoll.object" -}}
{{- $root := index . 0 -}}
{{- $object := index . 1 -}}
{{- if hasKey $object "Error" }}{{ fail $object.Error }}{{ end -}}
{{- $isOfPeople := contains "aggregate-to" (toString $object.metadata.labels) -}}
{{- $isOfCluster := and (hasPrefix "ClusterRole" $object.kind) (not $isOfPeople) -}}
{{- if and $root.Values.watchNamespace $isOfCluster -}}
{{ include "plimsoll.rightsInNamespace" . }}
{{- else -}}
{{ include "plimsoll.print" . }}
{{- end -}}
{{- end }}

{{/* An object with the labels and annotations of the release. Takes the root and the object. */}}
{{- define "plimsoll.print" -}}
{{- $root := index . 0 -}}
{{- $object := index . 1 -}}
{{- $isRight := hasSuffix "Role" $object.kind | or (hasSuffix "RoleBinding" $object.kind) -}}
{{- if or $root.Values.rbac.create (not $isRight) -}}
{{- $metadata := $object.metadata -}}
{{- $labels := default dict $metadata.labels | deepCopy -}}
{{- if not $root.Values.rbac.aggregate -}}
{{- range $role := list "view" "edit" "admin" -}}
{{- $_ := unset $labels (printf "rbac.authorization.k8s.io/aggregate-to-%s" $role) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $metadata "labels" (merge $labels (fromYaml (include "plimsoll.labels" $root))) -}}
{{- with $root.Values.global.annotations -}}
{{- $_ := set $metadata "annotations" (merge (deepCopy (default dict $metadata.annotations)) .) -}}
{{- end -}}
{{- range $subject := $object.subjects -}}
{{- $program := trimPrefix "plimsoll-" $subject.name -}}
{{- if hasKey (default dict (get $root.Values $program)) "serviceAccount" -}}
{{- $_ := set $subject "name" (include "plimsoll.accountName" (list $root $program)) -}}
{{- end -}}
{{- end -}}
{{- $isOfLease := or (contains "lease" $metadata.name) (contains "feed" $metadata.name) -}}
{{- if and $isRight $isOfLease -}}
{{- $_ := set $metadata "namespace" (include "plimsoll.leaseNamespace" $root) -}}
{{- end -}}
{{- if and $isRight (ne (default "" $metadata.namespace) $root.Release.Namespace) -}}
{{- range $named := list $metadata $object.roleRef | compact -}}
{{- if hasPrefix "plimsoll-" $named.name -}}
{{- $_ := set $named "name" (include "plimsoll.outerName" (list $root $named.name)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
---
{{ toYaml $object }}
{{- end -}}
{{- end }}

{{/* A ClusterRole with watchNamespace: a Role of that namespace, and a ClusterRole for resources of
no namespace. A ClusterRoleBinding is nothing: both are bound here. Takes the root and the object. */}}
{{- define "plimsoll.rightsInNamespace" -}}
{{- $root := index . 0 -}}
{{- $role := index . 1 -}}
{{- $namespace := $root.Values.watchNamespace -}}
{{- if eq $role.kind "ClusterRole" -}}
{{- $ofCluster := list "nodes" "nodepools" "nodeclaims" "clusterroles" -}}
{{- /* Another webhook and its Service can be in any namespace. */ -}}
{{- $ofCluster = concat $ofCluster (list "mutatingwebhookconfigurations" "endpointslices") -}}
{{- /* No other autoscaler is looked for, and no policy of the cluster read. */ -}}
{{- $unused := list "leases" "clustersizingpolicies" -}}
{{- $unused = append $unused "clustersizingpolicies/status" -}}
{{- $rules := dict "Role" list "ClusterRole" list -}}
{{- range $rule := $role.rules -}}
{{- range $resource := $rule.resources -}}
{{- $one := merge (dict "resources" (list $resource)) $rule -}}
{{- if eq $resource "namespaces" -}}
{{- $_ := set $one "resourceNames" (list $namespace) -}}
{{- else if eq $resource "clusterroles" -}}
{{- $_ := set $one "resourceNames" (list (include "plimsoll.outerName" (list $root $role.metadata.name))) -}}
{{- end -}}
{{- $kind := has $resource (append $ofCluster "namespaces") | ternary "ClusterRole" "Role" -}}
{{- if not (has $resource $unused) -}}
{{- $_ := set $rules $kind (append (get $rules $kind) $one) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $kind, $rules := $rules -}}
{{- if $rules -}}
{{- $metadata := pick $role.metadata "name" "labels" -}}
{{- if eq $kind "Role" -}}
{{- $name := printf "%s-workloads" $metadata.name -}}
{{- $metadata = merge (dict "name" $name "namespace" $namespace) $metadata -}}
{{- end -}}
{{- $part := dict "apiVersion" $role.apiVersion "kind" $kind "metadata" $metadata "rules" $rules }}
{{ include "plimsoll.print" (list $root (deepCopy $part)) }}
{{- $program := get $metadata.labels "app.kubernetes.io/name" }}
{{- $subject := dict "kind" "ServiceAccount" "namespace" $root.Release.Namespace
      "name" (printf "plimsoll-%s" $program) }}
{{- $ref := dict "apiGroup" "rbac.authorization.k8s.io" "kind" $kind "name" $metadata.name }}
{{ include "plimsoll.print" (list $root (dict "apiVersion" $role.apiVersion
      "kind" (printf "%sBinding" $kind) "metadata" (deepCopy $metadata)
      "roleRef" $ref "subjects" (list $subject))) }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "plimsoll.leaseNamespace" -}}
{{ default .Release.Namespace .Values.leaderElection.namespace }}
{{- end }}

{{/* Rights of which some are for the recommender's Lease: with shards, for that of each shard.
Takes the root and the file. */}}
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
