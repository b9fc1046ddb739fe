{{/* What a pod with docket in it has. The chart of an engine includes these with
     .Subcharts.docket. */}}

{{/* config is docket.yaml. */}}
{{- define "docket.config" -}}
{{- $_ := required "config.sinks: at least one is required: where records go, such as [{name: siem, http: {url: https://siem.example.com/ingest}}]" (first (.Values.config.sinks | default list)) -}}
{{- $own := dict "apiVersion" "docket.dev/v1alpha1" "kind" "Exporter" "queue" (dict "directory" "/var/lib/docket/queue") -}}
{{- toYaml (merge (deepCopy .Values.config) $own) -}}
{{- end -}}

{{/* tapConfig is tap.yaml. */}}
{{- define "docket.tapConfig" -}}
{{- $_ := required "tap.upstream.url is required in mode tap: where the engine's webhook is, such as https://engine.policy.svc" (.Values.tap.upstream).url -}}
{{- $own := dict "apiVersion" "docket.dev/v1alpha1" "kind" "Tap" "listen" ":8443" "tlsDir" "/etc/docket-tls" "docket" (dict "address" "unix:///run/docket/docket.sock") "metrics" (dict "address" ":9466") -}}
{{- toYaml (merge (deepCopy .Values.tap) $own) -}}
{{- end -}}

{{/* initContainer is docket as a native sidecar: it starts before the containers of the pod,
     and stops after them. */}}
{{- define "docket.initContainer" -}}
{{ include "docket.anyContainer" . }}
  restartPolicy: Always
{{- end -}}

{{/* container is docket as an ordinary container beside an engine. Both get their signal at
     the same time, so docket's waits until the engine has ended. */}}
{{- define "docket.container" -}}
{{ include "docket.anyContainer" . }}
{{- with .Values.sidecar.shutdownDelaySeconds }}
  lifecycle: {preStop: {sleep: {seconds: {{ int64 . }}}}}
{{- end }}
{{- end -}}

{{- define "docket.anyContainer" -}}
{{- $where := list "-f" "/etc/docket/docket.yaml" "--queue" "/var/lib/docket/queue" -}}
{{- $strict := .Values.sidecar.blockingStrict -}}
{{- if eq .Values.mode "tap" }}{{ $strict = eq "BlockingStrict" (dig "docket" "mode" "" .Values.tap) }}{{ end -}}
- name: docket
  image: {{ include "docket.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: {{ concat (list "run") $where | toJson }}
  {{- with .Values.env }}
  env: {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- $listeners := include "docket.listeners" . | fromJsonArray }}
  {{- $metrics := include "docket.metricsPort" . }}
  {{- if or $listeners $metrics }}
  ports:
  {{- range $listeners }}
  - containerPort: {{ .port }}
  {{- end }}
  {{- with $metrics }}
  - {name: docket-metrics, containerPort: {{ . }}}
  {{- end }}
  {{- end }}
  startupProbe:
    exec: {command: {{ concat (list "docket" "probe" "startup") $where | toJson }}}
    periodSeconds: 1
    timeoutSeconds: 5
    failureThreshold: 60
  livenessProbe:
    exec: {command: {{ concat (list "docket" "probe" "live") $where | toJson }}}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 3
  {{- if $strict }}
  readinessProbe:
    exec: {command: {{ concat (list "docket" "probe" "ready") $where | toJson }}}
    periodSeconds: 5
    timeoutSeconds: 5
  {{- end }}
  securityContext: {{- include "docket.securityContext" . | nindent 4 }}
  resources: {{- toYaml .Values.resources | nindent 4 }}
  volumeMounts:
  - {name: docket-config, mountPath: /etc/docket, readOnly: true}
  {{- if include "docket.hasSocket" . }}
  - {name: docket-socket, mountPath: /run/docket}
  {{- end }}
  - {name: docket-queue, mountPath: /var/lib/docket}
  {{- if contains "/etc/docket-tls/" (toJson .Values.config) }}
  - {name: docket-tls, mountPath: /etc/docket-tls, readOnly: true}
  {{- end }}
  {{- with .Values.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "docket.securityContext" -}}
runAsUser: {{ int64 .Values.user }}
runAsGroup: {{ int64 .Values.user }}
runAsNonRoot: true
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "docket.hasSocket" -}}
{{- range .Values.config.sources }}{{ if .unix }}{{ if hasPrefix "/run/docket/" (.unix.path | default "") }}yes{{ end }}{{ end }}{{ end -}}
{{- end -}}

{{/* listeners are the addresses of sources that others can reach: a list of {name, port}. */}}
{{- define "docket.listeners" -}}
{{- $list := list -}}
{{- range $source := .Values.config.sources -}}
{{- range $source -}}
{{- $address := "" -}}
{{- if kindIs "map" . }}{{ $address = .address | default "" }}{{ end -}}
{{- if and $address (not (regexMatch "^(localhost|127\\.[0-9.]+|\\[::1\\]):" $address)) -}}
{{- $list = append $list (dict "name" $source.name "port" (regexFind "[0-9]+$" $address | int)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $list -}}
{{- end -}}

{{/* metricsPort is empty where there are no metrics. */}}
{{- define "docket.metricsPort" -}}
{{- regexFind "[0-9]+$" ((.Values.config.metrics).address | default "") -}}
{{- end -}}

{{/* socketMount is how the container of an engine reaches docket. */}}
{{- define "docket.socketMount" -}}
- {name: docket-socket, mountPath: /run/docket}
{{- end -}}

{{- define "docket.volumes" -}}
- name: docket-config
  configMap: {name: {{ include "docket.fullname" . }}}
{{- if include "docket.hasSocket" . }}
- name: docket-socket
  emptyDir: {}
{{- end }}
{{- if ne .Values.mode "statefulset" }}
- name: docket-queue
  {{- if eq .Values.volume.kind "claim" }}
  persistentVolumeClaim: {claimName: {{ .Values.volume.claimName | quote }}}
  {{- else if eq .Values.volume.kind "ephemeral" }}
  ephemeral:
    volumeClaimTemplate:
      spec: {{- include "docket.claimSpec" . | nindent 8 }}
  {{- else }}
  emptyDir: {sizeLimit: {{ .Values.volume.size }}}
  {{- end }}
{{- end }}
{{- with include "docket.tlsSecret" . }}
- name: docket-tls
  secret: {secretName: {{ . | quote }}, defaultMode: 0440}
{{- end }}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "docket.claimSpec" -}}
accessModes: [ReadWriteOnce]
{{- with .Values.volume.storageClassName }}
storageClassName: {{ . | quote }}
{{- end }}
resources: {requests: {storage: {{ .Values.volume.size }}}}
{{- end -}}

{{- define "docket.terminationGracePeriodSeconds" -}}
{{- int64 .Values.terminationGracePeriodSeconds -}}
{{- end -}}

{{- define "docket.podSecurityContext" -}}
fsGroup: {{ int64 .Values.user }}
{{- end -}}

{{/* podSpec is what the pods of this chart have in common. */}}
{{- define "docket.podSpec" -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "docket.terminationGracePeriodSeconds" . }}
securityContext: {{- include "docket.podSecurityContext" . | nindent 2 }}
{{- range $key := list "imagePullSecrets" "priorityClassName" "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
{{- with index $.Values $key }}
{{ toYaml (dict $key .) }}
{{- end }}
{{- end }}
volumes: {{- include "docket.volumes" . | nindent 0 }}
{{- end -}}

{{/* survives is the honest line of a volume. */}}
{{- define "docket.survives" -}}
{{- if or (eq .Values.mode "statefulset") (eq .Values.volume.kind "claim") -}}
A claim: survives the deletion of the pod and, where the storage class has network storage, the loss of the node; not the deletion of the claim.
{{- else if eq .Values.volume.kind "ephemeral" -}}
A generic ephemeral volume: survives a crash of the container and its OOM kill; not the deletion or eviction of the pod, nor the loss of the node.
{{- else -}}
An emptyDir: survives a crash of the container and its OOM kill; not the deletion or eviction of the pod, nor the loss of the node.
{{- end -}}
{{- end -}}
