package streamsource

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/sources"
)

// crowd is more producers than a cluster has webhooks.
const crowd = 1000

// ways to connect and then be in the way. Each leaves a connection that waits.
var stalls = map[string]func(*peer, int){
	"says nothing":     func(*peer, int) {},
	"half a hello":     func(p *peer, _ int) { p.send(`{"docket":{"version":1,"prod`) },
	"half a line":      func(p *peer, _ int) { p.send("{}\n{\"half\":\"" + strings.Repeat("x", 20000)) },
	"half a long line": func(p *peer, _ int) { p.send(strings.Repeat("x", testLimit+100)) },
	"a hello alone":    func(p *peer, n int) { p.hello(fmt.Sprint("idle", n), 1, 0) },
	"reads no acks":    func(p *peer, n int) { p.hello(fmt.Sprint("late", n), 1, 0); p.send(strings.Repeat("{}\n", 2000)) },
	"reads no refusals": func(p *peer, n int) {
		p.hello(fmt.Sprint("deaf", n), 1, 0)
		go io.WriteString(p, strings.Repeat("x\n", 40000))
	},
}

// Producers that stall in every way hold up nobody: one that works is served as if
// it were alone.
func TestCrowdThatStalls(t *testing.T) {
	unix, tcp := UnixDefinition.NewConfig().(*UnixConfig), TCPDefinition.NewConfig().(*TCPConfig)
	unix.Path, tcp.Address = filepath.Join(t.TempDir(), "s"), "127.0.0.1:0"
	for kind, c := range map[string]sources.Config{"unix": unix, "tcp": tcp} {
		t.Run(kind, func(t *testing.T) {
			crowd := crowd / few(8)
			r := startOn(t, new(forgetful), testLimit, c)
			for n := 0; n < crowd; {
				for _, stall := range stalls {
					if n++; n <= crowd {
						stall(r.dial(), n)
					}
				}
			}
			r.awaitConnections(crowd)
			worker := r.dial()
			worker.hello("worker", 1, 0)
			const lines = 100000
			began := time.Now()
			go io.WriteString(worker, strings.Repeat("{\"a\":1}\n", lines))
			worker.expectAck(lines)
			t.Logf("%d lines among %d that stall: %v", lines, crowd, time.Since(began))
		})
	}
}

// forgetful is an intake that settles lines at once, refuses those that are no
// object, and keeps nothing.
type forgetful struct{ lines atomic.Int64 }

func (f *forgetful) Open(_ context.Context, o sources.Opening) (sources.Session, uint64, error) {
	return &forgetfulSession{f: f, opening: o, last: o.Next - 1}, 0, nil
}

type forgetfulSession struct {
	f       *forgetful
	opening sources.Opening
	last    uint64
}

func (s *forgetfulSession) Submit(_ context.Context, lines []byte) error {
	var receipt sources.Receipt
	for line := range bytes.Lines(lines) {
		receipt.Lines++
		if s.last++; line[0] != '{' {
			receipt.Refused = append(receipt.Refused, sources.Refusal{Number: s.last, Reason: sources.InvalidJSON, Detail: "refused by the test"})
		}
	}
	receipt.Through = s.last
	s.f.lines.Add(int64(receipt.Lines))
	if s.opening.Settled != nil {
		s.opening.Settled(receipt)
	}
	return nil
}

func (s *forgetfulSession) SubmitTooLarge(context.Context, []byte, int64) error { return nil }
func (s *forgetfulSession) CountDuplicates(context.Context, int) error          { return nil }
func (s *forgetfulSession) Settle(context.Context) error                        { return nil }
func (s *forgetfulSession) Close()                                              {}
