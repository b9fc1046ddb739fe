package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/trial"
)

// sidecar is a running docket.
type sidecar struct {
	*process.Process
	lab      *lab
	socket   string
	admin    string
	profiled bool
}

const (
	// readyWait is how long a docket may take to start on a busy machine, or to take in
	// or deliver what it has.
	readyWait = 5 * time.Minute
	// askPause is how often docket is asked how far it is: a question costs it a
	// fraction of a millisecond.
	askPause = 5 * time.Millisecond
)

const sidecarConfig = `apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
%s
queue: {directory: %q%s}
sinks:
%s
admin: {address: %q%s}
shutdown: {drainTimeout: 1s}
`

// setup is what a sidecar is started with. Only the sinks must be there.
type setup struct {
	program string   // the binary; empty: docket as users get it
	socket  string   // the name of the socket, where there are several sidecars at a time
	sources []string // entries of the configuration; none: a Unix socket
	sinks   []string // entries of the configuration
	queue   string   // what is added to that section: ", maxBytes: 16Gi"
}

// start starts docket with these sinks and its queue below dir, and waits until it is
// ready.
func (l *lab) start(dir string, sinks ...string) *sidecar {
	return l.startSetup(dir, setup{sinks: sinks})
}

// startSetup is start with everything of choice.
func (l *lab) startSetup(dir string, with setup) *sidecar {
	s := l.launch(dir, with)
	l.Poll("for docket to be ready", time.Millisecond, readyWait, func() bool {
		_, err := s.get(l.Context(), "/readyz")
		return err == nil
	})
	return s
}

// launch is startSetup without waiting for anything.
func (l *lab) launch(dir string, with setup) *sidecar {
	address := process.FreeAddress()
	s := &sidecar{lab: l, admin: "http://" + address}
	if len(with.sources) == 0 {
		s.socket = filepath.Join(l.Short, cmp.Or(with.socket, "docket")+".sock")
		with.sources = []string{fmt.Sprintf(`- {name: bench, unix: {path: %q, mode: "0600"}}`, s.socket)}
	}
	pprof := ""
	if l.profiles != "" && with.program == "" {
		pprof, s.profiled = ", pprof: true", true
	}
	file := filepath.Join(dir, "docket.yaml")
	config := fmt.Sprintf(sidecarConfig, strings.Join(with.sources, "\n"), filepath.Join(dir, "queue"), with.queue, strings.Join(with.sinks, "\n"), address, pprof)
	trial.Check(os.WriteFile(file, []byte(config), 0o600))
	s.Process = process.Start(l.T, nil, cmp.Or(with.program, l.docket), "run", "-f", file, "--log-format", "text")
	return s
}

// warmRecords is what docket gets before it is measured: a sidecar runs for days
// with its buffers as large as they get.
const warmRecords = 4 * load.Producers * load.Window

// startWarm starts a docket whose sink cannot deliver, and gives it warmRecords.
func (l *lab) startWarm(dir string) *sidecar {
	s := l.start(dir, heldEntry())
	l.produce(load.Full(s.socket, warmRecords))
	return s
}

// Entries of "sinks".

// heldBack is the name of a sink that cannot deliver, so that what is measured is the
// intake alone.
const heldBack = "held"

func heldEntry() string { return httpEntry(heldBack, process.FreeAddress(), 1) }

func fileEntry(name, directory string) string {
	return fmt.Sprintf("- {name: %s, file: {directory: %q}}", name, directory)
}

func httpEntry(name, address string, maxInFlight int) string {
	return fmt.Sprintf("- {name: %s, http: {url: %q, maxInFlight: %d}}", name, "http://"+address+"/", maxInFlight)
}

func kafkaEntry(name, broker string) string {
	return fmt.Sprintf("- {name: %s, kafka: {brokers: [%q], topic: %s}}", name, broker, benchTopic)
}

// load runs the load, whose socket is that of docket, and says what it has cost docket.
func (s *sidecar) load(o load.Load) stint {
	defer s.profile()()
	o.Socket = s.socket
	commits := s.commits()
	lap := s.lab.loadOf(s.Process, o)
	lap.Parts = s.commits() - commits
	return lap
}

// loadOf runs the load and says what it has cost the process that serves it.
func (l *lab) loadOf(p *process.Process, o load.Load) stint {
	var d load.Done
	cpu := p.CPUOf(func() { d = l.produce(o) })
	return stint{Records: d.Records, Took: d.Took(), CPU: cpu}
}

func (s *sidecar) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.admin+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return body, err
}

// ledger is what has become of the records.
type ledger struct {
	Stored int                `json:"stored"`
	Sinks  map[string]account `json:"sinks"`
}

// account is what has become of the records of a sink.
type account struct {
	Delivered int `json:"delivered"`
	Pending   int `json:"pending"`
}

func (s *sidecar) ledger() ledger {
	var status struct {
		Ledger ledger `json:"ledger"`
	}
	trial.Check(json.Unmarshal(trial.Must(s.get(s.lab.Context(), "/status")), &status))
	return status.Ledger
}

// waitDelivered waits until docket says that the sink has taken so many records.
func (s *sidecar) waitDelivered(sink string, records int) {
	s.lab.Poll("for sink "+sink, askPause, readyWait, func() bool { return s.ledger().Sinks[sink].Delivered >= records })
}

// waitStored waits until docket says that it has stored so many records.
func (s *sidecar) waitStored(records int) {
	s.lab.Poll(fmt.Sprintf("for %d records to be stored", records), askPause, readyWait, func() bool { return s.ledger().Stored >= records })
}

// metric returns the value of one series of /metrics, named as it stands there.
func (s *sidecar) metric(series string) float64 {
	body := trial.Must(s.get(s.lab.Context(), "/metrics"))
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return trial.Must(strconv.ParseFloat(strings.TrimSpace(value), 64))
		}
	}
	trial.Check(fmt.Errorf("/metrics has no %s", series))
	return 0
}

// commits is how many commits docket has made since it started.
func (s *sidecar) commits() float64 { return s.metric("docket_commit_records_count") }
