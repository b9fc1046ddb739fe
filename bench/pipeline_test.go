package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/wal"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/site"
	"github.com/docket-export/docket/decision/stream"
	"github.com/docket-export/docket/internal/testinput"
)

// post returns how a receiver answers to a body.
func postTo(t *testing.T, address string) int {
	t.Helper()
	res, err := http.Post("http://"+address+"/", "", strings.NewReader("{}\n"))
	if err != nil {
		t.Error(err)
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

func TestGate(t *testing.T) {
	g, err := newGate()
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	ctx, cancel := context.WithTimeout(t.Context(), readyWait)
	defer cancel()
	if got := postTo(t, g.address); got != http.StatusOK {
		t.Errorf("open: got %d, want 200", got)
	}
	g.shut()
	answers := make(chan int, 2)
	for range 2 {
		go func() { answers <- postTo(t, g.address) }()
	}
	if err := g.wait(ctx, 2); err != nil {
		t.Fatal(err)
	}
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
	if err := g.wait(ctx, 0); err != nil {
		t.Error(err)
	}
}

// The server to compare with serves as many producers as it was told, and ends.
func TestAnswerServesManyProducers(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	ended := make(chan error, 1)
	go func() { ended <- answerMain([]string{socket, "3"}) }()
	o := load{Socket: socket, Producers: 3, Window: 100, Records: 3000}
	p, err := o.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p.Records != 3000 {
		t.Errorf("got %d records, want 3000", p.Records)
	}
	if err := <-ended; err != nil {
		t.Errorf("answer: %v", err)
	}
}

// startWAL runs the sidecar on tidwall/wal in this process. end ends it.
func startWAL(t *testing.T) (socket, dir string, end func()) {
	t.Helper()
	socket, dir = filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "wal")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- walSidecarMain(ctx, []string{socket, dir}) }()
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
	const records = 4 * producers * linesInFlight
	if _, err := (load{Socket: socket, Producers: producers, Window: linesInFlight, Records: records}).run(t.Context()); err != nil {
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
		nc, err := dial(socket)
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

func TestCheckCountsWhatItHasValidated(t *testing.T) {
	c := newCheck()
	if err := c.run(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if want := producers * record.PerBlock; c.done != want || c.cpu <= 0 {
		t.Errorf("got %d records in %v, want %d", c.done, c.cpu, want)
	}
	c.lines[0] = '['
	if err := c.run(t.Context(), 1); err == nil {
		t.Error("a record that is none: got no error")
	}
}

// docketLab is a lab with the binary.
func docketLab(t *testing.T) *lab {
	t.Helper()
	l := testLab(t)
	root, err := site.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testinput.Packages(t, "github.com/docket-export/docket/cmd/docket")
	l.Root, l.docket = root, builtDocket
	if _, err := os.Stat(builtDocket); err == nil { // another test has built it
		return l
	}
	if err := site.Build(t.Context(), root, l.docket); err != nil {
		t.Fatal(err)
	}
	return l
}

// A lap finds docket in its steady state, its sinks take nothing meanwhile unless
// they follow, and have everything afterwards. Without any sync it is the same.
func TestSteady(t *testing.T) {
	l := docketLab(t)
	programs := map[string]string{"synced": l.docket}
	if !testing.Short() {
		if err := l.buildUnsynced(); err != nil {
			t.Fatal(err)
		}
		programs["unsynced"] = l.unsynced
	}
	for name, program := range programs {
		t.Run(name, func(t *testing.T) { testSteady(t, l, setup{program: program, socket: name}) })
	}
}

func testSteady(t *testing.T, l *lab, with setup) {
	const sinks, records = 2, producers * linesInFlight
	s, err := l.startSteady(t.Context(), filepath.Join(l.Disk, with.socket), with, sinks)
	if err != nil {
		t.Fatal(err)
	}
	defer s.end()
	var spares []string
	waiting, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = host.Poll(waiting, 50*time.Millisecond, func() (bool, error) {
		spares, err = filepath.Glob(filepath.Join(s.queue, "spare.*"))
		return len(spares) >= 2, err
	})
	if err != nil {
		t.Errorf("got %d segments to use again and error %v, want at least 2", len(spares), err)
	}
	o := load{Socket: s.socket, Producers: producers, Window: linesInFlight, Records: records}
	for _, follow := range []bool{false, true} {
		lap, err := s.lap(t.Context(), o, follow)
		if err != nil {
			t.Fatal(err)
		}
		if lap.records != records || lap.commits == 0 || lap.cpu <= 0 || lap.took <= 0 {
			t.Errorf("follow %v: got %+v, want %d records and what they cost", follow, lap, records)
		}
	}
	s.gate.shut()
	if err := s.occupy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.measure(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	accounts, err := s.accounts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sink := range s.sinks {
		if got, want := accounts[sink], (account{Delivered: s.stored - 1, Pending: records + 1}); got != want {
			t.Errorf("during a lap: %s: got %+v, want %+v", sink, got, want)
		}
	}
	s.gate.open()
}
