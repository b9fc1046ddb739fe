package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/trial"
)

// The first request was under way before the clock started, so it does not count.
func TestCounter(t *testing.T) {
	tests := map[string]struct {
		requests []int
		want     stint
		done     bool
	}{
		"nothing":        {nil, stint{}, false},
		"too few":        {[]int{3, 4}, stint{Records: 4, Parts: 1}, false},
		"as many":        {[]int{3, 4, 3}, stint{Records: 7, Parts: 2}, true},
		"more":           {[]int{3, 9}, stint{Records: 9, Parts: 1}, true},
		"and more again": {[]int{3, 9, 5, 5}, stint{Records: 9, Parts: 1}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCounter(10)
			for _, n := range tt.requests {
				c.add(n)
			}
			done := false
			select {
			case <-c.done:
				done = true
			default:
			}
			got := c.sum
			if done != (got.Took > 0) || done != (got.CPU > 0) {
				t.Errorf("got %v and processor time of %v, and done: %v", got.Took, got.CPU, done)
			}
			if got.Took, got.CPU = 0, 0; got != tt.want || done != tt.done {
				t.Errorf("got %+v and done: %v, want %+v and %v", got, done, tt.want, tt.done)
			}
		})
	}
}

// A destination ends when the program that has started it does, and in every state.
func TestDestinationEndsWithItsInput(t *testing.T) {
	for name, serve := range map[string]func(net.Listener, *counter) (func(), error){"receiver": serveRecords, "broker": serveKafka} {
		for orders, want := range map[string]string{"": "before it is opened", "5\n": "when it has taken nothing"} {
			t.Run(name+" "+want, func(t *testing.T) {
				in, out := io.Pipe()
				ended := make(chan error, 1)
				go func() { ended <- countRecords(in, io.Discard, serve) }()
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

// A destination that hangs does not outlive its context, and the measurement ends.
func TestWaitForADestinationEnds(t *testing.T) {
	l := testLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := trial.Run(ctx, func(tr *trial.T) {
		l.T = tr
		d := l.startDestination(receiveCommand)
		d.open(1)
		time.AfterFunc(10*time.Millisecond, cancel)
		d.wait()
	})
	if err == nil {
		t.Error("got no error")
	}
}

// Only whole records count, and all in one request are no measurement.
func TestReceiverCountsRecords(t *testing.T) {
	in(t, testLab(t), func(l *lab) {
		d := l.startDestination(receiveCommand)
		d.open(2)
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
		if err := trial.Run(t.Context(), func(*trial.T) { d.wait() }); err == nil || !strings.Contains(err.Error(), "all records came in one request") {
			t.Errorf("got error %v", err)
		}
		if err := d.Stdin.Close(); err != nil {
			t.Fatal(err)
		}
		if err := trial.Run(t.Context(), func(*trial.T) { d.ReadLine() }); err == nil || !strings.Contains(err.Error(), "has ended") {
			t.Errorf("the end: got error %v", err)
		}
	})
}
