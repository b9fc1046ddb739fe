package budget

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A peer that has begun a long line does not keep its memory for ever.
func TestLineHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		dismissed := make(chan struct{})
		h := b.Holder("a", func() { close(dismissed) })
		take(t, h, 10)
		began := time.Now()
		h.Await(true)
		time.Sleep(LineTimeout / 2)
		h.Renew() // another line
		<-dismissed
		if took := time.Since(began); took < 3*LineTimeout/2 || took > 2*LineTimeout {
			t.Errorf("dismissed after %v, want %v after the last line began", took, LineTimeout)
		}
		h.Give(10)
	})
}

// What docket itself is slow with is not the peer's fault.
func TestHolderThatDoesNotWaitForItsPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		h := b.Holder("a", func() { t.Error("dismissed, want it kept") })
		take(t, h, 10)
		time.Sleep(10 * LineTimeout)
		h.Give(10)
		time.Sleep(10 * LineTimeout)
	})
}

// A peer that docket did not read from, as its queue was full, has the rest of its time.
func TestTimeOfDocketIsNotThePeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		dismissed := make(chan struct{})
		h := b.Holder("a", func() { close(dismissed) })
		take(t, h, 10)
		h.Await(true)
		time.Sleep(LineTimeout / 3)
		h.Await(false)
		time.Sleep(3 * LineTimeout)
		again := time.Now()
		h.Await(true)
		<-dismissed
		if took, rest := time.Since(again), 2*LineTimeout/3; took < rest || took > LineTimeout {
			t.Errorf("dismissed %v after docket has read again, want the rest of its time, %v", took, rest)
		}
		h.Give(10)
	})
}

// Many who have begun a line and need more for its end do not wait for each other: one
// after the other has what it needs.
func TestLinesThatGrowDoNotBlockEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(120)
		began := time.Now()
		var lines sync.WaitGroup
		for range 20 {
			lines.Go(func() {
				h := b.Holder("a", func() { t.Error("a line that waits for docket is given up") })
				held := 0
				for size := 5; size <= 40; size *= 2 {
					take(t, h, size)
					h.Give(held)
					held = size
					time.Sleep(time.Millisecond) // the peer sends on, in which time others begin
				}
				h.Give(held)
			})
		}
		lines.Wait()
		if took := time.Since(began); took >= LineTimeout || b.InUse() != 0 {
			t.Errorf("took %v, and %d bytes are in use, want none", took, b.InUse())
		}
	})
}

// The identity that holds most gives way to one that holds less, within moments, and the
// line that was begun first goes first.
func TestGreediestIdentityGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(200)
		var mu sync.Mutex
		var gone []int
		for i := range 10 {
			var h *Holder
			h = b.Holder("greedy", func() {
				mu.Lock()
				defer mu.Unlock()
				gone = append(gone, i)
				go h.Give(10)
			})
			take(t, h, 10)
			h.Await(true)
			time.Sleep(time.Millisecond)
		}
		take(t, b.Holder("greedy", func() {}), 95) // beyond the half, which it may alone
		began := time.Now()
		modest := b.Holder("modest", func() { t.Error("the modest one is dismissed") })
		take(t, modest, 15)
		if took := time.Since(began); took > 3*grace {
			t.Errorf("waited for %v, want at most %v", took, 3*grace)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(gone) != 2 || gone[0] != 0 || gone[1] != 1 {
			t.Errorf("dismissed: got %v, want the first two", gone)
		}
		modest.Give(15)
	})
}

// Of those who wait the identity that holds least is first, though it came last.
func TestModestIdentityIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		holder := b.Holder("greedy", func() {})
		take(t, holder, 100)
		order := make(chan string, 4)
		wait := func(identity string) {
			go func() {
				h := b.Holder(identity, func() {})
				take(t, h, 50)
				order <- identity
				h.Give(50)
			}()
			synctest.Wait()
		}
		wait("greedy")
		wait("greedy")
		wait("modest")
		holder.Give(50)
		for _, want := range []string{"modest", "greedy", "greedy"} {
			if got := <-order; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		holder.Give(50)
	})
}

// Who stops waiting has nothing, and holds up nobody.
func TestTakeThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		first, second := b.Holder("a", func() {}), b.Holder("a", func() {})
		take(t, first, 60)
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("given up")
		time.AfterFunc(time.Minute/4, func() { cancel(cause) })
		if err := second.Take(ctx, 60); !errors.Is(err, cause) {
			t.Errorf("Take: got %v, want %v", err, cause)
		}
		first.Give(60)
		if n := b.InUse(); n != 0 {
			t.Errorf("in use: got %d, want 0", n)
		}
		take(t, second, 60)
		second.Give(60)
	})
}

// Half of the budget is for those who cannot do without, and the rest is shared.
func TestTryLeavesEnough(t *testing.T) {
	b := New(100)
	a, other := b.Holder("a", func() {}), b.Holder("b", func() {})
	if !a.Try(50) || a.Try(1) {
		t.Error("one identity: want half of the budget and no more")
	}
	if other.Try(30) {
		t.Error("another identity: got what is for those who cannot do without")
	}
	take(t, other, 50)
	a.Give(50)
	if a.Try(30) {
		t.Error("beside another: got more than a share")
	}
	other.Give(50)
	if n := b.InUse(); n != 0 {
		t.Errorf("in use: got %d, want 0", n)
	}
}

func take(t *testing.T, h *Holder, n int) {
	t.Helper()
	if err := h.Take(t.Context(), n); err != nil {
		t.Errorf("Take %d: %v", n, err)
	}
}
