package exporter

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/disk/crashdisk"
	"github.com/docket-export/docket/sources"
)

// A refused line that was kept is there after a power cut: the first of a queue and those
// behind it. The rest of a line that was not kept harms none before it.
func TestRefusedLinesOutliveAPowerCut(t *testing.T) {
	var r *refusedLog
	add := func(text string) func(disk.FS) error {
		return func(fsys disk.FS) error {
			if r == nil {
				r = &refusedLog{dir: disk.On(fsys, "/queue").Join("refused"), log: slog.New(slog.DiscardHandler)}
			}
			r.add("webhook", []refusedLine{{Source: "webhook", Reason: sources.InvalidJSON, text: []byte(text)}})
			if why := r.failure.Load(); why != nil {
				return errors.New(*why)
			}
			return nil
		}
	}
	// kept wants the lines, the last one only if add has said that it is kept.
	kept := func(lines ...string) func(disk.FS, bool) error {
		return func(fsys disk.FS, did bool) error {
			r = nil
			dir := disk.On(fsys, "/queue").Join("refused")
			names, _ := dir.List() // none where nothing was kept
			var all strings.Builder
			for _, name := range names {
				text, err := dir.Join(name).Read(1 << 20)
				if err != nil {
					return err
				}
				all.Write(text)
			}
			for i, line := range lines {
				if i == len(lines)-1 && !did {
					break
				}
				if !strings.Contains(all.String(), line) {
					return fmt.Errorf("got %q, want %q in it", all.String(), line)
				}
			}
			return nil
		}
	}
	for name, trial := range map[string]crashdisk.Trial{
		"first":  {Do: add("canary"), Check: kept("canary")},
		"second": {Prepare: add("earlier"), Do: add("canary"), Check: kept("earlier", "canary")},
	} {
		if err := trial.Run(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		r = nil
	}
}
