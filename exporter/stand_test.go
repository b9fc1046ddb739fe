package exporter

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/testlog"
	"github.com/docket-export/docket/sources"
)

// The admin socket is made again when its file is removed, and the log says so once.
func TestAdminSocketIsMadeAgain(t *testing.T) {
	e := letterExporter(t)
	var log testlog.Buffer
	e.log = slog.New(slog.NewTextHandler(&log, nil))
	path := filepath.Join(e.config().Queue.Directory, AdminSocket)
	c := over(t, e)
	for range 2 {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "a socket", func() bool {
			info, err := os.Lstat(path)
			if err != nil || info.Mode() != os.ModeSocket|0o600 {
				return false
			}
			nc, err := net.Dial("unix", path) // the file is there before anybody listens
			if err == nil {
				nc.Close()
			}
			return err == nil
		})
		if status, _ := request(t, c, "GET", "http://docket/deadletters", "", ""); status != 200 {
			t.Errorf("got status %d, want 200", status)
		}
	}
	await.Until(t, "a line for each removal", func() bool { return strings.Count(log.String(), "the admin socket was removed or replaced") == 2 })
}

// The socket of another docket, whose queue has replaced this one, is left alone.
func TestAdminSocketOfAnotherDocketIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), AdminSocket)
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if l, err := listenAdmin(path); err == nil {
		l.Close()
		t.Error("got a socket, want an error")
	}
	if nc, err := net.Dial("unix", path); err != nil {
		t.Errorf("the other socket: got %v, want it to be there", err)
	} else {
		nc.Close()
	}
}

// shaky is a source whose files come and go.
type shaky struct{ lost atomic.Pointer[error] }

func (s *shaky) New(sources.Env) sources.Source { return s }
func (s *shaky) Connections() int               { return 0 }
func (s *shaky) Addr() net.Addr                 { return &net.UnixAddr{Name: "s", Net: "unix"} }
func (s *shaky) Run(ctx context.Context, _ sources.Intake, ready func()) error {
	ready()
	<-ctx.Done()
	return nil
}

func (s *shaky) Stand(context.Context) error {
	if err := s.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// A source that has lost what it depends on is in state Error, and docket is not ready, until
// it has the file again. The log says each once.
func TestSourceThatLosesItsFilesIsNotReady(t *testing.T) {
	source := &shaky{}
	var log testlog.Buffer
	r := newSourceRunner(SourceConfig{Name: "local"}, source, nil, slog.New(slog.NewTextHandler(&log, nil)))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); r.run(ctx, nil) }()
	defer func() { cancel(); <-ended }()
	await.Until(t, "a running source", func() bool { return r.unbound() == "" })
	lost := errors.New("socket s: gone")
	source.lost.Store(&lost)
	await.Until(t, "the reason why it is not ready", func() bool { return r.unbound() == "socket s: gone" })
	if got := r.snapshot(); got.State != Error || got.Reason != "socket s: gone" {
		t.Errorf("got %s, %q, want Error with the reason", got.State, got.Reason)
	}
	source.lost.Store(nil)
	await.Until(t, "ready again", func() bool { return r.unbound() == "" })
	for text, want := range map[string]int{"source has lost a file that it depends on": 1, "source takes lines": 2} {
		if got := bytes.Count([]byte(log.String()), []byte(text)); got != want {
			t.Errorf("log: got %d lines with %q, want %d\n%s", got, text, want, log.String())
		}
	}
}
