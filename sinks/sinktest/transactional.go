package sinktest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/sinks"
)

// transactional runs the part of the suite that is for a sinks.Resuming in transactions.
func transactional(run func(name string, test func(t *testing.T, s Subject))) {
	run("position", testPosition)
	run("decision", testDecision)
	run("refused decision", testRefusedDecision)
	run("fenced", testFenced)
	run("redriven", testRedriven)
}

// there goes on where the destination is, and at the beginning where it is nowhere.
func there(at sinks.Position, found bool) (sinks.Position, error) {
	if !found {
		at = sinks.Position{Next: 1, Replayed: 7, Lineage: lineage}
	}
	return at, nil
}

// resume has sink go on where decide says.
func resume(t *testing.T, sink sinks.Sink, decide sinks.Decide) error {
	t.Helper()
	tx, ok := sink.(sinks.Resuming)
	if !ok {
		t.Fatal("the sink is no sinks.Resuming")
	}
	ctx, cancel := context.WithTimeout(context.Background(), await.Left(t))
	defer cancel()
	return tx.Resume(ctx, sinks.Queue{ID: queue, Lineage: lineage}, decide)
}

// openOnly opens a sink that has not been resumed.
func openOnly(t *testing.T, s Subject) sinks.Sink {
	t.Helper()
	sink := s.Open(t)
	t.Cleanup(func() { closeSink(t, sink) })
	return sink
}

// lineage is that of queue.
var lineage = sinks.Lineage{{ID: queue, First: 1}}

// testPosition wants the position to be that behind the records.
func testPosition(t *testing.T, s Subject) {
	sink := openOnly(t, s)
	err := resume(t, sink, func(at sinks.Position, found bool) (sinks.Position, error) {
		if found {
			t.Errorf("an empty destination has the position %+v, want none", at)
		}
		return there(at, found)
	})
	if err != nil {
		t.Fatalf("Resume = %v, want nil", err)
	}
	b := joined(batchOf(1, texts(1, 10)...), batchOf(20, texts(11, 3)...))
	send(t, sink, b)
	closeSink(t, sink)
	wantPosition(t, s, sinks.Position{Next: 23, Replayed: 7, Lineage: lineage})

	sink = open(t, s)
	send(t, sink, joined(b, batchOf(30, texts(14, 2)...)))
	wantAccepted(t, s, texts(1, 15))
}

// wantPosition opens a sink on the destination and compares what it is told.
func wantPosition(t *testing.T, s Subject, want sinks.Position) {
	t.Helper()
	if got, found := positionOf(t, s); !found || got.Next != want.Next || got.Replayed != want.Replayed || !slices.Equal(got.Lineage, want.Lineage) {
		t.Errorf("the destination is at %+v (found: %v), want %+v", got, found, want)
	}
}

// errLook is of those who only want to know the position.
var errLook = errors.New("only looked")

func positionOf(t *testing.T, s Subject) (at sinks.Position, found bool) {
	t.Helper()
	looker := s.Open(t)
	defer closeSink(t, looker)
	err := resume(t, looker, func(told sinks.Position, is bool) (sinks.Position, error) {
		at, found = told, is
		return sinks.Position{}, errLook
	})
	if !errors.Is(err, errLook) {
		t.Fatalf("Resume = %v, want the error of the decision", err)
	}
	return at, found
}

// testDecision wants what was decided to be the position, before any record and across a
// restart: back and forth.
func testDecision(t *testing.T, s Subject) {
	sink := open(t, s)
	send(t, sink, batchOf(1, texts(1, 5)...))
	closeSink(t, sink)

	older := sinks.Lineage{{ID: queue, First: 1}, {ID: "0f6c0000-0000-4000-8000-000000000002", First: 2}}
	for _, want := range []sinks.Position{{Next: 3, Replayed: 8, Lineage: older}, {Next: 5, Replayed: 9, Lineage: lineage}} {
		sink = openOnly(t, s)
		if err := resume(t, sink, func(sinks.Position, bool) (sinks.Position, error) { return want, nil }); err != nil {
			t.Fatalf("Resume = %v, want nil", err)
		}
		closeSink(t, sink)
		wantPosition(t, s, want)
	}
	sink = open(t, s)
	send(t, sink, batchOf(1, texts(1, 6)...))
	wantAccepted(t, s, slices.Concat(texts(1, 5), texts(5, 2)))
}

// testRefusedDecision wants the sink that writes to go on.
func testRefusedDecision(t *testing.T, s Subject) {
	sink := open(t, s)
	send(t, sink, batchOf(1, texts(1, 3)...))
	if _, found := positionOf(t, s); !found {
		t.Error("no position is found behind three records")
	}
	send(t, sink, batchOf(4, texts(4, 3)...))
	wantAccepted(t, s, texts(1, 6))
}

// testFenced wants the sink that was there before to write nothing more, and to say why.
func testFenced(t *testing.T, s Subject) {
	first := open(t, s)
	send(t, first, batchOf(1, texts(1, 3)...))
	second := open(t, s)
	for range 2 {
		err := attempt(t, context.Background(), first, batchOf(4, texts(4, 3)...))
		wantFailure(t, err, sinks.Misconfigured, batchOf(4, texts(4, 3)...))
		if got := sinks.FailureOf(err).Reason; got != sinks.Fenced {
			t.Errorf("Send failed with reason %q, want %s", got, sinks.Fenced)
		}
	}
	send(t, second, batchOf(4, texts(4, 3)...))
	wantAccepted(t, s, texts(1, 6))
}

// testRedriven wants redriven records to come however far the position is, and to leave it.
func testRedriven(t *testing.T, s Subject) {
	sink := open(t, s)
	send(t, sink, batchOf(1, texts(1, 3)...))
	b := batchOf(2, texts(2, 1)...)
	b.Items[0].Late = sinks.Redriven
	send(t, sink, b)
	send(t, sink, batchOf(1, texts(1, 4)...))
	wantAccepted(t, s, slices.Concat(texts(1, 3), texts(2, 1), texts(4, 1)))
	closeSink(t, sink)
	if got, _ := positionOf(t, s); got.Next != 5 {
		t.Errorf("the destination is at %+v, want behind record 4", got)
	}
}
