package conformance

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/docket-export/docket/client/clienttest"
)

// door is the address of an exporter, which can be shut and opened again.
type door struct {
	e       *clienttest.Exporter
	network string
	address string // the same for as long as there is a door
	dir     string // made for the socket; empty: none

	mu  sync.Mutex
	ln  net.Listener
	wg  sync.WaitGroup
	err error // why it could not serve
}

// openDoor opens the door of e at address, or in a directory of its own.
func openDoor(e *clienttest.Exporter, address string) (*door, error) {
	d := &door{e: e}
	var err error
	if address == "" {
		if d.dir, err = os.MkdirTemp("", "docket-"); err != nil {
			return nil, err
		}
		d.network, d.address = "unix", filepath.Join(d.dir, "docket.sock")
	} else if d.network, d.address, err = splitAddress(address); err != nil {
		return nil, err
	}
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.remove())
	}
	d.address = d.ln.Addr().String() // with the port, where any would do
	return d, nil
}

// splitAddress turns unix:///path or tcp://host:port into what net.Listen takes.
func splitAddress(address string) (network, addr string, err error) {
	if path, ok := strings.CutPrefix(address, "unix://"); ok && filepath.IsAbs(path) {
		return "unix", path, nil
	}
	hostport, ok := strings.CutPrefix(address, "tcp://")
	if !ok {
		return "", "", fmt.Errorf("address %q: must be unix:// and an absolute path, or tcp:// and host:port", address)
	}
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return "", "", fmt.Errorf("address %q: %w", address, err)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return "", "", fmt.Errorf("address %q: must be on this machine, such as tcp://127.0.0.1:0: producers are not authenticated", address)
	}
	return "tcp", hostport, nil
}

// url is what a producer is told.
func (d *door) url() string { return d.network + "://" + d.address }

// open lets producers in, at the same address as before.
func (d *door) open() error {
	ln, err := net.Listen(d.network, d.address)
	if err != nil {
		return fmt.Errorf("%w: stop the process that uses the address, remove its socket file, or choose another address", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ln = ln
	d.wg.Go(func() {
		if err := d.e.Serve(ln); err != nil {
			d.fail(err)
		}
	})
	return nil
}

// shut refuses producers. The file of a socket goes.
func (d *door) shut() {
	d.mu.Lock()
	if d.ln != nil {
		_ = d.ln.Close() // it has been closed already, or is now
	}
	d.mu.Unlock()
	d.wg.Wait()
}

func (d *door) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = errors.Join(d.err, err)
}

// failure is why the exporter could not play its part.
func (d *door) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// remove removes the directory that was made.
func (d *door) remove() error {
	if d.dir == "" {
		return nil
	}
	return os.RemoveAll(d.dir)
}
