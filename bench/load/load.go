// Package load is the producers that programs are measured with: they write records of
// 1 KB to a Unix socket, in docket's protocol or as plain lines.
package load

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/record"
)

const (
	// Producers are how many there are in a measurement under load.
	Producers = 8
	// Window is how many records each of them has unacknowledged there, at most.
	Window = 1024
	// LinesPerWrite spares the producers most system calls: they share the
	// machine with what is measured.
	LinesPerWrite = 64
	// Wait bounds one load, on a disk that takes no writes for instance.
	Wait = time.Minute
	// pacePause is how long a producer that is ahead of its rate sleeps.
	pacePause = 5 * time.Millisecond
)

// Load is what producers do: each sends its share of the records.
type Load struct {
	Socket    string
	Producers int
	// Window is how many records of a producer may be unacknowledged. 0: producers
	// write plain lines and hear nothing, or speak OTLP.
	Window int
	// OTLP: producers send requests of OTLP over HTTP, each of them one at a time.
	OTLP    bool
	Records int           // of all producers together
	First   int           // number of the first record of each producer
	Limit   time.Duration // of sending; 0: until all is sent
	Rate    int           // records a second of all together; 0: as fast as they are taken
	// Kill is a process that gets SIGKILL at the limit, while producers send. Then the load
	// ends. 0: none.
	Kill int
}

// Full is the load that most is measured with.
func Full(socket string, records int) Load {
	return Load{Socket: socket, Producers: Producers, Window: Window, Records: records}
}

// Done is what came of a load.
type Done struct {
	Records int   // that were taken
	Each    []int // the same of each producer; for lines without acks: that were written
	// Began is the first write. Taken is when all was taken: acknowledged, or else read
	// to the end of the stream and the connection closed.
	Began, Taken time.Time
	CPU          time.Duration // processor time of the process meanwhile
}

// Took is how long the load took.
func (d Done) Took() time.Duration { return d.Taken.Sub(d.Began) }

// Each is how many records each producer sends when no limit stops it.
func (o Load) Each() int { return o.Records / o.Producers }

// Run makes the load and returns when all of it was taken.
func (o Load) Run(context.Context) (Done, error) {
	all := make([]*Producer, o.Producers)
	for i := range all {
		p, err := o.connect(i, record.NewBlock(i))
		if err != nil {
			return Done{}, err
		}
		defer p.Close()
		all[i] = p
	}
	if o.Kill != 0 {
		defer time.AfterFunc(o.Limit, func() { _ = unix.Kill(o.Kill, unix.SIGKILL) }).Stop() // it fails where the process has ended
	}
	d, err := Timed(len(all), func(i int) error { return all[i].run() })
	if o.Kill != 0 && d.Took() >= o.Limit {
		err = nil // no producer could go on
	}
	for _, p := range all {
		d.Each = append(d.Each, p.taken())
		d.Records += p.taken()
	}
	return d, err
}

// Timed runs n goroutines to their end and returns the time that took, by the
// clock and of the processors.
func Timed(n int, run func(i int) error) (Done, error) {
	errs := make([]error, n, n+1)
	var running sync.WaitGroup
	cpu, err := process.CPUTime(os.Getpid())
	if err != nil {
		return Done{}, err
	}
	began := time.Now()
	for i := range n {
		running.Go(func() { errs[i] = run(i) })
	}
	running.Wait()
	taken := time.Now()
	cpuAfter, err := process.CPUTime(os.Getpid())
	return Done{Began: began, Taken: taken, CPU: cpuAfter - cpu}, errors.Join(append(errs, err)...)
}
