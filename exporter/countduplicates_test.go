package exporter

import (
	"context"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue"
)

// balance checks the books of an intake: what was received, and that it is the sum of
// its fates.
func (in *intakeTest) balance(t *testing.T, when string, received, stored, refused, duplicate uint64) {
	t.Helper()
	l := ledgerOf(in.queue.Stats())
	var n uint64
	for _, count := range l.Refused {
		n += count
	}
	if l.Received != received || l.Stored != stored || n != refused || l.Duplicate != duplicate || l.Received != l.Stored+n+l.Duplicate {
		t.Errorf("%s: received %d = stored %d + refused %d + duplicate %d, want %d = %d + %d + %d",
			when, l.Received, l.Stored, n, l.Duplicate, received, stored, refused, duplicate)
	}
}

// What a source has recognised itself is received, and a duplicate, also after a
// restart. It has no numbers: the producer's position is that of what was submitted.
func TestCountDuplicates(t *testing.T) {
	for name, producer := range map[string]string{"numbered": "p", "plain": ""} {
		t.Run(name, func(t *testing.T) {
			opts := queue.Options{Directory: t.TempDir()}
			in := newIntake(t, opts)
			next := func(n uint64) uint64 { // plain lines have none
				if producer == "" {
					return 0
				}
				return n
			}
			s, _, r := in.session(t, producer, next(1))
			submit(t, s, "{\"n\":1}\nbad\n")
			for _, n := range []int{3, 0, 2} {
				if err := s.CountDuplicates(t.Context(), n); err != nil {
					t.Fatal(err)
				}
			}
			submit(t, s, "{\"n\":3}\n")
			s.Close()
			in.balance(t, "before the restart", 8, 2, 1, 5)
			lines := 0
			for _, receipt := range r.all {
				lines += receipt.Lines
			}
			if lines != 3 || r.through() != next(3) {
				t.Errorf("the receipts are of %d lines through %d, want 3 through %d: nothing else was submitted", lines, r.through(), next(3))
			}
			in.close(t)

			in = newIntake(t, opts)
			in.balance(t, "after the restart", 8, 2, 1, 5)
			s, acked, _ := in.session(t, producer, next(4))
			if acked != next(3) {
				t.Errorf("acked after the restart: got %d, want %d", acked, next(3))
			}
			if err := s.CountDuplicates(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
			submit(t, s, "{\"n\":4}\n")
			s.Close()
			in.balance(t, "at the end", 19, 3, 1, 15)
			if in.gaps != 0 {
				t.Errorf("a gap of %d lines was counted", in.gaps)
			}
		})
	}
}

// A full queue counts them all the same, whatever it does with records.
func TestCountDuplicatesWhenFull(t *testing.T) {
	in := newIntake(t, queue.Options{Directory: t.TempDir(), SegmentBytes: 1, MaxBytes: 1})
	s, _, _ := in.session(t, "", 0)
	submit(t, s, "{}\n") // an empty queue takes a chunk, however small it is
	ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
	defer cancel()
	if err := s.CountDuplicates(ctx, 4); err != nil {
		t.Fatalf("CountDuplicates: %v", err)
	}
	if err := s.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	in.balance(t, "full", 5, 1, 0, 4)
}
