//go:build soak && unix

package docs_test

import (
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
