{{/* refused fails with a line for each value that cannot work. */}}
{{- define "docket.refused" -}}
{{- $p := list -}}
{{- $v := .Values -}}
{{- $c := $v.config -}}
{{- $tap := eq $v.mode "tap" -}}
{{- $tls := include "docket.tlsSecret" . -}}

{{- if not $v.image.repository -}}
{{- $p = append $p "image.repository: is required: there is no public image, and docs/install.md says how to make and push one" -}}
{{- end -}}
{{- $least := include "docket.memoryLimit" . | int64 -}}
{{- if lt (include "docket.bytes" (($v.resources.limits).memory | default $least) | int64) $least -}}
{{- $p = append $p (printf "resources.limits.memory: %s is less than docket may take with this configuration: at least %s" ($v.resources.limits.memory | toString) (include "docket.quantity" $least)) -}}
{{- end -}}
{{- $least = include "docket.tapMemoryLimit" . | int64 -}}
{{- if lt (include "docket.bytes" (($v.tapContainer.resources.limits).memory | default $least) | int64) $least -}}
{{- $p = append $p (printf "tapContainer.resources.limits.memory: %s is less than tap may take: at least %s" ($v.tapContainer.resources.limits.memory | toString) (include "docket.quantity" $least)) -}}
{{- end -}}
{{- $least = include "docket.gracePeriod" . | int64 -}}
{{- if lt (include "docket.terminationGracePeriodSeconds" . | int64) $least -}}
{{- $p = append $p (printf "terminationGracePeriodSeconds: in %d docket is killed before it has stopped: at least %d, for the engine or tap, config.shutdown.drainTimeout and 10 s" (int64 $v.terminationGracePeriodSeconds) $least) -}}
{{- end -}}
{{- $least = include "docket.volumeBytes" . | int64 -}}
{{- if and $v.volume.size (lt (include "docket.bytes" $v.volume.size | int64) $least) -}}
{{- $p = append $p (printf "volume.size: %s is less than docket may keep with this configuration: at least %s" $v.volume.size (include "docket.quantity" $least)) -}}
{{- end -}}

{{- if and (eq $v.mode "statefulset") $v.volume.kind -}}
{{- $p = append $p "volume.kind: in mode statefulset each pod has a claim of its own: leave it empty" -}}
{{- end -}}
{{- if eq $v.volume.kind "claim" -}}
{{- if not $v.volume.claimName -}}
{{- $p = append $p "volume.claimName: is required with the kind claim" -}}
{{- end -}}
{{- if or $v.volume.size $v.volume.storageClassName -}}
{{- $p = append $p "volume.size, volume.storageClassName: an existing claim has its own: leave them empty" -}}
{{- end -}}
{{- if and $tap (gt (int64 $v.replicas) 1) -}}
{{- $p = append $p "replicas: one docket at a time can use volume.claimName: make it 1, or choose the kind ephemeral or emptyDir" -}}
{{- end -}}
{{- else -}}
{{- if $v.volume.claimName -}}
{{- $p = append $p "volume.claimName: is for the kind claim alone" -}}
{{- end -}}
{{- if and $v.volume.storageClassName (ne $v.mode "statefulset") (ne $v.volume.kind "ephemeral") -}}
{{- $p = append $p "volume.storageClassName: an emptyDir has none: leave it empty" -}}
{{- end -}}
{{- end -}}

{{- if ne "/var/lib/docket/queue" (($c.queue).directory | default "/var/lib/docket/queue") -}}
{{- $p = append $p "config.queue.directory: must be /var/lib/docket/queue, which is on the volume, or be left out" -}}
{{- end -}}
{{- if not $c.sinks -}}
{{- $p = append $p "config.sinks: at least one is required: where records go, such as [{name: siem, http: {url: https://siem.example.com/ingest}}]" -}}
{{- end -}}
{{- $mounted := list "/etc/docket" "/var/lib/docket" -}}
{{- if $tls }}{{ $mounted = append $mounted "/etc/docket-tls" }}{{ end -}}
{{- range $v.volumeMounts }}{{ $mounted = append $mounted .mountPath }}{{ end -}}
{{- range $i, $s := $c.sources -}}
{{- $kind := include "docket.kind" $s -}}
{{- $own := get $s $kind -}}
{{- $path := $own.path | default "" -}}
{{- if $own.inherited -}}
{{- $p = append $p (printf "config.sources[%d].%s.inherited: a container cannot inherit a socket: give a path in /run/docket, or an address" $i $kind) -}}
{{- else if eq $kind "unix" -}}
{{- if ne "/run/docket" (dir $path) -}}
{{- $p = append $p (printf "config.sources[%d].unix.path: %s is not in /run/docket, the directory that the engine shares: use /run/docket/docket.sock" $i $path) -}}
{{- end -}}
{{- if not (regexMatch "[67].$" ($own.mode | default "0660")) -}}
{{- $p = append $p (printf "config.sources[%d].unix.mode: %s locks out an engine that runs as another user than docket: use \"0660\" at least, for the group that they share" $i $own.mode) -}}
{{- end -}}
{{- $group := $own.group | toString -}}
{{- if and (not (kindIs "invalid" $own.group)) (not (has $group (list "" (int64 $v.user | toString)))) -}}
{{- $p = append $p (printf "config.sources[%d].unix.group: docket is not a member of group %s, so nobody can connect: leave the key out, and the socket gets the group of the pod, %d" $i $group (int64 $v.user)) -}}
{{- end -}}
{{- else if and (has $kind (list "gatekeeper" "tail")) (not (include "docket.isBelow" (list $path $mounted))) -}}
{{- $p = append $p (printf "config.sources[%d].%s.path: %s is not in a volume of the container: mount it with volumes and volumeMounts" $i $kind $path) -}}
{{- end -}}
{{- end -}}
{{- range $i, $s := $c.sinks -}}
{{- if $s.file -}}
{{- if not (include "docket.isBelow" (list $s.file.directory (list "/var/lib/docket"))) -}}
{{- $p = append $p (printf "config.sinks[%d].file.directory: %s is outside the volume at /var/lib/docket: use /var/lib/docket/export" $i $s.file.directory) -}}
{{- end -}}
{{- with (include "docket.export" (list $ $s) | fromJson).unbounded -}}
{{- if ne $v.volume.kind "claim" -}}
{{- $p = append $p (printf "config.sinks[%d].file.%s: is required on this kind of volume: without a bound the export fills the volume" $i .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range include "docket.files" (list "config" $c) | splitList "\n" | compact -}}
{{- $key := splitList " " . | first -}}
{{- $file := trimPrefix (printf "%s " $key) . -}}
{{- if not (include "docket.isBelow" (list $file $mounted)) -}}
{{- $p = append $p (printf "%s: %s is not in a volume of the container: mount its Secret with volumes and volumeMounts, or at /etc/docket-tls with tls.secretName" $key $file) -}}
{{- end -}}
{{- end -}}

{{- $ports := dict -}}
{{- if $tap }}{{ $ports = dict "8443" "tap" "9466" "the metrics of tap" }}{{ end -}}
{{- $addresses := list (list "config.admin.address" (dig "address" "127.0.0.1:9464" ($c.admin | default dict) | default "")) (list "config.metrics.address" (($c.metrics).address | default "")) -}}
{{- range $i, $s := $c.sources -}}
{{- $kind := include "docket.kind" $s -}}
{{- $addresses = append $addresses (list (printf "config.sources[%d].%s.address" $i $kind) ((get $s $kind).address | default "")) -}}
{{- end -}}
{{- range $addresses -}}
{{- $port := regexFind "[0-9]+$" (index . 1) -}}
{{- if and $port (hasKey $ports $port) -}}
{{- $p = append $p (printf "%s: the port %s is that of %s: give another one" (index . 0) $port (get $ports $port)) -}}
{{- else if $port -}}
{{- $_ := set $ports $port (index . 0) -}}
{{- end -}}
{{- end -}}
{{- range $i, $s := $c.sources -}}
{{- if and (eq $v.mode "statefulset") (eq "docket-metrics" ($s.name | default "")) -}}
{{- $p = append $p (printf "config.sources[%d].name: docket-metrics is the port of the metrics: give another one" $i) -}}
{{- end -}}
{{- end -}}

{{- if and (eq $v.mode "statefulset") (eq "[]" (include "docket.listeners" .)) -}}
{{- $p = append $p "config.sources: in mode statefulset nothing reaches docket: add a source of kind tcp, opa or kubernetesAudit with an address such as :7443" -}}
{{- end -}}
{{- if and $tap (not (($v.tap).upstream).url) -}}
{{- $p = append $p "tap.upstream.url: is required in mode tap: where the engine's webhook is, such as https://engine.policy.svc" -}}
{{- else if and $v.tap (not $tap) -}}
{{- $p = append $p "tap: is for mode tap alone" -}}
{{- end -}}
{{- if $tap -}}
{{- if not $tls -}}
{{- $p = append $p "tls: in mode tap secretName or issuerRef is required: the certificate by which the API server knows the webhook" -}}
{{- end -}}
{{- if not (include "docket.tapSocket" .) -}}
{{- $p = append $p "config.sources: in mode tap one must be {unix: {path: /run/docket/docket.sock}}, where tap sends records to" -}}
{{- end -}}
{{- $file := (($v.tap).upstream).caFile | default "" -}}
{{- $mounted := list "/etc/docket" "/etc/docket-tls" -}}
{{- range $v.tapContainer.volumeMounts }}{{ $mounted = append $mounted .mountPath }}{{ end -}}
{{- if and $file (not (include "docket.isBelow" (list $file $mounted))) -}}
{{- $p = append $p (printf "tap.upstream.caFile: %s is not in a volume of the container: mount its Secret with volumes and tapContainer.volumeMounts" $file) -}}
{{- end -}}
{{- end -}}
{{- if and $v.tls.secretName $v.tls.issuerRef -}}
{{- $p = append $p "tls: secretName is a Secret that there is, issuerRef makes one: give one of them" -}}
{{- end -}}
{{- if and $v.tls.issuerRef (eq $v.mode "sidecar") (not $v.tls.dnsNames) -}}
{{- $p = append $p "tls.dnsNames: is required with issuerRef in mode sidecar, which has no Service to name" -}}
{{- end -}}

{{- if $v.monitoring.monitor -}}
{{- if and (not $tap) (not (include "docket.metricsPort" .)) -}}
{{- $p = append $p "monitoring.monitor: there is nothing to scrape: set config.metrics.address, such as :9465" -}}
{{- end -}}
{{- if and (eq $v.mode "sidecar") (eq $v.monitoring.monitor "ServiceMonitor") -}}
{{- $p = append $p "monitoring.monitor: mode sidecar has no Service: make it PodMonitor" -}}
{{- end -}}
{{- end -}}
{{- if regexMatch "^(localhost|127\\.|\\[::1\\])" (($c.metrics).address | default "") -}}
{{- $p = append $p "config.metrics.address: Prometheus asks the address of the pod and never finds what listens on loopback: make it :9465" -}}
{{- end -}}
{{- if and $v.networkPolicy.enabled (eq $v.mode "sidecar") -}}
{{- $p = append $p "networkPolicy.enabled: in mode sidecar the pod is the engine's: its own chart says who may connect" -}}
{{- end -}}
{{- if $p -}}
{{- fail (printf "\n\nThese values cannot work:\n\n  %s\n" (join "\n  " $p)) -}}
{{- end -}}
{{- end -}}

{{/* isBelow is empty unless a path is below one of some directories. */}}
{{- define "docket.isBelow" -}}
{{- $path := clean (index . 0) -}}
{{- range index . 1 }}{{ if hasPrefix (printf "%s/" (clean .)) (printf "%s/" $path) }}yes{{ end }}{{ end -}}
{{- end -}}

{{/* files lists the keys of a configuration that name files, with the file, one a line. */}}
{{- define "docket.files" -}}
{{- $at := index . 0 -}}
{{- $value := index . 1 -}}
{{- if kindIs "map" $value -}}
{{- range $key, $v := $value -}}
{{- if and (kindIs "string" $v) (hasSuffix "File" $key) $v -}}
{{- printf "%s.%s %s\n" $at $key $v -}}
{{- else if and (eq $key "headerFiles") $v -}}
{{- range $name, $file := $v }}{{ printf "%s.%s.%s %s\n" $at $key $name $file }}{{ end -}}
{{- else -}}
{{- include "docket.files" (list (printf "%s.%s" $at $key) $v) -}}
{{- end -}}
{{- end -}}
{{- else if kindIs "slice" $value -}}
{{- range $i, $v := $value }}{{ include "docket.files" (list (printf "%s[%d]" $at $i) $v) }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* tapSocket is empty unless docket listens where tap sends to. */}}
{{- define "docket.tapSocket" -}}
{{- range .Values.config.sources }}{{ if eq "/run/docket/docket.sock" ((.unix).path | default "") }}yes{{ end }}{{ end -}}
{{- end -}}
