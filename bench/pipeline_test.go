package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/wal"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/trial"
	"github.com/docket-export/docket/decision/stream"
)

// postTo returns how a receiver answers to a body.
func postTo(t *testing.T, address string) int {
	t.Helper()
	res, err := http.Post("http://"+address+"/", "", bytes.NewReader(commitOf(1)))
	if err != nil {
		t.Error(err)
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

func TestGate(t *testing.T) {
	attempt(t, func(tr *trial.T) { testGate(t, tr) })
}

func testGate(t *testing.T, tr *trial.T) {
	g := newGate(tr)
	before := time.Now()
	if got := postTo(t, g.address); got != http.StatusOK {
		t.Errorf("open: got %d, want 200", got)
	}
	select {
	case at := <-g.came:
		if at.Before(before) {
			t.Errorf("the first request: got %v, want no time before %v", at, before)
		}
	default:
		t.Error("the first request has come and left no time")
	}
	g.shut()
	answers := make(chan int, 2)
	for range 2 {
		go func() { answers <- postTo(t, g.address) }()
	}
	g.wait(tr, 2)
	select {
	case got := <-answers:
		t.Errorf("shut: got %d, want no answer", got)
	default:
	}
	g.open()
	for range 2 {
		if got := <-answers; got != http.StatusOK {
			t.Errorf("open again: got %d, want 200", got)
		}
	}
	g.wait(tr, 0)
}

// startWAL runs the sidecar on tidwall/wal in this process. end ends it.
func startWAL(t *testing.T) (socket, dir string, end func()) {
	t.Helper()
	socket, dir = filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "wal")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- walSidecarMain(ctx, []string{socket, dir}, nil) }()
	return socket, dir, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("sidecar on tidwall/wal: %v", err)
		}
	}
}

// The baseline must do the work: what it acknowledges is in the log, an entry for
// each record.
func TestWALSidecarStoresWhatItAcknowledges(t *testing.T) {
	socket, dir, end := startWAL(t)
	const records = 4 * load.Producers * load.Window
	if _, err := load.Full(socket, records).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	end()
	log := openWAL(t, dir, nil)
	defer log.Close()
	if last, err := log.LastIndex(); err != nil || last != records {
		t.Errorf("got %d entries and error %v, want %d", last, err, records)
	}
	seen := map[string]bool{}
	for i := uint64(1); i <= records; i++ {
		line := readEntry(t, log, i)
		if !validRecord(line) || seen[string(line)] {
			t.Fatalf("entry %d is no record, or not unlike the others: %.60q", i, line)
		}
		seen[string(line)] = true
	}
}

func readEntry(t *testing.T, log *wal.Log, index uint64) []byte {
	t.Helper()
	line, err := log.Read(index)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// It validates, as docket does: what is no record gets no ack.
func TestWALSidecarValidates(t *testing.T) {
	socket, _, end := startWAL(t)
	defer end()
	for _, line := range []string{`{"a":1`, `[1]`, "{\"a\":\"\xff\"}"} {
		attempt(t, func(tr *trial.T) { process.AwaitSocket(tr, socket, time.Millisecond) })
		nc, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		answer := exchange(t, nc, string(stream.Hello{Producer: "p", Next: 1}.Append(nil))+line+"\n")
		if strings.Contains(answer, `"ack":`) {
			t.Errorf("%s: got %s, want no ack", line, answer)
		}
	}
}

// exchange writes text and returns what is answered until the other side closes.
func exchange(t *testing.T, nc net.Conn, text string) string {
	t.Helper()
	defer nc.Close()
	if _, err := fmt.Fprint(nc, text); err != nil {
		t.Fatal(err)
	}
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(nc); err != nil {
		t.Fatal(err)
	}
	return answer.String()
}

func TestValidateCountsWhatItHasValidated(t *testing.T) {
	lines := checkedLines()
	s := validate(lines, 1)
	if want := load.Producers * record.PerBlock; s.Records != want || s.CPU <= 0 {
		t.Errorf("got %d records in %v, want %d", s.Records, s.CPU, want)
	}
	lines[0] = '['
	if err := trial.Run(t.Context(), func(*trial.T) { validate(lines, 1) }); err == nil {
		t.Error("a record that is none: got no error")
	}
}

// A lap finds docket in its steady state, its sinks take nothing meanwhile unless
// they follow, and have everything afterwards. Without any sync it is the same.
func TestSteady(t *testing.T) {
	l := docketLab(t)
	programs := map[string]string{"synced": l.docket}
	if !testing.Short() {
		in(t, l, (*lab).buildUnsynced)
		programs["unsynced"] = l.unsynced()
	}
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			in(t, l, func(l *lab) { testSteady(t, l, setup{program: program, socket: name}) })
		})
	}
}

func testSteady(t *testing.T, l *lab, with setup) {
	const sinks, records = 2, load.Producers * load.Window
	s := l.startSteady(filepath.Join(l.Disk, with.socket), with, sinks)
	l.Poll("for two segments to use again", 50*time.Millisecond, readyWait, func() bool {
		return len(trial.Must(filepath.Glob(filepath.Join(s.queue, "spare.*")))) >= 2
	})
	for _, follow := range []bool{false, true} {
		lap := s.lap(load.Full("", records), follow)
		if lap.Records != records || lap.Parts == 0 || lap.CPU <= 0 || lap.Took <= 0 {
			t.Errorf("follow %v: got %+v, want %d records and what they cost", follow, lap, records)
		}
	}
	s.occupy()
	s.load(load.Full("", records))
	accounts := s.ledger().Sinks
	for _, sink := range s.sinks {
		if got, want := accounts[sink], (account{Delivered: s.stored - 1, Pending: records + 1}); got != want {
			t.Errorf("during a lap: %s: got %+v, want %+v", sink, got, want)
		}
	}
	s.gate.open()
}
