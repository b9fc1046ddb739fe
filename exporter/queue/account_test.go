package queue

import (
	"context"
	"testing"
)

func sum(a Account) uint64 {
	return a.Delivered + a.Filtered + a.DeadLettered + a.Dropped + a.Corrupt + a.Redriving
}

func TestReconcile(t *testing.T) {
	for name, tt := range map[string]struct {
		before          Account
		kept, redriving uint64
		want            Account
	}{
		"agrees":             {Account{Next: 11, Delivered: 8, DeadLettered: 2}, 2, 0, Account{Next: 11, Delivered: 8, DeadLettered: 2}},
		"redriven":           {Account{Next: 11, Delivered: 8, DeadLettered: 2}, 1, 1, Account{Next: 11, Delivered: 8, DeadLettered: 1, Redriving: 1}},
		"rejected again":     {Account{Next: 11, Delivered: 8, Redriving: 2}, 2, 0, Account{Next: 11, Delivered: 8, DeadLettered: 2}},
		"purged":             {Account{Next: 11, Delivered: 8, DeadLettered: 2}, 1, 0, Account{Next: 11, Delivered: 8, DeadLettered: 1, Dropped: 1}},
		"delivered in vain":  {Account{Next: 11, Delivered: 10}, 0, 1, Account{Next: 11, Delivered: 9, Redriving: 1}},
		"account lost":       {Account{Next: 11, Filtered: 10}, 3, 0, Account{Next: 11, Filtered: 7, DeadLettered: 3}},
		"more than there is": {Account{Next: 3, Delivered: 2}, 3, 4, Account{Next: 3, DeadLettered: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			got := tt.before
			if got.reconcile(tt.kept, tt.redriving); sum(got) != got.Next-1 {
				t.Errorf("the account %+v does not add up", got)
			}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

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
	if got := c.Account(); got != want {
		t.Errorf("account is %+v, want %+v", got, want)
	}
	if err := c.Settle(11, Outcome{}); err == nil {
		t.Error("a record that was not returned could be settled")
	}
	c.Reconcile(func(uint64) (kept, redriving uint64) { return 0, 1 })
	c.Redelivered(1)
	want.DeadLettered, want.Delivered = 0, 3
	if got := c.Account(); got != want {
		t.Errorf("after a redelivery the account is %+v, want %+v", got, want)
	}
	if got := want.Pending(10); got != 4 {
		t.Errorf("%d records are pending, want 4", got)
	}
}

// Sync is a promise about the disk: what it covers is there after the process has
// gone without another word.
func TestSyncMakesTheAccountDurable(t *testing.T) {
	dir := t.TempDir()
	q := open(t, Options{Directory: dir})
	storeNumbered(t, q, 1, 3, 1)
	c := cursorOf(t, q, "a")
	if _, err := c.Next(t.Context(), Limits{Records: 3, Bytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if err := c.Ack(2); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	f, accounts, err := openCursorFile(q.opts.FS, dir)
	if err != nil {
		t.Fatal(err)
	}
	f.file.Close()
	if accounts["a"].Next != 3 {
		t.Errorf("the file says %+v, want Next 3", accounts["a"])
	}
}
