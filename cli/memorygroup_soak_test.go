//go:build soak

package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
)

// limitedGroup is a control group of the kernel that bounds the memory of the processes
// in it, as a container's limit does.
type limitedGroup struct {
	t   *testing.T
	dir string
}

// The places of control groups, and what bounds the memory of one: version 1 and 2.
var limitedGroupKinds = []struct{ root, limit, kills string }{
	{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"},
	{"/sys/fs/cgroup", "memory.max", "memory.events"},
}

// newLimitedGroup makes a group of at most limit bytes. Where none can be made the test is
// skipped, or fails with CI=true.
func newLimitedGroup(t *testing.T, limit int64) *limitedGroup {
	t.Helper()
	var errs []error
	for _, kind := range limitedGroupKinds {
		g := &limitedGroup{t, filepath.Join(kind.root, fmt.Sprintf("docket-test-%d-%d", os.Getpid(), time.Now().UnixNano()))}
		if err := os.Mkdir(g.dir, 0o755); err != nil {
			errs = append(errs, err)
			continue
		}
		err := os.WriteFile(filepath.Join(g.dir, kind.limit), []byte(strconv.FormatInt(limit, 10)), 0)
		if err == nil {
			t.Cleanup(g.remove)
			return g
		}
		errs = append(errs, err, os.Remove(g.dir))
	}
	const text = "no control group that bounds memory can be made here"
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s: %v", text, errors.Join(errs...))
	}
	t.Skipf("%s: %v", text, errors.Join(errs...))
	return nil
}

// command is exec.Command for a process in the group from its start.
func (g *limitedGroup) command(name string, args ...string) *exec.Cmd {
	script := []string{"-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(g.dir, "cgroup.procs"), name}
	return exec.Command("/bin/sh", append(script, args...)...)
}

// kills is how many processes of the group the kernel has killed for want of memory.
func (g *limitedGroup) kills() int {
	for _, kind := range limitedGroupKinds {
		text, err := os.ReadFile(filepath.Join(g.dir, kind.kills))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
				kills, err := strconv.Atoi(strings.TrimSpace(n))
				if err != nil {
					g.t.Error(err)
				}
				return kills
			}
		}
	}
	return 0
}

// remove removes the group, which a process that has just ended may still be leaving.
func (g *limitedGroup) remove() {
	for deadline := time.Now().Add(await.Left(g.t)); ; time.Sleep(10 * time.Millisecond) {
		err := os.Remove(g.dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			g.t.Error(err)
			return
		}
	}
}
