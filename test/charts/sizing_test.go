package charts

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strconv"
	"testing"
)

// sized are configurations with each of the keys that a size depends on.
var sized = map[string]string{
	"usual": ``,
	"small": `
  limits: {maxRecordBytes: 64Ki, producers: 100}
  queue: {maxBytes: 16Mi, minFreeBytes: 0}
  admin: {address: ""}
  metrics: null
  shutdown: {drainTimeout: 1500ms}`,
	"large": `
  limits: {maxRecordBytes: 4Mi, producers: 65536}
  queue: {maxBytes: 7G, minFreeBytes: 1Gi}
  admin: {pprof: true}
  shutdown: {drainTimeout: 1h1m1.5s}`,
	"numbers": `
  limits: {maxRecordBytes: 1500000}
  queue: {maxBytes: 3000000000, minFreeBytes: 100000001}`,
	"without admin": `
  limits: {maxRecordBytes: 2000000}
  admin: {address: ""}`,
	"metrics over TLS": `
  metrics: {address: ":9465", tls: {certFile: /etc/tls/tls.crt, keyFile: /etc/tls/tls.key}}`,
	"sockets": `
  sources:
  - {name: a, unix: {path: /run/docket/a.sock, maxConnections: 7}}
  - {name: b, tcp: {address: ":7443", tls: {certFile: /etc/tls/tls.crt, keyFile: /etc/tls/tls.key}}}
  - {name: c, tcp: {address: "127.0.0.1:7444", maxConnections: 2000}}`,
	"services": `
  sources:
  - {name: a, opa: {address: "localhost:8282", maxConnections: 3}}
  - {name: b, opa: {address: ":8283", bearerTokenFile: /etc/tls/token, tls: {certFile: /etc/tls/tls.crt, keyFile: /etc/tls/tls.key}}}
  - {name: c, kubernetesAudit: {address: "10.0.0.1:8443", tls: {certFile: /etc/tls/tls.crt, keyFile: /etc/tls/tls.key}}}`,
	"files": `
  limits: {maxRecordBytes: 128Ki}
  sources:
  - {name: a, gatekeeper: {path: /etc/tls/topics}}
  - {name: b, tail: {path: /etc/tls/log, format: json}, redact: [{preset: kubernetesSecrets}]}`,
	"large files": `
  limits: {maxRecordBytes: 16Mi}
  sources:
  - {name: a, gatekeeper: {path: /etc/tls/topics}}
  - {name: b, tail: {path: /etc/tls/log, format: json}, redact: [{preset: kubernetesSecrets}]}
  queue: {maxBytes: 1Ti}`,
	"http": `
  sinks:
  - {name: a, stamp: true, deadLetters: {maxBytes: 32Mi}, http: {url: "https://a.example.com"}}
  - {name: b, onReject: Drop, batch: {maxBytes: 3Mi}, http: {url: "https://b.example.com", maxInFlight: 8, compression: zstd}}
  - {name: c, onReject: Block, http: {url: "https://c.example.com", maxInFlight: 1, compression: none}}
  - {name: d, retire: true, http: {url: "https://d.example.com"}}`,
	"kafka": `
  sinks:
  - {name: a, kafka: {brokers: ["kafka:9092"], topic: a}}
  - {name: b, stamp: true, batch: {maxBytes: 500k}, kafka: {brokers: ["kafka:9092"], topic: b, compression: lz4}}
  - {name: c, stdout: {}}`,
	"exports": `
  sinks:
  - {name: a, file: {directory: /var/lib/docket/a, retain: {maxTotalBytes: 1G}}}
  - {name: b, batch: {maxBytes: 100Mi}, file: {directory: /var/lib/docket/b, compress: zstd, retain: {maxFiles: 11}}}
  - {name: c, file: {directory: /var/lib/docket/c, rotate: {maxBytes: 200Mi, maxAge: 0s}, retain: {maxFiles: 3, maxTotalBytes: 2Gi}}}`,
}

// delays are what engines take to stop, by the name of a configuration of sized.
var delays = map[string]string{"small": "0s", "large": "1m0.2s"}

// The chart has the same container, volumes, grace period and group as docket writes for
// the same configuration, size by size.
func TestSizedAsByDocket(t *testing.T) {
	parent := engine(t)
	for name, config := range sized {
		for _, kind := range []string{"emptyDir", "ephemeral", "claim"} {
			for _, slot := range []string{"initContainer", "container"} {
				if name != "usual" && (kind != "emptyDir" || slot != "initContainer") {
					continue // one configuration for each form
				}
				t.Run(name+" "+kind+" "+slot, func(t *testing.T) {
					t.Parallel()
					testSized(t, parent, config, kind, slot, delays[name])
				})
			}
		}
	}
}

func testSized(t *testing.T, parent, config, kind, slot, delay string) {
	delay = cmp.Or(delay, "30s")
	volume, flag := "{kind: "+kind+"}", kind
	if kind == "claim" {
		volume, flag = "{kind: claim, claimName: queue}", "claim=queue"
	}
	r := render(t, parent, below("docket", usual), "slot: "+slot, below("docket", `
volumes: [{name: docket-secret-all, secret: {secretName: all, defaultMode: 0440}}]
volumeMounts: [{name: docket-secret-all, mountPath: /etc/tls, readOnly: true}]
sidecar: {shutdownDelay: `+delay+`, blockingStrict: true}
volume: `+volume+`
config:
  limits: {}`+config))
	file := write(t, "docket.yaml", r.get(t, "ConfigMap", "data", "docket.yaml").(string))
	ceiling := r.get(t, "Deployment", "spec", "template", "metadata", "annotations", "memory-ceiling")
	if want := strconv.FormatInt(memoryCeiling(t, file), 10); ceiling != want {
		t.Errorf("got a ceiling of %s bytes, docket check says %s", ceiling, want)
	}
	args := []string{
		"kubernetes", "sidecar", "-o", "json", "-f", file,
		"--image", "registry.example.com/docket:1.0.0", "--config-map", "policy-docket", "--secret", "all=/etc/tls",
		"--volume", flag, "--shutdown-delay", delay, "--blocking-strict",
	}
	if slot == "container" {
		args = append(args, "--plain")
	}
	var want object
	if err := json.Unmarshal(docket(t, args...), &want); err != nil {
		t.Fatal(err)
	}
	spec := r.get(t, "Deployment", "spec", "template", "spec").(object)
	list := slot + "s"
	got := object{}
	for key := range want {
		got[key] = spec[key]
	}
	containers := spec[list].([]any)
	c := containers[len(containers)-1].(object)
	delete(c, "imagePullPolicy")
	got[list] = []any{c}
	if a, b := normal(t, got), normal(t, want); !reflect.DeepEqual(a, b) {
		t.Errorf("chart:\n%s\ndocket:\n%s", text(t, a), text(t, b))
	}
}

// The limit of tap's container is what docket check prints, in steps of 16Mi, and the grace
// period has room for tap, then docket.
func TestTapSized(t *testing.T) {
	r := render(t, chart(t), usual, tap, `
tap: {docket: {maxBufferedBytes: 21Mi}, shutdownDelay: 25s}
config: {shutdown: {drainTimeout: 10s}}
`)
	file := write(t, "tap.yaml", r.get(t, "ConfigMap", "data", "tap.yaml").(string))
	const step = 16 << 20
	want := strconv.FormatInt((memoryCeiling(t, file)+step-1)/step*16, 10) + "Mi"
	spec := []any{"spec", "template", "spec"}
	if got := r.get(t, "Deployment", append(spec, "containers", 0, "resources", "limits", "memory")...); got != want {
		t.Errorf("got a limit of %v, want %s", got, want)
	}
	if got := r.get(t, "Deployment", append(spec, "terminationGracePeriodSeconds")...); got != 25+20+10+10 {
		t.Errorf("got a grace period of %v s, want 65", got)
	}
}

// memoryCeiling is that of docket check, to the byte.
func memoryCeiling(t *testing.T, file string) int64 {
	t.Helper()
	var checked struct{ Memory struct{ Bytes int64 } }
	if err := json.Unmarshal(docket(t, "check", "--no-files", "-o", "json", "-f", file), &checked); err != nil {
		t.Fatal(err)
	}
	return checked.Memory.Bytes
}

// normal is v as JSON has it: numbers of one type.
func normal(t *testing.T, v any) (same any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text(t, v)), &same); err != nil {
		t.Fatal(err)
	}
	return same
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
