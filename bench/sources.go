package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/host"
	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/internal/disk"
)

// exportFactor is how many times as many records a file has as other measurements.
const exportFactor = 5

const (
	runStart = `{"id":"2026-01-05T10:04:00Z","message":"audit is started"}` + "\n"
	runEnd   = `{"id":"2026-01-05T10:04:00Z","message":"audit is completed"}` + "\n"
)

// readExport has docket read one large run.
func (l *lab) readExport(ctx context.Context) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	channel := filepath.Join(dir, "topics", "audit-channel")
	if err := os.MkdirAll(channel, 0o777); err != nil {
		return nil, err
	}
	unfinished := filepath.Join(dir, "unfinished")
	records := l.records * exportFactor
	if err := writeRecords(unfinished, records, runStart, runEnd); err != nil {
		return nil, err
	}
	s, err := l.startHeld(ctx, dir, fmt.Sprintf(`- {name: export, gatekeeper: {path: %q}}`, filepath.Dir(channel)))
	if err != nil {
		return nil, err
	}
	defer s.kill()
	began := time.Now()
	file := filepath.Join(channel, "2026-01-05T10_04_00Z.log")
	if err := os.Rename(unfinished, file); err != nil {
		return nil, err
	}
	return l.readFile(ctx, s, file, records+3, began) // and the start, the end, and what docket says of the run
}

// startHeld starts a docket with one source whose sink cannot deliver.
func (l *lab) startHeld(ctx context.Context, dir, source string) (*sidecar, error) {
	nobody, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	return l.startSetup(ctx, dir, setup{sources: []string{source}, sinks: []string{httpEntry(heldBack, nobody, 1)}})
}

// readFile waits until docket has stored so many records since began, and has the plain
// program do the same.
func (l *lab) readFile(ctx context.Context, s *sidecar, file string, records int, began time.Time) (map[string]float64, error) {
	finish := s.profile(ctx) // its first milliseconds are missing: docket is reading
	err := s.waitStored(ctx, records)
	took := time.Since(began)
	finish()
	if err != nil {
		return nil, errors.Join(err, s.LastWords())
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	commits, err := s.commits(ctx)
	if err != nil {
		return nil, err
	}
	cpu, err := s.CPUTime()
	if err != nil {
		return nil, err
	}
	memory, err := s.Memory("VmHWM")
	if err != nil {
		return nil, err
	}
	s.kill()
	size := float64(info.Size())
	raw, err := l.rawCopy(ctx, file, int64(size/commits))
	if err != nil {
		return nil, err
	}
	return map[string]float64{
		"rate": size / 1e6 / took.Seconds(), "raw": size / 1e6 / raw.Seconds(), "perCommit": size / commits / 1e3,
		"cpu": cpu.Seconds() / float64(records) * 1e6, "memory": memory,
	}, nil
}

// rawCopy reads the file and appends it to a fresh one, with an fdatasync after so many
// bytes.
func (l *lab) rawCopy(ctx context.Context, file string, perCommit int64) (time.Duration, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return 0, err
	}
	defer remove()
	from, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	to, err := os.Create(filepath.Join(dir, "copy"))
	if err != nil {
		return 0, err
	}
	defer to.Close()
	began := time.Now()
	buffer := make([]byte, 1<<20)
	for unsynced := int64(0); ; {
		n, err := from.Read(buffer)
		if _, err := to.Write(buffer[:n]); err != nil {
			return 0, err
		}
		unsynced += int64(n)
		if unsynced >= perCommit || errors.Is(err, io.EOF) {
			if err := disk.Sync(to); err != nil {
				return 0, err
			}
			unsynced = 0
		}
		if errors.Is(err, io.EOF) {
			return time.Since(began), ctx.Err()
		}
		if err != nil {
			return 0, err
		}
	}
}

// writeRecords makes a file of so many records between two lines.
func writeRecords(name string, records int, first, last string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(first); err != nil {
		return err
	}
	b := record.NewBlock(0)
	for n := 0; n < records; {
		lines := b.Next(n, records-n)
		if _, err := f.Write(lines); err != nil {
			return err
		}
		n += len(lines) / record.Bytes
	}
	_, err = f.WriteString(last)
	return err
}

// storedWait bounds how long docket may take for a file.
const storedWait = time.Minute

// waitStored waits until docket says that it has stored so many records.
func (s *sidecar) waitStored(ctx context.Context, records int) error {
	ctx, cancel := context.WithTimeout(ctx, storedWait)
	defer cancel()
	stored := 0
	err := host.Poll(ctx, deliveredPause, func() (bool, error) {
		body, err := s.get(ctx, "/status")
		if err != nil {
			return false, err
		}
		var status struct {
			Ledger struct {
				Stored int `json:"stored"`
			} `json:"ledger"`
		}
		if err := json.Unmarshal(body, &status); err != nil {
			return false, fmt.Errorf("/status: %w", err)
		}
		stored = status.Ledger.Stored
		return stored >= records, nil
	})
	if err != nil {
		return fmt.Errorf("%d of %d records are stored: %w", stored, records, err)
	}
	return nil
}

const (
	idleFor     = 10 * time.Second
	idleSettled = 4 * time.Second
)

// idleSources has docket wait for things that do not happen.
func (l *lab) idleSources(ctx context.Context) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	topics, log := filepath.Join(dir, "topics"), filepath.Join(dir, "engine.log")
	if err := os.MkdirAll(filepath.Join(topics, "audit-channel"), 0o777); err != nil {
		return nil, err
	}
	if err := os.WriteFile(log, bytes.Repeat([]byte("{}\n"), 10), 0o600); err != nil {
		return nil, err
	}
	opa, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	apiserver, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	nobody, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	s, err := l.startSetup(ctx, dir, setup{sources: []string{
		fmt.Sprintf(`- {name: export, gatekeeper: {path: %q}}`, topics),
		fmt.Sprintf(`- {name: log, tail: {path: %q, format: json}}`, log),
		fmt.Sprintf(`- {name: opa, opa: {address: %q}}`, opa),
		fmt.Sprintf(`- {name: apiserver, kubernetesAudit: {address: %q}}`, apiserver),
	}, sinks: []string{httpEntry(heldBack, nobody, 1)}})
	if err != nil {
		return nil, err
	}
	defer s.kill()
	if err := s.waitStored(ctx, 10); err != nil {
		return nil, err
	}
	if err := host.Sleep(ctx, idleSettled); err != nil {
		return nil, err
	}
	before, err := s.CPUTime()
	if err != nil {
		return nil, err
	}
	if err := host.Sleep(ctx, idleFor); err != nil {
		return nil, err
	}
	after, err := s.CPUTime()
	if err != nil {
		return nil, err
	}
	memory, err := s.Memory("VmRSS")
	return map[string]float64{"cpu": (after - before).Seconds() * 1e3 / idleFor.Seconds(), "memory": memory}, err
}
