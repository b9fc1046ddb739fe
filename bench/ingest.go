package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/docket-export/docket/bench/load"
	"github.com/docket-export/docket/bench/record"
	"github.com/docket-export/docket/bench/site"
	"github.com/docket-export/docket/bench/trial"
	"github.com/docket-export/docket/decision/rawjson"
)

// ingest measures docket in its steady state, and what there is to compare with, lap
// by lap in turn.
func (l *lab) ingest() values {
	dir := l.scratch()
	docket := l.startSteady(filepath.Join(dir, "docket"), setup{}, 1)
	unsynced := l.startSteady(filepath.Join(dir, "unsynced"), setup{program: l.unsynced(), socket: "unsynced"}, 1)
	raw := overwriter{file: l.recycledFile(filepath.Join(dir, "raw")), span: segmentBytes}
	wal, walSocket := l.startWALSidecar(dir)
	for range warmLaps {
		l.loadOf(wal, load.Full(walSocket, steadyLap))
	}
	lines := checkedLines()
	sums := stints{}
	for range l.laps(steadyLap) {
		lap := docket.lap(load.Full("", steadyLap), false)
		sums.add("docket", lap)
		sums.add("validation", validate(lines, lapRecords))
		site.Rest(dir)
		raw.commit = commitOf(lap.perPart())
		sums.add("raw", raw.run(l.T, steadyLap*record.Bytes))
		site.Rest(dir)
		sums.add("wal", l.loadOf(wal, load.Full(walSocket, steadyLap)))
		sums.add("unsynced", unsynced.lap(load.Full("", steadyLap), false))
	}
	d := sums["docket"]
	appended, _ := l.raw(d.perPart(), l.records)
	return values{
		"rate": d.rate(), "perCommit": d.perPart(), "cpu": d.cpuOfMillion(), "memory": docket.Memory("VmHWM"),
		"validation": sums["validation"].cpuOfMillion(), "rest": d.cpuOfMillion() - sums["validation"].cpuOfMillion(),
		"recycled": sums["raw"].rate(), "appended": appended,
		"unsynced": sums["unsynced"].rate(), "unsyncedCPU": sums["unsynced"].cpuOfMillion(),
		"wal": sums["wal"].rate(), "walCPU": sums["wal"].cpuOfMillion(),
	}
}

// growing measures the intake beside a sink that cannot deliver, at once and not in laps.
func (l *lab) growing() values {
	s := l.startWarm(l.scratch())
	lap := s.load(load.Full("", l.records))
	v := values{"rate": lap.rate(), "perCommit": lap.perPart(), "cpu": lap.cpuOfMillion(), "memory": s.Memory("VmHWM")}
	s.Kill()
	v["appended"], v["recycled"] = l.raw(lap.perPart(), l.records)
	return v
}

const (
	// manySinks is a generous number of them.
	manySinks = 8
	// sinkCostTurns keep the time of all these laps, and the rests between them, within
	// reason.
	sinkCostTurns = 4
)

// sinkCost measures what sinks cost the intake: while they wait, and while they
// follow.
func (l *lab) sinkCost() values {
	dir, sums, dockets := l.scratch(), stints{}, map[int]*steady{}
	for _, sinks := range []int{1, 2, 4, manySinks} {
		name := fmt.Sprint("sinks-", sinks)
		dockets[sinks] = l.startSteady(filepath.Join(dir, name), setup{socket: name}, sinks)
	}
	for range sinkCostTurns {
		for _, k := range []struct {
			key    string
			sinks  int
			follow bool
		}{
			{"wait1", 1, false}, {"wait2", 2, false}, {"wait4", 4, false}, {"wait8", manySinks, false},
			{"follow1", 1, true}, {"follow8", manySinks, true},
		} {
			sums.add(k.key, dockets[k.sinks].lap(load.Full("", lapRecords), k.follow))
		}
	}
	v := values{}
	for key, sum := range sums {
		v[key], v[key+"CPU"] = sum.rate(), sum.cpuOfMillion()
	}
	return v
}

const (
	burstRecords = 100_000
	burstTurns   = 5
)

// burst measures how long 100,000 records take to the last ack.
func (l *lab) burst() values {
	dir := l.scratch()
	s := l.startSteady(filepath.Join(dir, "docket"), setup{}, 1)
	took := map[string][]time.Duration{}
	for range burstTurns {
		for key, producers := range map[string]int{"one": 1, "eight": load.Producers} {
			lap := s.lap(load.Load{Producers: producers, Window: burstRecords, Records: burstRecords}, false)
			took[key] = append(took[key], lap.Took)
		}
		site.Rest(dir)
		f := trial.Must(os.Create(filepath.Join(dir, "raw")))
		for _, key := range []string{"fresh", "recycled"} {
			took[key] = append(took[key], writeOnce(f, burstRecords*record.Bytes))
		}
		trial.Check(errors.Join(f.Close(), os.Remove(f.Name())))
	}
	return medians(took)
}

// validRecord says whether a line is what docket takes for a record, and takes the time
// that docket takes.
func validRecord(line []byte) bool {
	return rawjson.KindOf(bytes.TrimSuffix(line, []byte("\n"))) == rawjson.Object
}

// checkedLines are the records of all producers, more than the caches next to a processor
// hold; docket has just received what it validates, and in the middle of everything else
// spends hardly less on it.
func checkedLines() []byte {
	var lines []byte
	for i := range load.Producers {
		lines = append(lines, record.NewBlock(i).Next(0, record.PerBlock)...)
	}
	return lines
}

// validate is the validation of so many records, or a few more, and nothing else, by one
// goroutine.
func validate(lines []byte, records int) (s stint) {
	before := ownCPU()
	for s.Records < records {
		for line := range slices.Chunk(lines, record.Bytes) {
			if !validRecord(line) {
				trial.Check(errors.New("bench sends what is no record"))
			}
		}
		s.Records += len(lines) / record.Bytes
	}
	s.CPU = ownCPU() - before
	return s
}
