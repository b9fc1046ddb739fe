package cli

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter"
)

// TestLossesAreInTheLedger: what a producer reports as lost counts once, although
// the exporter is killed and everything is sent again, and is shown everywhere.
func TestLossesAreInTheLedger(t *testing.T) {
	const lossRecord = `{"eventType":"docket.loss","schemaVersion":1,"producer":"p","lost":{"deny":3,"allow":5000000000},"reasons":{"Full":5000000003}}`
	const later = `{"eventType":"docket.loss","schemaVersion":1,"producer":"p","lost":{"deny":1,"made up":2},"reasons":{"Full":3}}`
	config, admin := testConfig(t)
	lines := []string{`{"n":1}`, lossRecord, `{"n":3}`}
	first := map[string]uint64{"deny": 3, "allow": 5e9}

	docket1 := startProcess(t, "run", "-f", config)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	expectLost(t, admin, "before anything was sent", map[string]uint64{})
	sendFromOne(t, 0, lines)
	expectLost(t, admin, "at first", first)
	if err := docket1.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	docket1.wait()

	docket2 := startProcess(t, "run", "-f", config)
	if err := waitReady(t, admin); err != nil {
		t.Fatal(err)
	}
	expectLost(t, admin, "after a kill", first)
	lines = append(lines, later)
	sendFromOne(t, 3, lines)
	all := map[string]uint64{"deny": 4, "allow": 5e9, "other": 2}
	expectLost(t, admin, "after all of it came again, and more", all)
	status := waitDelivered(t, admin, 4)
	if l := status.Ledger; l.Received != 7 || l.Stored != 4 || l.Duplicate != 3 || l.Sinks["export"].Delivered != 4 {
		t.Errorf("got ledger %+v, want 7 received, 4 stored and delivered, 3 duplicates", l)
	}
	if got, want := readFile(t, "export/decisions-active.ndjson"), strings.Join(lines, "\n")+"\n"; got != want {
		t.Errorf("got export %q, want %q", got, want)
	}
	metrics := get(t, "http://"+admin+"/metrics")
	for _, want := range []string{
		`docket_records_lost_total{decision="allow",source="local"} 5e+09`,
		`docket_records_lost_total{decision="deny",source="local"} 4`,
		`docket_records_lost_total{decision="other",source="local"} 2`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("got metrics without %s", want)
		}
	}
	if out, errs, code := docket(t, "status", "-f", config); code != command.ExitOK || !strings.Contains(out, "\n        reported lost by producers: allow 5000000000, deny 4, other 2\n") {
		t.Errorf("docket status: got %d, %s%s, want what is lost", code, out, errs)
	}
	if out, errs, code := docket(t, "status", "-f", config, "-o", "json"); code != command.ExitOK || !strings.Contains(out, `"lost": {`) {
		t.Errorf("docket status -o json: got %d, %s%s, want what is lost", code, out, errs)
	}
	docket2.interrupt()
	if got := docket2.wait(); got != command.ExitOK {
		t.Errorf("got exit code %d, want %d:\n%s", got, command.ExitOK, docket2.stderr())
	}
	if out, errs, code := docket(t, "queue", "ls", "-f", config); code != command.ExitOK || !strings.Contains(out, "4 stored from local (reported lost by its producers: allow 5000000000, deny 4, other 2)\n") {
		t.Errorf("docket queue ls: got %d, %s%s, want what is lost", code, out, errs)
	}
}

// sendFromOne sends lines as producer p, the first as number 1, and waits until all
// are acknowledged. The exporter must know the first known ones.
func sendFromOne(t *testing.T, known int, lines []string) {
	t.Helper()
	conn, err := net.Dial("unix", "docket.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(await.Left(t))); err != nil {
		t.Fatal(err)
	}
	hello := `{"docket":{"version":1,"producer":"p","next":1}}`
	if _, err := io.WriteString(conn, hello+"\n"+strings.Join(lines, "\n")+"\n"); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewScanner(conn)
	answers.Scan()
	if got, want := answers.Text(), fmt.Sprintf(`"acked":%d}`, known); !strings.Contains(got, want) {
		t.Errorf("got answer %s, want %s in it", got, want)
	}
	for want := fmt.Sprintf(`{"ack":%d}`, len(lines)); answers.Text() != want; {
		if !answers.Scan() {
			t.Fatalf("got %v, last %q, want %s", answers.Err(), answers.Text(), want)
		}
	}
}

func expectLost(t *testing.T, admin, when string, want map[string]uint64) {
	t.Helper()
	s := waitStatus(t, admin, func(exporter.Status) bool { return true })
	if got := s.Ledger.Lost; got == nil || !maps.Equal(got, want) {
		t.Errorf("lost %s: got %v, want %v", when, got, want)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
