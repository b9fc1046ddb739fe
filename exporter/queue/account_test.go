package queue

import (
	"context"
	"errors"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter/queue/state"
)

// What damage has taken between records that were set aside is not counted twice.
func TestSettleCountsOutcomes(t *testing.T) {
	q := open(t, Options{Directory: t.TempDir()})
	storeNumbered(t, q, 1, 10, 1)
	c := cursorOf(t, q, "a")
	if _, err := c.Next(t.Context(), Limits{Records: 10, Bytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if err := c.Settle(6, Outcome{Filtered: 2, DeadLettered: 1, Dropped: 1}); err != nil {
		t.Fatal(err)
	}
	want := Account{Next: 7, Delivered: 2, Filtered: 2, DeadLettered: 1, Dropped: 1}
	if got := counts(c.Account()); got != want {
		t.Errorf("account is %+v, want %+v", got, want)
	}
	if err := c.Settle(11, Outcome{}); err == nil {
		t.Error("a record that was not returned could be settled")
	}
}

// A record that was set aside counts as delivered, durably, before it is removed from
// where it is kept: a kill in between brings it again.
func TestRedelivered(t *testing.T) {
	dir := t.TempDir()
	q := open(t, Options{Directory: dir})
	storeNumbered(t, q, 1, 4, 1)
	c := cursorOf(t, q, "a")
	if _, err := c.Next(t.Context(), Limits{Records: 4, Bytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if err := c.Settle(4, Outcome{DeadLettered: 3}); err != nil {
		t.Fatal(err)
	}
	before, after := Account{Next: 5, Delivered: 1, DeadLettered: 3}, Account{Next: 5, Delivered: 2, DeadLettered: 2}
	errRemove := errors.New("input/output error")
	for _, fails := range []error{errRemove, nil} {
		ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
		defer cancel()
		err := c.Redelivered(ctx, 1, func() error {
			f, accounts, err := state.OpenCursorFile(q.opts.FS, dir)
			if err != nil {
				t.Fatal(err)
			}
			f.File.Close()
			if counts(accounts["a"]) != after || counts(c.Account()) != after {
				t.Errorf("before it is removed the file says %+v and the queue %+v, want %+v", accounts["a"], c.Account(), after)
			}
			return fails
		})
		want := after
		if fails != nil {
			want = before
		}
		if got := counts(c.Account()); !errors.Is(err, fails) || got != want {
			t.Errorf("remove fails with %v: got %v and account %+v, want %+v", fails, err, got, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Redelivered(ctx, 1, func() error { t.Error("removed before it is durable"); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the wait was given up", err)
	}
	if got := counts(c.Account()); got != after {
		t.Errorf("after a wait that was given up the account is %+v, want %+v", got, after)
	}
}
