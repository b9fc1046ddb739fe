package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/trial"
	"github.com/docket-export/docket/internal/disk"
)

// exportFactor is how many times as many records a file has as other measurements.
const exportFactor = 5

const (
	runStart = `{"id":"2026-01-05T10:04:00Z","message":"audit is started"}` + "\n"
	runEnd   = `{"id":"2026-01-05T10:04:00Z","message":"audit is completed"}` + "\n"
)

// readExport has docket read one large run of Gatekeeper, and the plain program the same
// file.
func (l *lab) readExport() values {
	dir, lines := l.scratch(), l.records*exportFactor
	channel := filepath.Join(dir, "topics", "audit-channel")
	trial.Check(os.MkdirAll(channel, 0o777))
	unfinished, file := filepath.Join(dir, "unfinished"), filepath.Join(channel, "2026-01-05T10_04_00Z.log")
	size := writeRun(unfinished, lines)
	s := l.startSetup(dir, setup{
		sources: []string{fmt.Sprintf(`- {name: export, gatekeeper: {path: %q}}`, filepath.Dir(channel))},
		sinks:   []string{heldEntry()},
	})
	records := lines + 3 // the start, the end, and what docket says of the run
	finish := s.profile()
	began := time.Now()
	trial.Check(os.Rename(unfinished, file))
	s.waitStored(records)
	took := time.Since(began)
	finish()
	perCommit := size / s.commits()
	v := values{
		"rate": size / 1e6 / took.Seconds(), "perCommit": perCommit / 1e3,
		"cpu": s.CPUTime().Seconds() / float64(records) * 1e6, "memory": s.Memory("VmHWM"),
	}
	s.Kill()
	v["raw"] = size / 1e6 / rawCopy(file, filepath.Join(l.scratch(), "copy"), int(perCommit)).Seconds()
	return v
}

// writeRun makes the file of a run of so many records, and returns its size.
func writeRun(name string, records int) (size float64) {
	f := trial.Must(os.Create(name))
	defer f.Close()
	trial.Must(f.WriteString(runStart))
	b := record.NewBlock(0)
	for n := 0; n < records; {
		n += trial.Must(f.Write(b.Next(n, records-n))) / record.Bytes
	}
	trial.Must(f.WriteString(runEnd))
	return float64(trial.Must(f.Stat()).Size())
}

// rawCopy reads a file and appends it to a fresh one, with an fdatasync after so many
// bytes.
func rawCopy(from, to string, perCommit int) time.Duration {
	source, copied := trial.Must(os.Open(from)), trial.Must(os.Create(to))
	defer source.Close()
	defer copied.Close()
	began := time.Now()
	buffer, unsynced := make([]byte, 1<<20), 0
	for {
		n, err := source.Read(buffer)
		if errors.Is(err, io.EOF) {
			trial.Check(disk.Sync(copied))
			return time.Since(began)
		}
		trial.Check(err)
		unsynced += trial.Must(copied.Write(buffer[:n]))
		if unsynced >= perCommit {
			trial.Check(disk.Sync(copied))
			unsynced = 0
		}
	}
}
