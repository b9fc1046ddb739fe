package node

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/test/nodetest"
)

// symptom is what stands in backticks in a row.
var symptom = regexp.MustCompile("`([^`]+)`")

// TestTroubles makes mistakes, and looks for what docs/install.md says that each shows. Those
// that take longer have tests of their own: TestEvicted, TestOutOfMemory, TestNoGroup, TestGraceTooShort, TestDeafEngine.
func TestTroubles(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	rows := strings.Split(document.Read(t, "install.md").Section(t, "When it does not work").Text, "\n")
	for about, mistake := range map[string]struct {
		pod
		replace [2]string // in the manifest, which docket kubernetes sidecar has taken
	}{
		"`Init:ErrImagePull`": {pod: pod{change: func(spec parts) {
			sidecar(spec)["image"], sidecar(spec)["imagePullPolicy"] = "registry.example.com/docket:0.0.1", "IfNotPresent"
		}}},
		`configmap "docket" not found`: {replace: [2]string{"metadata: {name: docket}", "metadata: {name: docker}"}},
		"Startup probe failed": {pod: pod{change: func(spec parts) {
			sidecar(spec)["startupProbe"] = parts{"httpGet": parts{"path": "/readyz", "port": 9464}, "periodSeconds": 1, "failureThreshold": 1}
		}}},
		"exit code 2":               {replace: [2]string{"queue: {", "quue: {"}},
		"unbound immediate":         {pod: pod{flags: []string{"--volume", "claim=missing"}}},
		"queue: permission denied":  {pod: pod{change: onHost}},
		"queue is in use by":        {pod: pod{change: twice}},
		"exec: \"tar\": executable": {},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			var wants [][]string
			for _, row := range rows {
				if cells := strings.Split(row, " | "); strings.Contains(cells[0], about) {
					wants = symptom.FindAllStringSubmatch(cells[0], -1)
				}
			}
			if len(wants) == 0 {
				t.Fatalf("docs/install.md has no row about %q", about)
			}
			ns, r := n.PrivilegedNamespace(t), n.Receiver(t)
			ns.Apply("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: missing}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}")
			ns.Apply(strings.Replace(mistake.manifest(t, n, r), mistake.replace[0], mistake.replace[1], 1))
			var said strings.Builder
			ns.Await("what the page says", func() error {
				for _, command := range []string{
					"get pods", "get events -o custom-columns=REASON:.reason,MESSAGE:.message",
					"logs engine -c docket", "logs engine -c docket --previous", "logs engine -c twin",
					"cp engine:/var/lib/docket . -c docket", "exec engine -c docket -- sh",
				} {
					out, err := ns.TryKubectl(strings.Fields(command)...)
					fmt.Fprintln(&said, out, err)
				}
				for _, want := range wants {
					if !document.Says(said.String(), want[1]) {
						return fmt.Errorf("not seen: %q", want[1])
					}
				}
				return nil
			})
		})
	}
}

// onHost puts the queue into a directory of the node that is root's.
func onHost(spec parts) {
	v := queueVolume(spec)
	delete(v, "emptyDir")
	v["hostPath"] = parts{"path": "/var/lib/troubles", "type": "DirectoryOrCreate"}
}

// twice has a second docket on the same volume, which never gets ready.
func twice(spec parts) {
	twin := make(parts)
	for key, value := range sidecar(spec) {
		twin[key] = value
	}
	twin["name"] = "twin"
	delete(twin, "ports")
	spec["initContainers"] = append(spec["initContainers"].([]any), twin)
}
