package streamsource

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Docket cannot make a socket of systemd again: it says what to restart, and nobody can connect.
func TestInheritedSocketIsMissed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	made, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	file, err := made.File()
	if err != nil {
		t.Fatal(err)
	}
	in := &Inherited{sockets: []*os.File{file}}
	l, err := in.listen("unknown", "unix")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Stand(t.Context()); err != nil || l.Addr() == nil {
		t.Errorf("got %v, %v, want a socket that is there", l.Addr(), err)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if again, err := l.Stand(t.Context()); again || err == nil || !strings.Contains(err.Error(), "restart its socket unit") || l.Addr() != nil {
		t.Errorf("got %v, %v, address %v, want what to restart and no address", again, err, l.Addr())
	}
	if err := os.Rename(path+".old", path); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Stand(t.Context()); err != nil || l.Addr() == nil {
		t.Errorf("got %v, %v, want the socket again", l.Addr(), err)
	}
}
