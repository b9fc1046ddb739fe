// Package sinktest is the conformance suite of package sinks: what the delivery
// loop relies on and every sink therefore keeps. The test of a new sink is a
// Subject and a call of Run, beside what is peculiar to that sink.
package sinktest

import (
	"testing"
	"time"

	"github.com/docket-export/docket/internal/testleak"
	"github.com/docket-export/docket/sinks"
)

// Subject is a fresh, empty destination with the ways the suite may act on it.
// Open and Accepted are required. Of the others a sink fills in what its
// destination can do; what is nil or zero is not tested.
type Subject struct {
	// Open opens a sink on the destination. The suite closes every sink that it
	// opens, and opens the next on the same destination only after that, unless they are
	// Transactional.
	Open func(t *testing.T) sinks.Sink

	// Accepted returns all that the destination holds: the bytes of each record,
	// in the order in which it took them, redeliveries included.
	Accepted func(t *testing.T) []string

	// Recognises says that a redelivered record leaves no second copy. Without
	// it a redelivery may stand twice, as at-least-once allows.
	Recognises bool

	// MaxRecord is the largest record in bytes that the destination takes; one
	// of twice that size must come back as Rejected. Zero: no limit.
	MaxRecord int

	// Transactional says that Open returns a sinks.Resuming in transactions. The suite resumes it before
	// the first Send, and opens several at a time on one destination.
	Transactional bool

	// Faults are the ways in which the destination can fail, the same list in
	// the same order for every Subject.
	Faults []Fault

	// Hang makes the destination take what is sent and never answer. reached is
	// closed when a Send has come as far as the destination; release ends it,
	// and the destination answers as usual from then on.
	Hang func(t *testing.T) (reached <-chan struct{}, release func())
}

// Fault is one way in which a destination can fail.
type Fault struct {
	Name string     // of the subtest: "503", "disk full"
	Kind sinks.Kind // what Send must report
	// After is the Failure.After to expect of a Throttled fault. Zero: any.
	After time.Duration
	// Start makes every Send fail in this way until stop is called. Send need
	// not be running. The records of a failed Send may have been taken all the
	// same, as when an answer is lost.
	Start func(t *testing.T) (stop func())
}

// Run tests a sink. newSubject is called once for every subtest, and once more
// to learn what the destination can do. It cleans up with t.Cleanup; a goroutine
// that is left after that fails the subtest.
func Run(t *testing.T, newSubject func(t *testing.T) Subject) {
	run := func(name string, test func(t *testing.T, s Subject)) {
		t.Run(name, func(t *testing.T) {
			testleak.Check(t)
			test(t, newSubject(t))
		})
	}

	run("one record", testOne)
	run("many records in one batch", testMany)
	run("no record", testNone)
	run("many batches keep their order", testOrder)
	for _, r := range exactRecords() {
		run("byte for byte/"+r.name, func(t *testing.T, s Subject) { testExact(t, s, r.text) })
	}
	run("largest record", testLargest)
	run("bytes stay the caller's", testOwnership)
	run("reopen", testReopen)
	run("redelivery", testRedelivery)
	run("close", testClose)
	run("cancel before send", testCancelBefore)

	capable := newSubject(t) // idle: it only says what can be tested
	if capable.MaxRecord > 0 {
		run("record too large", testTooLarge)
	}
	if capable.Hang != nil {
		run("cancel in mid-send", testCancelDuring)
	}
	if capable.Transactional {
		transactional(run)
	}
	for i, f := range capable.Faults {
		run("fault/"+f.Name, func(t *testing.T, s Subject) { testFault(t, s, s.Faults[i]) })
	}
}
