package monitoring

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/repo"
	"github.com/docket-export/docket/test/dockettest"
)

// incident is something that goes wrong with a docket that was well.
type incident struct {
	name   string // of the docket, and its label instance
	cause  string // for the table
	fires  []string
	begins func(s *scene) // starts the docket
	breaks func(s *scene) // nil: it is broken from the beginning
	mends  func(s *scene) // does what the operator does elsewhere; nil: nothing can be done
}

// mistake stands where "http: {" is right.
const mistake = "http: {bearerTokenfile: token, "

// incidents are those that the alerts are about.
func incidents() []incident {
	start := func(queue, sink, sources string) func(s *scene) {
		return func(s *scene) {
			s.Start(s.config(queue, sink, sources))
			s.Send(s.lines(20, 500))
			s.delivered()
		}
	}
	plain := start("", "", "")
	answers := func(status int) func(s *scene) { return func(s *scene) { s.answer.Store(int64(status)) } }
	return []incident{
		{"down", "docket is killed", []string{"DocketDown"}, plain, func(s *scene) { s.Kill() }, func(s *scene) { s.Start(s.config("", "", "")) }},
		{"filling", "the destination is down while a few records come", []string{"DocketQueueFillingUp", "DocketDeliveryLag"}, start("maxBytes: 16Mi, ", "", ""), func(s *scene) {
			s.answer.Store(http.StatusServiceUnavailable)
			s.Send(s.lines(7, 900_000))
			s.pour(600, 16<<10, 250*time.Millisecond) // full after two minutes
		}, answers(http.StatusOK)},
		{"disk", "the file system of the queue is full", []string{"DocketQueueError", "DocketDeliveryLag"}, func(s *scene) {
			volume(s.t, s.path("queue"), 48<<20)
			plain(s)
		}, func(s *scene) {
			fill(s.t, s.path("queue/filler"))
			s.answer.Store(http.StatusServiceUnavailable)
			s.pour(30, 900_000, 10*time.Millisecond)
		}, func(s *scene) {
			if err := os.Remove(s.path("queue/filler")); err != nil {
				s.t.Fatal(err)
			}
			s.answer.Store(http.StatusOK)
		}},
		{"full", "the destination is down while many records come", []string{"DocketQueueFull", "DocketQueueFillingUp", "DocketDeliveryLag"}, start("maxBytes: 16Mi, ", "", ""), func(s *scene) {
			s.answer.Store(http.StatusServiceUnavailable)
			s.Send(s.lines(7, 900_000))
			s.pour(120, 128<<10, 250*time.Millisecond)
		}, func(s *scene) {
			s.edit("maxBytes: 16Mi", "maxBytes: 64Mi")
			s.Await("room in the queue", await.Left(s.t), func(st dockettest.Status) error {
				if st.Queue.State != "Active" {
					return fmt.Errorf("the queue is %s", st.Queue.State)
				}
				return nil
			})
			s.answer.Store(http.StatusOK)
		}},
		{"sink", "the destination answers 401", []string{"DocketSinkError", "DocketDeliveryLag"}, start("", "retry: {maxBackoff: 1h}, ", ""), func(s *scene) {
			s.answer.Store(http.StatusUnauthorized)
			s.Send(s.lines(20, 500))
		}, answers(http.StatusOK)},
		{"letters", "the destination answers 422 to all but a small record", []string{"DocketDeadLetters", "DocketDeadLettersNearlyFull"}, start("", "deadLetters: {maxBytes: 32Mi}, ", ""), func(s *scene) {
			s.answer.Store(http.StatusUnprocessableEntity)
			s.Send(s.lines(30, 900_000))
			s.Send(s.lines(1, 10))
		}, answers(http.StatusOK)},
		{"producer", "a producer writes lines that are no JSON, and reports 3 records that it lost", []string{"DocketRecordsRefused", "DocketRecordsLost"}, plain, func(s *scene) {
			s.write("no JSON\n")
			s.write(`{"eventType":"docket.loss","schemaVersion":1,"lost":{"deny":3},"reason":"Full"}` + "\n")
		}, nil},
		{"corrupt", "bytes of a stored record change while docket is stopped", []string{"DocketRecordsCorrupt"}, func(s *scene) {
			plain(s)
			s.answer.Store(http.StatusServiceUnavailable)
			for range 10 {
				s.Send(s.lines(1, 500))
			}
		}, func(s *scene) {
			s.Kill()
			s.damage(25)
			s.answer.Store(http.StatusOK)
			s.Start(s.config("", "", ""))
		}, nil},
		{"dropped", "the queue is full with whenFull: DropOldest", []string{"DocketRecordsDropped", "DocketQueueFull", "DocketQueueFillingUp", "DocketDeliveryLag"}, start("maxBytes: 16Mi, whenFull: DropOldest, ", "", ""), func(s *scene) {
			s.answer.Store(http.StatusServiceUnavailable)
			s.Send(s.lines(22, 900_000))
			s.pour(400, 128<<10, 250*time.Millisecond)
		}, answers(http.StatusOK)},
		{"audit", "an audit ends without a single record after one with violations, and none follows", []string{"DocketAuditFailed", "DocketAuditMissing"}, func(s *scene) {
			s.Start(s.config("", "", fmt.Sprintf("- name: gatekeeper\n  gatekeeper: {path: %q}\n", s.path("topics"))))
			s.Send(s.lines(20, 500))
			s.audit("2026-11-21T07:38:01Z", sampleViolations)
			s.delivered()
		}, func(s *scene) {
			s.audit("2026-11-21T07:39:01Z", sampleNothing)
		}, func(s *scene) {
			s.audit("2026-11-21T07:40:01Z", sampleViolations)
		}},
		{"config", "a mistake is written into the configuration file", []string{"DocketConfigError"}, plain, func(s *scene) {
			s.edit("http: {", mistake)
		}, func(s *scene) {
			s.edit(mistake, "http: {")
		}},
		{"start", "docket starts with a mistake in its configuration file", []string{"DocketConfigError"}, plain, func(s *scene) {
			s.Kill()
			s.Start(strings.Replace(s.config("", "", ""), "http: {", mistake, 1))
		}, func(s *scene) {
			s.edit(mistake, "http: {")
		}},
		{"source", "another process has the address of a source", []string{"DocketSourceError"}, func(s *scene) {
			other := newScene(s.t)
			s.other = other.destination
			s.StartUnready(s.config("", "", fmt.Sprintf("- name: opa\n  opa: {address: %q}\n", strings.TrimPrefix(other.url, "http://"))))
			s.Send(s.lines(20, 500))
			s.delivered()
		}, nil, func(s *scene) { s.other.Close() }},
	}
}

// Exports of an audit that Gatekeeper has written: one with violations, and one of an audit
// that has failed.
const (
	sampleViolations = "disk-export-audit-channel-2026-11-21T07_38_01Z.log"
	sampleNothing    = "disk-export-failed-audit-looks-clean.log"
)

var runID = regexp.MustCompile(`"id":"2026[^"]*"`)

// audit gives docket the export of a run that began at that time.
func (s *scene) audit(began, sample string) {
	s.t.Helper()
	root, err := repo.Root()
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "testdata", "samples", "gatekeeper", sample))
	if err != nil {
		s.t.Fatal(err)
	}
	channel := s.path("topics/audit-channel")
	if err := os.MkdirAll(channel, 0o755); err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(channel, strings.ReplaceAll(began, ":", "_"))
	if err := os.WriteFile(path+".new", runID.ReplaceAll(text, fmt.Appendf(nil, `"id":%q`, began)), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path+".log"); err != nil {
		s.t.Fatal(err)
	}
}

// needRoot ends the test of somebody else: a skip or, where CI is true, a failure.
func needRoot(t *testing.T, why string) {
	t.Helper()
	switch {
	case os.Getuid() == 0:
	case os.Getenv("CI") == "true":
		t.Fatal("only root can ", why)
	default:
		t.Skip("only root can ", why)
	}
}

// volume mounts a file system of size bytes at dir. Only root can.
func volume(t *testing.T, dir string, size int) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}
