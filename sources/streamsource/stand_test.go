package streamsource

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The file of a live socket is removed or replaced. Nobody new can connect until Stand has made
// the socket again, and the source says so; producers that are connected stay.
func TestSocketIsMadeAgain(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"removed": os.Remove,
		"moved":   func(path string) error { return os.Rename(path, path+".old") },
		"its directory replaced": func(path string) error {
			dir := filepath.Dir(path)
			if err := os.Rename(dir, dir+".old"); err != nil {
				return err
			}
			return os.Mkdir(dir, 0o755)
		},
		"replaced by the socket of a dead process": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				return err
			}
			l.SetUnlinkOnClose(false)
			return l.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, testLimit, func(c *UnixConfig) {
				c.Path = filepath.Join(t.TempDir(), "run", "s")
				if err := os.Mkdir(filepath.Dir(c.Path), 0o755); err != nil {
					t.Fatal(err)
				}
			})
			before := r.dial()
			before.send("{\"n\":1}\n")
			r.awaitTexts(`{"n":1}`)
			for n := range 2 {
				if err := lose(r.path); err != nil {
					t.Fatal(err)
				}
				if got := r.source.Addr(); got != nil {
					t.Errorf("Addr: got %v, want nil: nobody can connect", got)
				}
				if err := r.source.Stand(t.Context()); err != nil {
					t.Fatalf("Stand: got %v, want a new socket", err)
				}
				if got := r.source.Addr(); got == nil || got.String() != r.path {
					t.Errorf("Addr: got %v, want %s", got, r.path)
				}
				if n == 0 { // the next is made as the first
					if err := os.RemoveAll(filepath.Dir(r.path) + ".old"); err != nil {
						t.Fatal(err)
					}
				}
			}
			after := r.dial()
			after.send("{\"n\":2}\n")
			r.awaitTexts(`{"n":1}`, `{"n":2}`)
			before.send("{\"n\":3}\n")
			r.awaitTexts(`{"n":1}`, `{"n":2}`, `{"n":3}`)
			if err := r.source.Stand(t.Context()); err != nil {
				t.Errorf("Stand: got %v, want nil", err)
			}
			r.awaitLog(1, "docket has made it again")
			r.stopAndWait()
			if _, err := os.Lstat(r.path); err == nil {
				t.Error("the socket is there after the end, want none")
			}
		})
	}
}

// A producer that had connected to the old socket and was not accepted yet is not lost.
func TestProducersThatWaitAreAccepted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln := listen(t, path)
	var waiting []net.Conn
	for range 3 {
		nc, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		waiting = append(waiting, nc)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if again, err := ln.Stand(context.Background()); err != nil || !again {
		t.Fatalf("Stand: got %v, %v, want a new socket", again, err)
	}
	nc, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for range len(waiting) + 1 {
		nc, err := ln.Accept()
		if err != nil {
			t.Fatalf("Accept: %v, want everybody who has connected", err)
		}
		nc.Close()
	}
}

// What cannot be made again is an error that says why, until it can.
func TestSocketThatCannotBeMadeAgain(t *testing.T) {
	r := start(t, testLimit)
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.source.Stand(t.Context()); err == nil || !strings.Contains(err.Error(), "a file that is not a socket") {
		t.Errorf("Stand: got %v, want the file in the way", err)
	}
	if got := r.source.Addr(); got != nil {
		t.Errorf("Addr: got %v, want nil", got)
	}
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	if err := r.source.Stand(t.Context()); err != nil {
		t.Errorf("Stand: got %v, want nil", err)
	}
	r.dial().send("{}\n")
	r.awaitTexts("{}")
}

// A socket that was handed over is the business of the next source alone.
func TestHandedOverSocketIsNotMadeAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	old := listen(t, path)
	next, err := old.handOver()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { next.Close() })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if again, err := old.Stand(t.Context()); again || err != nil {
		t.Errorf("Stand of the old listener: got %v, %v, want nothing done", again, err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the old listener has left a socket")
	}
	if again, err := next.Stand(t.Context()); !again || err != nil {
		t.Errorf("Stand of the next listener: got %v, %v, want a new socket", again, err)
	}
}
