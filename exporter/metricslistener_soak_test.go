//go:build soak

package exporter

import (
	"errors"
	"os"
	"testing"
	"time"
)

// A silent peer makes room for another long before net/http would close its connection.
func TestSilentPeersMakeRoom(t *testing.T) {
	e := letterExporter(t)
	address := listening(t, e, MetricsConfig{})
	first := silentPeers(t, address)[0]
	if err := first.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil { // before net/http would close it
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the first silent peer: got %v, want its connection closed for another", err)
	}
}
