package destinations

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"text/template"
	"time"

	"github.com/docket-export/docket/test/internal/artifact"
	"github.com/docket-export/docket/test/internal/freeport"
	"github.com/docket-export/docket/test/internal/server"
)

// lokiVersion is the release that loki.mod asks for.
const lokiVersion = "3.7.8"

var (
	//go:embed testdata/loki.mod
	lokiModule []byte
	//go:embed testdata/loki.yaml.tmpl
	lokiConfig string
)

// loki is Grafana Loki in one process.
type loki struct{ httpServer }

// TestPrograms shows that Loki and the collector are there and start; make servers builds
// them by this test.
func TestPrograms(t *testing.T) {
	for _, program := range []string{lokiProgram(t), collectorProgram(t)} {
		if out, err := exec.Command(program, "--version").CombinedOutput(); err != nil {
			t.Errorf("%s --version: %v\n%s", program, err, out)
		}
	}
}

func lokiProgram(t *testing.T) string {
	t.Helper()
	return artifact.GoProgram{
		Name: "loki", Version: lokiVersion, What: "Grafana Loki", Module: lokiModule, Package: "github.com/grafana/loki/v3/cmd/loki", Seconds: 400,
	}.Path(t)
}

func startLoki(t *testing.T) *loki {
	t.Helper()
	program := lokiProgram(t)

	addresses, err := freeport.Loopback(2)
	if err != nil {
		t.Fatal(err)
	}
	_, httpPort, _ := net.SplitHostPort(addresses[0])
	_, grpcPort, _ := net.SplitHostPort(addresses[1])
	data := t.TempDir()
	config := writeTemplate(t, lokiConfig, struct{ HTTPPort, GRPCPort, Data string }{httpPort, grpcPort, data})
	s := &loki{httpServer{address: addresses[0], Server: server.Server{
		Name:    "Loki",
		Program: program,
		Args:    []string{"-config.file=" + config},
	}}}
	s.Ready = func() error {
		_, err := s.ask(http.MethodGet, "/ready", "", nil)
		return err
	}
	s.Start(t)
	return s
}

// writeTemplate writes a file of a server's configuration and returns its path.
func writeTemplate(t *testing.T, text string, data any) (path string) {
	t.Helper()
	tmpl, err := template.New("config").Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "config.yaml")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := tmpl.Execute(f, data); err != nil {
		t.Fatal(err)
	}
	return path
}

// push sends one line of that time, as anybody may.
func (s *loki) push(t *testing.T, labels map[string]string, at time.Time, line string) {
	t.Helper()
	type stream struct {
		Stream map[string]string `json:"stream"`
		Values [][2]string       `json:"values"`
	}
	body, err := json.Marshal(map[string][]stream{"streams": {{labels, [][2]string{{strconv.FormatInt(at.UnixNano(), 10), line}}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.asks(t, http.MethodPost, "/loki/api/v1/push", string(body), nil)
}

// readAll returns every line of the streams that a selector names, less what has
// no docket_id.
func (s *loki) readAll(t *testing.T, selector string) []arrival {
	t.Helper()
	var all []arrival
	// A page ends with the newest line, and the next one begins behind it: no two
	// lines of docket have one time.
	for from := time.Now().Add(-time.Hour).UnixNano(); ; {
		lines, newest := s.readPage(t, selector, from)
		if newest == 0 {
			return all
		}
		all = append(all, lines...)
		from = newest + 1
	}
}

// readPage returns some lines from a time on, and the time of the newest, 0 when
// there are none.
func (s *loki) readPage(t *testing.T, selector string, from int64) (lines []arrival, newest int64) {
	t.Helper()
	query := url.Values{
		"query": {selector}, "direction": {"forward"}, "limit": {"5000"},
		"start": {strconv.FormatInt(from, 10)}, "end": {strconv.FormatInt(time.Now().Add(24*time.Hour).UnixNano(), 10)},
	}
	// Without this what docket says beside a line counts as labels of its stream.
	header := http.Header{"X-Loki-Response-Encoding-Flags": {"categorize-labels"}}
	body, err := s.ask(http.MethodGet, "/loki/api/v1/query_range?"+query.Encode(), "", header)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Data struct {
			Result []struct{ Values [][3]json.RawMessage }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("read the answer of Loki: %v in %.300s", err, body)
	}
	for _, stream := range answer.Data.Result {
		for _, value := range stream.Values {
			at, a, err := lokiLine(value)
			if err != nil {
				t.Fatalf("read a line of Loki: %v in %s", err, value)
			}
			newest = max(newest, at)
			if a.id != "" {
				lines = append(lines, a)
			}
		}
	}
	return lines, newest
}

// lokiLine takes a line of an answer apart: its time, its text, and what docket
// said beside it.
func lokiLine(value [3]json.RawMessage) (at int64, a arrival, err error) {
	var text string
	if err := json.Unmarshal(value[0], &text); err != nil {
		return 0, arrival{}, fmt.Errorf("time: %w", err)
	}
	if at, err = strconv.ParseInt(text, 10, 64); err != nil {
		return 0, arrival{}, err
	}
	if err := json.Unmarshal(value[1], &a.record); err != nil {
		return 0, arrival{}, fmt.Errorf("line: %w", err)
	}
	var beside struct{ StructuredMetadata map[string]string }
	if err := json.Unmarshal(value[2], &beside); err != nil {
		return 0, arrival{}, fmt.Errorf("structured metadata: %w", err)
	}
	a.id = beside.StructuredMetadata["docket_id"]
	return at, a, nil
}

// receivedLines is Loki's own count of the lines it was sent since it started.
var receivedLines = regexp.MustCompile(`(?m)^loki_distributor_lines_received_total\{.*\} (\S+)$`)

func (s *loki) received(t *testing.T) int {
	t.Helper()
	body, err := s.ask(http.MethodGet, "/metrics", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	m := receivedLines.FindSubmatch(body)
	if m == nil {
		return 0
	}
	n, err := strconv.ParseFloat(string(m[1]), 64) // from a million on with an exponent
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}
