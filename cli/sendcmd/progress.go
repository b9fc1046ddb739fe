package sendcmd

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/internal/human"
)

// progress measures how far an input has been sent. It is read through.
type progress struct {
	in      io.Reader
	size    int64 // of the input, 0 when not known
	started time.Time
	read    atomic.Int64 // bytes
}

func newProgress(in io.Reader, size int64, now time.Time) *progress {
	return &progress{in: in, size: size, started: now}
}

// Read implements io.Reader.
func (p *progress) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	p.read.Add(int64(n))
	return n, err
}

// work is how far it is. Lines in flight are read, but on no disk yet.
func (p *progress) work(c counts) terminal.Work {
	w := terminal.Work{
		What: "sending", Done: max(0, p.read.Load()-c.inFlight), Total: p.size,
		Note: fmt.Sprintf("%d stored, %d refused", c.stored, c.refused),
	}
	if !c.connected {
		w.Note += ", no connection"
	}
	return w
}

// summary is the last word on the input.
func (p *progress) summary(c counts, now time.Time) string {
	took := now.Sub(p.started)
	rate := float64(c.stored) / max(took, time.Millisecond).Seconds()
	return fmt.Sprintf("%s stored, %d refused, in %s (%.0f lines/s)", human.Count(c.stored, "line"), c.refused, took.Round(time.Millisecond), rate)
}

// stallTime is how long nothing may be acknowledged before a person should know what the sender
// waits for.
const stallTime = 3 * time.Second

// stall notices that nothing is acknowledged.
type stall struct {
	handled uint64    // lines, when that moved last
	since   time.Time // when it did
	said    bool
}

// is reports that lines wait on a connection and nothing has been acknowledged for stallTime. It
// does so once: a queue at its bound stalls again and again.
func (s *stall) is(st client.SenderStats, now time.Time) bool {
	if st.Handled != s.handled || st.InFlightLines == 0 || !st.Connected {
		s.handled, s.since = st.Handled, now
	}
	if s.said || now.Sub(s.since) < stallTime {
		return false
	}
	s.said = true
	return true
}
