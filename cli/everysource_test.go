package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/testcli"
)

// everySource is a docket with a source of every kind, a file sink, and a sink whose
// destination takes nothing but what docket itself tells, record by record, and quotes what it is sent.
type everySource struct {
	t              *testing.T
	dir            string
	config, admin  string
	addresses      map[string]string // of sources that listen on a network
	process        *process          // nil while none runs
	logs           []string          // of the processes that have ended
	answers        [][]byte          // of endpoints
	lastMetrics    string
	maxRecordBytes int
}

const everySourceConfig = `apiVersion: docket.dev/v1alpha1
kind: Exporter
limits: {maxRecordBytes: 4Ki}
sources:
- name: unix
  unix: {path: DIR/unix.sock}RULES
- name: opa
  opa: {address: "OPA"}RULES
- name: audit
  kubernetesAudit: {address: "AUDIT"}RULES
- name: gk-delta
  gatekeeper: {path: DIR/gk-delta, delta: true}
- name: tail-cri
  tail: {path: DIR/tail-cri.log, format: cri}RULES
- name: tail-denies
  tail: {path: DIR/tail-denies.log, format: gatekeeperDenies}RULES
queue: {directory: DIR/queue, maxBytes: 64Mi}
sinks:
- name: export
  batch: {maxWait: 5ms}
  file: {directory: DIR/export, rotate: {maxBytes: 4Ki}}
- name: siem
  batch: {maxWait: 5ms}
  http: {url: "SIEM/"}
admin: {address: "ADMIN"}
shutdown: {drainTimeout: 5s}
`

// newEverySource starts docket. Each source has rules, in which KEY is the key of an HMAC.
func newEverySource(t *testing.T, rules string) *everySource {
	t.Helper()
	dir := t.TempDir()
	s := &everySource{t: t, dir: dir, config: filepath.Join(dir, "docket.yaml"), addresses: map[string]string{}, maxRecordBytes: 4 << 10}
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Count(body, []byte("\n")) <= 1 && bytes.Contains(body, []byte(`"eventType":"docket.`)) {
			return // without one that is accepted, no refusal would count
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(append([]byte("never: "), body...))
	}))
	t.Cleanup(echo.Close)
	for _, name := range []string{"opa", "audit", "admin"} {
		address, err := testcli.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		s.addresses[name] = address
	}
	s.admin = s.addresses["admin"]
	text := strings.ReplaceAll(everySourceConfig, "RULES", strings.ReplaceAll(rules, "KEY", "hmac.key"))
	writeFile(t, s.config, strings.NewReplacer("DIR", dir, "OPA", s.addresses["opa"],
		"AUDIT", s.addresses["audit"], "ADMIN", s.admin, "SIEM", echo.URL).Replace(text))
	writeFile(t, s.path("hmac.key"), "a key of an HMAC")
	t.Chdir(dir)
	s.start()
	return s
}

func (s *everySource) path(name string) string { return filepath.Join(s.dir, name) }

func (s *everySource) start() {
	s.t.Helper()
	s.process = startProcess(s.t, "run", "-f", s.config)
	sources := strings.Count(everySourceConfig, "- name: ") - strings.Count(everySourceConfig, "batch:")
	eventually(s.t, "every source at work", func() bool {
		return strings.Count(s.process.stderr(), "source takes lines") >= sources
	})
}

func (s *everySource) stop() {
	s.t.Helper()
	s.lastMetrics = s.get("/metrics")
	http.DefaultClient.CloseIdleConnections()
	s.process.interrupt()
	if got := s.process.wait(); got != command.ExitOK {
		s.t.Errorf("got exit code %d, want %d:\n%s", got, command.ExitOK, s.process.stderr())
	}
	s.ended()
}

// ended keeps the log of the process, which has ended.
func (s *everySource) ended() {
	s.logs = append(s.logs, s.process.stderr())
	s.process = nil
}

func (s *everySource) get(page string) string {
	s.t.Helper()
	return get(s.t, "http://"+s.admin+page)
}

// exported is all that the file sink has.
func (s *everySource) exported() string {
	var all strings.Builder
	names, err := filepath.Glob(s.path("export/*.ndjson"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if ignoreGone(err) != nil {
			s.t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// waitInside waits until a file of a source's state holds a text.
func (s *everySource) waitInside(source, text string) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("%q in the state of %s", text, source), func() bool {
		held := false
		err := filepath.WalkDir(s.path("queue/sources/"+source), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return ignoreGone(err)
			}
			content, err := os.ReadFile(name)
			held = held || strings.Contains(string(content), text)
			return ignoreGone(err)
		})
		return held && err == nil
	})
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// feedUnix writes lines and a last one that is too long, and hears what is answered.
func (s *everySource) feedUnix(source string, _ int, text string) {
	s.t.Helper()
	conn, err := net.Dial("unix", s.path(source+".sock"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(await.Left(s.t))); err != nil {
		s.t.Fatal(err)
	}
	first, _, _ := strings.Cut(text, "\n")
	long := `{"secret":"` + strings.Repeat(first, s.maxRecordBytes/len(first)+1) + "\"}\n"
	_, _ = io.WriteString(conn, text+long) // a broken hello ends the connection
	_ = conn.(*net.UnixConn).CloseWrite()
	answer, _ := io.ReadAll(conn)
	s.answers = append(s.answers, answer)
}

func (s *everySource) feedHTTP(source string, _ int, text string) {
	s.t.Helper()
	res, err := http.Post("http://"+s.addresses[source]+"/logs", "application/json", strings.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	s.answers = append(s.answers, answer)
}

var runIDIn = regexp.MustCompile(`"id":"([^"]+)"`)

// feedExport writes a run of an audit as Gatekeeper does, a segment of admissions beside it
// and the beginning of a run that goes on.
func (s *everySource) feedExport(source string, nth int, text string) {
	s.t.Helper()
	channel := filepath.Join(s.path(source), "audit-channel")
	admissions := filepath.Join(s.path(source), "admission-channel")
	if err := errors.Join(os.MkdirAll(channel, 0o755), os.MkdirAll(admissions, 0o755)); err != nil {
		s.t.Fatal(err)
	}
	name := filepath.Join(channel, strings.ReplaceAll(runIDIn.FindStringSubmatch(text)[1], ":", "_"))
	segment := filepath.Join(admissions, fmt.Sprintf("admission-20260105T1004%02d.000000000Z-aa", nth))
	first, rest, _ := strings.Cut(text, "\n")
	violation, _, _ := strings.Cut(rest, "\n")
	writeFile(s.t, name+".txt", first+"\n"+violation+"\n")
	writeFile(s.t, name+".txt", text)
	writeFile(s.t, segment+".open", violation+"\n")
	if err := errors.Join(os.Rename(name+".txt", name+".log"), os.Rename(segment+".open", segment+".log")); err != nil {
		s.t.Fatal(err)
	}
	writeFile(s.t, filepath.Join(channel, fmt.Sprintf("2026-01-05T11_%02d_07Z.txt", nth)), first+"\n"+violation+"\n")
}

func (s *everySource) feedLog(source string, _ int, text string) {
	s.t.Helper()
	f, err := os.OpenFile(s.path(source+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		s.t.Fatal(err)
	}
}
