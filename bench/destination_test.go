package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/docket-export/docket/bench/process"
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

// A measurement does not wait for ever for a destination to have everything.
func TestWaitForADestinationEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := trial.Run(ctx, func(tr *trial.T) { newCounter(1).wait(tr) }); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

// Only whole records count, and all in one request are no measurement.
func TestReceiverCountsRecords(t *testing.T) {
	err := trial.Run(t.Context(), func(tr *trial.T) {
		d, c := process.Listen("127.0.0.1:0"), newCounter(2)
		serveRecords(tr, d, c)
		for _, post := range []struct{ size, want int }{{record.Bytes + 1, http.StatusBadRequest}, {2 * record.Bytes, http.StatusOK}} {
			res, err := http.Post("http://"+d.Addr().String(), "", bytes.NewReader(make([]byte, post.size)))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != post.want {
				t.Errorf("%d bytes: got %s, want %d", post.size, res.Status, post.want)
			}
		}
		c.wait(tr)
	})
	if err == nil || !strings.Contains(err.Error(), "all records came in one request") {
		t.Errorf("got error %v", err)
	}
}
