package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/testcli"
	"github.com/docket-export/docket/sinks/filesink/manifest"
	"github.com/docket-export/docket/sinks/filesink/verify"
)

// The defaults are enough to hit writes, syncs, rotations and start-up; `make crash`
// asks for many more.
var (
	kills   = flag.Int("kills", 25, "how often TestKill kills docket")
	cuts    = flag.Int("cuts", 5, "how often TestPowerCut cuts the power")
	program = flag.String("docket", "docket", "the docket to crash; by default that of this test")
)

// onceIfShort is how often a test does what it can do n times: once with -short.
func onceIfShort(n int) int {
	if testing.Short() {
		return 1
	}
	return n
}

// crashes is a docket that crashes again and again, while four acknowledged
// producers send to it. They live through the crashes, as real ones do.
type crashes struct {
	t         *testing.T
	what      string // "SIGKILL" or "power cut"
	dir       string
	admin     string
	dice      *rand.Rand
	producers []*killProducer
	exports   []*exportCheck

	ctx     context.Context // of the producers
	stop    context.CancelFunc
	sending sync.WaitGroup
}

// newCrashes writes the configuration, in which it replaces DIR and ADMIN, and
// begins to send. exports are the directories of its file sinks.
func newCrashes(t *testing.T, what, dir, config string, exports ...string) *crashes {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	admin, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "docket.yaml"), strings.NewReplacer("ADMIN", admin, "DIR", dir).Replace(config))
	c := &crashes{t: t, what: what, dir: dir, admin: admin, dice: rand.New(rand.NewPCG(seed, 0))}
	for _, export := range exports {
		c.exports = append(c.exports, &exportCheck{dir: export, last: map[string]int{}})
	}
	ctx, stop := context.WithCancel(t.Context())
	c.ctx, c.stop = ctx, stop
	t.Cleanup(stop)
	for i := range 4 {
		p := newKillProducer(t, filepath.Join(dir, "docket.sock"), i)
		c.producers = append(c.producers, p)
		c.sending.Go(func() { p.run(ctx) })
	}
	return c
}

// load is what docket is doing when it crashes.
type load int

const (
	starting load = iota // perhaps not ready yet
	single               // one line in flight
	full                 // all producers send as fast as they can
)

// life starts docket, lets the producers work for a moment, and has it crash.
func (c *crashes) life(crash func(docket *exec.Cmd, l load)) {
	c.t.Helper()
	docket := startDocket(c.t, c.dir)
	l := []load{starting, single, full, full}[c.dice.IntN(4)]
	if l != starting {
		if err := waitReady(c.t, c.admin); err != nil {
			c.t.Fatal(err)
		}
	}
	if l == single {
		defer c.hold(c.producers[1:])()
		first := c.producers[0]
		first.single.Store(true)
		defer first.single.Store(false)
	}
	c.pause(200 * time.Millisecond) // the moment of the crash is what is random here
	crash(docket, l)
	c.checkProducers()
}

// checkProducers looks at what docket has told the producers since it started.
func (c *crashes) checkProducers() {
	c.t.Helper()
	for _, p := range c.producers {
		if s := p.sender.Stats(); s.Forgotten > 0 || s.Refused > 0 {
			c.t.Fatalf("%s: docket has forgotten %d lines that it had acknowledged, and refused %d", p.name, s.Forgotten, s.Refused)
		}
	}
}

// hold keeps producers from sending until release is called. It waits for the
// lines that they have given out to be acknowledged.
func (c *crashes) hold(producers []*killProducer) (release func()) {
	c.t.Helper()
	for _, p := range producers {
		p.turn.Lock()
	}
	for _, p := range producers {
		p.flush(c.t)
	}
	return func() {
		for _, p := range producers {
			p.turn.Unlock()
		}
	}
}

// acked is how many lines were acknowledged so far.
func (c *crashes) acked() (n uint64) {
	for _, p := range c.producers {
		n += p.sender.Stats().Handled
	}
	return n
}

// pause lets some time pass, at most limit.
func (c *crashes) pause(limit time.Duration) {
	time.Sleep(time.Duration(c.dice.Int64N(int64(limit))))
}

// checkExports looks at what the file sinks have finished. docket must not be
// running.
func (c *crashes) checkExports() {
	c.t.Helper()
	for _, e := range c.exports {
		e.takeFinished(c.t)
	}
}

// progress says every now and then how far the test is.
func (c *crashes) progress(n, of int) {
	c.t.Helper()
	if every := max(of/10, 10); n%every != 0 || n == of {
		return
	}
	c.t.Logf("%s: %d of %d, %d lines acknowledged so far", c.what, n, of, c.acked())
}

// finish lets docket deliver everything and end, and compares its exports and
// its books with what the producers have been told.
func (c *crashes) finish(n int) {
	t := c.t
	t.Helper()
	docket := startDocket(t, c.dir)
	if err := waitReady(t, c.admin); err != nil {
		t.Fatal(err)
	}
	c.stop()
	c.sending.Wait()
	acked := 0
	for _, p := range c.producers {
		acked += p.settle(t)
	}
	c.checkProducers()
	status := waitStatus(t, c.admin, func(s exporter.Status) bool {
		for _, sink := range s.Ledger.Sinks {
			if sink.Pending > 0 {
				return false
			}
		}
		return s.Ledger.Stored >= uint64(acked)
	})
	interrupt(t, docket)
	if err := docket.Wait(); err != nil {
		t.Errorf("docket run: %v", err)
	}
	l := status.Ledger
	own := c.checkCheckpoints()
	isMore := l.Stored > uint64(acked+own) && len(c.exports) > 0 // what docket has made is counted there
	if l.Stored < uint64(acked) || isMore || l.Received != l.Stored+l.Duplicate || l.Corrupt != 0 {
		t.Errorf("ledger does not balance: %+v, %d lines were acknowledged", l, acked)
	}
	lost := 0
	for _, e := range c.exports {
		for _, p := range c.producers {
			e.end(t, p)
		}
		if s := l.Sinks[filepath.Base(e.dir)]; s.Delivered != l.Stored {
			t.Errorf("ledger of sink %s does not balance: %+v, want %d delivered", filepath.Base(e.dir), s, l.Stored)
		}
		lost = max(lost, e.lost)
	}
	t.Logf("%s: %d times, %d of %d acknowledged lines lost", c.what, n, lost, acked)
}

// checkCheckpoints takes what is left of the exports, and wants what docket has said of
// them to be true: each checkpoint names a line of the manifest, and where the export ends
// with it. It returns how many of these lines there are.
func (c *crashes) checkCheckpoints() (count int) {
	t := c.t
	t.Helper()
	for _, e := range c.exports {
		e.takeFinished(t)
		e.take(t, filepath.Join(e.dir, "decisions-active.ndjson"))
		count = max(count, len(e.checkpoints))
	}
	for _, e := range c.exports {
		text, err := os.ReadFile(filepath.Join(e.dir, manifest.FileName))
		if err != nil {
			t.Fatal(err)
		}
		ends := map[manifest.Hash]verify.Place{}
		var first manifest.Hash
		for line := range strings.Lines(string(text)) {
			l, err := manifest.Decode([]byte(strings.TrimSuffix(line, "\n")))
			if err != nil {
				t.Fatal(err)
			}
			if len(ends) == 0 {
				first = l.Hash
			}
			ends[l.Hash] = verify.Place{Queue: l.Entry.Queue, Seq: l.Entry.LastSeq}
		}
		for _, one := range e.checkpoints {
			if one.Sink != filepath.Base(e.dir) {
				continue
			}
			if end, ok := ends[one.Line]; !ok || end != one.Place || one.Export != first {
				t.Errorf("%s: got checkpoint %+v, but the line ends with %+v", e.dir, one, end)
			}
		}
	}
	return count
}

// killProducer sends numbered lines of varying size until it is stopped.
type killProducer struct {
	name   string
	sender *client.Sender
	// turn is held while a line is sent, and by whoever wants none to be.
	turn   sync.Mutex
	dials  atomic.Int64 // that have begun
	single atomic.Bool  // wait for the ack of each line before the next
	sent   int          // guarded by turn
}

func newKillProducer(t *testing.T, socket string, i int) *killProducer {
	t.Helper()
	p := &killProducer{name: fmt.Sprintf("producer-%d", i)}
	s, err := client.NewSender(client.SenderConfig{
		Producer:         p.name,
		MaxInFlightLines: 200,
		Dial: func(ctx context.Context) (net.Conn, error) {
			p.dials.Add(1) // first: docket may show the connection before this goroutine has it
			return dialSoon(ctx, socket)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.sender = s
	return p
}

// dialSoon connects as soon as somebody listens. A sender alone would wait longer
// after each attempt, and many a docket would crash before it had anything to do.
func dialSoon(ctx context.Context, socket string) (net.Conn, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		nc, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err == nil || ctx.Err() != nil {
			return nc, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (p *killProducer) run(ctx context.Context) {
	for ctx.Err() == nil {
		if p.send(ctx) != nil {
			return
		}
	}
}

// send sends the next line. An error means that it was not taken or, in single
// mode, that the test has ended.
func (p *killProducer) send(ctx context.Context) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	if err := p.sender.Send(ctx, []byte(producerLine(p.name, p.sent+1))); err != nil {
		return err
	}
	p.sent++
	if p.single.Load() {
		return p.sender.Flush(ctx)
	}
	return nil
}

// producerLine is the nth line of a producer.
func producerLine(producer string, n int) string {
	return fmt.Sprintf(`{"Producer":%q,"n":%d, "pad":"%0*d","big":12345678901234567890,"html":"\u003c"}`, producer, n, n%300, 0)
}

// flush waits until everything is acknowledged.
func (p *killProducer) flush(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Left(t))
	defer cancel()
	if err := p.sender.Flush(ctx); err != nil {
		t.Fatalf("producer %s: flush: %v", p.name, err)
	}
}

// settle waits until everything is acknowledged and returns how many lines that
// are. run must have ended.
func (p *killProducer) settle(t *testing.T) int {
	t.Helper()
	p.flush(t)
	if left, err := p.sender.Close(t.Context()); left > 0 || err != nil {
		t.Errorf("producer %s: close: %d lines left, %v", p.name, left, err)
	}
	return p.sent
}

// exportCheck compares a file export with the lines of the producers. It takes
// the files away as it goes, as a consumer does, so that the disk does not fill.
type exportCheck struct {
	dir  string
	last map[string]int // by producer: the number of the last line seen
	lost int            // lines that did not come where they should

	checkpoints []verify.Checkpoint // that docket has made, of any export
}

func (e *exportCheck) takeFinished(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(e.dir, "decisions-[0-9]*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files) // by their first seq
	for _, file := range files {
		e.take(t, file)
	}
	if len(files) > 0 {
		syncDirectory(t, e.dir) // a power cut must not bring them back
	}
}

func (e *exportCheck) take(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	for number := 1; scanner.Scan(); number++ {
		e.line(t, fmt.Sprintf("%s:%d", file, number), scanner.Text())
	}
	if err := scanner.Err(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

// line wants the next line of its producer, byte for byte.
func (e *exportCheck) line(t *testing.T, where, got string) {
	t.Helper()
	if list, err := verify.ReadCheckpoints(strings.NewReader(got), where); err != nil || len(list) > 0 {
		if err != nil {
			t.Error(err)
		}
		e.checkpoints = append(e.checkpoints, list...)
		return
	}
	var record struct {
		Producer string
		N        int
	}
	if err := json.Unmarshal([]byte(got), &record); err != nil {
		t.Fatalf("%s: %v: %q", where, err, got)
	}
	p, n := record.Producer, record.N
	last := e.last[p]
	if want := producerLine(p, n); got != want {
		t.Errorf("%s: got %q, want %q", where, got, want)
	}
	switch {
	case n <= last:
		t.Errorf("%s: line %d of %s comes again, or after line %d", where, n, p, last)
		return
	case n > last+1:
		t.Errorf("%s: line %d of %s follows line %d: lines are missing", where, n, p, last)
		e.lost += n - last - 1
	}
	e.last[p] = n
}

// end wants to have seen everything that p has sent.
func (e *exportCheck) end(t *testing.T, p *killProducer) {
	t.Helper()
	if got := e.last[p.name]; got != p.sent {
		t.Errorf("%s: got %d lines of %s, want %d", e.dir, got, p.name, p.sent)
		e.lost += max(0, p.sent-got)
	}
}

func syncDirectory(t *testing.T, dir string) {
	t.Helper()
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
}
