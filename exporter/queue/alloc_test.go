package queue

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What a commit or a batch may allocate, however many records it has: a channel
// to wait at, a timer. Garbage that grows with the load is what makes the
// collector, and not the disk, the bound.
const allocsAllowed = 64

// allocChunks are many times allocsAllowed, of the records of several producers,
// as they arrive when each of them has few.
const (
	allocChunks    = 2000
	allocProducers = 8
)

// allocChunksOf makes chunks of n records.
func allocChunksOf(n int) []Chunk {
	chunks := make([]Chunk, allocChunks)
	for i := range chunks {
		chunks[i] = Chunk{
			Source: "bench", Producer: fmt.Sprint("producer-", i%allocProducers), Position: uint64(i + 1),
			Received: time.Now(), Records: bytes.Repeat([]byte("{\"a\":1}\n"), n), Count: n,
		}
	}
	return chunks
}

// heldQueue is a queue whose next commit can be held, so that everything that is
// appended meanwhile is one commit.
type heldQueue struct {
	*Queue
	hold    atomic.Bool
	entered chan struct{}
	release chan struct{}
	first   chan *Chunk // appended by a goroutine, in case Append itself commits

	unsettled sync.WaitGroup
	settled   func()
}

func openHeldQueue(t *testing.T) *heldQueue {
	t.Helper()
	h := &heldQueue{entered: make(chan struct{}), release: make(chan struct{}), first: make(chan *Chunk)}
	h.settled = h.unsettled.Done
	q, err := Open(Options{Directory: t.TempDir(), Committed: func(int, time.Duration) {
		if h.hold.Swap(false) {
			h.entered <- struct{}{}
			<-h.release
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	h.Queue = q
	var running sync.WaitGroup
	running.Go(func() {
		for c := range h.first {
			if err := q.Append(t.Context(), c, h.settled); err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(func() {
		close(h.first)
		running.Wait()
		if err := q.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// appendAll makes the first chunk one commit, and all others the next.
func (h *heldQueue) appendAll(t *testing.T, chunks []Chunk) {
	h.unsettled.Add(len(chunks))
	h.hold.Store(true)
	h.first <- &chunks[0]
	<-h.entered
	for i := range chunks[1:] {
		if err := h.Append(t.Context(), &chunks[1+i], h.settled); err != nil {
			t.Fatal(err)
		}
	}
	h.release <- struct{}{}
	h.unsettled.Wait()
}

func TestAppendAllocatesByTheCommit(t *testing.T) {
	for _, n := range []int{1, 10} {
		t.Run(fmt.Sprintf("chunks of %d", n), func(t *testing.T) {
			h := openHeldQueue(t)
			chunks := allocChunksOf(n)
			for range 3 { // buffers grow to their size
				h.appendAll(t, chunks)
			}
			got := testing.AllocsPerRun(10, func() { h.appendAll(t, chunks) })
			t.Logf("%v allocations for 2 commits of %d chunks", got, len(chunks))
			if got > 2*allocsAllowed {
				t.Errorf("got %v allocations for 2 commits of %d chunks, want at most %d", got, len(chunks), 2*allocsAllowed)
			}
		})
	}
}

func TestNextAllocatesByTheBatch(t *testing.T) {
	const warm, runs = 4, 10
	lim := Limits{Records: 1000, Bytes: 1 << 20}
	for _, n := range []int{1, 10} {
		t.Run(fmt.Sprintf("chunks of %d", n), func(t *testing.T) {
			h := openHeldQueue(t)
			c, err := h.Cursor("sink", false)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for appended := 0; appended < (warm+1+runs)*lim.Records; appended += n * allocChunks {
				h.appendAll(t, allocChunksOf(n))
			}
			taken := 0
			take := func() {
				records, err := c.Next(t.Context(), lim)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Ack(records[len(records)-1].Seq); err != nil {
					t.Fatal(err)
				}
				taken += len(records)
			}
			for range warm { // buffers grow to their size
				take()
			}
			taken = 0
			got := testing.AllocsPerRun(runs, take)
			mean := taken / (runs + 1) // AllocsPerRun makes one more than it counts
			t.Logf("%v allocations for a batch of %d", got, mean)
			if mean < 10*allocsAllowed {
				t.Errorf("got batches of %d records: too few to tell", mean)
			}
			if got > allocsAllowed {
				t.Errorf("got %v allocations for a batch of %d, want at most %d", got, mean, allocsAllowed)
			}
		})
	}
}
