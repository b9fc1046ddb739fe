package queue

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// deliverAll stores records of 3,000 bytes from..to and has the sink done with each
// at once.
func deliverAll(t *testing.T, q *Queue, c *Cursor, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		store(t, q, chunk(fmt.Sprintf("%d %s", n, strings.Repeat("x", 3000))))
		drain(t, q, c)
		must(t, c.Ack(uint64(n)))
	}
	time.Sleep(time.Second) // the janitor has been there
}

// What is retained stays within its bound, and a new sink gets it.
func TestRetainByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seg = 16 << 10
		opts := Options{Directory: t.TempDir(), SegmentBytes: seg, Retain: Retain{MaxBytes: 4 * seg}}
		q := open(t, opts)
		c := cursorOf(t, q, "a")
		deliverAll(t, q, c, 1, 60)
		// Four segments that are done with, and the one in use.
		if got := len(segmentFiles(t, opts.Directory)); got != 5 {
			t.Errorf("segments: got %d, want 5", got)
		}
		first := q.Stats().FirstSeq
		check := func(what string) {
			t.Helper()
			got := drain(t, q, cursorOf(t, q, what))
			if len(got) != int(61-first) || !strings.HasPrefix(got[0], fmt.Sprintf("%d:%d ", first, first)) {
				t.Errorf("%s: a new sink got %d records, want those from %d on", what, len(got), first)
			}
		}
		check("in process")
		closeQueue(t, q)
		q = open(t, opts)
		check("after a restart")
		if n := q.Stats().Corrupt; n != 0 {
			t.Errorf("corrupt: got %d, want 0", n)
		}
	})
}

// What is retained goes when it is old enough, without anything else happening.
func TestRetainByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := Options{Directory: t.TempDir(), SegmentBytes: 16 << 10, Retain: Retain{MaxAge: time.Hour}}
		q := open(t, opts)
		c := cursorOf(t, q, "a")
		deliverAll(t, q, c, 1, 30)
		time.Sleep(59 * time.Minute)
		if got := q.Stats().FirstSeq; got != 1 {
			t.Errorf("first kept record after 59 minutes: got %d, want 1", got)
		}
		time.Sleep(3 * time.Minute)
		if got := len(segmentFiles(t, opts.Directory)); got != 1 {
			t.Errorf("segments after 62 minutes: got %d, want the last", got)
		}
	})
}

// Retained records never stand in the way of new ones.
func TestRetainGivesWayToRecords(t *testing.T) {
	for _, whenFull := range []WhenFull{Block, DropOldest} {
		t.Run(fmt.Sprint(whenFull), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := Options{Directory: t.TempDir(), SegmentBytes: 16 << 10, MaxBytes: 96 << 10, WhenFull: whenFull, Retain: Retain{MaxAge: 24 * time.Hour, MaxBytes: 1 << 30}}
				q := open(t, opts)
				c := cursorOf(t, q, "a")
				deliverAll(t, q, c, 1, 100)
				s := q.Stats()
				if a := counts(s.Cursors["a"]); a != (Account{Next: 101, Delivered: 100}) {
					t.Errorf("account: got %+v", a)
				}
				if s.FirstSeq > 97 || s.Bytes > opts.MaxBytes {
					t.Errorf("kept: %d to %d in %d bytes, want some, in at most %d bytes", s.FirstSeq, s.LastSeq, s.Bytes, opts.MaxBytes)
				}
			})
		})
	}
}
