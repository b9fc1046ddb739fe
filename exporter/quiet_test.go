package exporter

import (
	"testing"
	"time"
)

func TestQuietWatch(t *testing.T) {
	type look struct {
		at   time.Duration
		done uint64
		want bool
	}
	for name, looks := range map[string][]look{
		"after the start":   {{at: 0}, {at: time.Second}, {at: 2 * time.Second, want: true}, {at: 3 * time.Second}, {at: time.Hour}},
		"not while at work": {{at: 0, done: 1}, {at: 2 * time.Second, done: 2}, {at: 3 * time.Second, done: 3}, {at: 5 * time.Second, done: 3, want: true}},
		"after each burst, with a pause": {
			{at: 0}, {at: 2 * time.Second, want: true},
			{at: 3 * time.Second, done: 9}, {at: 5 * time.Second, done: 9}, {at: 61 * time.Second, done: 9}, {at: 62 * time.Second, done: 9, want: true},
			{at: time.Hour, done: 9},
			{at: time.Hour + time.Second, done: 10}, {at: time.Hour + 3*time.Second, done: 10, want: true},
		},
		"a little work all the time": {
			{at: 0}, {at: 2 * time.Second, want: true},
			{at: 62 * time.Second, done: 1}, {at: 63 * time.Second, done: 2}, {at: 65 * time.Second, done: 2, want: true}, {at: 66 * time.Second, done: 3}, {at: 68 * time.Second, done: 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var w quietWatch
			began := time.Now()
			for _, l := range looks {
				if got := w.look(l.done, began.Add(l.at)); got != l.want {
					t.Errorf("got quiet %t after %s, want %t", got, l.at, l.want)
				}
			}
		})
	}
}
