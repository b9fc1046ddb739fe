{{/* What follows from the configuration, by the rules of docket kubernetes sidecar. Tests
     compare both. Sizes are bytes. */}}

{{/* bytes reads a size of a configuration, or a quantity of Kubernetes. */}}
{{- define "docket.bytes" -}}
{{- if kindIs "string" . -}}
{{- $unit := regexFind "[A-Za-z]*$" . -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- mulf (trimSuffix $unit .) (get $units $unit) | ceil | int64 -}}
{{- else -}}
{{- int64 . -}}
{{- end -}}
{{- end -}}

{{/* quantity writes bytes, a multiple of 1Mi, as docket and Kubernetes do. */}}
{{- define "docket.quantity" -}}
{{- if eq 0 (mod . 1073741824 | int) -}}{{ div . 1073741824 }}Gi{{- else -}}{{ div . 1048576 }}Mi{{- end -}}
{{- end -}}

{{/* milliseconds reads a duration of a configuration, rounded up. */}}
{{- define "docket.milliseconds" -}}
{{- $sum := 0.0 -}}
{{- $units := dict "ns" 0.000001 "us" 0.001 "µs" 0.001 "μs" 0.001 "ms" 1 "s" 1000 "m" 60000 "h" 3600000 -}}
{{- range regexFindAll "[0-9.]+[a-zµμ]+" (toString .) -1 -}}
{{- $unit := regexFind "[a-zµμ]+$" . -}}
{{- $sum = addf $sum (mulf (trimSuffix $unit .) (get $units $unit)) -}}
{{- end -}}
{{- ceil $sum | int64 -}}
{{- end -}}

{{/* config is docket.yaml. */}}
{{- define "docket.config" -}}
{{- $own := dict "apiVersion" "docket.dev/v1alpha1" "kind" "Exporter" "queue" (dict "directory" "/var/lib/docket/queue") -}}
{{- toYaml (merge (deepCopy .Values.config) $own) -}}
{{- end -}}

{{/* tapConfig is tap.yaml. */}}
{{- define "docket.tapConfig" -}}
{{- $own := dict "apiVersion" "docket.dev/v1alpha1" "kind" "Tap" "listen" ":8443" "tlsDir" "/etc/docket-tls" "docket" (dict "address" "unix:///run/docket/docket.sock") "metrics" (dict "address" ":9466") -}}
{{- toYaml (merge (deepCopy .Values.tap) $own) -}}
{{- end -}}

{{/* kind is the key of a source or sink that says which it is. */}}
{{- define "docket.kind" -}}
{{- range $kind := list "unix" "tcp" "gatekeeper" "opa" "kubernetesAudit" "tail" "file" "http" "kafka" "stdout" -}}
{{- if hasKey $ $kind }}{{ $kind }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* memoryCeiling is what docket check prints, part by part as exporter/memory.go has them. */}}
{{- define "docket.memoryCeiling" -}}
{{- $c := include "docket.config" . | fromYaml -}}
{{- $record := include "docket.bytes" (($c.limits).maxRecordBytes | default "1Mi") | int64 -}}
{{- $adminOn := ne "" (dig "address" "127.0.0.1:9464" ($c.admin | default dict)) -}}
{{- $sum := add 10485760 1179648 (mul 2 (max 2621440 (add $record 262144))) (mul 1100 (add 1024 (max 8192 (($c.limits).producers | default 4096)))) -}}
{{- $readers := add 327680 (max 1048576 (add $record 262144)) -}}
{{- if $adminOn -}}
{{- $sum = add $sum 3145728 (max 0 (sub $readers 1638400)) -}}
{{- else -}}
{{- $sum = add $sum $readers -}}
{{- end -}}
{{- if $c.metrics -}}
{{- $sum = add $sum (ternary 8388608 3145728 (not (empty $c.metrics.tls))) -}}
{{- end -}}
{{- $shared := false -}}
{{- $redacted := false -}}
{{- range $c.sources -}}
{{- $kind := include "docket.kind" . -}}
{{- $s := get . $kind -}}
{{- $redacted = or $redacted (not (empty .redact)) -}}
{{- if has $kind (list "unix" "tcp") -}}
{{- $shared = true -}}
{{- $places := add 64 ($s.maxConnections | default 256) -}}
{{- $sum = add $sum (mul $places (ternary 32768 12288 (not (empty $s.tls)))) (ternary 3145728 0 (not (empty $s.tls))) -}}
{{- else if has $kind (list "opa" "kubernetesAudit") -}}
{{- $place := add 20480 (ternary 204800 81920 (not (empty $s.bearerTokenFile))) (ternary 32768 0 (not (empty $s.tls))) -}}
{{- $sum = add $sum (mul $place ($s.maxConnections | default 128)) 15204352 8912896 (mul 12 $record) 6291456 -}}
{{- else if eq $kind "gatekeeper" -}}
{{- $sum = add $sum (mul 4 (max $record 262144)) (mul 4 (add 262144 $record)) -}}
{{- else if eq $kind "tail" -}}
{{- $sum = add $sum 1572864 (mul 4 $record) -}}
{{- end -}}
{{- end -}}
{{- if $shared -}}
{{- $sum = add $sum (max 6291456 (mul 4 (add $record 65536))) -}}
{{- end -}}
{{- $sum = add $sum (mul 8 (max 0 (sub $record 1048576))) -}}
{{- if $redacted -}}
{{- $sum = add $sum (mul 8 (add 262144 $record)) -}}
{{- end -}}
{{- range $c.sinks -}}
{{- if not .retire -}}
{{- $kind := include "docket.kind" . -}}
{{- $s := get . $kind | default dict -}}
{{- $batch := max $record (include "docket.batchBytes" . | int64) -}}
{{- $packed := not (has ($s.compression | default "none") (list "none")) -}}
{{- $inFlight := $s.maxInFlight | default 1 | int64 -}}
{{- $copies := ternary (add 1 $inFlight) (ternary 1 0 (not (empty .stamp))) (gt $inFlight 1) -}}
{{- $sum = add $sum (max 1048576 (add $batch 262144)) (mul $copies $batch) -}}
{{- if eq $kind "file" -}}
{{- $sum = add $sum 524288 (ternary 0 6291456 (eq "none" ($s.compress | default "none"))) -}}
{{- else if eq $kind "http" -}}
{{- $sum = add $sum (mul $inFlight (add 65536 (div (mul 5 $batch) 4) (ternary (add 1048576 $batch) 0 $packed))) -}}
{{- else if eq $kind "kafka" -}}
{{- $sum = add $sum 524288 (div (mul (ternary 9 5 $packed) $batch) 4) -}}
{{- else -}}
{{- $sum = add $sum $batch -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* batchBytes is batch.maxBytes of a sink. */}}
{{- define "docket.batchBytes" -}}
{{- $usual := get (dict "file" "4Mi" "kafka" "3600Ki") (include "docket.kind" .) | default "1Mi" -}}
{{- include "docket.bytes" ((.batch).maxBytes | default $usual) -}}
{{- end -}}

{{/* memoryLimit has room for two probes beside docket. */}}
{{- define "docket.memoryLimit" -}}
{{- mul 16777216 (div (add (include "docket.memoryCeiling" . | int64) 16777216 16777215) 16777216) -}}
{{- end -}}

{{- define "docket.tapMemoryLimit" -}}
{{- $buffered := include "docket.bytes" (dig "docket" "maxBufferedBytes" "8Mi" .Values.tap) | int64 -}}
{{- mul 16777216 (div (add 16777215 (mul 226 1048576) $buffered) 16777216) -}}
{{- end -}}

{{/* export is {bytes, unbounded}: what the files of a sink take, or the key that bounds them. */}}
{{- define "docket.export" -}}
{{- $root := index . 0 -}}
{{- $sink := index . 1 -}}
{{- $r := $sink.file.retain | default dict -}}
{{- $rotate := include "docket.bytes" (dig "maxBytes" "64Mi" ($sink.file.rotate | default dict) | default 0) | int64 -}}
{{- $record := include "docket.bytes" (($root.Values.config.limits).maxRecordBytes | default "1Mi") | int64 -}}
{{- $file := max $rotate $record (include "docket.batchBytes" $sink | int64) -}}
{{- $total := include "docket.bytes" ($r.maxTotalBytes | default 0) | int64 -}}
{{- if not $rotate -}}
{{- dict "unbounded" "rotate.maxBytes" "bytes" 0 | toJson -}}
{{- else if not (or $total $r.maxFiles) -}}
{{- dict "unbounded" "retain.maxTotalBytes" "bytes" 0 | toJson -}}
{{- else -}}
{{- dict "unbounded" "" "bytes" (add (mul 2 $file) ($total | default (mul $file ($r.maxFiles | default 0)))) | toJson -}}
{{- end -}}
{{- end -}}

{{/* volumeBytes is the least volume that docket never fills. */}}
{{- define "docket.volumeBytes" -}}
{{- $q := .Values.config.queue | default dict -}}
{{- $free := ternary 0 (include "docket.bytes" ($q.minFreeBytes | default 0) | int64) (eq "Auto" (toString $q.minFreeBytes)) -}}
{{- $sum := add 67108864 (max 67108864 $free) (include "docket.bytes" ($q.maxBytes | default "2Gi") | int64) -}}
{{- range .Values.config.sinks -}}
{{- if eq "DeadLetter" (.onReject | default "DeadLetter") -}}
{{- $sum = add $sum (mul 3 (include "docket.bytes" ((.deadLetters).maxBytes | default "256Mi") | int64)) -}}
{{- end -}}
{{- if .file -}}
{{- $sum = add $sum (get (include "docket.export" (list $ .) | fromJson) "bytes" | int64) -}}
{{- end -}}
{{- end -}}
{{- mul 1048576 (div (add $sum 1048575) 1048576) -}}
{{- end -}}

{{/* gracePeriod is the least terminationGracePeriodSeconds: docket gets its signal last. */}}
{{- define "docket.gracePeriod" -}}
{{- $delay := 0 -}}
{{- if eq .Values.mode "tap" -}}
{{- $delay = add 20000 (include "docket.milliseconds" (.Values.tap.shutdownDelay | default "10s") | int64) -}}
{{- else if eq .Values.mode "sidecar" -}}
{{- $delay = include "docket.milliseconds" .Values.sidecar.shutdownDelay | int64 -}}
{{- end -}}
{{- $drain := include "docket.milliseconds" (dig "drainTimeout" "20s" (.Values.config.shutdown | default dict) | default "20s") | int64 -}}
{{- div (add $delay $drain 10000 999) 1000 -}}
{{- end -}}

{{/* listeners are the addresses of sources that others can reach: a list of {name, port}. */}}
{{- define "docket.listeners" -}}
{{- $list := list -}}
{{- range .Values.config.sources -}}
{{- $address := (get . (include "docket.kind" .) | default dict).address | default "" -}}
{{- if and $address (not (regexMatch "^(localhost|127\\.[0-9.]+|\\[::1\\]):" $address)) -}}
{{- $list = append $list (dict "name" .name "port" (regexFind "[0-9]+$" $address | int)) -}}
{{- end -}}
{{- end -}}
{{- toJson $list -}}
{{- end -}}

{{/* metricsPort is empty where there are no metrics. */}}
{{- define "docket.metricsPort" -}}
{{- regexFind "[0-9]+$" ((.Values.config.metrics).address | default "") -}}
{{- end -}}
