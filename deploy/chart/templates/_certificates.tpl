{{/* The volume with the serving certificate of webhook, adapter or extender, unless the program makes its own. Takes
the root and the program. */}}
{{- define "plimsoll.servingVolume" -}}
{{- $root := index . 0 -}}
{{- $secret := printf "plimsoll-%s-tls" (index . 1) -}}
{{- if eq $root.Values.certificates.mode "existing" -}}
{{- $secret = index $root.Values.certificates.secrets (index . 1) -}}
{{- end -}}
name: tls
secret:
  secretName: {{ $secret }}
{{- end }}

{{/* Rights to the objects that the routes file names in caFrom and certFrom: one Role per namespace. */}}
{{- define "plimsoll.upstreamCertificates" -}}
{{- $root := . -}}
{{- $granted := dict -}}
{{- range default list (fromYaml .Values.adapter.routes).upstreams -}}
{{- range $from := list .caFrom .certFrom -}}
{{- range $kind, $object := default dict $from -}}
{{- $resource := ternary "secrets" "configmaps" (eq $kind "secret") -}}
{{- $names := default dict (get $granted $object.namespace) -}}
{{- $_ := set $names $resource (append (default list (get $names $resource)) $object.name | uniq) -}}
{{- $_ := set $granted $object.namespace $names -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $namespace, $names := $granted }}
{{- range splitList "\n---\n" (include "plimsoll.text" (list $root "components/keda-certificates/rbac.yaml")) }}
{{- $object := fromYaml . }}
{{- $_ := set $object.metadata "namespace" $namespace }}
{{- if eq $object.kind "Role" }}
{{- $rules := list }}
{{- range $resource, $objects := $names }}
{{- $rules = append $rules (dict "apiGroups" (list "") "resources" (list $resource) "resourceNames" $objects "verbs" (list "get")) }}
{{- end }}
{{- $_ := set $object "rules" $rules }}
{{- end }}
{{ include "plimsoll.object" (list $root $object) }}
{{- end }}
{{- end }}
{{- end }}
