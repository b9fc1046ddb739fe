package destinations

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision/stream"
	"github.com/docket-export/docket/test/dockettest"
)

const (
	// sendLines each sendInterval are 2,000 lines a second: a load that a small
	// machine carries beside a server, and the server too.
	sendInterval = 10 * time.Millisecond
	sendLines    = 20
	// flushTimeout bounds what a producer waits for: docket's disk, never a sink;
	// and docket's way back when it was killed, which may be long on a busy machine.
	flushTimeout = 3 * time.Minute
)

// load is a producer that sends lines, acknowledged, until it is told to stop. It
// outlives docket.
type load struct {
	lines
	sender  *client.Sender
	quit    chan struct{}
	once    sync.Once // closes quit
	done    chan struct{}
	acked   atomic.Uint64
	refused atomic.Uint64
	sent    int   // readable when done is closed
	err     error // why it ended early; as sent
}

// startLoad starts a producer. It ends with the test, if not before.
func startLoad(t *testing.T, d *dockettest.Docket) *load {
	t.Helper()
	l := &load{lines: readLines(t), quit: make(chan struct{}), done: make(chan struct{})}
	var err error
	l.sender, err = client.NewSender(client.SenderConfig{
		Address: "unix://" + d.Socket,
		Acked:   l.acked.Store,
		Refused: func(stream.Refused) { l.refused.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.end)
	go func() {
		defer close(l.done)
		l.err = l.run()
	}()
	return l
}

// run sends until quit is closed, and returns when everything is acknowledged.
func (l *load) run() error {
	sent := l.send()
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	_, closed := l.sender.Close(ctx)
	return errors.Join(sent, closed)
}

func (l *load) send() error {
	ticker := time.NewTicker(sendInterval)
	defer ticker.Stop()
	for {
		select {
		case <-l.quit:
			return nil
		case <-ticker.C:
		}
		if err := l.sendSome(); err != nil {
			return err
		}
	}
}

func (l *load) sendSome() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	for range sendLines {
		if err := l.sender.Send(ctx, []byte(l.line(l.sent+1))); err != nil {
			return fmt.Errorf("send line %d: %w", l.sent+1, err)
		}
		l.sent++
	}
	return nil
}

// stop ends the producer and returns what it was told is safe, which must be
// everything it has sent.
func (l *load) stop(t *testing.T) (acknowledged []string) {
	t.Helper()
	l.end()
	acked := int(l.acked.Load())
	if l.err != nil || l.refused.Load() > 0 || acked != l.sent {
		t.Errorf("the producer sent %d lines, %d were acknowledged, %d refused, it ended with %v; want all of them acknowledged",
			l.sent, acked, l.refused.Load(), l.err)
	}
	return l.first(acked)
}

func (l *load) end() {
	l.once.Do(func() { close(l.quit) })
	<-l.done
}
