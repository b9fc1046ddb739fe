// Package conformance judges producers in any language. It plays an exporter that
// acknowledges late, breaks connections, goes away, refuses and forgets. It reports
// whether the producer keeps to docket stream v1 all the while.
//
// Tests in Go call producertest.Run. The command docket testserver is for
// everything else.
//
//	conformance.go  Suite, and what it says of a producer
//	scenarios.go    what happens to the producer
//	trial.go        one scenario under way
//	judge.go        what the producer should have done, and did
//	door.go         where the exporter listens
package conformance

import (
	"context"
	"fmt"
	"time"
)

// Defaults of Suite, and the fewest records that every scenario makes sense with.
const (
	DefaultRecords = 100
	DefaultTimeout = 20 * time.Second
	MinRecords     = 10
)

// Producer sends that many records, all of them different objects, to the
// exporter at address. It returns nil when each is acknowledged, and not before:
// the ack also covers what is refused for good. It returns soon after ctx is done.
type Producer func(ctx context.Context, address string, records int) error

// Suite says how to try producers. The zero value is ready to use.
type Suite struct {
	// Address where the exporter listens: unix:///absolute/path, or
	// tcp://host:port on this machine, where port 0 means any. Empty: a socket
	// in a directory of its own.
	Address string
	// Records is how many records a producer is asked for. The two scenarios that must
	// fill the buffers of a socket ask for more. 0: DefaultRecords.
	Records int
	// Timeout bounds each scenario. 0: DefaultTimeout.
	Timeout time.Duration
	// Waiting, if not nil, is told the address of the exporter when there is no
	// Producer: somebody must start one.
	Waiting func(s Scenario, address string, records int)
}

// Result is what a scenario has shown.
type Result struct {
	Scenario string
	Faults   []Fault // empty: the producer has passed
	Elapsed  time.Duration
}

// Passed reports whether nothing was wrong.
func (r Result) Passed() bool { return len(r.Faults) == 0 }

// Fault is one thing that a producer did wrong, in sentences about it.
type Fault struct {
	Expected string // "to send each record once"
	Got      string // "{"n":5} was stored twice: ..."
}

func (f Fault) String() string {
	return fmt.Sprintf("the producer was expected %s; got: %s", f.Expected, f.Got)
}

// Try starts p once and plays the scenario to it. With a nil p it waits until a
// producer connects, for as long as that takes, and judges that producer. The time
// counts from the first record then. The error says why there is no result: the
// exporter could not listen, or ctx is done.
func (s Suite) Try(ctx context.Context, scenario Scenario, p Producer) (Result, error) {
	if err := s.Validate(); err != nil {
		return Result{}, err
	}
	s = s.withDefaults()
	began := time.Now()
	t, err := newTrial(s, scenario, p)
	if err != nil {
		return Result{}, err
	}
	err = t.run(ctx)
	t.close()
	if err != nil {
		return Result{}, fmt.Errorf("scenario %s: %w", scenario.Name, err)
	}
	return Result{Scenario: scenario.Name, Faults: t.judge(), Elapsed: time.Since(began)}, nil
}

// Validate reports what is wrong with s.
func (s Suite) Validate() error {
	if s.Records != 0 && s.Records < MinRecords {
		return fmt.Errorf("at least %d records are needed, not %d", MinRecords, s.Records)
	}
	if s.Timeout < 0 {
		return fmt.Errorf("the timeout must not be negative: %s", s.Timeout)
	}
	if s.Address == "" {
		return nil
	}
	_, _, err := splitAddress(s.Address)
	return err
}

func (s Suite) withDefaults() Suite {
	if s.Records == 0 {
		s.Records = DefaultRecords
	}
	if s.Timeout == 0 {
		s.Timeout = DefaultTimeout
	}
	return s
}
