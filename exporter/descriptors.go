package exporter

import (
	"fmt"

	"github.com/docket-export/docket/internal/descriptors"
	"github.com/docket-export/docket/sources"
)

// Descriptors that are kept from peers.
const (
	// programFiles are the queue, the state of sources, names that are looked up, what the
	// program inherits, and what a reload has open twice.
	programFiles = 64
	// sinkFiles are the segment that a sink reads, its dead letters, its own files, and
	// connections to brokers; sendFiles the connections of each batch under way.
	sinkFiles, sendFiles = 16, 2
	// sourceFiles are the listener and what a source reads.
	sourceFiles = 8
	// leavingFiles are connections that lost their place and are not closed yet, and TLS
	// handshakes.
	leavingFiles = 128
	// endpoints are the admin endpoint, its socket, and the listener for metrics.
	endpoints = 3
)

// Threads of the Go runtime, and those that wait for a disk.
const (
	programThreads = 32
	partThreads    = 2
)

// reservedFiles are descriptors that no connection of a source gets.
func (c *Config) reservedFiles(limit uint64) int {
	n := programFiles + endpoints*descriptors.EndpointConnections(limit)
	for _, s := range c.Sources {
		if n += sourceFiles; accepts(s) > 0 {
			n += leavingFiles
		}
	}
	return n + len(c.Sinks)*(sinkFiles+sendFiles)
}

func accepts(s SourceConfig) int {
	if a, ok := s.Config.(sources.Accepting); ok {
		return a.Accepts()
	}
	return 0
}

// connections are how many connections each source may have, by its place in the list, where the
// process may have so many descriptors; 0: the source accepts none.
func (c *Config) connections(limit uint64) []int {
	want := make([]int, len(c.Sources))
	for i, s := range c.Sources {
		want[i] = accepts(s)
	}
	have := descriptors.Share(limit, c.reservedFiles(limit), want)
	for i := range have {
		have[i] = min(have[i], want[i])
	}
	return have
}

// LimitWarnings says where the configuration needs more descriptors or threads than the process
// gets.
func (c *Config) LimitWarnings() []string {
	threads, ok := descriptors.Threads()
	if !ok {
		threads = 0
	}
	return c.limitWarnings(descriptors.Limit(), threads)
}

func (c *Config) limitWarnings(files uint64, threads int) (list []string) {
	want, have := 0, 0
	for i, n := range c.connections(files) {
		want, have = want+accepts(c.Sources[i]), have+n
	}
	reserved := c.reservedFiles(files)
	if have < want || uint64(reserved+want) > files {
		list = append(list, fmt.Sprintf("at most %d files and sockets may be open at a time (ulimit -n), and the configuration needs %d: sources accept %d connections instead of %d; "+
			"raise the limit (LimitNOFILE= of systemd), or lower maxConnections", files, reserved+want, have, want))
	}
	if need := programThreads + partThreads*(len(c.Sources)+len(c.Sinks)); threads > 0 && threads < need {
		list = append(list, fmt.Sprintf("the control group may have %d threads (pids.max), and docket needs up to %d: beyond the limit Go ends the process; raise the limit", threads, need))
	}
	return list
}
