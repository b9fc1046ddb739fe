package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/decision/stream"
)

// server takes connections on a socket, each in a goroutine.
func server(t *testing.T, serve func(net.Conn)) (socket string) {
	t.Helper()
	socket = filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer nc.Close()
				serve(nc)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	return socket
}

// A plain load is taken when the last connection is closed, not when the last byte
// is written.
func TestPlainLoadIsTakenAtTheEnd(t *testing.T) {
	c := newCensus()
	var mu sync.Mutex
	var closed time.Time
	socket := server(t, func(nc net.Conn) {
		text, err := io.ReadAll(nc)
		if err != nil {
			t.Error(err)
		}
		c.take(text, nil)
		mu.Lock()
		defer mu.Unlock()
		closed = time.Now()
	})
	p, err := load{Socket: socket, First: 7, Records: 3000, Limit: produceWait}.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.read(), (count{Records: 3000}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	mu.Lock()
	defer mu.Unlock()
	if p.Records != 3000 || p.Taken < closed.UnixNano() || p.Began >= p.Taken {
		t.Errorf("got %+v, want the end not before %d", p, closed.UnixNano())
	}
}

// An acknowledged load never has more than the window unacknowledged, and ends with
// the last ack.
func TestAcknowledgedLoad(t *testing.T) {
	socket := server(t, func(nc net.Conn) {
		buf := make([]byte, stream.MaxReply)
		if _, err := nc.Read(buf); err != nil { // the hello
			t.Error(err)
		}
		if _, err := nc.Write(stream.Answer{}.Append(nil)); err != nil {
			t.Error(err)
		}
		// Reads one window, and looks whether more comes before it is acknowledged.
		lines := make([]byte, linesInFlight*record.Bytes)
		if _, err := io.ReadFull(nc, lines); err != nil {
			t.Error(err)
		}
		if err := nc.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Error(err)
		}
		if n, err := nc.Read(buf); err == nil {
			t.Errorf("%d bytes came before anything was acknowledged", n)
		}
		if err := nc.SetReadDeadline(time.Time{}); err != nil {
			t.Error(err)
		}
		if _, err := nc.Write(stream.Ack{Through: linesInFlight}.Append(nil)); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(nc, lines[:record.Bytes]); err != nil {
			t.Error(err)
		}
		if _, err := nc.Write(stream.Ack{Through: linesInFlight + 1}.Append(nil)); err != nil {
			t.Error(err)
		}
	})
	p, err := load{Socket: socket, Records: producers * (linesInFlight + 1), Limit: produceWait, Acknowledged: true}.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := producers * (linesInFlight + 1); p.Records != want {
		t.Errorf("got %d records, want %d", p.Records, want)
	}
}

// Who closes before it has read everything has not taken it.
func TestLoadThatIsNotRead(t *testing.T) {
	socket := server(t, func(nc net.Conn) {
		if _, err := io.ReadFull(nc, make([]byte, 10*record.Bytes)); err != nil {
			t.Error(err)
		}
	})
	if p, err := (load{Socket: socket, Records: 20_000, Limit: produceWait}).run(t.Context()); err == nil {
		t.Errorf("got %+v and no error", p)
	}
}

// What is sent until the limit counts, and is taken.
func TestLoadEndsAtItsLimit(t *testing.T) {
	c := newCensus()
	socket := server(t, func(nc net.Conn) {
		text, err := io.ReadAll(nc)
		if err != nil {
			t.Error(err)
		}
		c.take(text, nil)
	})
	p, err := load{Socket: socket, Records: 1 << 30, Rate: 10_000, Limit: 2 * time.Second}.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := c.read(); p.Records == 0 || got != (count{Records: p.Records}) {
		t.Errorf("%d were sent and %+v has arrived", p.Records, got)
	}
}

func TestDue(t *testing.T) {
	tests := map[string]struct {
		rate int
		ago  time.Duration
		sent int
		want int
	}{
		"no rate":  {0, 0, 500, linesPerWrite},
		"ahead":    {8000, time.Second, 1 << 20, 0},
		"at start": {8000, 0, 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := &producer{load: load{Rate: tt.rate}, began: time.Now().Add(-tt.ago), sent: tt.sent}
			if got := p.due(); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
	p := &producer{load: load{Rate: 8000}, began: time.Now().Add(-time.Second), sent: 900}
	if got := p.due(); got < 100 {
		t.Errorf("900 sent after a second at 1,000 a second: got %d due, want at least 100", got)
	}
}

func TestCensus(t *testing.T) {
	b := record.NewBlock(2)
	text := bytes.Clone(b.Next(0, 4))
	changed := bytes.Replace(text, []byte("deny"), []byte("Deny"), 1)
	tests := map[string]struct {
		text []byte
		want count
	}{
		"records":             {text, count{Records: 4}},
		"some twice":          {append(bytes.Clone(text), text[:2*record.Bytes]...), count{Records: 4, Again: 2}},
		"one changed":         {changed, count{Records: 3, Broken: 1}},
		"no newline at last":  {text[:len(text)-1], count{Records: 4}},
		"one cut short":       {text[:len(text)-2], count{Records: 3, Broken: 1}},
		"something else":      {[]byte("hello\n"), count{Broken: 1}},
		"an empty line":       {[]byte("\n"), count{Broken: 1}},
		"a producer too many": {bytes.ReplaceAll(text[:record.Bytes], []byte("-002000"), []byte("-009000")), count{Broken: 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCensus()
			c.take(tt.text, nil)
			if got := c.read(); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			name := filepath.Join(t.TempDir(), "some.ndjson")
			if err := os.WriteFile(name, tt.text, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := countFiles(filepath.Dir(name))
			if err != nil || got != tt.want {
				t.Errorf("of a file: got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestArrivals(t *testing.T) {
	a := arrivals{{10, 100}, {25, 200}, {30, 300}}
	for n, want := range map[int]int64{1: 100, 10: 100, 11: 200, 25: 200, 30: 300} {
		if got, err := a.at(n); got != want || err != nil {
			t.Errorf("%d records: got %d, %v, want %d", n, got, err, want)
		}
	}
	if at, err := a.at(31); err == nil {
		t.Errorf("31 of 30 records: got %d and no error", at)
	}
}

// A destination counts lines as they are and in bulk requests, and says when they
// came.
func TestReceiver(t *testing.T) {
	l := newTestLab(t)
	s, err := l.newStand(standIn(t, keeping), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.openSink(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.sink.Kill()
	b := record.NewBlock(1)
	if err := send("http://"+s.sink.Address+"/", b.Next(0, 3)); err != nil {
		t.Fatal(err)
	}
	var bulk strings.Builder
	for n := range 2 {
		bulk.WriteString(`{"index":{"_index": "decisions"}}` + "\n")
		bulk.Write(b.Next(3+n, 1))
	}
	if err := send("http://"+s.sink.Address+bulkPath, []byte(bulk.String())); err != nil {
		t.Fatal(err)
	}
	var c count
	if err := s.sink.ask(t.Context(), countPath, &c); err != nil {
		t.Fatal(err)
	}
	if want := (count{Records: 5}); c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
	var times arrivals
	if err := s.sink.ask(t.Context(), timesPath, &times); err != nil {
		t.Fatal(err)
	}
	if len(times) != 2 || times[0].Records != 3 || times[1].Records != 5 || times[0].At > times[1].At {
		t.Errorf("got %+v, want 3 records and then 5", times)
	}
}
