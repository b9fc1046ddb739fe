package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/decision/rawjson"
)

// validRecord says whether a line is what docket takes for a record, and takes the time
// that docket takes.
func validRecord(line []byte) bool {
	return rawjson.KindOf(bytes.TrimSuffix(line, []byte("\n"))) == rawjson.Object
}

// check is the validation of records and nothing else, by one goroutine. The records
// are those of all producers, more than the caches next to a processor hold; docket
// has just received what it validates, and in the middle of everything else spends
// hardly less on it.
type check struct {
	lines []byte
	done  int
	cpu   time.Duration
}

func newCheck() *check {
	c := &check{}
	for i := range producers {
		c.lines = append(c.lines, record.NewBlock(i).Next(0, record.PerBlock)...)
	}
	return c
}

// run validates so many records, or a few more.
func (c *check) run(ctx context.Context, records int) error {
	before, err := host.CPUTime(os.Getpid())
	if err != nil {
		return err
	}
	for done := 0; done < records; {
		if err := ctx.Err(); err != nil {
			return err
		}
		for line := range slices.Chunk(c.lines, record.Bytes) {
			if !validRecord(line) {
				return errors.New("bench sends what is no record")
			}
		}
		done += len(c.lines) / record.Bytes
		c.done += len(c.lines) / record.Bytes
	}
	after, err := host.CPUTime(os.Getpid())
	c.cpu += after - before
	return err
}

func (c *check) cpuOfMillion() float64 { return c.cpu.Seconds() / float64(c.done) * 1e6 }
