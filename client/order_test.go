package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/docket-export/docket/decision"
)

// What TryLog was given is the caller's again on return.
func TestTryLogLeavesTheRecordToItsCaller(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{})
	const records = 2000
	dryRun := false
	r := &decision.Record{
		Details:           []byte(`{"n":0}`),
		RequestUserGroups: []string{"", "all"},
		ResourceLabels:    map[string]string{},
		DryRun:            &dryRun,
	}
	for n := range records {
		r.Sequence = uint64(n + 1)
		r.Details[5] = byte('0' + n%10)
		r.RequestUserGroups[0] = fmt.Sprint("group", n)
		r.ResourceLabels["label"] = fmt.Sprint(n)
		dryRun = n%2 == 1
		if err := c.TryLog(r); err != nil {
			t.Fatal(err)
		}
	}
	r.Details, r.ResourceLabels = nil, nil
	closeClient(t, c)
	lines := e.Lines()
	checkCount(t, lines, records)
	for n, l := range lines {
		want := fmt.Sprintf(`{"details":{"n":%d},"resourceLabels":{"label":"%d"},"requestUserGroups":["group%d","all"],"dryRun":%t,"schemaVersion":1,"sequence":%d}`,
			n%10, n, n, n%2 == 1, n+1)
		if l.Text != want {
			t.Fatalf("line %d: got %s, want %s", n, l.Text, want)
		}
	}
}

// Records go out in the order in which they were logged, in whatever way.
func TestWaysToLogKeepTheOrder(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{})
	const records = 6000
	for n := 1; n <= records; n++ {
		var err error
		switch {
		case n%1000 == 0:
			err = c.Log(within(t), &decision.Record{Decision: decision.Deny, Sequence: uint64(n)})
		case n%7 == 0:
			err = c.TryLogLine(fmt.Appendf(nil, `{"decision":"deny","sequence":%d}`, n), decision.Allow)
		default:
			err = c.TryLog(&decision.Record{Decision: decision.Deny, Sequence: uint64(n)})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	closeClient(t, c)
	got, _ := sequences(t, e.Lines())
	if len(got[decision.Deny]) != records {
		t.Fatalf("got %d records, want %d", len(got[decision.Deny]), records)
	}
	for i, n := range got[decision.Deny] {
		if n != i+1 {
			t.Fatalf("record %d of the stream: got %d", i+1, n)
		}
	}
}

// While room is short, each record arrives once and in its
// order, or is counted as lost.
func TestTryLogWithoutRoom(t *testing.T) {
	e := newExporter(t)
	c := e.client(Config{MaxBufferedBytes: MinBufferedBytes})
	const records, logEach = 3000, 30
	text := strings.Repeat("m", 8<<10)
	var logging sync.WaitGroup
	for _, d := range defaultKeep {
		logging.Go(func() {
			for n := 1; n <= records; n++ {
				r := &decision.Record{Decision: d, Sequence: uint64(n), Message: text[:rand.IntN(1<<rand.IntN(13))]}
				if n%logEach == 0 {
					if err := c.Log(within(t), r); err != nil {
						t.Errorf("%s %d: Log: %v", d, n, err)
					}
				} else if err := c.TryLog(r); err != nil && !errors.Is(err, ErrFull) {
					t.Errorf("%s %d: TryLog: %v", d, n, err)
				}
			}
		})
	}
	logging.Wait()
	closeClient(t, c)
	got, told := sequences(t, e.Lines())
	lost := c.Stats().Lost
	for _, d := range defaultKeep {
		last, logged := 0, 0
		for _, n := range got[d] {
			if n <= last {
				t.Fatalf("%s: got record %d behind %d", d, n, last)
			}
			if last = n; n%logEach == 0 {
				logged++
			}
		}
		if len(got[d])+int(lost[d]) != records || logged != records/logEach || told[d] != int(lost[d]) {
			t.Errorf("%s: got %d records, %d of them by Log, %d lost and %d of those told, want %d in all, %d by Log, and all told",
				d, len(got[d]), logged, lost[d], told[d], records, records/logEach)
		}
	}
}
