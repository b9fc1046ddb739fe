package charts

import (
	"strings"
	"testing"
)

// refused are mistakes, in values beside those of the first layers, and what the chart says
// of them: by its schema first.
var refused = map[string]struct {
	values []string
	want   string
}{
	"no repository":          {[]string{tcp, `image: {repository: ""}`}, "image.repository: is required: there is no public image, and docs/install.md says how to make and push one"},
	"user beyond Kubernetes": {[]string{tcp, `user: 70000000000`}, "at '/user': maximum: got 7×10¹⁰, want 2.147483647×10⁰⁹"},
	"unknown key":            {[]string{tcp, `replica: 2`}, "additional properties 'replica' not allowed"},
	"queue in memory": {[]string{tap, `volume: {medium: Memory}`},
		"at '/volume': additional properties 'medium' not allowed"},
	"unknown key of docket":  {[]string{tcp, `config: {queue: {maxByte: 1Gi}}`}, "at '/config/queue': additional properties 'maxByte' not allowed"},
	"wrong value of docket":  {[]string{tcp, `config: {queue: {whenFull: Wait}}`}, "at '/config/queue/whenFull': value must be one of 'Block', 'Refuse', 'DropOldest'"},
	"wrong value of tap":     {[]string{tap, `tap: {docket: {mode: Strict}}`}, "at '/tap/docket/mode': value must be one of 'Batch', 'Blocking', 'BlockingStrict'"},
	"key that the pod sets":  {[]string{tap, `tap: {listen: ":9443"}`}, "at '/tap': additional properties 'listen' not allowed"},
	"engine over plain HTTP": {[]string{tap, `tap: {upstream: {url: "http://engine.policy.svc"}}`}, "at '/tap/upstream/url'"},
	"issuer without a name":  {[]string{tap, `tls: {secretName: "", issuerRef: {kind: Issuer}}`}, "at '/tls/issuerRef'"},
	"section that is null":   {[]string{tcp, `resources: null`}, "missing property 'resources'"},
	"mode":                   {[]string{tcp, `mode: daemonset`}, "at '/mode': value must be one of 'statefulset', 'tap', 'sidecar'"},

	"memory limit": {[]string{tcp, `resources: {limits: {memory: 64Mi}}`},
		"resources.limits.memory: 64Mi is less than docket may take with this configuration: at least 96Mi"},
	"tap's memory limit": {[]string{tap, `tapContainer: {resources: {limits: {memory: 128Mi}}}`},
		"tapContainer.resources.limits.memory: 128Mi is less than tap may take: at least 240Mi"},
	"volume": {[]string{tap, `volume: {size: 2Gi}`},
		"volume.size: 2Gi is less than docket may keep with this configuration: at least 2944Mi"},
	"grace period": {[]string{tap, `terminationGracePeriodSeconds: 30`},
		"terminationGracePeriodSeconds: in 30 docket is killed before it has stopped: at least 60, for the engine or tap, config.shutdown.drainTimeout and 10 s"},
	"replicas on one claim": {[]string{tap, "replicas: 2\nvolume: {kind: claim, claimName: queue}"},
		"replicas: one docket at a time can use volume.claimName: make it 1"},
	"claim without a name": {[]string{tap, `volume: {kind: claim}`}, "volume.claimName: is required with the kind claim"},
	"size of a claim": {[]string{tap, `volume: {kind: claim, claimName: queue, size: 10Gi}`},
		"volume.size, volume.storageClassName: an existing claim has its own: leave them empty"},
	"claim of another kind":   {[]string{tap, `volume: {claimName: queue}`}, "volume.claimName: is for the kind claim alone"},
	"class of an emptyDir":    {[]string{tap, `volume: {storageClassName: fast}`}, "volume.storageClassName: an emptyDir has none"},
	"kind of a StatefulSet's": {[]string{tcp, `volume: {kind: emptyDir}`}, "volume.kind: in mode statefulset each pod has a claim of its own: leave it empty"},
	"queue outside": {[]string{tcp, `config: {queue: {directory: /var/lib/queue}}`},
		"config.queue.directory: must be /var/lib/docket/queue, which is on the volume, or be left out"},
	"no sink": {[]string{tcp, `config: {sinks: []}`}, "config.sinks: at least one is required"},
	"export without a bound": {[]string{tcp, `config: {sinks: [{name: a, file: {directory: /var/lib/docket/export, retain: {maxAge: 24h}}}]}`},
		"config.sinks[0].file.retain.maxTotalBytes: is required on this kind of volume: without a bound the export fills the volume"},
	"file of an export without a bound": {[]string{tcp, `config: {sinks: [{name: a, file: {directory: /var/lib/docket/export, rotate: {maxBytes: 0}, retain: {maxFiles: 9}}}]}`},
		"config.sinks[0].file.rotate.maxBytes: is required"},
	"export outside": {[]string{tcp, `config: {sinks: [{name: a, file: {directory: /var/log/docket, retain: {maxTotalBytes: 1Gi}}}]}`},
		"config.sinks[0].file.directory: /var/log/docket is outside the volume at /var/lib/docket: use /var/lib/docket/export"},
	"secret in no volume": {[]string{tcp, `config: {sinks: [{name: a, http: {url: "https://siem.example.com", headerFiles: {X-Key: /etc/siem/key}, tls: {caFile: /etc/siem-ca/ca.crt}}}]}`},
		"config.sinks[0].http.headerFiles.X-Key: /etc/siem/key is not in a volume of the container: mount its Secret with volumes and volumeMounts, or at /etc/docket-tls with tls.secretName\n" +
			"  config.sinks[0].http.tls.caFile: /etc/siem-ca/ca.crt is not in a volume"},
	"certificate without a Secret": {[]string{tcp, `tls: {secretName: ""}`}, "config.sources[0].tcp.tls.certFile: /etc/docket-tls/tls.crt is not in a volume"},
	"log in no volume": {[]string{tap, `config: {sources: [{name: engine, unix: {path: /run/docket/docket.sock}}, {name: log, tail: {path: /var/log/engine.log, format: json}}]}`},
		"config.sources[1].tail.path: /var/log/engine.log is not in a volume of the container"},
	"socket elsewhere": {[]string{tap, `config: {sources: [{name: engine, unix: {path: /tmp/docket.sock}}]}`},
		"config.sources[0].unix.path: /tmp/docket.sock is not in /run/docket, the directory that the engine shares"},
	"socket for its owner": {[]string{tap, `config: {sources: [{name: engine, unix: {path: /run/docket/docket.sock, mode: "0600"}}]}`},
		`config.sources[0].unix.mode: 0600 locks out an engine that runs as another user than docket: use "0660" at least`},
	"socket of another group": {[]string{tap, `config: {sources: [{name: engine, unix: {path: /run/docket/docket.sock, group: "1234"}}]}`},
		"config.sources[0].unix.group: docket is not a member of group 1234, so nobody can connect: leave the key out, and the socket gets the group of the pod, 65532"},
	"port of tap's": {[]string{tap, `config: {metrics: {address: ":9466"}}`}, "config.metrics.address: the port 9466 is that of the metrics of tap: give another one"},
	"port of the webhook": {[]string{tap, `config: {sources: [{name: engine, unix: {path: /run/docket/docket.sock}}, {name: opa, opa: {address: "127.0.0.1:8443"}}]}`},
		"config.sources[1].opa.address: the port 8443 is that of tap: give another one"},
	"port of the metrics": {[]string{tcp, `config: {metrics: {address: ":7443"}}`}, "config.sources[0].tcp.address: the port 7443 is that of config.metrics.address: give another one"},
	"port of the status":  {[]string{tcp, `config: {metrics: {address: ":9464"}}`}, "config.metrics.address: the port 9464 is that of config.admin.address: give another one"},
	"name of a port":      {[]string{tcp, `config: {sources: [{name: docket-metrics, tcp: {address: ":8282", tls: {certFile: /etc/docket-tls/tls.crt, keyFile: /etc/docket-tls/tls.key}}}]}`}, "config.sources[0].name: docket-metrics is the port of the metrics"},
	"name of no object":   {[]string{tcp, `fullnameOverride: A_b`}, "at '/fullnameOverride'"},
	"inherited socket": {[]string{tap, `config: {sources: [{name: engine, unix: {path: null, inherited: docket}}]}`},
		"config.sources[0].unix.inherited: a container cannot inherit a socket"},
	"nothing reaches it": {[]string{`{}`}, "config.sources: in mode statefulset nothing reaches docket: add a source of kind tcp, opa or kubernetesAudit with an address such as :7443"},
	"only loopback":      {[]string{`config: {sources: [{name: opa, opa: {address: "127.0.0.1:8282"}}]}`}, "config.sources: in mode statefulset nothing reaches docket"},

	"tap without an engine":       {[]string{"mode: tap\ntls: {secretName: webhook-tls}"}, "tap.upstream.url: is required in mode tap"},
	"tap in another mode":         {[]string{tap, `mode: sidecar`}, "tap: is for mode tap alone"},
	"tap without a certificate":   {[]string{tap, `tls: {secretName: ""}`}, "tls: in mode tap secretName or issuerRef is required"},
	"tap without docket's socket": {[]string{tap, `config: {sources: [{name: opa, opa: {address: "127.0.0.1:8282"}}]}`}, "config.sources: in mode tap one must be {unix: {path: /run/docket/docket.sock}}"},
	"tap's CA in no volume": {[]string{tap, `tap: {upstream: {caFile: /etc/engine/ca.crt}}`},
		"tap.upstream.caFile: /etc/engine/ca.crt is not in a volume of the container: mount its Secret with volumes and tapContainer.volumeMounts"},
	"two certificates":      {[]string{tap, `tls: {issuerRef: {name: internal}}`}, "tls: secretName is a Secret that there is, issuerRef makes one: give one of them"},
	"certificate of nobody": {[]string{"mode: sidecar\ntls: {issuerRef: {name: internal}}"}, "tls.dnsNames: is required with issuerRef in mode sidecar"},

	"monitor without metrics": {[]string{tcp, "monitoring: {monitor: PodMonitor}\nconfig: {metrics: null}"}, "monitoring.monitor: there is nothing to scrape"},
	"monitor of no Service":   {[]string{"mode: sidecar\nmonitoring: {monitor: ServiceMonitor}"}, "monitoring.monitor: mode sidecar has no Service: make it PodMonitor"},
	"metrics on loopback":     {[]string{tcp, `config: {metrics: {address: "127.0.0.1:9465"}}`}, "config.metrics.address: Prometheus asks the address of the pod"},
	"policy of the engine's":  {[]string{"mode: sidecar\nnetworkPolicy: {enabled: true}"}, "networkPolicy.enabled: in mode sidecar the pod is the engine's"},
}

func TestRefused(t *testing.T) {
	for name, tt := range refused {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := helm(t, append([]string{usual}, tt.values...), "template", "policy", chart(t))
			if err == nil {
				t.Fatalf("taken: want %q; got:\n%s", tt.want, out)
			}
			// Helm indents what templates say.
			if got := strings.ReplaceAll(err.Error(), "\n    ", "\n"); !strings.Contains(got, tt.want) {
				t.Errorf("got %s\nwant %q", got, tt.want)
			}
		})
	}
}

// Helm takes names of releases that are numbers to YAML, or no names of a Service.
func TestReleaseOfDigits(t *testing.T) {
	out, err := helm(t, []string{usual, tcp}, "template", "1.23", chart(t))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "\n  name: 1-23-docket\n") || strings.Contains(out, "instance: 1.23\n") {
		t.Errorf("got a name with a dot, or a label that is a number:\n%s", out)
	}
}
