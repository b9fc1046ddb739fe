package cli

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/internal/testcli"
)

// TestQueueOfAnEarlierCommit: today's docket goes on where an earlier one has stopped: what
// that one has read is not read again, what it has delivered is not delivered again.
func TestQueueOfAnEarlierCommit(t *testing.T) {
	dir := t.TempDir()
	unpack(t, "testdata/commit1682738.tar.gz", dir)
	opa, opaErr := testcli.FreeAddress()
	admin, adminErr := testcli.FreeAddress()
	if err := errors.Join(opaErr, adminErr); err != nil {
		t.Fatal(err)
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	edit(t, path("docket.yaml"), strings.NewReplacer("DIR", dir, "OPA", opa, "ADMIN", admin))
	moveState(t, path("queue/sources/log/tail.json"), "10866578", path("engine.log"), dir)
	moveState(t, path("queue/sources/gk/state.json"), "10866577", path("gk/audit-channel/2026-01-05T10_04_07Z.log"), dir)
	before := exportedLines(t, path("export"))

	t.Chdir(dir)
	p := startProcess(t, "run", "-f", path("docket.yaml"))
	eventually(t, "every source at work", func() bool { return strings.Count(p.stderr(), "source takes lines") == 3 })
	log, err := os.OpenFile(path("engine.log"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(log, "2026-01-05T10:04:08.1Z stdout F \"}\n")
	if err = errors.Join(err, log.Close()); err != nil {
		t.Fatal(err)
	}
	audit, err := os.ReadFile(path("gk/audit-channel/2026-01-05T10_04_07Z.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.ReplaceAll(string(audit), "10:04:07", "10:04:09"), "\n")
	// As Gatekeeper does: a file has its final name once it is whole.
	writeFile(t, path("audit"), lines[0]+lines[1]+lines[3])
	if err := os.Rename(path("audit"), path("gk/audit-channel/2026-01-05T10_04_09Z.log")); err != nil {
		t.Fatal(err)
	}
	res, err := http.Post("http://"+opa+"/logs", "application/json", strings.NewReader(`[{"decision_id":"d1"},{"decision_id":"d2"},{"decision_id":"d3"}]`))
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("got %v, %v, want an answer of 200", res, err)
	}
	res.Body.Close()
	added := []string{
		`{"decision_id":"d3"}`,
		`{"eventType":"docket.audit.resolved"`, `{"eventType":"docket.audit.run"`,
		`{"id":"2026-01-05T10:04:09Z","message":"audit is completed"}`, `{"id":"2026-01-05T10:04:09Z","message":"audit is started"}`,
		`{"line":3,"text":"half"}`,
	}
	eventually(t, "all that is new", func() bool { return len(exportedLines(t, path("export"))) >= len(before)+len(added) })
	http.DefaultClient.CloseIdleConnections()
	p.interrupt()
	if got := p.wait(); got != command.ExitOK {
		t.Errorf("got exit code %d, want %d:\n%s", got, command.ExitOK, p.stderr())
	}
	after := exportedLines(t, path("export"))
	if len(after) < len(before) || !slices.Equal(after[:len(before)], before) {
		t.Fatalf("got export %q, want it to begin with %q", after, before)
	}
	got := after[len(before):]
	slices.Sort(got)
	if !slices.EqualFunc(got, added, strings.HasPrefix) {
		t.Errorf("got %q added to the export, want %q", got, added)
	}
}

// moveState has a state name the file that took the place of one with another inode.
func moveState(t *testing.T, state, inode, file, dir string) {
	t.Helper()
	var x unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, file, 0, unix.STATX_INO|unix.STATX_BTIME, &x); err != nil {
		t.Fatal(err)
	}
	born := int64(0) // where the file system does not tell
	if x.Mask&unix.STATX_BTIME != 0 {
		born = x.Btime.Sec*int64(time.Second) + int64(x.Btime.Nsec)
	}
	text := regexp.MustCompile(`"born":\d+`).ReplaceAllString(readFile(t, state), fmt.Sprintf(`"born":%d`, born))
	text = regexp.MustCompile(`"(inode":)?`+inode).ReplaceAllString(text, fmt.Sprintf(`"${1}%d`, x.Ino))
	writeFile(t, state, strings.ReplaceAll(text, "/DIR", dir))
}

func edit(t *testing.T, file string, r *strings.Replacer) {
	t.Helper()
	writeFile(t, file, r.Replace(readFile(t, file)))
}

// unpack unpacks an archive of plain files.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, 0o700)
		} else {
			var content []byte
			if content, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, content, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
