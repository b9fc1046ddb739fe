//go:build soak && unix

package sinks

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/internal/document/desk"
)

// newDesk is a desk whose receiver, if a page starts one, ends with the test.
func newDesk(t *testing.T) *desk.Desk {
	d := desk.New(t, ports(t)...)
	t.Cleanup(func() { d.Do(t, `kill "$(cat receiver.pid)" 2> /dev/null || true`) })
	return d
}

// ports replaces addresses: docket's, which pages leave at its default, and that of a receiver.
func ports(t *testing.T) []string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, receiver, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	const init, admin = "docket init > docket.yaml", `admin: {address: "127.0.0.1:0"}`
	return []string{init, init + "; echo '" + admin + "' >> docket.yaml; true", "queue: {directory: queue}\n", "queue: {directory: queue}\nadmin: {address: \"127.0.0.1:0\"}\n", "8080", receiver}
}

func TestPages(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) < 4 {
		t.Fatalf("got the pages %q, %v", pages, err)
	}
	for _, name := range pages {
		if strings.HasPrefix(name, "kafka") {
			continue // their commands need brokers: test/kafka runs them
		}
		t.Run(name, func(t *testing.T) {
			page := document.Read(t, "sinks/"+name)
			newDesk(t).Follow(t, page.Steps())
		})
	}
}

// TestDeadLetters follows the page of what sinks set aside.
func TestDeadLetters(t *testing.T) {
	newDesk(t).Follow(t, document.Read(t, "dead-letters.md").Steps())
}

// TestConfiguration follows the first steps to a configuration.
func TestConfiguration(t *testing.T) {
	newDesk(t).Follow(t, document.Read(t, "configuration.md").Steps())
}
