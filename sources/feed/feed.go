// Package feed brings the lines of a file into the intake under numbers, so that each
// is stored once however often docket is restarted: the queue keeps the number of the
// last line together with the records.
//
// A reader says which lines it will number, in an order that is the same at every
// reading, and sends them; the intake recognises what it has. So a reader's own state
// need be no newer than what is durable, and may be written at leisure.
package feed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/docket-export/docket/sources"
)

// Pauses before a full queue that refuses is asked again.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// Feed is a numbered session that outlives a full queue: what was not taken is kept
// and sent again. Its methods but Settled must not overlap.
type Feed struct {
	in       sources.Intake
	source   string
	producer string

	session sources.Session
	next    uint64  // number of the next line
	unacked []chunk // sent and not known to be durable, in order

	mu      sync.Mutex
	through uint64 // the highest number that is durable; guarded by mu
}

// chunk is what one call has sent. Its bytes are the feed's own: a session may overwrite
// what it is given.
type chunk struct {
	first  uint64 // number of its first line
	lines  uint64
	data   []byte
	length int64 // of the line that data begins, where that is too long; else 0
}

// Open begins to send the lines of a producer, the first of which has the number next.
// Those up to acked are durable: they need not be sent, and are recognised when they
// are. An error means that ctx is done or the exporter is stopping.
func Open(ctx context.Context, in sources.Intake, source, producer string, next uint64) (f *Feed, acked uint64, err error) {
	f = &Feed{in: in, source: source, producer: producer, next: next}
	if acked, err = f.open(ctx, next); err != nil {
		return nil, 0, err
	}
	f.through = max(acked, next-1)
	return f, acked, nil
}

func (f *Feed) open(ctx context.Context, next uint64) (acked uint64, err error) {
	f.session, acked, err = f.in.Open(ctx, sources.Opening{
		Source: f.source, Producer: f.producer, Next: next,
		Evict:   func() {}, // a producer's name belongs to one reader
		Settled: f.settled,
	})
	return acked, err
}

func (f *Feed) settled(r sources.Receipt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.through = max(f.through, r.Through)
}

// Settled is the highest number that is durable. Safe at any time.
func (f *Feed) Settled() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.through
}

// Next is the number of the line that is sent next.
func (f *Feed) Next() uint64 { return f.next }

// Send sends whole lines, each ended by "\n" and none of them blank; n is how many they
// are. It returns when they are on their way to the disk, and blocks while the queue is
// full. An error means that ctx is done or the exporter is stopping: the feed is of no
// more use.
func (f *Feed) Send(ctx context.Context, lines []byte, n int) error {
	if n == 0 {
		return nil
	}
	return f.send(ctx, chunk{first: f.next, lines: uint64(n), data: bytes.Clone(lines)})
}

// SendTooLarge sends a line that the caller does not hold in full: prefix is how it
// begins, length how long it is. It is refused, and counts as one line.
func (f *Feed) SendTooLarge(ctx context.Context, prefix []byte, length int64) error {
	return f.send(ctx, chunk{first: f.next, lines: 1, data: bytes.Clone(prefix), length: length})
}

func (f *Feed) send(ctx context.Context, c chunk) error {
	f.next += c.lines
	f.dropAcked()
	f.unacked = append(f.unacked, c)
	err := f.submit(ctx, c)
	if errors.Is(err, sources.ErrQueueFull) {
		err = f.again(ctx)
	}
	return err
}

func (f *Feed) submit(ctx context.Context, c chunk) error {
	if c.length > 0 {
		return f.session.SubmitTooLarge(ctx, c.data, c.length)
	}
	// The session may overwrite what it gets, and it may have to be sent again.
	return f.session.Submit(ctx, bytes.Clone(c.data))
}

// again sends what is not durable until the queue takes it.
func (f *Feed) again(ctx context.Context) error {
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstPause), backoff.WithMaxInterval(maxPause), backoff.WithMaxElapsedTime(0))
	for {
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		f.session.Close()
		f.dropAcked()
		if len(f.unacked) == 0 {
			_, err := f.open(ctx, f.next)
			return err
		}
		if _, err := f.open(ctx, f.unacked[0].first); err != nil {
			return err
		}
		if err := f.submitAll(ctx); !errors.Is(err, sources.ErrQueueFull) {
			return err
		}
	}
}

func (f *Feed) submitAll(ctx context.Context) error {
	for _, c := range f.unacked {
		if err := f.submit(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// dropAcked forgets the chunks that are durable as a whole.
func (f *Feed) dropAcked() {
	through, n := f.Settled(), 0
	for n < len(f.unacked) && f.unacked[n].first+f.unacked[n].lines-1 <= through {
		n++
	}
	f.unacked = append(f.unacked[:0], f.unacked[n:]...)
}

// Settle waits until everything sent is durable. It fails as Send does.
func (f *Feed) Settle(ctx context.Context) error {
	if err := f.session.Settle(ctx); err != nil {
		return err
	}
	f.dropAcked()
	return nil
}

// Close ends the feed. What was sent is still settled.
func (f *Feed) Close() { f.session.Close() }

// unfit are the characters that the stream protocol does not let a producer's name have.
var unfit = regexp.MustCompile(`[^A-Za-z0-9._:/-]`)

// maxProducer is how long such a name may be.
const maxProducer = 128

// Producer makes the name of a producer from what identifies a file: the parts joined
// by "/". Where that is too long, or unfit, it is cut and told apart by a hash.
func Producer(parts ...string) string {
	name := strings.Join(parts, "/")
	clean := unfit.ReplaceAllString(name, "_")
	if clean == name && len(name) <= maxProducer {
		return name
	}
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d %s ", len(p), p) // with lengths: ("a/b", "c") is not ("a", "b/c")
	}
	sum := ":" + hex.EncodeToString(h.Sum(nil)[:12])
	return clean[:min(len(clean), maxProducer-len(sum))] + sum
}
