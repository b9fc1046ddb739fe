package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/record"
)

const (
	crowdSize = 1000
	// crowdBurst is how many records a producer sends at once: 256 KB.
	crowdBurst = 256
	// otherFiles is more than a process has open beside the connections.
	otherFiles = 100
	// idleWait is how long docket is left alone before its memory is measured.
	idleWait = 3 * time.Second
)

// checkFiles says whether docket, and this process, may have a connection for each
// of a crowd. Both raise their limit as far as they may.
func (l *lab) checkFiles() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	return enoughFiles(limit.Max)
}

func enoughFiles(limit uint64) error {
	if limit < crowdSize+otherFiles {
		return fmt.Errorf("a process may have %d files open and %d producers need %d: raise the hard limit (ulimit -Hn), or leave this out with -only",
			limit, crowdSize, crowdSize+otherFiles)
	}
	return nil
}

// connected measures what a producer costs that is connected and says nothing.
func (l *lab) connected(ctx context.Context) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	s, err := l.startSidecar(ctx, dir, toFile)
	if err != nil {
		return nil, err
	}
	defer s.kill()
	first := &crowd{socket: s.socket, block: record.NewBlock(0)}
	defer first.close()
	if err := first.join(1); err != nil {
		return nil, err
	}
	if err := first.send(1); err != nil {
		return nil, err
	}
	before, err := s.restingMemory(ctx)
	if err != nil {
		return nil, err
	}
	values := map[string]float64{"before": before}
	others := &crowd{socket: s.socket, block: first.block, named: 1}
	defer others.close()
	for _, step := range []struct {
		key string
		do  func() error
	}{
		{"greeted", func() error { return others.join(crowdSize) }},
		{"one", func() error { return others.send(1) }},
		{"burst", func() error { return others.send(crowdBurst) }},
	} {
		if err := step.do(); err != nil {
			return nil, fmt.Errorf("%s: %w", step.key, err)
		}
		memory, err := s.restingMemory(ctx)
		if err != nil {
			return nil, err
		}
		values[step.key] = (memory - before) * 1e6 / 1024 / crowdSize
	}
	return values, nil
}

// restingMemory is the resident memory in MB after a while of rest.
func (s *sidecar) restingMemory(ctx context.Context) (float64, error) {
	if err := host.Sleep(ctx, idleWait); err != nil {
		return 0, err
	}
	return s.Memory("VmRSS")
}

// crowd are producers that send one after the other. They share a block.
type crowd struct {
	socket  string
	block   *record.Block
	named   int // names that were given before
	members []*producer
}

// join connects n more producers.
func (c *crowd) join(n int) error {
	for range n {
		p, err := connect(c.socket, c.named, c.block)
		if err != nil {
			return fmt.Errorf("producer %d: %w", c.named, err)
		}
		c.named++
		c.members = append(c.members, p)
	}
	return nil
}

// send returns when each has sent so many records, all at once, and has the ack.
func (c *crowd) send(records int) error {
	for i, p := range c.members {
		if _, err := p.send(records, records); err != nil {
			return fmt.Errorf("producer %d: %w", i, err)
		}
	}
	return nil
}

func (c *crowd) close() {
	for _, p := range c.members {
		p.nc.Close()
	}
}
