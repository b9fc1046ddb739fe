//go:build soak

package cli

import (
	"os"
	"path/filepath"
	"strings"
)

// fileAttacks are those in files that docket reads: they are there when it starts.
func fileAttacks() []attack {
	tail := func(name, text string, times int) attack {
		return attack{
			name:    "log file " + name,
			sources: "- name: engine\n  tail: {path: DIR/engine.log, format: json}",
			prepare: func(a *arena) { writeTimes(a, filepath.Join(a.dir, "engine.log"), text, times) },
		}
	}
	gatekeeper := func(name, text string, times int) attack {
		return attack{
			name:    "audit file " + name,
			sources: "- name: audit\n  gatekeeper: {path: DIR/topics}",
			prepare: func(a *arena) {
				channel := filepath.Join(a.dir, "topics", "audit")
				if err := os.MkdirAll(channel, 0o755); err != nil {
					a.t.Fatal(err)
				}
				writeTimes(a, filepath.Join(channel, "2026-01-01T00:00:00Z.log"), text, times)
			},
		}
	}
	objects := strings.Repeat("{\n", 10000)
	endless := strings.Repeat("x", 1<<20)
	return []attack{
		tail("of a million {", objects, 100),
		tail("of 64 MiB of NULs", strings.Repeat("\x00", 1<<20), 64),
		tail("of one line of 64 MiB", "{"+endless, 64),
		gatekeeper("of a million {", objects, 100),
		gatekeeper("of one line of 64 MiB", "{"+endless, 64),
	}
}

// writeTimes writes text to a file, many times over.
func writeTimes(a *arena, name, text string, times int) {
	a.t.Helper()
	f, err := os.Create(name)
	if err != nil {
		a.t.Fatal(err)
	}
	for range times {
		if _, err := f.WriteString(text); err != nil {
			a.t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		a.t.Fatal(err)
	}
}
