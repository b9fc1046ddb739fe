package streamsource

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
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

// quiet is a producer whose own side costs this process no memory: its cost is
// that of the exporter.
type quiet int

func dialQuietly(t *testing.T, path string) quiet {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	return quiet(fd)
}

func (q quiet) send(t *testing.T, text string) {
	t.Helper()
	for len(text) > 0 {
		n, err := syscall.Write(int(q), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
}

// receive reads until what came ends with the line.
func (q quiet) receive(t *testing.T, line string) {
	t.Helper()
	var got []byte
	for buf := make([]byte, 4096); !strings.HasSuffix(string(got), line+"\n"); {
		n, err := syscall.Read(int(q), buf)
		if n <= 0 {
			t.Fatalf("read: got %q, %v, want %s", got, err, line)
		}
		got = append(got, buf[:n]...)
	}
}

// inUse is the memory of live objects and of stacks.
func inUse() int64 {
	for range 3 { // stacks shrink by half each time
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
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

// TestIdleProducerCosts: at most 16 KiB, whatever it did before it fell silent.
func TestIdleProducerCosts(t *testing.T) {
	const most = 16 << 10
	line := `{"message":"` + strings.Repeat("x", 1000) + "\"}\n"
	for name, test := range map[string]struct {
		acked bool
		lines int
	}{
		"after hello":           {true, 0},
		"after one line":        {true, 1},
		"after a burst":         {true, 300},
		"plain, after one line": {false, 1},
		"plain, after a burst":  {false, 300},
	} {
		t.Run(name, func(t *testing.T) {
			var in forgetful
			c := UnixDefinition.NewConfig().(*UnixConfig)
			c.Path = filepath.Join(t.TempDir(), "s")
			r := startOn(t, &in, 1<<20, c)
			crowd := int64(crowd / few(4))
			before := inUse()
			for i := range crowd {
				q := dialQuietly(t, c.Path)
				if test.acked {
					q.send(t, fmt.Sprintf(`{"docket":{"version":1,"producer":"p%d","next":1}}`+"\n", i))
					q.receive(t, `{"docket":{"version":1,"acked":0}}`)
				}
				q.send(t, strings.Repeat(line, test.lines))
				if test.acked && test.lines > 0 {
					q.receive(t, fmt.Sprintf(`{"ack":%d}`, test.lines))
				}
			}
			eventually(t, "all lines taken", func() bool { return in.lines.Load() == crowd*int64(test.lines) })
			r.awaitConnections(int(crowd))
			each := (inUse() - before) / crowd
			for deadline := time.Now().Add(patience); each > most && time.Now().Before(deadline); {
				each = (inUse() - before) / crowd // some may not be idle yet
			}
			t.Logf("%d bytes each", each)
			if each > most {
				t.Errorf("memory of an idle producer: got %d bytes, want at most %d", each, most)
			}
		})
	}
}
