package host

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime is what all threads of a process have used, ended ones included. The
// clock of another process is finer than its /proc/PID/stat, which counts in
// hundredths of a second.
func CPUTime(pid int) (time.Duration, error) {
	const schedClock = 2 // CPUCLOCK_SCHED of the kernel's per-process clocks
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &t); err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// Memory returns a field of /proc/PID/status, VmRSS or VmHWM (its peak), in MB of a
// million bytes.
func Memory(pid int, field string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kib * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("the kernel tells no %s", field)
}
