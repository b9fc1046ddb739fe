//go:build unix

// Package sinks tests the pages of the sinks: a reader can follow each.
package sinks

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/internal/document/desk"
)

// around is the rest of a configuration whose sinks a page shows.
const around = "apiVersion: docket.dev/v1alpha1\nkind: Exporter\nsources: [{name: local, unix: {path: docket.sock}}]\nqueue: {directory: queue}\n"

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
		t.Run(name, func(t *testing.T) {
			page := document.Read(t, "sinks/"+name)
			d := newDesk(t)
			if !strings.HasPrefix(name, "kafka") { // their commands need brokers: test/kafka runs them
				d.Follow(t, page.Steps())
			}
			if name == "kafka-consumers.md" {
				return // about settings of others
			}
			for _, block := range page.Blocks(t, "yaml") {
				if err := os.WriteFile(filepath.Join(d.Dir, "full.yaml"), []byte(around+block), 0o600); err != nil {
					t.Fatal(err)
				}
				d.Do(t, "docket check --no-files -f full.yaml")
			}
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
