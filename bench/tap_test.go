package main

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/bench/trial"
	"github.com/docket-export/docket/decision"
)

// A review has its size, and makes a record as that of an engine does.
func TestReview(t *testing.T) {
	for _, size := range []int{reviewBytes, largeReviewBytes} {
		for denied, want := range map[bool]decision.Decision{true: decision.Deny, false: decision.Allow} {
			r := newReview(size, denied)
			if len(r.request) != size {
				t.Errorf("got a review of %d bytes, want %d", len(r.request), size)
			}
			got, err := decision.FromReview(r.request, r.answer)
			if err != nil {
				t.Fatal(err)
			}
			if got.Decision != want || got.RequestUID != reviewUID || got.Operation != "CREATE" || got.Failure != "" {
				t.Errorf("got %+v, want a record of decision %s", got, want)
			}
		}
	}
}

func TestMix(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 3: 1, 4: 2, 9: 3} {
		m, denied := newMix(reviewBytes, 3), 0
		for i := range n {
			if slices.Equal(m.at(i).answer, m.denied.answer) {
				denied++
			}
		}
		if got := m.denials(n); got != want || denied != want {
			t.Errorf("%d reviews: got %d denials and %d denied, want %d", n, got, denied, want)
		}
	}
}

// The engine answers what the caller takes for its answer, and refuses what is no review.
func TestDecide(t *testing.T) {
	for text, want := range map[string]int{
		string(newReview(reviewBytes, true).request): http.StatusOK,
		`{"uid":"1"}`: http.StatusBadRequest,
		``:            http.StatusBadRequest,
	} {
		w := httptest.NewRecorder()
		decide(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text)))
		if w.Code != want {
			t.Errorf("%.20q: got %d, want %d", text, w.Code, want)
		}
	}
	attempt(t, func(tr *trial.T) {
		s := httptest.NewServer(http.HandlerFunc(decide))
		tr.Cleanup(func() error { s.Close(); return nil })
		c := &caller{client: s.Client(), url: s.URL}
		for _, denied := range []bool{true, false} {
			r := newReview(reviewBytes, denied)
			if err := c.ask(t.Context(), r); err != nil {
				t.Error(err)
			}
			r.answer = verdict(reviewUID, !denied)
			if c.ask(t.Context(), r) == nil {
				t.Error("another verdict: got no error")
			}
		}
	})
}

// While nobody is answered the clock of each review that is due runs, of those as well that
// cannot be sent yet.
func TestSteadily(t *testing.T) {
	const n, rate = 2 * pacers, 1000
	var calls atomic.Int64
	stalled := make(chan struct{})
	began := time.Now()
	// The clock of the first review runs by then.
	stall := sync.OnceFunc(func() { time.AfterFunc(2*n*time.Second/rate, func() { close(stalled) }) })
	waits, err := steadily(rate)(n, func(i int) error {
		if at, due := time.Since(began), time.Duration(i)*time.Second/rate; at < due {
			t.Errorf("review %d: came after %v, due after %v", i, at, due)
		}
		stall()
		calls.Add(1)
		<-stalled
		return nil
	})
	over := time.Since(began)
	if err != nil || calls.Load() != n || len(waits) != n {
		t.Fatalf("got %d calls, %d waits and error %v, want %d", calls.Load(), len(waits), err, n)
	}
	for i, wait := range waits {
		if due := time.Duration(i) * time.Second / rate; wait < n*time.Second/rate || wait > over-due {
			t.Errorf("review %d: got %v, want the time since it was due, at %v of %v", i, wait, due, over)
		}
	}
}

func TestAtOnce(t *testing.T) {
	var calls atomic.Int64
	waits, err := atOnce(3)(10, func(int) error { calls.Add(1); return nil })
	if err != nil || calls.Load() != 10 || len(waits) != 10 {
		t.Errorf("got %d calls, %d waits and error %v, want 10", calls.Load(), len(waits), err)
	}
	failed := errors.New("failed")
	if _, err := atOnce(3)(10, func(int) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got error %v, want %v", err, failed)
	}
}

// The experiments measure what their tables have, and only with all records.
func TestTap(t *testing.T) {
	l := docketLab(t)
	for _, name := range []string{"tap", "tapLoad", "tapMemory"} {
		if testing.Short() && name != "tapLoad" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			in(t, l, func(l *lab) {
				v := runs[name](l)
				if got, want := slices.Sorted(maps.Keys(v)), valueKeys(t, name); !slices.Equal(got, want) {
					t.Errorf("got values for %v, want %v", got, want)
				}
				for key, value := range v {
					if value <= 0 && !strings.HasPrefix(key, "added") {
						t.Errorf("%s: got %v", key, value)
					}
				}
			})
		})
	}
}

// A tap that records has a record of each review that was denied, and of no other.
func TestTapRecords(t *testing.T) {
	in(t, docketLab(t), func(l *lab) {
		a := l.startAdmission()
		w := []*way{{key: "logged", to: a.startTap(true), reviews: newMix(reviewBytes, 4)}}
		a.open(w, false)
		before := a.denied
		s, waits := a.turn(w[0], 10, atOnce(2))
		if a.denied-before != 3 || s.Records != 10 || len(waits) != 10 || s.CPU <= 0 {
			t.Errorf("got %d denied, %+v and %d waits, want 3 of 10", a.denied-before, s, len(waits))
		}
		a.waitRecorded()
		if got := a.sidecar.ledger().Stored; got != a.denied {
			t.Errorf("got %d records, want %d", got, a.denied)
		}
	})
}
