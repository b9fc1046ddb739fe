{{- define "docket.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- ternary .Release.Name (printf "%s-docket" .Release.Name) (contains "docket" .Release.Name) | replace "." "-" | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "docket.selectorLabels" -}}
app.kubernetes.io/name: docket
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: {{ .Values.mode }}
{{- end -}}

{{- define "docket.labels" -}}
{{ include "docket.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* podLabels are for the pod of an engine, by which a monitor finds it. */}}
{{- define "docket.podLabels" -}}
docket.dev/release: {{ include "docket.fullname" . }}
{{- end -}}

{{- define "docket.image" -}}
{{- with .Values.image -}}
{{- $_ := required "image.repository is required: there is no public image, and docs/install.md says how to make and push one" .repository -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end -}}

{{- define "docket.tlsSecret" -}}
{{- if .Values.tls.secretName -}}
{{- .Values.tls.secretName -}}
{{- else if .Values.tls.issuerRef -}}
{{- include "docket.fullname" . }}-tls
{{- end -}}
{{- end -}}
