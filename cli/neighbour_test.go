package cli

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testcli"
)

// neighbours is a docket with sources whose names somebody else could say.
type neighbours struct {
	t                    *testing.T
	dir, admin, tcp, opa string
}

func newNeighbours(t *testing.T) *neighbours {
	t.Helper()
	n := &neighbours{t: t, dir: t.TempDir()}
	for _, address := range []*string{&n.admin, &n.tcp, &n.opa} {
		var err error
		if *address, err = testcli.FreeAddress(); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(n.dir, "docket.yaml"), strings.NewReplacer("DIR", n.dir, "ADMIN", n.admin, "TCP", n.tcp, "OPA", n.opa).Replace(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- {name: local, unix: {path: DIR/docket.sock}}
- {name: net, tcp: {address: "TCP"}}
- {name: opa, opa: {address: "OPA"}}
queue: {directory: DIR/queue}
sinks:
- {name: export, batch: {maxWait: 5ms}, file: {directory: DIR/export}}
admin: {address: "ADMIN"}
`))
	startDocket(t, n.dir)
	if err := waitReady(t, n.admin); err != nil {
		t.Fatal(err)
	}
	return n
}

// The ways in, each with an identity of its own.
func (n *neighbours) unix() (net.Conn, error) {
	return net.Dial("unix", filepath.Join(n.dir, "docket.sock"))
}
func (n *neighbours) any() (net.Conn, error) { return net.Dial("tcp", n.tcp) }

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

// A peer that says the name of another, or that of a source's own numbers, takes nothing of what
// they send, before and after.
func TestNobodyCanSayTheNamesOfOthers(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t)
	n.mustSay(n.unix, "pod-a", 1, `{"n":1}`, `{"n":2}`)
	if answer := n.mustSay(n.any, "pod-a", 999999999, `{"attack":1}`); answer != `{"docket":{"version":1,"acked":0}}` {
		t.Errorf("got answer %s: one peer learns of another", answer)
	}
	if answer := n.mustSay(n.unix, "pod-a", 3, `{"n":3}`, `{"n":4}`); answer != `{"docket":{"version":1,"acked":2}}` {
		t.Errorf("got answer %s, want acked 2", answer)
	}
	want := []string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`}
	for id := range 5 {
		event := fmt.Sprintf(`{"decision_id":"id-%d","path":"p","result":true}`, id)
		res, err := http.Post("http://"+n.opa+"/logs", "application/json", strings.NewReader("["+event+"]"))
		if err != nil {
			t.Fatalf("event %d: %v", id, err)
		}
		res.Body.Close()
		if res.StatusCode/100 != 2 {
			t.Errorf("event %d: got %s, want 2xx", id, res.Status)
		}
		want = append(want, event)
		n.mustSay(n.any, "opa/events", uint64(1000*(id+1)), `{"attack":1}`)
	}
	n.exports(want...)
	if strings.Contains(readFile(t, filepath.Join(n.dir, "log")), "taken over") {
		t.Error("the source was evicted")
	}
}
