package exporter

import (
	"strings"
	"testing"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sources"
)

// acceptingSource is the configuration of a source with so many connections.
type acceptingSource struct {
	sources.Config
	n int
}

func (a acceptingSource) Accepts() int { return a.n }

func (acceptingSource) Validate() config.Problems { return nil }

// Connections of all sources together leave descriptors for the rest, and a configuration that
// wants more is told of.
func TestConnectionsStayBelowTheLimit(t *testing.T) {
	for _, limit := range []uint64{64, 256, 1024, 4096, 65536} {
		for _, each := range []int{1, 256, 1024, 100_000} {
			for _, n := range []int{1, 4, 16} {
				c := &Config{}
				for range n {
					c.Sources = append(c.Sources, SourceConfig{Config: acceptingSource{n: each}})
				}
				sum := 0
				for _, have := range c.connections(limit) {
					if sum += have; have < 1 || have > each {
						t.Errorf("limit %d, %d sources with %d: got %d", limit, n, each, have)
					}
				}
				reserved := c.reservedFiles(limit)
				if most := max(int(limit)-reserved, int(limit)/4, n); sum > most {
					t.Errorf("limit %d, %d sources with %d: %d connections, want at most %d", limit, n, each, sum, most)
				}
				if warned := len(c.limitWarnings(limit, 0)) > 0; warned != (n*each+reserved > int(limit)) {
					t.Errorf("limit %d, %d sources with %d: warned %t, and it needs %d", limit, n, each, warned, n*each+reserved)
				}
			}
		}
	}
}

func TestThreadsOfTheControlGroup(t *testing.T) {
	c := &Config{Sources: []SourceConfig{{Config: acceptingSource{n: 1}}}}
	if got := c.limitWarnings(65536, 20); len(got) != 1 || !strings.Contains(got[0], "20 threads (pids.max)") {
		t.Errorf("got %q", got)
	}
	if got := c.limitWarnings(65536, 100); len(got) > 0 {
		t.Errorf("got %q, want nothing", got)
	}
}
