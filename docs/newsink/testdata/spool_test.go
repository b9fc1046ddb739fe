package spool

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/sinktest"
)

func TestConformance(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Subject {
		dir := t.TempDir()
		return sinktest.Subject{
			Open: func(t *testing.T) sinks.Sink {
				s, err := (&Config{Directory: dir}).Open(context.Background(), sinks.Env{})
				if err != nil {
					t.Fatal(err)
				}
				return s
			},
			Accepted:   func(t *testing.T) []string { return contents(t, dir) },
			Recognises: true,
			Faults: []sinktest.Fault{{
				Name: "directory gone", Kind: sinks.Misconfigured,
				Start: func(t *testing.T) func() {
					rename(t, dir, dir+"-gone")
					return func() { rename(t, dir+"-gone", dir) }
				},
			}},
		}
	})
}

// contents are those of the files in dir in the order of their seqs.
func contents(t *testing.T, dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return seqOf(t, a) - seqOf(t, b) })
	var list []string
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(text))
	}
	return list
}

func seqOf(t *testing.T, e os.DirEntry) int {
	name := strings.TrimSuffix(e.Name(), ".json")
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func rename(t *testing.T, from, to string) {
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}
