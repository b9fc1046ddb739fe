package cli

import (
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"github.com/docket-export/docket/cli/internal/command"
)

// A queue with a file of a newer docket is refused by every command that opens it, with
// the exit code of a wrong start, the name of the file and its version. The file stays.
func TestQueueOfANewerDocketIsRefused(t *testing.T) {
	config, _ := testConfig(t)
	if err := os.Mkdir("queue", 0o700); err != nil {
		t.Fatal(err)
	}
	const body = "{\"newer\":true}\n"
	content := fmt.Sprintf("docket positions 3 crc32c %08x\n%s", crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli)), body)
	writeFile(t, "queue/positions", content)
	for _, args := range [][]string{
		{"run", "-f", config}, {"queue", "ls", "-f", config}, {"queue", "check", "-f", config}, {"queue", "cat", "-f", config},
		{"replay", "-f", config, "--sink", "export", "--from", "1"},
	} {
		p := startProcess(t, args...)
		if got := p.wait(); got != command.ExitUsage {
			t.Errorf("docket %s: got exit code %d, want %d:\n%s", strings.Join(args, " "), got, command.ExitUsage, p.stderr())
		}
		if got, want := p.stderr(), "queue/positions has format version 3, and this docket reads versions up to 2: run the newer docket that wrote it"; !strings.Contains(got, want) {
			t.Errorf("docket %s: got %q, want %q in it", strings.Join(args, " "), got, want)
		}
		if got := readFile(t, "queue/positions"); got != content {
			t.Errorf("docket %s: the file is %q now", strings.Join(args, " "), got)
		}
	}
}
