package load

import (
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/decision/stream"
)

// server takes connections on a socket, each in a goroutine.
func server(t *testing.T, serve func(net.Conn)) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
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
	var taken atomic.Int64
	var mu sync.Mutex
	var closed time.Time
	socket := server(t, func(nc net.Conn) {
		text, err := io.ReadAll(nc)
		if err != nil {
			t.Error(err)
		}
		taken.Add(int64(len(text) / record.Bytes))
		mu.Lock()
		defer mu.Unlock()
		closed = time.Now()
	})
	p, err := Load{Socket: socket, Producers: Producers, First: 7, Records: 3000}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := taken.Load(); got != 3000 {
		t.Errorf("got %d records, want 3000", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if p.Records != 3000 || p.Taken.Before(closed) || p.Took() <= 0 {
		t.Errorf("got %+v, want the end not before %v", p, closed)
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
		lines := make([]byte, Window*record.Bytes)
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
		if _, err := nc.Write(stream.Ack{Through: Window}.Append(nil)); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(nc, lines[:record.Bytes]); err != nil {
			t.Error(err)
		}
		if _, err := nc.Write(stream.Ack{Through: Window + 1}.Append(nil)); err != nil {
			t.Error(err)
		}
	})
	p, err := Full(socket, Producers*(Window+1)).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := Producers * (Window + 1); p.Records != want {
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
	if p, err := (Load{Socket: socket, Producers: Producers, Records: 20_000}).Run(t.Context()); err == nil {
		t.Errorf("got %+v and no error", p)
	}
}

// What is sent until the limit counts, and is taken.
func TestLoadEndsAtItsLimit(t *testing.T) {
	var taken atomic.Int64
	socket := server(t, func(nc net.Conn) {
		text, err := io.ReadAll(nc)
		if err != nil {
			t.Error(err)
		}
		taken.Add(int64(len(text) / record.Bytes))
	})
	p, err := Load{Socket: socket, Producers: Producers, Records: 1 << 30, Rate: 10_000, Limit: 2 * time.Second}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := taken.Load(); p.Records == 0 || got != int64(p.Records) {
		t.Errorf("%d were sent and %d have arrived", p.Records, got)
	}
}

func TestDue(t *testing.T) {
	tests := map[string]struct {
		rate int
		ago  time.Duration
		sent int
		want int
	}{
		"no rate":  {0, 0, 500, LinesPerWrite},
		"ahead":    {8000, time.Second, 1 << 20, 0},
		"at start": {8000, 0, 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := &Producer{load: Load{Producers: Producers, Rate: tt.rate}, atOnce: LinesPerWrite, began: time.Now().Add(-tt.ago), sent: tt.sent}
			if got := p.due(); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
	p := &Producer{load: Load{Producers: Producers, Rate: 8000}, began: time.Now().Add(-time.Second), sent: 900}
	if got := p.due(); got < 100 {
		t.Errorf("900 sent after a second at 1,000 a second: got %d due, want at least 100", got)
	}
}

// Records are sent a few at a time on one connection, and each write has its wait.
func TestSend(t *testing.T) {
	socket := server(t, func(nc net.Conn) {
		if _, err := nc.Read(make([]byte, stream.MaxReply)); err != nil { // the hello
			t.Error(err)
		}
		reply := stream.Answer{}.Append(nil)
		line := make([]byte, record.Bytes)
		for n := uint64(1); ; n++ {
			if _, err := nc.Write(reply); err != nil {
				return
			}
			if _, err := io.ReadFull(nc, line); err != nil {
				return
			}
			reply = stream.Ack{Through: n}.Append(nil)
		}
	})
	p, err := Connect(socket, 0, record.NewBlock(0))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, records := range []int{1, 3, 2} {
		if waits, err := p.Send(records, 1); err != nil || len(waits) != records {
			t.Errorf("%d records one at a time: got %d waits and error %v", records, len(waits), err)
		}
	}
}
