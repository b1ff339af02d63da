{{- define "nearkv.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Labels of a part: a dict of root and part. */}}
{{- define "nearkv.selector" -}}
app.kubernetes.io/name: nearkv
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "nearkv.labels" -}}
{{ include "nearkv.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "nearkv.scraped" -}}
prometheus.io/scrape: "true"
prometheus.io/path: /metrics
prometheus.io/port: {{ . | quote }}
{{- end }}

{{- define "nearkv.unprivileged" -}}
runAsNonRoot: true
runAsUser: 65532
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* A table of TOML out of a map, which may hold others. */}}
{{- define "nearkv.toml" -}}
{{- range $key, $value := . }}
{{ $key }} = {{ include "nearkv.value" $value }}
{{- end }}
{{- end }}

{{/* Of scalars JSON's way of writing is TOML's too. */}}
{{- define "nearkv.value" -}}
{{- if kindIs "map" . -}}
{
{{- range $number, $key := keys . | sortAlpha -}}
{{ if $number }}, {{ end }}{{ $key }} = {{ include "nearkv.value" (get $ $key) }}
{{- end -}}
}
{{- else -}}
{{ toJson . }}
{{- end -}}
{{- end }}

{{- define "nearkv.workers" -}}
{{- $engines := .Values.engines }}
{{- $name := printf "%s-engine" .Release.Name }}
{{- if $engines.enabled }}
{{- range $number := until (int $engines.replicas) }}
{{- $host := printf "%s-%d.%s.%s.svc" $name $number $name $.Release.Namespace }}

[[worker]]
name = {{ printf "%s-%d" $name $number | quote }}
url = {{ printf "http://%s:%d" $host (int $engines.port) | quote }}
events = {{ printf "tcp://%s:%d" $host (int $engines.eventsPort) | quote }}
replay = {{ printf "tcp://%s:%d" $host (int $engines.replayPort) | quote }}
max_running = {{ int $engines.maxRunning }}
{{- end }}
{{- end }}
{{- range .Values.router.workers }}

[[worker]]
{{- include "nearkv.toml" . }}
{{- end }}
{{- range .Values.router.pools }}

[[pool]]
{{- include "nearkv.toml" . }}
{{- end }}
{{- end }}
