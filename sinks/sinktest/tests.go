package sinktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/sinks"
)

// prompt bounds the return of a cancelled Send. A sink that waits out a
// timeout of its own takes longer. It is not looked at with -short: a machine
// that stands still would fail the test.
const prompt = 5 * time.Second

func testOne(t *testing.T, s Subject) {
	sink := open(t, s)
	send(t, sink, batchOf(1, `{"a":1}`))
	wantAccepted(t, s, []string{`{"a":1}`})
}

func testMany(t *testing.T, s Subject) {
	sink, list := open(t, s), texts(1, 500)
	send(t, sink, batchOf(1, list...))
	wantAccepted(t, s, list)
}

// testNone sends a batch whose records were all filtered: there is nothing to do.
func testNone(t *testing.T, s Subject) {
	sink := open(t, s)
	send(t, sink, sinks.Batch{Queue: queue})
	wantAccepted(t, s, nil)
	send(t, sink, batchOf(1, `{"a":1}`))
	send(t, sink, sinks.Batch{Queue: queue})
	wantAccepted(t, s, []string{`{"a":1}`})
}

// testOrder leaves gaps between the seqs: filtered records have theirs too.
func testOrder(t *testing.T, s Subject) {
	sink, list := open(t, s), texts(1, 60)
	for i, seq := 0, uint64(1); i < len(list); i, seq = i+6, seq+100 {
		send(t, sink, joined(batchOf(seq, list[i:i+5]...), batchOf(seq+50, list[i+5])))
	}
	wantAccepted(t, s, list)
}

// testExact sends the record alone, and among others: a separator may hide.
func testExact(t *testing.T, s Subject, text string) {
	sink := open(t, s)
	send(t, sink, batchOf(1, text))
	send(t, sink, batchOf(2, `{"before":1}`, text, `{"after":1}`))
	wantAccepted(t, s, []string{text, `{"before":1}`, text, `{"after":1}`})
}

func testLargest(t *testing.T, s Subject) {
	size := largest
	if s.MaxRecord > 0 {
		size = min(size, s.MaxRecord)
	}
	sink, text := open(t, s), sized(size)
	send(t, sink, batchOf(1, text))
	send(t, sink, batchOf(2, `{"a":1}`))
	wantAccepted(t, s, []string{text, `{"a":1}`})
}

// testTooLarge wants the record to be refused without harm to its neighbours:
// the delivery loop sends those again without it.
func testTooLarge(t *testing.T, s Subject) {
	sink, b := open(t, s), batchOf(1, `{"a":1}`, sized(2*s.MaxRecord), `{"a":3}`)
	err := attempt(t, context.Background(), sink, b)
	wantFailure(t, err, sinks.Rejected, b)
	if f := sinks.FailureOf(err); len(f.Items) > 0 && !slices.Equal(f.Items, []int{1}) {
		t.Errorf("Failure.Items = %v, want [1] or none", f.Items)
	}
	send(t, sink, sinks.Batch{Queue: queue, Items: []sinks.Item{b.Items[0], b.Items[2]}})
	wantAcceptedOnce(t, s, []string{`{"a":1}`, `{"a":3}`})
}

// testOwnership overwrites what it sent as soon as Send has returned, as the
// queue does with its read buffer, and looks for sinks that write to it.
func testOwnership(t *testing.T, s Subject) {
	sink := open(t, s)
	var want []string
	for i := range 20 {
		list := texts(i*5+1, 5)
		want = append(want, list...)
		b := batchOf(uint64(i*5+1), list...)
		send(t, sink, b)
		for j := range b.Items {
			if got := string(b.Items[j].Record); got != list[j] {
				t.Fatalf("Send changed a record it was lent: got %q, want %q", got, list[j])
			}
		}
		for j := range b.Items {
			copy(b.Items[j].Record, bytes.Repeat([]byte("!"), len(b.Items[j].Record)))
		}
		clear(b.Items)
	}
	closeSink(t, sink)
	wantAccepted(t, s, want)
}

func testReopen(t *testing.T, s Subject) {
	list := texts(1, 9)
	for i := 0; i < len(list); i += 3 {
		sink := open(t, s)
		send(t, sink, batchOf(uint64(i+1), list[i:i+3]...))
		closeSink(t, sink)
		wantAccepted(t, s, list[:i+3])
	}
}

// testRedelivery offers again what was accepted, as happens when the exporter
// ends before it has noted the acceptance: the same batch, after a restart, and
// as the beginning of a larger batch.
func testRedelivery(t *testing.T, s Subject) {
	first, second := batchOf(1, texts(1, 10)...), batchOf(11, texts(11, 10)...)
	sink := open(t, s)
	send(t, sink, first)
	send(t, sink, first)
	closeSink(t, sink)

	sink = open(t, s)
	send(t, sink, first)
	send(t, sink, joined(first, second))
	wantAcceptedOnce(t, s, texts(1, 20))
}

func testClose(t *testing.T, s Subject) {
	unused := s.Open(t)
	closeSink(t, unused)
	closeSink(t, unused)

	used := open(t, s)
	send(t, used, batchOf(1, `{"a":1}`))
	closeSink(t, used)
	closeSink(t, used)
	wantAccepted(t, s, []string{`{"a":1}`})
}

func testCancelBefore(t *testing.T, s Subject) {
	sink, b := open(t, s), batchOf(1, texts(1, 3)...)
	ctx, cancel := context.WithCancel(context.Background())
	start := time.Now()
	cancel()
	err := attempt(t, ctx, sink, b)
	wantCancelled(t, err, time.Since(start))
	wantAccepted(t, s, nil)

	send(t, sink, b)
	wantAccepted(t, s, texts(1, 3))
}

func testCancelDuring(t *testing.T, s Subject) {
	sink, b := open(t, s), batchOf(1, texts(1, 3)...)
	reached, release := s.Hang(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- sink.Send(ctx, b) }()

	reach(t, reached)
	start := time.Now()
	cancel()
	select {
	case err := <-result:
		wantCancelled(t, err, time.Since(start))
	case <-time.After(await.Left(t)):
		release()
		t.Fatal("Send does not return after it was cancelled")
	}

	release()
	send(t, sink, b)
	wantAcceptedOnce(t, s, texts(1, 3))
}

// testFault lets one batch fail and offers it again, at last at the head of a
// larger batch, as the delivery loop does.
func testFault(t *testing.T, s Subject, f Fault) {
	sink := open(t, s)
	send(t, sink, batchOf(1, texts(1, 2)...))

	stop := f.Start(t)
	b := batchOf(3, texts(3, 3)...)
	for range 2 {
		err := attempt(t, context.Background(), sink, b)
		wantFailure(t, err, f.Kind, b)
		if got := sinks.FailureOf(err).After; f.After > 0 && got != f.After {
			t.Errorf("Failure.After = %v, want %v", got, f.After)
		}
	}
	stop()

	send(t, sink, joined(b, batchOf(6, texts(6, 2)...)))
	wantAcceptedOnce(t, s, texts(1, 7))
}

// open opens a sink that is closed at the end of the test at the latest.
func open(t *testing.T, s Subject) sinks.Sink {
	t.Helper()
	sink := openOnly(t, s)
	if !s.Transactional {
		return sink
	}
	if err := resume(t, sink, there); err != nil {
		t.Fatalf("Resume = %v, want nil", err)
	}
	return sink
}

func closeSink(t *testing.T, sink sinks.Sink) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), await.Left(t))
	defer cancel()
	if err := sink.Close(ctx); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
}

func send(t *testing.T, sink sinks.Sink, b sinks.Batch) {
	t.Helper()
	if err := attempt(t, context.Background(), sink, b); err != nil {
		t.Fatalf("Send of seqs %s = %v, want nil", seqs(b), err)
	}
}

// attempt is one Send, with an end to a sink that never returns.
func attempt(t *testing.T, ctx context.Context, sink sinks.Sink, b sinks.Batch) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, await.Left(t))
	defer cancel()
	return sink.Send(ctx, b)
}

func reach(t *testing.T, reached <-chan struct{}) {
	t.Helper()
	select {
	case <-reached:
	case <-time.After(await.Left(t)):
		t.Fatal("Send does not reach the destination")
	}
}

func wantCancelled(t *testing.T, err error, took time.Duration) {
	t.Helper()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled Send = %v, want an error that is %v", err, context.Canceled)
	} else if kind := sinks.FailureOf(err).Kind; kind != sinks.Transient {
		t.Errorf("cancelled Send failed as %v, want %v", kind, sinks.Transient)
	}
	if took > prompt && !testing.Short() {
		t.Errorf("cancelled Send returned after %v, want at most %v", took, prompt)
	}
}

func wantFailure(t *testing.T, err error, want sinks.Kind, b sinks.Batch) {
	t.Helper()
	if err == nil {
		t.Fatalf("Send = nil, want a failure of kind %v", want)
	}
	f := sinks.FailureOf(err)
	if f.Kind != want {
		t.Fatalf("Send failed as %v (%v), want %v", f.Kind, err, want)
	}
	if f.Err == nil || f.Error() == "" {
		t.Errorf("Send failed as %v without saying what happened", f.Kind)
	}
	if !slices.IsSorted(f.Items) || slices.ContainsFunc(f.Items, func(i int) bool { return i < 0 || i >= len(b.Items) }) {
		t.Errorf("Failure.Items = %v, want rising indexes into %d items", f.Items, len(b.Items))
	}
}

// wantAccepted compares what the destination holds, record by record.
func wantAccepted(t *testing.T, s Subject, want []string) {
	t.Helper()
	compare(t, s.Accepted(t), want)
}

// wantAcceptedOnce allows second copies where the sink does not recognise a
// redelivery. Every record of the suite is there once and in order either way.
func wantAcceptedOnce(t *testing.T, s Subject, want []string) {
	t.Helper()
	got := s.Accepted(t)
	if !s.Recognises {
		got = withoutCopies(got)
	}
	compare(t, got, want)
}

func withoutCopies(list []string) []string {
	seen := map[string]bool{}
	var firsts []string
	for _, text := range list {
		if !seen[text] {
			seen[text] = true
			firsts = append(firsts, text)
		}
	}
	return firsts
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("record %d of %d: got %s, want %s", i, len(want), brief(got[i]), brief(want[i]))
		}
	}
	if len(got) != len(want) {
		t.Fatalf("the destination holds %d records, want %d", len(got), len(want))
	}
}

func brief(text string) string {
	if limit := 200; len(text) > limit {
		return fmt.Sprintf("%q... (%d bytes)", text[:limit], len(text))
	}
	return fmt.Sprintf("%q", text)
}

func seqs(b sinks.Batch) string {
	return fmt.Sprintf("%d to %d", b.Items[0].Seq, b.Items[len(b.Items)-1].Seq)
}
