package kubetest_test

import (
	"strings"
	"testing"

	"github.com/docket-export/docket/test/kubetest"
)

const pod = `apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: main
    image: registry.example.com/main:1.0.0
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: deployment}
spec:
  selector: {matchLabels: {app: main}}
  template:
    metadata: {labels: {app: main}}
    spec:
      containers: [{name: main, image: "registry.example.com/main:1.0.0"}]
`

const monitor = `apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: monitor}
spec:
  selector: {matchLabels: {app: main}}
  podMetricsEndpoints: [{port: metrics}]
`

const certificate = `apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: certificate}
spec: {secretName: tls, dnsNames: [main.example.com], issuerRef: {name: issuer}}
`

// TestAccepts shows that whatever is wrong with a manifest is an error: a key that is
// unknown, of other kinds too, a pod that is not restricted, and a mere warning of one.
func TestAccepts(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{})
	c.ApplyCRDs()
	c.RestrictedNamespace("shop")
	for name, test := range map[string]struct{ manifests, want string }{
		"pod":                     {pod, ""},
		"monitor and certificate": {monitor + "---\n" + certificate, ""},
		"pod with privileges":     {strings.Replace(pod, "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true", 1), "allowPrivilegeEscalation != false"},
		"deployment of such":      {deployment, "would violate PodSecurity"},
		"unknown key of a pod":    {strings.Replace(pod, "metadata: {name: pod}", "metadata: {name: pod, label: a}", 1), "unknown field"},
		"unknown key of another":  {strings.Replace(monitor, "port:", "ports:", 1), "unknown field"},
		"one of two":              {pod + "---\n" + strings.Replace(certificate, "secretName", "secret", 1), "unknown field"},
	} {
		err := c.Accepts("shop", test.manifests)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
