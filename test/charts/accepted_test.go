package charts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/kubetest"
)

// tcp is a central docket that others reach.
const tcp = `
tls: {secretName: docket-tls}
config:
  sources:
  - name: engines
    tcp: {address: ":7443", tls: {certFile: /etc/docket-tls/tls.crt, keyFile: /etc/docket-tls/tls.key, clientCAFile: /etc/docket-tls/ca.crt}}
`

// tap is docket tap in front of an engine.
const tap = `
mode: tap
tls: {secretName: webhook-tls}
tap: {upstream: {url: "https://engine.policy.svc"}, preset: gatekeeper}
`

// accepted are values that the chart must render and an API server must take, beside the
// usual ones.
var accepted = map[string][]string{
	"statefulset": {tcp},
	"statefulset of three on a storage class": {tcp, `
replicas: 3
volume: {storageClassName: fast, size: 20Gi}
podLabels: {team: policy}
podAnnotations: {example.com/owner: policy}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
  labelSelector: {matchLabels: {app.kubernetes.io/name: docket}}
`},
	"statefulset with two sources": {tcp, `
config:
  sources:
  - name: opa
    opa: {address: "0.0.0.0:8282", tls: {certFile: /etc/docket-tls/tls.crt, keyFile: /etc/docket-tls/tls.key}}
  - name: engine
    unix: {path: /run/docket/docket.sock}
`},
	"statefulset with an export": {tcp, `
volume: {size: 16Gi}
config:
  sinks:
  - name: archive
    file: {directory: /var/lib/docket/export, retain: {maxTotalBytes: 10Gi}, compress: zstd}
`},
	"statefulset without metrics": {tcp, `
config:
  metrics: null
`},
	"statefulset with a certificate": {tcp, `
tls: {secretName: "", issuerRef: {kind: ClusterIssuer, name: internal}, dnsNames: [docket.example.com]}
`},
	"statefulset with a PodMonitor": {tcp, `
monitoring: {monitor: PodMonitor, labels: {release: prometheus}, interval: 30s}
`},
	"statefulset with a ServiceMonitor": {tcp, `
monitoring: {monitor: ServiceMonitor}
`},
	"statefulset with metrics over TLS": {tcp, `
config:
  metrics: {address: ":9465", tls: {certFile: /etc/docket-tls/tls.crt, keyFile: /etc/docket-tls/tls.key}}
monitoring: {monitor: PodMonitor, tlsConfig: {serverName: docket, ca: {secret: {name: docket-tls, key: ca.crt}}}}
`},
	"network policy with peers": {tcp, `
networkPolicy:
  enabled: true
  from: [{podSelector: {matchLabels: {app: engine}}}]
  metricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
  egress: [{ports: [{port: 443}, {port: 53, protocol: UDP}]}]
`},
	"digest and registry": {tcp, `
image: {digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000", pullPolicy: Always}
imagePullSecrets: [{name: registry}]
`},
	"placed": {tcp, `
fullnameOverride: decisions
terminationGracePeriodSeconds: 300
resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: "2", memory: 1Gi}}
user: 1000660000
priorityClassName: system-cluster-critical
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: policy, operator: Exists}]
affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app.kubernetes.io/name: docket}}}}]}}
env: [{name: HTTPS_PROXY, value: "http://proxy.example.com:3128"}]
`},
	"tap": {tap},
	"tap with replicas": {tap, `
replicas: 3
service: {type: LoadBalancer}
`},
	"tap on ephemeral volumes": {tap, `
replicas: 2
volume: {kind: ephemeral, storageClassName: fast, size: 5Gi}
`},
	"tap on a claim": {tap, `
volume: {kind: claim, claimName: docket-queue}
`},
	"tap that blocks": {tap, `
tap: {docket: {mode: BlockingStrict, timeout: 3s, maxBufferedBytes: 16Mi}, shutdownDelay: 30s, cluster: prod}
terminationGracePeriodSeconds: 80
`},
	"tap with the engine's CA": {tap, `
tap: {upstream: {caFile: /etc/engine/ca.crt, serverName: engine.policy.svc}, decisions: [deny, warn, error, allow]}
volumes: [{name: engine-ca, secret: {secretName: engine-ca, items: [{key: ca.crt, path: ca.crt}]}}]
tapContainer: {resources: {limits: {memory: 1Gi}}, volumeMounts: [{name: engine-ca, mountPath: /etc/engine, readOnly: true}]}
`},
	"tap with everything": {tap, `
tls: {secretName: "", issuerRef: {kind: Issuer, name: webhook}}
networkPolicy: {enabled: true}
monitoring: {monitor: ServiceMonitor}
`},
	"sidecar": {`
mode: sidecar
`},
	"sidecar with a PodMonitor": {`
mode: sidecar
monitoring: {monitor: PodMonitor}
tls: {issuerRef: {name: internal}, dnsNames: [docket]}
`},
}

// inEngine are values of a sidecar in the chart of an engine.
var inEngine = map[string]string{
	"native sidecar": "",
	"sidecar that blocks": `
docket: {sidecar: {blockingStrict: true}, terminationGracePeriodSeconds: 120}
`,
	"plain container": `
slot: container
docket: {sidecar: {shutdownDelaySeconds: 10}}
`,
	"plain container on a claim": `
slot: container
docket: {volume: {kind: claim, claimName: queue}}
`,
	"sidecar with a token": `
docket:
  volume: {kind: ephemeral}
  volumes: [{name: siem-token, secret: {secretName: siem-token, defaultMode: 0440}}]
  volumeMounts: [{name: siem-token, mountPath: /etc/siem, readOnly: true}]
  config:
    sinks: [{name: siem, http: {url: "https://siem.example.com/ingest", bearerTokenFile: /etc/siem/token}}]
`,
}

// The API server takes all objects of each release without a warning, in a namespace that
// admits restricted pods alone, and docket takes the configurations in them.
func TestAccepted(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{})
	c.ApplyCRDs()
	c.RestrictedNamespace("restricted")
	test := func(name, dir string, values ...string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := render(t, dir, values...)
			if err := c.Accepts("restricted", r.text); err != nil {
				t.Errorf("%v\n%s", err, r.text)
			}
			for file, text := range r.get(t, "ConfigMap", "data").(object) {
				if strings.HasSuffix(file, ".yaml") {
					docket(t, "check", "--no-files", "-f", write(t, file, fmt.Sprint(text)))
				}
			}
		})
	}
	for name, values := range accepted {
		test(name, chart(t), append([]string{usual}, values...)...)
	}
	parent := engine(t)
	for name, values := range inEngine {
		test(name, parent, below("docket", usual), values)
	}
}
