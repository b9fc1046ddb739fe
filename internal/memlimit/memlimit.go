// Package memlimit chooses what docket tells the garbage collector.
package memlimit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/docket-export/docket/config"
)

// The environment variables with which whoever runs a Go program bounds its memory.
const (
	gcPercentVariable   = "GOGC"
	memoryLimitVariable = "GOMEMLIMIT"
)

// gcPercent is how much garbage there may be, in percent of what is in use, before it
// is collected. Nearly all that docket has in use are buffers, which the collector
// need not look into, so that three times as many collections as Go makes by itself
// cost three hundredths of its processor time under a load with three sinks, and
// nothing that can be measured with none; docs/configuration.md has the figures.
const gcPercent = 30

// What the limit of a container has to hold beside the memory of which Go knows: the
// pages of the program itself, and what the kernel has for sockets and files.
const (
	leastHeadroom   = 16 << 20
	headroomDivisor = 10
)

// Settings are what docket tells the garbage collector.
type Settings struct {
	gcPercent int   // 0: what the environment says
	limit     int64 // soft limit in bytes; 0: what the environment says, or none
	container int64 // limit of the control group, of which limit is a part; 0: none
}

// programPages are those of the program itself that the ceiling counts, and of which Go
// does not know.
const programPages = 5 << 20

// choose returns what the environment leaves open: the limit is that of the
// container or what is left of ceiling, which docket keeps below by itself. root is the
// root directory of the file system, in which the kernel tells the limits of the container.
func choose(getenv func(string) string, root fs.FS, ceiling int64) (s Settings, err error) {
	if getenv(gcPercentVariable) == "" {
		s.gcPercent = gcPercent
	}
	if getenv(memoryLimitVariable) == "" {
		s.container, err = containerMemory(root)
		s.limit = ceiling - programPages
		if s.container > 0 {
			s.limit = min(s.limit, limitWithin(s.container))
		}
	}
	return s, err
}

// limitWithin is the soft limit for a container that may use limit. It is never less
// than half of that: collecting all the time would not make a container that is too
// small large enough.
func limitWithin(limit int64) int64 {
	headroom := max(limit/headroomDivisor, leastHeadroom)
	return limit - min(headroom, limit/2)
}

// Apply tells the garbage collector.
func (s Settings) Apply() {
	if s.gcPercent > 0 {
		debug.SetGCPercent(s.gcPercent)
	}
	if s.limit > 0 {
		debug.SetMemoryLimit(s.limit)
	}
}

// StartTime is how long docket runs with what Go has by itself. A start over a backlog
// makes buffers of megabytes beside a heap that is smaller yet: to collect garbage more
// often then costs it 8 ms of the 35 until its first batch is out.
const StartTime = 200 * time.Millisecond

// For returns what the environment leaves open and says on log what that is, and
// that a container is too small for ceiling. That no limit can be read is no reason not to
// run.
func For(getenv func(string) string, root fs.FS, ceiling int64, log *slog.Logger) Settings {
	s, err := choose(getenv, root, ceiling)
	if err != nil {
		log.Debug("memory limit of the container unknown", "error", err)
	}
	log.Info("memory stays below a ceiling", "ceiling", Mebibytes(ceiling))
	if s.container > 0 && s.container < ceiling {
		log.Warn("the memory limit of the container is below the ceiling: peers can have docket killed; raise the limit, or see `docket check` for what takes how much",
			"limit", limitText(s.container), "ceiling", Mebibytes(ceiling))
	}
	log.Debug("memory", gcPercentVariable, textOr(getenv(gcPercentVariable), strconv.Itoa(s.gcPercent)),
		memoryLimitVariable, textOr(getenv(memoryLimitVariable), limitText(s.limit)), "container", limitText(s.container))
	return s
}

// Mebibytes is a size to a tenth of a MiB, rounded up; whole ones from ten on.
func Mebibytes(bytes int64) string {
	const tenth = (1 << 20) / 10
	if n := (bytes + tenth - 1) / tenth; n < 100 {
		return strings.TrimSuffix(fmt.Sprintf("%d.%d", n/10, n%10), ".0") + "Mi"
	}
	return fmt.Sprintf("%dMi", (bytes+1<<20-1)>>20)
}

func textOr(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}

func limitText(limit int64) string {
	if limit == 0 {
		return "none"
	}
	return config.Size(limit).String()
}

// Where the kernel tells a process its control groups, and where these are by
// convention: version 2, and the controller of memory of version 1.
const (
	cgroupFile = "proc/self/cgroup"
	cgroup2Dir = "sys/fs/cgroup"
	cgroup1Dir = "sys/fs/cgroup/memory"
)

// noLimit1 is the least number that means no limit in version 1: it says so by the
// greatest multiple of a page there is.
const noLimit1 = math.MaxInt64 &^ (1<<20 - 1)

// containerMemory returns the least limit of this process's control group and those
// around it, 0 when there is none.
func containerMemory(root fs.FS) (int64, error) {
	text, err := fs.ReadFile(root, cgroupFile)
	if err != nil {
		return 0, err
	}
	var least int64
	for line := range strings.Lines(string(text)) {
		dir, group, file := memoryGroup(strings.TrimSuffix(line, "\n"))
		if dir == "" {
			continue
		}
		limit, err := leastLimit(root, dir, group, file)
		if err != nil {
			return 0, err
		}
		if limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
	}
	return least, nil
}

// memoryGroup takes apart a line of /proc/self/cgroup, "7:memory:/a/b" or "0::/a/b":
// where groups of that kind are, which of them it is, and the file that has the limit.
// dir is empty for a kind that bounds no memory.
func memoryGroup(line string) (dir, group, file string) {
	_, rest, _ := strings.Cut(line, ":")
	controllers, group, _ := strings.Cut(rest, ":")
	if controllers == "" && group != "" {
		return cgroup2Dir, group, "memory.max"
	}
	for controller := range strings.SplitSeq(controllers, ",") {
		if controller == "memory" {
			return cgroup1Dir, group, "memory.limit_in_bytes"
		}
	}
	return "", "", ""
}

// leastLimit looks at group and those around it, up to dir. A container often sees
// nothing of the path by which the node knows it, and has its own group at dir: so
// directories that are missing are passed over.
func leastLimit(root fs.FS, dir, group, file string) (least int64, err error) {
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		name := path.Join(dir, group, file)
		text, err := fs.ReadFile(root, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		limit, err := parseLimit(text)
		if err != nil {
			return 0, fmt.Errorf("/%s: %w", name, err)
		}
		if limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
		if group == "/" {
			return least, nil
		}
	}
}

// parseLimit reads a limit in bytes; 0 stands for none.
func parseLimit(text []byte) (int64, error) {
	word := string(bytes.TrimSpace(text))
	if word == "" || word == "max" {
		return 0, nil
	}
	limit, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return 0, err
	}
	if limit >= noLimit1 {
		return 0, nil
	}
	return limit, nil
}
