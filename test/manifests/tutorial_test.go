package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/internal/document/desk"
	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/test/kubetest"
)

// TestTutorial follows what docs/gatekeeper-kafka-siem.md does in a cluster up to Helm's first command, on a real API
// server. A deployment that stands in for the rendered chart shows what the component and the patch make of it.
func TestTutorial(t *testing.T) {
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	c := kubetest.Start(t, kubetest.Options{})
	c.Kubectl("create", "namespace", "gatekeeper-system")
	bin := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' --kubeconfig '%s' --cache-dir '%s' \"$@\"\n", c.KubectlProgram(), c.Kubeconfig, t.TempDir())
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	d := desk.New(t, "docket/bin/docket", "docket")
	if err := os.Symlink(root, filepath.Join(d.Dir, "docket")); err != nil {
		t.Fatal(err)
	}

	part := document.Read(t, "gatekeeper-kafka-siem.md").Section(t, "Part 2: in your cluster")
	d.Follow(t, part.Section(t, "1. Write the configuration").Steps())
	d.Follow(t, part.Section(t, "2. Store the token and the configuration").Steps())

	webhook := part.Section(t, "6. Add the denials of the webhook").Steps()
	d.Follow(t, webhook[:1])
	files, _, _ := strings.Cut(webhook[1].Commands, "helm ")
	d.Do(t, files)
	rendered, _, _ := strings.Cut(part.Section(t, "3. Put docket beside the audit").Steps()[0].Commands, "helm ")
	d.Do(t, rendered)
	if err := os.WriteFile(filepath.Join(d.Dir, "webhook", "gatekeeper.yaml"), []byte(standIn), 0o600); err != nil {
		t.Fatal(err)
	}
	made := d.Do(t, "kubectl apply --server-side --validate=strict -k webhook\nkubectl -n gatekeeper-system get deployment gatekeeper-controller-manager -o yaml\n")
	for _, want := range []string{
		"configmap/docket-webhook serverside-applied",
		"image: registry.example.com/docket:1.0.0",
		"mountPath: /var/run/secrets/siem",
		"name: docket-webhook",
	} {
		if !strings.Contains(made, want) {
			t.Errorf("there is no %q in\n%s", want, made)
		}
	}
}

// standIn is what the tutorial needs of the chart's Deployment, with the volumes that siem.yaml adds.
const standIn = `apiVersion: apps/v1
kind: Deployment
metadata: {name: gatekeeper-controller-manager, namespace: gatekeeper-system}
spec:
  selector: {matchLabels: {app: gatekeeper}}
  template:
    metadata: {labels: {app: gatekeeper}}
    spec:
      containers:
      - name: manager
        image: openpolicyagent/gatekeeper:v3.23.1
        ports:
        - {name: webhook-server, containerPort: 8444, protocol: TCP}
      volumes:
      - {name: cert, secret: {secretName: gatekeeper-webhook-server-cert}}
      - {name: docket-config, configMap: {name: docket-audit}}
      - {name: docket-siem, secret: {secretName: docket-siem, defaultMode: 0440}}
`
