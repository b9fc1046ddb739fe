// Package feed brings the lines of a file into the intake under numbers, so that each
// is stored once however often docket is restarted: the queue keeps the number of the
// last line together with the records.
//
// A reader numbers its lines in an order that is the same at every reading, and sends
// them. The intake recognises lines that it has. So a reader's own state may be older
// than what is durable, and need not be written at once.
package feed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/docket-export/docket/sources"
)

// maxScratch is the largest buffer that is kept for the next lines.
const maxScratch = 1 << 20

// errOver is for who goes on after an error, or after Close.
var errOver = errors.New("feed: closed, or failed before")

// Feed is a numbered session. It keeps no copy of lines that the queue took. Calls of its
// methods must not overlap, except Settled.
type Feed struct {
	in       sources.Intake
	source   string
	producer string

	session sources.Session // nil once there is none any more
	next    uint64          // number of the next line
	scratch []byte          // what the session gets, and may overwrite

	mu      sync.Mutex
	through uint64 // the highest number that is durable; guarded by mu
}

// Open begins to send the lines of a producer. The first line has the number next.
// Lines up to acked are durable: they need not be sent, and are recognised if they are
// sent. An error means that ctx is done or the exporter is stopping.
func Open(ctx context.Context, in sources.Intake, source, producer string, next uint64) (f *Feed, acked uint64, err error) {
	f = &Feed{in: in, source: source, producer: producer, next: next}
	if acked, err = f.open(ctx, next); err != nil {
		return nil, 0, err
	}
	f.through = max(acked, next-1)
	return f, acked, nil
}

func (f *Feed) open(ctx context.Context, next uint64) (acked uint64, err error) {
	s, acked, err := f.in.Open(ctx, sources.Opening{
		Source: f.source, Producer: f.producer, Next: next,
		Evict:   func() {}, // a producer's name belongs to one reader
		Settled: f.settled,
	})
	if err != nil {
		return 0, err
	}
	f.session = s
	return acked, nil
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
// full. It keeps no reference to lines. An error means that ctx is done or the exporter
// is stopping: the feed cannot be used any more.
func (f *Feed) Send(ctx context.Context, lines []byte, n int) error {
	if n == 0 {
		return nil
	}
	return f.send(n, func() error {
		f.scratch = append(f.scratch[:0], lines...)
		defer func() {
			if cap(f.scratch) > maxScratch {
				f.scratch = nil
			}
		}()
		return f.session.Submit(ctx, f.scratch)
	})
}

// SendTooLarge sends a line that the caller does not hold in full: prefix is how it
// begins, length how long it is. It is refused, and counts as one line.
func (f *Feed) SendTooLarge(ctx context.Context, prefix []byte, length int64) error {
	return f.send(1, func() error {
		return f.session.SubmitTooLarge(ctx, prefix, length)
	})
}

// send submits the next n lines.
func (f *Feed) send(n int, submit func() error) error {
	if f.session == nil {
		return errOver
	}
	if err := submit(); err != nil {
		f.Close() // it is not known which number the session would give to another line
		return err
	}
	f.next += uint64(n)
	return nil
}

// Settle waits until everything sent is durable. It fails as Send does.
func (f *Feed) Settle(ctx context.Context) error {
	if f.session == nil {
		return errOver
	}
	return f.session.Settle(ctx)
}

// Close ends the feed. What was sent is still settled. A second call does nothing.
func (f *Feed) Close() {
	if f.session != nil {
		f.session.Close()
		f.session = nil
	}
}

// unfit are the characters that the stream protocol does not let a producer's name have.
var unfit = regexp.MustCompile(`[^A-Za-z0-9._:/-]`)

// maxProducer is how long such a name may be.
const maxProducer = 128

// Producer makes the name of a producer from what identifies a file: the parts joined by
// "/". If the name is too long or not allowed, or a part has a "/" itself, the name is
// cut and gets a hash. Other parts make another name.
func Producer(parts ...string) string {
	name := strings.Join(parts, "/")
	clean := unfit.ReplaceAllString(name, "_")
	if clean == name && len(name) <= maxProducer && strings.Count(name, "/") == len(parts)-1 {
		return name
	}
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d %s ", len(p), p) // with lengths: ("a/b", "c") is not ("a", "b/c")
	}
	sum := ":" + hex.EncodeToString(h.Sum(nil)[:12])
	return clean[:min(len(clean), maxProducer-len(sum))] + sum
}
