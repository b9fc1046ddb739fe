package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/exporter"
)

// kills is how often TestKill ends the exporter: enough to hit writes, syncs,
// rotations and start-up, few enough for every `make test`.
const kills = 25

// TestKill is promises 1, 2 and 7 on the real program: it is killed at random
// moments under load from four acknowledged producers, and everything that was
// acknowledged is in the file export exactly once, in order, byte for byte.
func TestKill(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	admin, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer("ADMIN", admin, "DIR", dir).Replace(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: local
  unix: {path: DIR/docket.sock}
queue: {directory: DIR/queue, maxBytes: 64Mi}
sinks:
- name: export
  batch: {maxWait: 5ms}
  file: {directory: DIR/export, rotate: {maxBytes: 256Ki}}
admin: {address: "ADMIN"}
`)
	writeFile(t, filepath.Join(dir, "docket.yaml"), config)

	producers := make([]*killProducer, 4)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var sending sync.WaitGroup
	for i := range producers {
		p := newKillProducer(t, filepath.Join(dir, "docket.sock"), i)
		producers[i] = p
		sending.Go(func() { p.run(ctx) })
	}
	for range kills {
		docket := startDocket(t, dir)
		// Sometimes while it starts, mostly in the midst of work.
		if dice.IntN(4) > 0 {
			if err := waitReady(admin); err != nil {
				t.Fatal(err)
			}
		}
		pause := time.Duration(dice.IntN(200)) * time.Millisecond
		time.Sleep(pause) // the moment of the kill is what is random here
		if err := docket.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		docket.Wait() // says that it was killed
	}
	docket := startDocket(t, dir)
	if err := waitReady(admin); err != nil {
		t.Fatal(err)
	}
	stop()
	sending.Wait()
	want := map[string][]string{}
	total := 0
	for _, p := range producers {
		want[p.name] = p.finish(t)
		total += len(want[p.name])
	}
	status := waitDelivered(t, admin, uint64(total))
	interrupt(t, docket)
	if err := docket.Wait(); err != nil {
		t.Errorf("docket run: %v", err)
	}

	got := map[string][]string{}
	for _, line := range exportedLines(t, filepath.Join(dir, "export")) {
		var record struct{ Producer string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("line in the export: %v: %q", err, line)
		}
		got[record.Producer] = append(got[record.Producer], line)
	}
	for name := range want {
		compareLines(t, name, got[name], want[name])
	}
	l := status.Ledger
	if s := l.Sinks["export"]; l.Stored != uint64(total) || s.Delivered+s.Pending != l.Stored || l.Received != l.Stored+l.Duplicate {
		t.Errorf("ledger does not balance: %+v, %d lines were acknowledged", l, total)
	}
	t.Logf("%d kills, %d lines acknowledged, %d sent twice and recognised, 0 lost", kills, total, l.Duplicate)
}

// compareLines says where got first differs from want.
func compareLines(t *testing.T, name string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("producer %s, line %d: got %q, want %q", name, i+1, got[i], want[i])
			return
		}
	}
	t.Errorf("producer %s: got %d lines, want %d", name, len(got), len(want))
}

// killProducer sends numbered lines of varying size until it is stopped.
type killProducer struct {
	name   string
	sender *client.Sender
	sent   []string
}

func newKillProducer(t *testing.T, socket string, i int) *killProducer {
	t.Helper()
	s, err := client.NewSender(client.SenderConfig{
		Address:          "unix://" + socket,
		Producer:         fmt.Sprintf("producer-%d", i),
		MaxInFlightLines: 200,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &killProducer{name: fmt.Sprintf("producer-%d", i), sender: s}
}

func (p *killProducer) run(ctx context.Context) {
	for n := 1; ctx.Err() == nil; n++ {
		line := fmt.Sprintf(`{"Producer":%q,"n":%d, "pad":"%0*d","big":12345678901234567890,"html":"\u003c"}`, p.name, n, n%300, 0)
		if p.sender.Send(ctx, []byte(line)) != nil {
			return // stopped: this line was not taken
		}
		p.sent = append(p.sent, line)
	}
}

// finish waits until everything is acknowledged and returns it.
func (p *killProducer) finish(t *testing.T) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.sender.Flush(ctx); err != nil {
		t.Errorf("producer %s: flush: %v", p.name, err)
	}
	if left, err := p.sender.Close(ctx); left > 0 || err != nil {
		t.Errorf("producer %s: close: %d lines left, %v", p.name, left, err)
	}
	return p.sent
}

func startDocket(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("docket", "run", "-f", filepath.Join(dir, "docket.yaml"))
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() // does nothing once it has ended
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("log of docket:\n%s", text)
		}
	})
	return cmd
}

// waitDelivered waits until the file sink has every one of total records.
func waitDelivered(t *testing.T, admin string, total uint64) exporter.Status {
	t.Helper()
	return waitStatus(t, admin, func(s exporter.Status) bool {
		return s.Ledger.Stored >= total && s.Ledger.Sinks["export"].Pending == 0
	})
}

// waitStatus polls /status until ok is true of it.
func waitStatus(t *testing.T, admin string, ok func(exporter.Status) bool) exporter.Status {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		var s exporter.Status
		res, err := http.Get("http://" + admin + "/status")
		if err == nil {
			err = json.NewDecoder(res.Body).Decode(&s)
			res.Body.Close()
		}
		if err == nil && ok(s) {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("status not as awaited within a minute: %v, %+v", err, s)
		}
	}
}

// exportedLines returns all lines of a file export in their order.
func exportedLines(t *testing.T, dir string) (lines []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "decisions-*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files) // finished files by their first seq, then the active one
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		scanner := bufio.NewScanner(bytes.NewReader(content))
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			lines = append(lines, scanner.Text())
		}
		if err := scanner.Err(); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return lines
}

func pid(cmd *exec.Cmd) string { return strconv.Itoa(cmd.Process.Pid) }
