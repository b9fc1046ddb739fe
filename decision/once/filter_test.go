package once_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/docket-export/docket/decision/once"
)

func TestTake(t *testing.T) {
	type step struct {
		d    once.Delivery
		want bool
	}
	inOrder := func(queue string, seq uint64) once.Delivery { return once.Delivery{Queue: queue, Seq: seq} }
	late := func(seq uint64, why once.Late) once.Delivery {
		return once.Delivery{Queue: queueA, Seq: seq, Late: why}
	}
	tests := map[string]struct {
		filter once.Filter
		steps  []step
	}{
		"rising seqs, with holes": {steps: []step{
			{inOrder(queueA, 1), true}, {inOrder(queueA, 2), true}, {inOrder(queueA, 9), true},
		}},
		"a request that was sent again": {steps: []step{
			{inOrder(queueA, 3), true}, {inOrder(queueA, 5), true},
			{inOrder(queueA, 3), false}, {inOrder(queueA, 5), false},
			{inOrder(queueA, 6), true},
		}},
		"the last record again": {steps: []step{
			{inOrder(queueA, 7), true}, {inOrder(queueA, 7), false},
		}},
		"two queues in one partition": {steps: []step{
			{inOrder(queueA, 7), true}, {inOrder(queueB, 1), true}, {inOrder(queueB, 7), true},
			{inOrder(queueA, 7), false}, {inOrder(queueB, 1), false}, {inOrder(queueA, 8), true},
		}},
		"not docket's": {steps: []step{
			{once.Delivery{}, true}, {once.Delivery{}, true},
		}},
		"late records are taken, and raise nothing": {steps: []step{
			{inOrder(queueA, 10), true},
			{late(4, once.Redriven), true}, {late(12, once.Replayed), true}, {late(3, "Moved"), true},
			{inOrder(queueA, 11), true}, {inOrder(queueA, 12), true},
			{late(12, once.Replayed), true}, {inOrder(queueA, 12), false},
		}},
		"a late record to an empty filter": {steps: []step{
			{late(5, once.Replayed), true}, {late(5, once.Replayed), true}, {inOrder(queueA, 1), true},
		}},
		"a late record twice, remembered": {filter: once.Filter{LateMemory: 2}, steps: []step{
			{late(5, once.Redriven), true}, {late(5, once.Redriven), false},
			{late(6, once.Redriven), true}, {late(5, once.Redriven), false},
			{late(7, once.Redriven), true}, // forgets 5
			{late(6, once.Redriven), false}, {late(5, once.Redriven), true},
			{inOrder(queueA, 5), true}, // the first in order, whatever was late
		}},
		"queues beyond the bound": {filter: once.Filter{MaxQueues: 2}, steps: []step{
			{inOrder(queue(1), 5), true}, {inOrder(queue(2), 5), true},
			{inOrder(queue(1), 5), false}, // and heard of last
			{inOrder(queue(3), 5), true},  // forgets 2
			{inOrder(queue(1), 5), false}, {inOrder(queue(3), 5), false},
			{inOrder(queue(2), 5), true}, // forgets 1
			{inOrder(queue(1), 5), true},
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := tt.filter
			for i, s := range tt.steps {
				if got := f.Take(s.d); got != s.want {
					t.Errorf("step %d, %+v: got %t, want %t", i+1, s.d, got, s.want)
				}
			}
		})
	}
}

// A filter that hears of ever new queues keeps the newest of them and no more.
func TestMaxQueuesBoundsTheState(t *testing.T) {
	var f once.Filter
	for i := range 3 * once.DefaultMaxQueues {
		f.Take(once.Delivery{Queue: queue(i), Seq: 1})
	}
	text := save(t, f)
	if got := strings.Count(text, `"id"`); got != once.DefaultMaxQueues {
		t.Errorf("%d queues are in the state, want %d", got, once.DefaultMaxQueues)
	}
	if len(text) > 80*once.DefaultMaxQueues {
		t.Errorf("the state has %d bytes for %d queues", len(text), once.DefaultMaxQueues)
	}
	if f.Take(once.Delivery{Queue: queue(2 * once.DefaultMaxQueues), Seq: 1}) {
		t.Error("the oldest queue within the bound was forgotten")
	}
}

// queue is the id of some queue.
func queue(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", n) }

func save(t testing.TB, f once.Filter) string {
	t.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
