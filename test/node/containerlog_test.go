package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/docket-export/docket/test/nodetest"
)

// perLife is how many lines a container of TestContainerLog writes before it ends: more than the kubelet leaves in one
// file.
const perLife = 60000

// lives writes lines for about a minute, ends, and is started again.
const lives = `life=$(cut -d' ' -f1 /proc/uptime)
pad=$(printf '%0200d' 0)
i=0
while [ $i -lt 60000 ]; do
	echo "{\"life\":\"$life\",\"n\":$i,\"pad\":\"$pad\"}"
	i=$((i+1))
	[ $((i % 1000)) -ne 0 ] || sleep 1
done
sleep 3
exit 1`

// TestContainerLog has docket follow the directory of a container that the kubelet rotates and restarts: each line of
// each life is exported once.
func TestContainerLog(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	s := &scene{Namespace: n.PrivilegedNamespace(t), t: t, r: n.Receiver(t)}
	manifest := func(name string, spec parts) string {
		text, err := json.Marshal(parts{"apiVersion": "v1", "kind": "Pod", "metadata": parts{"name": name}, "spec": spec})
		must(t, err)
		return string(text) + "\n"
	}
	s.Apply(manifest("engine", parts{"containers": []any{parts{
		"name": "manager", "image": "docket.test/busybox:dev", "imagePullPolicy": "Never", "command": []any{"/busybox", "sh", "-c", lives},
	}}}))
	uid := s.Kubectl("get", "pod", "engine", "-o", "jsonpath={.metadata.uid}")
	s.Apply(configMap(fmt.Sprintf(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: engine
  tail: {path: /var/log/pods/%s_engine_%s/manager, format: json}
queue: {directory: /var/lib/docket/queue, maxBytes: 64Mi}
sinks:
- name: siem
  http: {url: "%s/ingest"}
`, s.Name, uid, s.r.URL)))
	s.Apply(manifest("docket", parts{
		"containers": []any{parts{
			"name": "docket", "image": "docket.test/docket:dev", "imagePullPolicy": "Never", "args": []any{"run", "-f", "/etc/docket/docket.yaml"},
			"securityContext": parts{"runAsUser": 0},
			"volumeMounts": []any{
				parts{"name": "config", "mountPath": "/etc/docket"}, parts{"name": "queue", "mountPath": "/var/lib/docket"},
				parts{"name": "logs", "mountPath": "/var/log", "readOnly": true},
			},
		}},
		"volumes": []any{
			parts{"name": "config", "configMap": parts{"name": "docket"}}, parts{"name": "queue", "emptyDir": parts{}},
			parts{"name": "logs", "hostPath": parts{"path": "/var/log"}},
		},
	}))
	s.Await("two lives", func() error {
		if n := s.Kubectl("get", "pod", "engine", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"); n < "2" {
			return errors.New("restarts: " + n)
		}
		return nil
	})
	s.Await("all lines of two lives", func() error {
		for i, n := range s.lives() {
			if i < 2 && len(n) < perLife {
				return fmt.Errorf("life %d: %d lines", i+1, len(n))
			}
		}
		return nil
	})
	kept := s.inside("ls -l $1", fmt.Sprintf("/var/log/pods/%s_engine_%s/manager", s.Name, uid))
	s.Kubectl("delete", "pod", "engine", "--now")
	for i, lines := range s.lives()[:2] {
		for n := range perLife {
			if lines[n] != 1 {
				t.Fatalf("life %d: line %d is exported %d times, want once", i+1, n, lines[n])
			}
		}
	}
	t.Logf("two lives of %d lines: each exported once; the directory had:\n%s", perLife, kept)
}

// lives counts the lines that the receiver has, by the life of the container in which they were written.
func (s *scene) lives() (all []map[int]int) {
	s.t.Helper()
	at := map[string]int{}
	for _, text := range s.r.LinesOnce() {
		var line struct {
			Life string
			N    int
		}
		if strings.Contains(text, `"eventType":"docket.`) || json.Unmarshal([]byte(text), &line) != nil {
			continue
		}
		i, ok := at[line.Life]
		if !ok {
			i = len(all)
			at[line.Life] = i
			all = append(all, map[int]int{})
		}
		all[i][line.N]++
	}
	return all
}
