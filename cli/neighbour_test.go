package cli

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testcert"
	"github.com/docket-export/docket/internal/testcli"
)

// neighbours is a docket with every kind of source whose names somebody could say.
type neighbours struct {
	t                         *testing.T
	dir, admin, tcp, tls, opa string
	server                    testcert.CA
	docket                    *exec.Cmd
}

func newNeighbours(t *testing.T) *neighbours {
	t.Helper()
	n := &neighbours{t: t, dir: t.TempDir(), server: testcert.NewCA(t)}
	for _, address := range []*string{&n.admin, &n.tcp, &n.tls, &n.opa} {
		var err error
		if *address, err = testcli.FreeAddress(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(n.dir, "topics"), 0o755); err != nil {
		t.Fatal(err)
	}
	pair := n.server.Issue(t, "127.0.0.1")
	writeFile(t, filepath.Join(n.dir, "docket.yaml"), strings.NewReplacer("DIR", n.dir, "ADMIN", n.admin, "TCP", n.tcp,
		"TLS", n.tls, "OPA", n.opa, "<cert>", pair.CertFile, "<key>", pair.KeyFile, "<ca>", n.server.File).Replace(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- {name: local, unix: {path: DIR/docket.sock}}
- {name: net, tcp: {address: "TCP"}}
- {name: secure, tcp: {address: "TLS", tls: {certFile: "<cert>", keyFile: "<key>", clientCAFile: "<ca>"}}}
- {name: gatekeeper, gatekeeper: {path: DIR/topics}}
- {name: opa, opa: {address: "OPA"}}
queue: {directory: DIR/queue}
sinks:
- {name: export, batch: {maxWait: 5ms}, file: {directory: DIR/export}}
admin: {address: "ADMIN"}
`))
	n.start()
	return n
}

func (n *neighbours) start() {
	n.t.Helper()
	n.docket = startDocket(n.t, n.dir)
	if err := waitReady(n.t, n.admin); err != nil {
		n.t.Fatal(err)
	}
}

// The ways in, each with an identity of its own.
func (n *neighbours) unix() (net.Conn, error) {
	return net.Dial("unix", filepath.Join(n.dir, "docket.sock"))
}
func (n *neighbours) any() (net.Conn, error) { return net.Dial("tcp", n.tcp) }

func (n *neighbours) as(name string) func() (net.Conn, error) {
	pair := n.server.Issue(n.t, name)
	return func() (net.Conn, error) {
		return tls.Dial("tcp", n.tls, &tls.Config{RootCAs: n.server.Pool, Certificates: []tls.Certificate{pair.TLS}, ServerName: "127.0.0.1"})
	}
}

// says sends lines under a name in acknowledged mode, and waits for what there is to
// hear. It returns the answer to the hello.
func (n *neighbours) says(dial func() (net.Conn, error), producer string, next uint64, lines ...string) (answer string, err error) {
	conn, err := dial()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(await.Left(n.t))); err != nil {
		return "", err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "{\"docket\":{\"version\":1,\"producer\":%q,\"next\":%d}}\n", producer, next)
	for _, line := range lines {
		text.WriteString(line + "\n")
	}
	if _, err := conn.Write([]byte(text.String())); err != nil {
		return "", err
	}
	replies := bufio.NewReader(conn)
	answer, err = replies.ReadString('\n')
	if last := fmt.Sprintf("{\"ack\":%d}\n", next+uint64(len(lines))-1); err == nil && len(lines) > 0 {
		for reply := ""; err == nil && reply != last; {
			reply, err = replies.ReadString('\n')
		}
	}
	return strings.TrimSuffix(answer, "\n"), err
}

func (n *neighbours) mustSay(dial func() (net.Conn, error), producer string, next uint64, lines ...string) (answer string) {
	n.t.Helper()
	answer, err := n.says(dial, producer, next, lines...)
	if err != nil {
		n.t.Fatalf("%s with next %d: %v, answer %q", producer, next, err, answer)
	}
	return answer
}

// exports waits until the export has each of lines once.
func (n *neighbours) exports(lines ...string) {
	n.t.Helper()
	waitStatus(n.t, n.admin, func(s exporter.Status) bool {
		return s.Ledger.Stored > 0 && s.Ledger.Sinks["export"].Pending == 0
	})
	var got []string
	for deadline := time.Now().Add(await.Left(n.t)); ; time.Sleep(5 * time.Millisecond) {
		got = exportedLines(n.t, filepath.Join(n.dir, "export"))
		if missing := slices.IndexFunc(lines, func(l string) bool { return !slices.Contains(got, l) }); missing < 0 || time.Now().After(deadline) {
			break
		}
	}
	for _, line := range lines {
		count := 0
		for _, l := range got {
			if l == line {
				count++
			}
		}
		if count != 1 {
			n.t.Errorf("%s is in the export %d times, want once", line, count)
		}
	}
}

// A peer that says the id of another pod, with a certificate of its own, takes nothing of
// what that one sends, before and after.
func TestNobodyCanSayTheNameOfAnotherPod(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t)
	pod, attacker := n.as("pod-a"), n.as("pod-b")
	n.mustSay(pod, "pod-a", 1, `{"n":1}`, `{"n":2}`)
	for _, dial := range []func() (net.Conn, error){attacker, n.any, n.unix} {
		if answer := n.mustSay(dial, "pod-a", 999999999, `{"attack":1}`); answer != `{"docket":{"version":1,"acked":0}}` {
			t.Errorf("got answer %s: one peer learns of another", answer)
		}
	}
	if answer := n.mustSay(pod, "pod-a", 3, `{"n":3}`, `{"n":4}`); answer != `{"docket":{"version":1,"acked":2}}` {
		t.Errorf("got answer %s, want acked 2", answer)
	}
	n.exports(`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`)
}

// A peer that says the name of a source's own numbers ends no source and takes none of its
// events.
func TestNobodyCanSayTheNameOfASource(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t)
	post := func(id int) {
		t.Helper()
		body := fmt.Sprintf(`[{"decision_id":"id-%d","path":"p","result":true}]`, id)
		res, err := http.Post("http://"+n.opa+"/logs", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatalf("event %d: %v", id, err)
		}
		res.Body.Close()
		if res.StatusCode/100 != 2 {
			t.Errorf("event %d: got %s, want 2xx", id, res.Status)
		}
	}
	var want []string
	for id := range 5 {
		post(id)
		want = append(want, fmt.Sprintf(`{"decision_id":"id-%d","path":"p","result":true}`, id))
		n.mustSay(n.any, "opa/events", uint64(1000*(id+1)), `{"attack":1}`)
	}
	n.exports(want...)
	log, err := os.ReadFile(filepath.Join(n.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(log), "taken over") {
		t.Error("the source was evicted")
	}
}
