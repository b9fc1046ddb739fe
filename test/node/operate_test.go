package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/internal/testcert"
)

// A change of the ConfigMap takes effect without a restart. A broken one changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	p := pod{engine: "-every=20ms"}
	s := p.start(t)
	second := s.Node.Receiver(t)
	s.Apply(configMap(strings.Replace(p.configFile(s.r), "http: {url:", "http: {bearerTokenfile: /token, url:", 1)))
	s.row("DocketConfigError")
	s.row("Does it still work?")
	s.Apply(configMap(p.configFile(second)))
	s.Await("records at the new URL", func() error {
		if len(second.Lines()) == 0 {
			return errors.New("none")
		}
		return nil
	})
	s.remove()
	uids := s.acked()
	taken := second.RequestUIDs()
	for _, uid := range s.r.Missing(uids) {
		if taken[uid] == 0 {
			t.Errorf("%s is lost", uid)
		}
	}
	if strings.Count(s.text(s.docket), `"docket is running"`) != 1 {
		t.Errorf("docket was started again:\n%s", s.text(s.docket))
	}
	t.Logf("%d acknowledged, %d of them at the new URL", len(uids), len(taken))
}

// A certificate that is renewed in its Secret is in use without a restart.
func TestCertificate(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	ca := testcert.NewCA(t)
	secret := func(pair testcert.Pair) {
		text, err := json.Marshal(parts{
			"apiVersion": "v1", "kind": "Secret", "metadata": parts{"name": "metrics"}, "type": "kubernetes.io/tls",
			"stringData": parts{"tls.crt": pair.CertPEM, "tls.key": pair.KeyPEM},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Apply(string(text))
	}
	secret(ca.Issue(t, "docket", "first.test"))
	s.Apply(pod{
		engine: "-every=20ms", flags: []string{"--secret", "metrics=/etc/docket-tls"},
		config: "metrics: {address: \":9465\", tls: {certFile: /etc/docket-tls/tls.crt, keyFile: /etc/docket-tls/tls.key}}\n",
	}.manifest(t, s.Node, s.r))
	s.run()
	served := func(name string) {
		address := s.get("{.status.podIP}") + ":9465"
		s.Await("the certificate of "+name, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			conn, err := s.Node.Dial(ctx, "tcp", address)
			if err != nil {
				return err
			}
			defer conn.Close()
			return tls.Client(conn, &tls.Config{RootCAs: ca.Pool, ServerName: name}).HandshakeContext(ctx)
		})
	}
	served("first.test")
	secret(ca.Issue(t, "docket", "second.test"))
	served("second.test")
	s.nothingLost()
}

const prometheusManifest = `apiVersion: v1
kind: ConfigMap
metadata: {name: prometheus}
data:
  prometheus.yml: |
    global: {scrape_interval: 500ms, scrape_timeout: 500ms}
    scrape_configs:
    - job_name: docket
      static_configs: [{targets: [TARGET]}]
---
apiVersion: v1
kind: Pod
metadata: {name: prometheus}
spec:
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: prometheus
    image: docket.test/prometheus:dev
    imagePullPolicy: Never
    args: [--config.file=/etc/prometheus/prometheus.yml, --storage.tsdb.path=/data]
    readinessProbe: {httpGet: {path: /-/ready, port: 9090}, periodSeconds: 1}
    securityContext: {runAsUser: 65532, readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    volumeMounts:
    - {name: config, mountPath: /etc/prometheus}
    - {name: data, mountPath: /data}
  volumes:
  - {name: config, configMap: {name: prometheus}}
  - {name: data, emptyDir: {}}
`

// row awaits what a row of the runbook's table shows when its command runs in the pod.
func (s *scene) row(symptom string) {
	s.t.Helper()
	for line := range strings.Lines(document.Read(s.t, "runbook.md").Section(s.t, "At 3 a.m.").Text) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), "|")
		if len(cells) != 7 || !strings.HasPrefix(strings.Trim(cells[1], " ["), symptom) {
			continue
		}
		command := strings.Trim(cells[2], " `")
		s.Await(symptom, func() error {
			out, _ := s.kubectl(strings.ReplaceAll(command, "\x00", "|")) // some exit with 1 to say what they show
			for _, want := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[3], -1) {
				if !document.Says(out, want[1]) {
					return fmt.Errorf("%s shows no %q:\n%s", command, want[1], out)
				}
			}
			return nil
		})
		return
	}
	s.t.Fatalf("the runbook has no row %q", symptom)
}

// kubectl runs a command of the runbook in docket's container. What stands behind | runs here.
func (s *scene) kubectl(command string) (string, error) {
	inside, here, _ := strings.Cut(strings.ReplaceAll(command, "docket.yaml", "/etc/docket/docket.yaml"), "|")
	cmd := s.Node.Kubectl(s.t.Context(), append([]string{"exec", "-n", s.Name, "engine", "-c", "docket", "--"}, strings.Fields(inside)...)...)
	out, err := cmd.CombinedOutput()
	if here == "" {
		return string(out), err
	}
	filter := exec.CommandContext(s.t.Context(), "sh", "-c", here)
	filter.Stdin = bytes.NewReader(out)
	out, err = filter.CombinedOutput()
	return string(out), err
}
