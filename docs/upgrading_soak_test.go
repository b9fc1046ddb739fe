//go:build soak && unix

package docs_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/internal/document/desk"
)

// Every command of UPGRADING.md runs, one after the other, and says what the page shows.
func TestUpgradingPage(t *testing.T) {
	page := document.Read(t, "../UPGRADING.md")
	d := desk.New(t)
	t.Cleanup(func() { stopLeft(t, d.Dir) })
	d.Follow(t, page.Steps())
	versionsAsWritten(t, page, filepath.Join(d.Dir, "new-disk"))

	// The message of a newer file is the one that the page quotes.
	const body = "{}\n"
	text := fmt.Sprintf("docket positions 3 crc32c %08x\n%s", crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli)), body)
	if err := os.WriteFile(filepath.Join(d.Dir, "new-disk/queue/positions"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	said := d.Do(t, "sed -i 's#new-disk/#data/#' docket.yaml; rm -r data; mv new-disk data\n"+
		"set +e\ndocket run -f docket.yaml 2>&1\necho exit code $?")
	quoted := regexp.MustCompile(`(?m)^docket run: .*$`).FindString(page.Section(t, "Downgrade").Text)
	if quoted == "" || !strings.Contains(said, quoted) || !strings.Contains(said, "exit code 2") {
		t.Errorf("got %q, want %q and exit code 2", said, quoted)
	}
}

// stopLeft ends a docket that a failed block has left running.
func stopLeft(t *testing.T, dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "docket.pid"))
	if err != nil {
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Error(err)
		return
	}
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && string(name) == "docket\n" {
		_ = syscall.Kill(pid, syscall.SIGTERM) // it may end by itself
	}
}

// versionsAsWritten compares the table with the files that docket has made, and with the table of
// docs/file-formats.md.
func versionsAsWritten(t *testing.T, page document.Page, data string) {
	t.Helper()
	rows := map[string][]string{}
	for _, r := range page.Section(t, "Disk formats").Rows() {
		rows[r[0]] = r
	}
	isNumber := regexp.MustCompile(`^\d+$`)
	for _, r := range document.Read(t, "file-formats.md").Rows() {
		if len(r) < 4 {
			continue
		}
		if mine := rows[r[0]]; mine == nil {
			t.Errorf("UPGRADING.md has no row for %s", r[0])
		} else if isNumber.MatchString(r[2]) && (mine[1] != r[2] || isNumber.MatchString(r[3]) && mine[2] != r[3]) {
			t.Errorf("UPGRADING.md says %q, docs/file-formats.md %q", mine, r)
		}
	}
	number := func(b []byte) string { return strconv.Itoa(int(binary.LittleEndian.Uint32(b[8:]))) }
	text := regexp.MustCompile(`\d+`)
	for file, written := range map[string]struct {
		glob string
		is   func(b []byte) string
	}{
		"`<seq>-<epoch>.segment`":     {"queue/*.segment", number},
		"`cursors`":                   {"queue/cursors", number},
		"`positions`":                 {"queue/positions", func(b []byte) string { return text.FindString(string(b)) }},
		"`decisions-active.position`": {"export/*.position", func(b []byte) string { return string(b[7:8]) }},
	} {
		names, err := filepath.Glob(filepath.Join(data, written.glob))
		if err != nil || len(names) == 0 {
			t.Fatalf("no %s: %v", written.glob, err)
		}
		b, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := rows[file]; got == nil || got[1] != written.is(b) {
			t.Errorf("UPGRADING.md says %q, and %s has version %s", got, names[0], written.is(b))
		}
	}
}
