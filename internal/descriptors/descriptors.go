// Package descriptors shares out the files and sockets that the process may have open. A
// process without a free descriptor can neither open a file of its queue nor answer a probe,
// so what peers can take ends before that.
package descriptors

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Limit is how many descriptors the process may have open. Go raises the soft limit to the hard one at
// the start.
func Limit() uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 1 << 20 // where it cannot be read, nothing tells of it either
	}
	return uint64(l.Cur) //nolint:unconvert // FreeBSD has it signed
}

// EndpointConnections bounds the connections of an endpoint for kubelet, Prometheus and a few
// people. An idle one costs some 13 KB.
func EndpointConnections(limit uint64) int { return int(min(max(limit/16, 4), 64)) }

// Share divides what a limit leaves beside reserve among parts that want so many descriptors
// each. Each gets one at least, and together at least a quarter of the limit: a process with less
// cannot work anyway.
func Share(limit uint64, reserve int, want []int) (have []int) {
	sum := 0
	for _, n := range want {
		sum += n
	}
	free := int(min(limit, 1<<30))
	free = max(free-reserve, free/4)
	have = make([]int, len(want))
	for i, n := range want {
		if have[i] = n; sum > free {
			have[i] = max(1, n*free/sum)
		}
	}
	return have
}

// Threads is how many threads the control group may have, with those of other processes in it. ok is
// false where there is no limit, or none that can be read.
func Threads() (n int, ok bool) { return readThreads(os.ReadFile) }

func readThreads(read func(string) ([]byte, error)) (n int, ok bool) {
	const root = "/sys/fs/cgroup"
	group := ""
	own, err := read("/proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(own)) {
		if path, found := strings.CutPrefix(strings.TrimSpace(line), "0::"); found {
			group = path
		}
	}
	for _, file := range []string{root + group + "/pids.max", root + "/pids.max", root + "/pids/pids.max"} {
		text, err := read(file)
		if err != nil {
			continue
		}
		n, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return n, err == nil // "max": there is none
	}
	return 0, false
}
