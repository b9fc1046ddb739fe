package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/bench/record"
)

func TestCounter(t *testing.T) {
	tests := map[string]struct {
		requests []int
		want     tally
		done     bool
	}{
		"nothing":        {nil, tally{}, false},
		"too few":        {[]int{3, 4}, tally{Records: 7, Requests: 2, First: 3}, false},
		"as many":        {[]int{3, 4, 3}, tally{Records: 10, Requests: 3, First: 3}, true},
		"more":           {[]int{3, 9}, tally{Records: 12, Requests: 2, First: 3}, true},
		"and more again": {[]int{3, 9, 5, 5}, tally{Records: 12, Requests: 2, First: 3}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := newCounter(10)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range tt.requests {
				c.add(n)
			}
			done := false
			select {
			case <-c.done:
				done = true
			default:
			}
			got := c.tally
			if done != (got.Seconds > 0) {
				t.Errorf("got %v s, and done: %v", got.Seconds, done)
			}
			if got.Seconds, got.CPU = 0, 0; got != tt.want || done != tt.done {
				t.Errorf("got %+v and done: %v, want %+v and %v", got, done, tt.want, tt.done)
			}
		})
	}
}

// The first request was under way before the clock started.
func TestTallyLeavesOutTheFirstRequest(t *testing.T) {
	got := tally{Records: 1100, First: 100, Requests: 11, Seconds: 2, CPU: 0.011}
	if got.rate() != 500 || got.perRequest() != 100 || got.cpuOfMillion() != 10 {
		t.Errorf("got %v records/s, %v in a request, %v s for a million, want 500, 100 and 10", got.rate(), got.perRequest(), got.cpuOfMillion())
	}
}

// A destination ends when whoever started it does, and in every state.
func TestDestinationEndsWithItsInput(t *testing.T) {
	for name, serve := range map[string]serveFunc{"receiver": serveHTTP, "broker": serveKafka} {
		for orders, want := range map[string]string{"": "before it is opened", "5\n": "when it has taken nothing"} {
			t.Run(name+" "+want, func(t *testing.T) {
				in, out := io.Pipe()
				ended := make(chan error, 1)
				go func() { ended <- destinationMain(in, io.Discard, serve) }()
				if _, err := io.WriteString(out, orders); err != nil {
					t.Fatal(err)
				}
				out.Close()
				if err := <-ended; err != nil {
					t.Errorf("got error %v", err)
				}
			})
		}
	}
}

// A destination that hangs does not outlive its context, and whoever waits for it
// is told.
func TestWaitForADestinationEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d, err := testLab(t).startDestination(ctx, receiveCommand)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Kill()
	if err := d.open(1); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := d.wait(); err == nil {
		t.Error("got no error")
	}
}

// Only whole records count, and all in one request are no measurement.
func TestReceiverCountsRecords(t *testing.T) {
	d, err := testLab(t).startDestination(t.Context(), receiveCommand)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Kill()
	if err := d.open(2); err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int]int{record.Bytes + 1: http.StatusBadRequest, 2 * record.Bytes: http.StatusOK} {
		res, err := http.Post("http://"+d.Address, "", bytes.NewReader(make([]byte, size)))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%d bytes: got %s, want %d", size, res.Status, want)
		}
	}
	if _, err := d.wait(); err == nil || !strings.Contains(err.Error(), "all 2 records came in one request") {
		t.Errorf("got error %v", err)
	}
	if err := d.Stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if line, err := d.ReadLine(); err == nil {
		t.Errorf("the end: got %q", line)
	}
	if err := d.LastWords(); err != nil {
		t.Errorf("the end: %v", err)
	}
}
