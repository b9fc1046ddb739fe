package streamsource

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/sources"
)

// after returns the source that takes the place of r, with a configuration of its own.
func (r *running) after(c sources.Config) *source {
	r.t.Helper()
	s := c.New(r.source.env).(*source)
	s.TakeOver(r.source)
	return s
}

// run has a source that was made by after serve until the test ends, with the intake of r.
func (r *running) run(s *source) {
	r.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() { ended <- s.Run(ctx, r.Intake, func() { close(ready) }) }()
	r.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		r.t.Fatalf("Run: %v", err)
	}
}

// A producer that connects between two sources waits for the second one.
func TestTakeOver(t *testing.T) {
	for name, config := range map[string]func(t *testing.T) (first, second sources.Config){
		"unix": func(t *testing.T) (first, second sources.Config) {
			path := filepath.Join(t.TempDir(), "s")
			return &UnixConfig{Path: path, Mode: "0660", MaxConnections: 3}, &UnixConfig{Path: path, Mode: "0660", MaxConnections: 5}
		},
		"tcp": func(t *testing.T) (first, second sources.Config) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ln.Close()
			address := ln.Addr().String()
			return &TCPConfig{Address: address, MaxConnections: 3}, &TCPConfig{Address: address, MaxConnections: 5}
		},
	} {
		t.Run(name, func(t *testing.T) {
			one, two := config(t)
			first := startSource(t, testLimit, one)
			old := first.dial()
			old.hello("old", 1, 0)
			second := first.after(two)
			first.stopAndWait()
			old.expectClosing("stopping")
			between := first.dial()
			first.run(second)
			between.hello("new", 1, 0)
		})
	}
}

// A socket that differs in something of its own is made anew, and one that nobody takes ends.
func TestTakeOverOfAnotherSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for name, config := range map[string]sources.Config{
		"mode": &UnixConfig{Path: path, Mode: "0600", MaxConnections: 3},
		"path": &UnixConfig{Path: path + "2", Mode: "0660", MaxConnections: 3},
		"kind": &TCPConfig{Address: "127.0.0.1:0", MaxConnections: 3},
	} {
		t.Run(name, func(t *testing.T) {
			first := startSource(t, testLimit, &UnixConfig{Path: path, Mode: "0660", MaxConnections: 3})
			first.after(config)
			first.stopAndWait()
			if _, err := os.Stat(path); err == nil {
				t.Error("the file of the socket is still there")
			}
		})
	}
	first := startSource(t, testLimit, &UnixConfig{Path: path, Mode: "0660", MaxConnections: 3})
	second := first.after(&UnixConfig{Path: path, Mode: "0660", Group: "no such group", MaxConnections: 3})
	second.place, second.handover.ln = first.source.place, nil
	second.TakeOver(first.source)
	first.stopAndWait()
	if err := second.Run(t.Context(), first.Intake, func() {}); err == nil {
		t.Fatal("a source with a group that there is not runs")
	}
	if nc, err := net.Dial("unix", path); err == nil {
		nc.Close()
		t.Error("a producer can connect to a source that cannot start")
	}
}
