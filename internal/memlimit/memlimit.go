// Package memlimit chooses what docket tells the garbage collector.
package memlimit

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"strconv"
	"strings"

	cgroup "github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/docket-export/docket/config"
)

// The environment variables that bound the memory of a Go program.
const (
	gcPercentVariable   = "GOGC"
	memoryLimitVariable = "GOMEMLIMIT"
)

// gcPercent is how much garbage there may be, in percent of what is in use, before it
// is collected. Nearly all that docket has in use are buffers, which the collector
// need not look into, so that three times as many collections as Go makes by itself
// cost three hundredths of its processor time under a load with three sinks, and
// nothing that can be measured with none; docs/memory.md has the figures.
const gcPercent = 30

// A container's limit also covers memory that Go does not know of: the pages of the
// program itself, and the kernel's buffers for sockets and files.
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

// Program is the memory that a command needs.
type Program struct {
	Ceiling   int64 // what it has at most
	GCPercent int   // when garbage is collected, in percent of what is in use; 0: 30, for much that is in use
}

// choose returns what the environment leaves open: the limit is that of the
// container, or what is left of the ceiling that docket stays below by itself.
func choose(getenv func(string) string, container func() (int64, error), p Program) (s Settings, err error) {
	if getenv(gcPercentVariable) == "" {
		s.gcPercent = cmp.Or(p.GCPercent, gcPercent)
	}
	if getenv(memoryLimitVariable) == "" {
		s.container, err = container()
		s.limit = p.Ceiling - programPages
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

// For returns what the environment leaves open. It logs the settings, and warns when a
// container is too small for the ceiling. It never fails: docket runs without a limit that
// cannot be read.
func For(getenv func(string) string, p Program, log *slog.Logger) Settings {
	return settingsFor(getenv, ofContainer, p, log)
}

func settingsFor(getenv func(string) string, container func() (int64, error), p Program, log *slog.Logger) Settings {
	ceiling := p.Ceiling
	s, err := choose(getenv, container, p)
	if err != nil {
		log.Debug("cannot read the memory limit of the container", "error", err)
	}
	log.Info("memory stays below a ceiling", "ceiling", Mebibytes(ceiling))
	if s.container > 0 && s.container < ceiling {
		log.Warn("the memory limit of the container is below the ceiling: peers can get docket killed; raise the limit, or run `docket check` to see what uses memory",
			"limit", limitText(s.container), "ceiling", Mebibytes(ceiling))
	}
	log.Debug("memory", gcPercentVariable, textOr(getenv(gcPercentVariable), strconv.Itoa(s.gcPercent)),
		memoryLimitVariable, textOr(getenv(memoryLimitVariable), limitText(s.limit)), "container", limitText(s.container))
	return s
}

// Mebibytes returns a size in MiB, rounded up: to a tenth below ten, to whole ones from ten
// on.
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

// ofContainer returns the least limit of this process's control group and those around
// it, of version 1 or 2; 0 when there is none.
func ofContainer() (int64, error) {
	limit, err := cgroup.FromCgroup()
	if errors.Is(err, cgroup.ErrNoLimit) {
		return 0, nil
	}
	return int64(min(limit, math.MaxInt64)), err
}
