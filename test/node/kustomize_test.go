package node

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/test/nodetest"
)

// overlay applies a kustomization in the place of manifests/overlays, with the files beside it.
func overlay(t *testing.T, ns *nodetest.Namespace, kustomization string, files map[string]string) {
	t.Helper()
	root, err := repo.Root()
	must(t, err)
	manifests := filepath.Join(t.TempDir(), "manifests")
	must(t, os.CopyFS(manifests, os.DirFS(filepath.Join(root, "manifests"))))
	mine := filepath.Join(manifests, "overlays", "mine")
	must(t, os.Mkdir(mine, 0o755))
	kustomization = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: " + ns.Name + "\n" +
		"images: [{name: docket, newName: docket.test/docket, newTag: dev}]\n" + kustomization
	must(t, os.WriteFile(filepath.Join(mine, "kustomization.yaml"), []byte(kustomization), 0o600))
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(mine, name), []byte(text), 0o600))
	}
	ns.Apply(ns.Kubectl("kustomize", mine))
}

// manifest is a file of manifests/, whose sink is r.
func manifest(t *testing.T, file string, r *nodetest.Receiver) string {
	t.Helper()
	root, err := repo.Root()
	must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "manifests", file))
	must(t, err)
	if strings.Count(string(text), "  stdout: {}\n") != 1 {
		t.Fatalf("%s has no sink stdout", file)
	}
	return strings.Replace(string(text), "  stdout: {}\n", fmt.Sprintf("  http: {url: %q}\n", r.URL+"/ingest"), 1)
}

// secret makes the Secret name with a certificate of ca for hosts, as cert-manager does.
func secret(t *testing.T, ns *nodetest.Namespace, name string, ca testcert.CA, hosts ...string) testcert.Pair {
	t.Helper()
	pair := ca.Issue(t, hosts[0], hosts[1:]...)
	ns.Kubectl("create", "secret", "generic", name, "--type=kubernetes.io/tls",
		"--from-file=tls.crt="+pair.CertFile, "--from-file=tls.key="+pair.KeyFile, "--from-file=ca.crt="+ca.File)
	return pair
}

// arrived waits until r has taken a line with text.
func arrived(ns *nodetest.Namespace, r *nodetest.Receiver, text string) {
	ns.Await("a record with "+text, func() error {
		lines := r.Lines()
		if !strings.Contains(strings.Join(lines, "\n"), text) {
			return fmt.Errorf("%d records have come", len(lines))
		}
		return nil
	})
}

// postTo posts JSON to a Service, over TLS with a certificate of ca, and returns the answer.
func postTo(t *testing.T, ns *nodetest.Namespace, ca testcert.CA, service, port, path, body string) string {
	t.Helper()
	address := ns.Kubectl("get", "service", service, "-o", "jsonpath={.spec.clusterIP}") + ":" + port
	transport := &http.Transport{DialContext: ns.Node.Dial, TLSClientConfig: &tls.Config{
		RootCAs: ca.Pool, ServerName: service + "." + ns.Name + ".svc",
		Certificates: []tls.Certificate{ca.Issue(t, "producer").TLS},
	}}
	defer transport.CloseIdleConnections()
	var answer []byte
	ns.Await("an answer of "+service, func() error {
		res, err := (&http.Client{Transport: transport}).Post("https://"+address+path, "application/json", strings.NewReader(body))
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if answer, err = io.ReadAll(res.Body); err == nil && res.StatusCode/100 != 2 {
			err = fmt.Errorf("%s: %s", res.Status, answer)
		}
		return err
	})
	return string(answer)
}

// The component puts docket beside an engine, which finds its socket. docket has nothing to
// warn of.
func TestKustomizeSidecar(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	ns, r := n.Namespace(t), n.Receiver(t)
	root, err := repo.Root()
	must(t, err)
	engine, err := os.ReadFile(filepath.Join(root, "manifests", "overlays", "sidecar", "engine.yaml"))
	must(t, err)
	overlay(t, ns, `resources: [engine.yaml]
components: [../../sidecar]
configMapGenerator:
- {name: docket, files: [docket.yaml], options: {disableNameSuffixHash: true}}
`, map[string]string{
		"engine.yaml": strings.Replace(string(engine), "registry.example.com/engine:1.0.0", "docket.test/engine:dev", 1),
		"docket.yaml": manifest(t, "overlays/sidecar/docket.yaml", r),
	})
	ns.Kubectl("rollout", "status", "deployment/engine", "--timeout=10m")
	arrived(ns, r, `"requestUID":"engine-`)
	for pod := range strings.FieldsSeq(ns.Kubectl("get", "pods", "-o", "name")) {
		if log := ns.Logs(pod, "docket"); !strings.Contains(log, "docket is running") || strings.Contains(log, "WARN") {
			t.Errorf("docket of %s says\n%s", pod, log)
		}
	}
}

// The StatefulSet takes what OPA sends to its Service, and keeps its queue on the claim.
func TestKustomizeStatefulSet(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	ns, r, ca := n.Namespace(t), n.Receiver(t), testcert.NewCA(t)
	secret(t, ns, "docket-tls", ca, "docket."+ns.Name+".svc")
	dir := ns.Volume("docket-queue-docket-0") // of 1Gi
	overlay(t, ns, `resources: [../../statefulset]
configMapGenerator:
- {name: docket, behavior: replace, files: [docket.yaml], options: {disableNameSuffixHash: true}}
patches:
- target: {kind: StatefulSet}
  patch: '[{"op": "replace", "path": "/spec/volumeClaimTemplates/0/spec/resources/requests/storage", "value": "480Mi"}]'
`, map[string]string{"docket.yaml": strings.Replace(manifest(t, "statefulset/docket.yaml", r), "maxBytes: 2Gi", "maxBytes: 256Mi", 1)})
	ns.AwaitReady("pod/docket-0")
	postTo(t, ns, ca, "docket", "8282", "/logs", `[{"decision_id":"4ca636c1-55e4-417a-b1d8-4aceb67960d1","path":"http/authz/allow","result":false}]`)
	arrived(ns, r, "4ca636c1-55e4-417a-b1d8-4aceb67960d1")
	if segments, err := filepath.Glob(filepath.Join(dir, "queue", "*.segment")); err != nil || len(segments) == 0 {
		t.Errorf("got %v, %v, want segments of the queue on the volume", segments, err)
	}
}

// A review goes through tap to the engine's webhook and back, and its decision to docket.
func TestKustomizeTap(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	ns, r, ca := n.Namespace(t), n.Receiver(t), testcert.NewCA(t)
	const uid = "705ab4f5-6393-11e8-b7cc-42010a800002"
	l, err := n.Listen(n.Address + ":0")
	must(t, err)
	engine := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if body, err := io.ReadAll(req.Body); err == nil && bytes.Contains(body, []byte(uid)) {
			fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":false,"status":{"message":"no"}}}`, uid)
		}
	}))
	must(t, engine.Listener.Close())
	engine.Listener = l
	engine.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, n.Address).TLS}}
	engine.StartTLS()
	t.Cleanup(engine.Close)
	secret(t, ns, "docket-tls", ca, "docket-tap."+ns.Name+".svc")
	secret(t, ns, "docket-upstream", ca, n.Address)
	root, err := repo.Root()
	must(t, err)
	tap, err := os.ReadFile(filepath.Join(root, "manifests", "tap", "tap.yaml"))
	must(t, err)
	overlay(t, ns, `resources: [../../tap]
configMapGenerator:
- {name: docket-tap, behavior: replace, files: [docket.yaml, tap.yaml], options: {disableNameSuffixHash: true}}
`, map[string]string{
		"docket.yaml": manifest(t, "tap/docket.yaml", r),
		"tap.yaml":    strings.Replace(string(tap), "https://engine.policy.svc", engine.URL, 1),
	})
	ns.Kubectl("rollout", "status", "deployment/docket-tap", "--timeout=10m")
	answer := postTo(t, ns, ca, "docket-tap", "443", "/v1/admit", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"`+uid+`","operation":"CREATE","kind":{"version":"v1","kind":"ConfigMap"},"name":"a","namespace":"shop","object":{}}}`)
	if !strings.Contains(answer, `"message":"no"`) {
		t.Errorf("got %s, want the answer of the engine", answer)
	}
	arrived(ns, r, `"requestUID":"`+uid+`"`)
}
