package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/process"
)

// sidecar is a running docket.
type sidecar struct {
	*process.Process
	socket string
	admin  string
	export string // directory of the file sink
	config string // its file

	windows string // directory for windows of its profile; empty: none
}

// readyWait is how long a docket may take to start on a busy machine.
const readyWait = time.Minute

// The sinks of a sidecar.
const (
	// heldBack cannot deliver, so that what is measured is the intake alone.
	heldBack = "held"
	// toFile delivers to files on the disk that the queue is on.
	toFile = "file"
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

// exportDirectory is where the file sink of a sidecar in dir writes.
func exportDirectory(dir string) string { return filepath.Join(dir, "export") }

// startSidecar starts docket with one sink and its queue below dir, and waits until
// it is ready.
func (l *lab) startSidecar(ctx context.Context, dir, sink string) (*sidecar, error) {
	if sink == toFile {
		return l.startWith(ctx, dir, fileEntry(toFile, exportDirectory(dir), "none"))
	}
	nobody, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	return l.startWith(ctx, dir, httpEntry(sink, nobody, 1))
}

// startWith is startSidecar with sinks as the configuration has them.
func (l *lab) startWith(ctx context.Context, dir string, sinks ...string) (*sidecar, error) {
	return l.startSetup(ctx, dir, setup{sinks: sinks})
}

// setup is what a sidecar is started with. Only the sinks must be there.
type setup struct {
	program string   // the binary; empty: docket as users get it
	socket  string   // the name of the socket, where there are several sidecars at a time
	sources []string // entries of the configuration; none: a Unix socket
	sinks   []string // entries of the configuration
	queue   string   // what is added to that section: ", maxBytes: 16Gi"
}

// startSetup is startWith with everything of choice.
func (l *lab) startSetup(ctx context.Context, dir string, with setup) (*sidecar, error) {
	s, err := l.launch(ctx, dir, with)
	if err != nil {
		return nil, err
	}
	if err := s.waitReady(ctx); err != nil {
		return nil, errors.Join(err, s.LastWords())
	}
	return s, nil
}

// launch is startSetup without waiting for anything.
func (l *lab) launch(ctx context.Context, dir string, with setup) (*sidecar, error) {
	address, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	s := &sidecar{admin: "http://" + address, export: exportDirectory(dir), config: filepath.Join(dir, "docket.yaml")}
	if len(with.sources) == 0 {
		s.socket = filepath.Join(l.Short, cmp.Or(with.socket, "docket")+".sock")
		with.sources = []string{fmt.Sprintf(`- {name: bench, unix: {path: %q, mode: "0600"}}`, s.socket)}
	}
	pprof := ""
	if l.profiles != "" && with.program == "" {
		pprof, s.windows = ", pprof: true", l.windowsOf(l.experiment)
	}
	config := fmt.Sprintf(sidecarConfig, strings.Join(with.sources, "\n"), filepath.Join(dir, "queue"), with.queue, strings.Join(with.sinks, "\n"), address, pprof)
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		return nil, err
	}
	s.Process, err = process.Start(ctx, nil, cmp.Or(with.program, l.docket), "run", "-f", s.config, "--log-format", "text")
	return s, err
}

// kill ends docket at once: nothing that it would still do is measured.
func (s *sidecar) kill() { s.Kill() }

// Entries of "sinks".

func fileEntry(name, directory, compress string) string {
	return fmt.Sprintf("- {name: %s, file: {directory: %q, compress: %s}}", name, directory, compress)
}

func httpEntry(name, address string, maxInFlight int) string {
	return fmt.Sprintf("- {name: %s, http: {url: %q, maxInFlight: %d}}", name, "http://"+address+"/", maxInFlight)
}

func kafkaEntry(name, broker string) string {
	return fmt.Sprintf("- {name: %s, kafka: {brokers: [%q], topic: %s}}", name, broker, benchTopic)
}

func (s *sidecar) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	return host.Poll(ctx, time.Millisecond, func() (bool, error) {
		_, err := s.get(ctx, "/readyz")
		return err == nil, nil
	})
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
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", path, resp.Status)
	}
	return body, nil
}

// account is what has become of the records of a sink.
type account struct {
	Delivered    int `json:"delivered"`
	DeadLettered int `json:"deadLettered"`
	Pending      int `json:"pending"`
}

// account is that of one sink.
func (s *sidecar) account(ctx context.Context, sink string) (account, error) {
	all, err := s.accounts(ctx)
	return all[sink], err
}

// accounts are those of all sinks, by name.
func (s *sidecar) accounts(ctx context.Context) (map[string]account, error) {
	body, err := s.get(ctx, "/status")
	if err != nil {
		return nil, err
	}
	var status struct {
		Ledger struct {
			Sinks map[string]account `json:"sinks"`
		} `json:"ledger"`
	}
	if err := json.Unmarshal(body, &status); err != nil {
		return nil, fmt.Errorf("/status: %w", err)
	}
	return status.Ledger.Sinks, nil
}

// delivered is how many records the sink has taken.
func (s *sidecar) delivered(ctx context.Context, sink string) (int, error) {
	a, err := s.account(ctx, sink)
	return a.Delivered, err
}

// metric returns the value of one series of /metrics, named as it stands there.
func (s *sidecar) metric(ctx context.Context, series string) (float64, error) {
	body, err := s.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("/metrics has no %s", series)
}

// commits is how many commits docket has made since it started.
func (s *sidecar) commits(ctx context.Context) (float64, error) {
	return s.metric(ctx, "docket_commit_records_count")
}

// attempts is how many batches the sink has been sent since docket started.
func (s *sidecar) attempts(ctx context.Context, sink string) (float64, error) {
	return s.metric(ctx, fmt.Sprintf("docket_send_duration_seconds_count{sink=%q}", sink))
}
