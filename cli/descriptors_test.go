package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testcli"
)

// Peers that take every connection there is on every listener leave docket the descriptors that it
// needs: who is connected goes on, it is ready, and /status answers.
func TestConnectionsLeaveDescriptors(t *testing.T) {
	const limit, idle = 400, 500
	config, admin := testConfig(t)
	var addresses [4]string
	for i := range addresses {
		address, err := testcli.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = address
	}
	writeFile(t, config, fmt.Sprintf(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: local
  unix: {path: docket.sock, maxConnections: 5000}
- name: remote
  tcp: {address: %q, maxConnections: 5000}
- name: opa
  opa: {address: %q, maxConnections: 5000}
- name: audit
  kubernetesAudit: {address: %q, maxConnections: 5000}
queue: {directory: queue, maxBytes: 64Mi}
sinks:
- name: export
  file: {directory: export, rotate: {maxBytes: 1Mi}}
admin: {address: %q}
metrics: {address: %q}
`, addresses[0], addresses[1], addresses[2], admin, addresses[3]))
	p := newProcess(t, "run", "-f", config)
	under := exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, limit), "sh"}, p.cmd.Args...)...)
	under.Args[4] = p.cmd.Path
	under.Env, under.Stdout, under.Stderr = p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr
	p.cmd = under
	p.start()
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	p.says("at most 400 files and sockets may be open at a time (ulimit -n), and the configuration needs ")

	good, err := net.Dial("unix", "docket.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	if err := good.SetDeadline(time.Now().Add(await.Left(t))); err != nil {
		t.Fatal(err)
	}
	io.WriteString(good, `{"docket":{"version":1,"producer":"good","next":1}}`+"\n")
	answers := bufio.NewReader(good)
	if _, err := answers.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for range idle {
		for _, at := range [][2]string{{"unix", "docket.sock"}, {"tcp", addresses[0]}, {"tcp", addresses[1]}, {"tcp", addresses[2]}, {"tcp", addresses[3]}, {"tcp", admin}, {"unix", "queue/admin.sock"}} {
			if nc, err := net.Dial(at[0], at[1]); err == nil {
				defer nc.Close()
			}
		}
	}
	const chunk, chunks = 200, 13
	lines := bytes.Repeat([]byte(`{"pad":"`+strings.Repeat("x", 1000)+"\"}\n"), chunk)
	for n := 1; n <= chunks; n++ {
		if _, err := good.Write(lines); err != nil {
			t.Fatal(err)
		}
		for answer := ""; answer != fmt.Sprintf("{\"ack\":%d}\n", n*chunk); {
			if answer, err = answers.ReadString('\n'); err != nil {
				t.Fatalf("after %d lines: got %q, %v, want their ack", n*chunk, answer, err)
			}
		}
	}
	waitStatus(t, admin, func(s exporter.Status) bool { return s.Ledger.Sinks["export"].Delivered == chunk*chunks })
	if !isReady(t, admin) {
		t.Error("docket is not ready while its listeners are full")
	}
	if got := p.stderr(); strings.Contains(got, "too many open files") {
		t.Errorf("descriptors have run out: %.500s", got)
	}
}
