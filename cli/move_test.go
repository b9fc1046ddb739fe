package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/cli/internal/command"
)

// TestMoveIsKilled: docket queue move is killed at random moments. Of the two queues one at
// most can be used, at any time, and the same command then ends with all in the new one:
// records, the place of each sink, and an export that goes on without a break.
func TestMoveIsKilled(t *testing.T) {
	const records = 20000
	config, _ := testConfig(t)
	text := strings.NewReplacer("1h", "10ms", "{directory: queue}", "{directory: old/queue, retain: {maxBytes: 1Gi}}", "{directory: export}",
		"{directory: old/export, rotate: {maxBytes: 256Ki}}", "sinks:\n", "sinks:\n- name: down\n  http: {url: http://127.0.0.1:1}\n").Replace(readFile(t, config))
	writeFile(t, config, text)
	writeFile(t, "new.yaml", strings.ReplaceAll(text, "old/", "new/"))
	var lines strings.Builder
	for n := range records {
		fmt.Fprintf(&lines, `{"n":%d,"pad":"%0200d"}`+"\n", n, n)
	}
	writeFile(t, "lines.ndjson", lines.String())
	sidecar := startProcess(t, "run", "-f", config)
	if got := startProcess(t, "send", "-f", config, "lines.ndjson").wait(); got != command.ExitOK {
		t.Fatalf("got exit code %d of the sender, want %d", got, command.ExitOK)
	}
	sidecar.kill()
	if err := errors.Join(os.Rename("old", "original"), os.Remove("original/queue/admin.sock")); err != nil {
		t.Fatal(err)
	}
	want := output(t, "queue", "cat", "--queue", "original/queue")
	accounts := sinksIn(t, "original/queue")

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	var whole time.Duration // of a move that nobody kills
	seen := map[string]int{}
	for n := range onceIfShort(16) + 1 {
		for _, dir := range []string{"old", "new"} {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.CopyFS("old", os.DirFS("original")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		p := startProcess(t, "queue", "move", "-f", config, "--to", "new")
		if n == 0 {
			if got := p.wait(); got != command.ExitOK {
				t.Fatalf("got exit code %d, want %d:\n%s", got, command.ExitOK, p.stderr())
			}
			whole = time.Since(began)
		} else {
			time.Sleep(time.Duration(dice.Int64N(int64(whole)))) // the moment of the kill is what is random here
			p.kill()
		}
		old, fresh := isUsable(t, "old/queue"), isUsable(t, "new/queue")
		if old && fresh {
			t.Fatal("both queues can be used")
		}
		seen[fmt.Sprintf("old %t, new %t", old, fresh)]++
		if out, err := exec.Command("docket", "queue", "move", "-f", config, "--to", "new").CombinedOutput(); err != nil {
			t.Fatalf("again: %v: %s", err, out)
		}
		if isUsable(t, "old/queue") {
			t.Fatal("again: the old queue can be used")
		}
		if got := output(t, "queue", "cat", "--queue", "new/queue"); !bytes.Equal(got, want) {
			t.Fatalf("got %d bytes of records, want the %d there were", len(got), len(want))
		}
	}
	t.Logf("left by kills within %s: %v", whole, seen)
	if got := sinksIn(t, "new/queue"); !reflect.DeepEqual(got, accounts) {
		t.Errorf("got the sinks %v, want %v", got, accounts)
	}
	again := startProcess(t, "run", "-f", "new.yaml")
	if got := startProcess(t, "send", "-f", "new.yaml", "lines.ndjson").wait(); got != command.ExitOK {
		t.Errorf("got exit code %d of the sender, want %d", got, command.ExitOK)
	}
	again.interrupt()
	if got := again.wait(); got != command.ExitOK {
		t.Errorf("got exit code %d of docket on the new queue, want %d", got, command.ExitOK)
	}
	output(t, "verify", "new/export", "--against", "new/queue", "--sink", "export")
}

// output runs docket, which must succeed.
func output(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("docket", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s%s", args, err, out, stderr.Bytes())
	}
	return out
}

// isUsable reports whether docket takes the queue in dir for one, and for a whole one.
func isUsable(t *testing.T, dir string) bool {
	t.Helper()
	out, err := exec.Command("docket", "queue", "ls", "--queue", dir).CombinedOutput()
	if err != nil && !bytes.Contains(out, []byte("not found")) && !bytes.Contains(out, []byte("move")) {
		t.Fatalf("queue ls: %v: %s", err, out)
	}
	return err == nil
}

func sinksIn(t *testing.T, dir string) any {
	t.Helper()
	var document struct{ Sinks any }
	if err := json.Unmarshal(output(t, "queue", "ls", "--queue", dir, "-o", "json"), &document); err != nil {
		t.Fatal(err)
	}
	return document.Sinks
}
