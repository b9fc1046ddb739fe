package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/docket-export/docket/bench/record"
)

// count is what has arrived at a destination.
type count struct {
	Records int `json:"records"` // each counted once
	Again   int `json:"again"`   // how many came once more
	Broken  int `json:"broken"`  // lines that are not, byte for byte, what a producer has sent
}

// arrivals say when there were how many records, in order.
type arrivals []arrival

type arrival struct {
	Records int   `json:"records"`
	At      int64 `json:"at"` // in Unix nanoseconds
}

// at is when there were n records.
func (a arrivals) at(n int) (int64, error) {
	for _, m := range a {
		if m.Records >= n {
			return m.At, nil
		}
	}
	return 0, fmt.Errorf("fewer than %d records have arrived", n)
}

// whole returns an error where bytes were not kept: the program was not told to do
// what it is measured for.
func (c count) whole() error {
	if c.Broken > 0 {
		return fmt.Errorf("%d lines arrived that nobody has sent so", c.Broken)
	}
	return nil
}

// census knows which records have arrived. Its methods may be called at once.
type census struct {
	blocks []*record.Block // by producer; not changed

	mu       sync.Mutex
	seen     [producers][]bool // by number; guarded by mu
	count    count             // guarded by mu
	arrivals arrivals          // guarded by mu
}

func newCensus() *census {
	c := &census{}
	for i := range producers {
		c.blocks = append(c.blocks, record.NewBlock(i))
	}
	return c
}

// take counts the lines of text, whose last may lack its newline. skip says which
// lines are no records; nil: none.
func (c *census) take(text []byte, skip func(line []byte) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.count.Records
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		if skip == nil || !skip(line) {
			c.takeLine(line)
		}
	}
	if c.count.Records > before {
		c.arrivals = append(c.arrivals, arrival{c.count.Records, time.Now().UnixNano()})
	}
}

// takeLine counts one line; mu is held.
func (c *census) takeLine(line []byte) {
	producer, number, ok := record.ID(line)
	if !ok || producer >= producers || !c.blocks[producer].Has(line, number) {
		c.count.Broken++
		return
	}
	seen := &c.seen[producer]
	if number >= len(*seen) {
		*seen = append(*seen, make([]bool, number+1-len(*seen))...)
	}
	if (*seen)[number] {
		c.count.Again++
		return
	}
	(*seen)[number] = true
	c.count.Records++
}

func (c *census) read() count {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

func (c *census) times() arrivals {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.arrivals)
}

// countFiles returns what is in the files below dir, which nobody writes any more.
func countFiles(dir string) (count, error) {
	c := newCensus()
	names, err := exportFiles(dir)
	if err != nil {
		return count{}, err
	}
	for _, name := range names {
		if err := c.takeFile(name); err != nil {
			return count{}, err
		}
	}
	return c.read(), nil
}

// takeFile counts the lines of a file in pieces that end where a record does.
func (c *census) takeFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 1024*record.Bytes)
	for {
		n, err := io.ReadFull(f, buf)
		c.take(buf[:n], nil)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// exportFiles are the files that a program has exported to dir: all that are named
// *.ndjson.
func exportFiles(dir string) ([]string, error) { return filepath.Glob(filepath.Join(dir, "*.ndjson")) }

// exportSize is the size of them all. One that is renamed at this moment may be
// missed or counted twice, so what it says of the end is to be looked at again.
func exportSize(dir string) (total int64, err error) {
	names, err := exportFiles(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		total += info.Size()
	}
	return total, nil
}
