package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/docket-export/docket/bench/report"
)

const (
	producers     = 8
	linesInFlight = 1024 // of each producer
)

// experiments are all there are, in the order of the table.
func experiments() []experiment {
	return slices.Concat(pipelineExperiments(), sourceExperiments(), deliveryExperiments(), clientExperiments(), queueExperiments(), lifeExperiments(), scaleExperiments(), restExperiments())
}

// pipelineExperiments measure docket from the socket to the disk.
func pipelineExperiments() []experiment {
	return []experiment{
		{
			Name:  "ingest",
			Title: "Durable ingest through the socket",
			About: "Eight producers in a process of their own, each with 1,024 records in flight, write 64 lines at a time to\n" +
				"the stripped `docket` binary, which validates them as JSON. docket is in its steady state: the load comes in laps of 120 MB, and\n" +
				"between the laps, while the clock stands still, its one sink delivers over HTTP, so that segments are recycled. During a lap\n" +
				"the sink waits for the answer to one request. After each lap of docket the others make theirs: the raw program writes and\n" +
				"syncs as many bytes over a file the size of a segment, in commits of the size that docket had in that lap; the echo is a\n" +
				"server that acknowledges lines unseen; without any sync is docket, built with the tag nosync, which leaves out fdatasync and\n" +
				"nothing else; on tidwall/wal is a sidecar of docket's socket source and validation, an entry for each record and a\n" +
				"WriteBatch, which syncs, for all that arrived during the one before. All get the load of the same producers, except the\n" +
				"raw programs, which have the processors to themselves. Processor time without validation is what is left of that of\n" +
				"docket when the time is taken off that one goroutine needs to validate the same records alone, in the same round.",
			Rows: []row{
				{Key: "rate", What: "acknowledged", Unit: "records/s"},
				{Key: "perCommit", What: "records in a commit"},
				{Key: "cpu", What: "processor time of docket for a million records", Unit: "s", Target: &report.Target{AtMost: 1.5}},
				{Key: "validation", What: "validation alone, for a million records", Unit: "s"},
				{Key: "rest", What: "processor time of docket without validation", Unit: "s", Target: &report.Target{AtMost: 0.6}},
				{Key: "memory", What: "resident memory, peak", Unit: "MB"},
				{Key: "recycled", What: "raw overwrite + fdatasync of a recycled file", Unit: "records/s"},
				{Key: "appended", What: "raw append + fdatasync to a fresh file", Unit: "records/s"},
				{Key: "echo", What: "echo, which stores nothing", Unit: "records/s"},
				{Key: "unsynced", What: "docket without any sync", Unit: "records/s"},
				{Key: "unsyncedCPU", What: "processor time of that for a million records", Unit: "s"},
				{Key: "wal", What: "sidecar on tidwall/wal", Unit: "records/s"},
				{Key: "walCPU", What: "processor time of that for a million records", Unit: "s"},
				{Key: "toRecycled", What: "docket / raw overwrite", Ratio: &ratio{"rate", "recycled"}, Target: &report.Target{AtLeast: 0.4}},
				{Key: "toUnsynced", What: "docket / without any sync", Ratio: &ratio{"rate", "unsynced"}, Target: &report.Target{AtLeast: 0.8}},
				{Key: "toWAL", What: "docket / on tidwall/wal", Ratio: &ratio{"rate", "wal"}, Target: &report.Target{AtLeast: 5}},
				{Key: "toAppended", What: "docket / raw append", Ratio: &ratio{"rate", "appended"}},
				{Key: "toEcho", What: "docket / echo", Ratio: &ratio{"rate", "echo"}},
			},
			Charts: []drawn{{Keys: []string{"rate", "unsynced", "wal", "echo", "recycled", "appended"}, Own: []string{"rate"}}, {Keys: []string{"cpu", "rest", "unsyncedCPU", "walCPU"}, Own: []string{"cpu", "rest"}}},
			check:  (*lab).buildUnsynced,
			run:    (*lab).ingest,
		},
		{
			Name:  "burst",
			Title: "A burst of 100,000 records",
			About: "100,000 records at once, to a docket in the same steady state, with no limit to what is in flight: from the first write to\n" +
				"the last ack, from one producer and from eight. The raw programs write as many bytes, 1 MiB at a time, and sync once: to a\n" +
				"fresh file, and over one that was written before. All take turns, five times; the figures are medians of these.",
			Rows: []row{
				{Key: "one", What: "one producer, to the last ack", Unit: "ms"},
				{Key: "eight", What: "eight producers, to the last ack", Unit: "ms"},
				{Key: "fresh", What: "raw write + one fdatasync, to a fresh file", Unit: "ms"},
				{Key: "recycled", What: "raw write + one fdatasync, over a file", Unit: "ms"},
				{Key: "oneToFresh", What: "one producer / raw, fresh", Ratio: &ratio{"one", "fresh"}, Target: &report.Target{AtMost: 1.5}},
				{Key: "eightToFresh", What: "eight producers / raw, fresh", Ratio: &ratio{"eight", "fresh"}, Target: &report.Target{AtMost: 1.5}},
				{Key: "oneToRecycled", What: "one producer / raw, over a file", Ratio: &ratio{"one", "recycled"}},
				{Key: "eightToRecycled", What: "eight producers / raw, over a file", Ratio: &ratio{"eight", "recycled"}},
			},
			Charts: []drawn{{Keys: []string{"one", "eight", "fresh", "recycled"}, Own: []string{"one", "eight"}}},
			run:    (*lab).burst,
		},
		{
			Name:  "sinks",
			Title: "What sinks cost the intake",
			About: "The load of durable ingest in laps of 60 MB to four dockets in the steady state, with 1, 2, 4 and 8 HTTP sinks. The sinks\n" +
				"wait during the lap, each for the answer to one request, or follow: then one receiver for all of them, which reads the\n" +
				"body and answers 200, shares the processors. The kinds of lap take turns.",
			Rows: []row{
				{Key: "wait1", What: "acknowledged beside 1 sink that waits", Unit: "records/s"},
				{Key: "wait2", What: "beside 2 sinks that wait", Unit: "records/s"},
				{Key: "wait4", What: "beside 4 sinks that wait", Unit: "records/s"},
				{Key: "wait8", What: "beside 8 sinks that wait", Unit: "records/s"},
				{Key: "follow1", What: "beside 1 sink that follows", Unit: "records/s"},
				{Key: "follow8", What: "beside 8 sinks that follow", Unit: "records/s"},
				{Key: "wait1CPU", What: "processor time of docket for a million records, 1 sink that waits", Unit: "s"},
				{Key: "wait2CPU", What: "2 sinks that wait", Unit: "s"},
				{Key: "wait4CPU", What: "4 sinks that wait", Unit: "s"},
				{Key: "wait8CPU", What: "8 sinks that wait", Unit: "s"},
				{Key: "follow1CPU", What: "1 sink that follows", Unit: "s"},
				{Key: "follow8CPU", What: "8 sinks that follow", Unit: "s"},
				{Key: "flat", What: "8 sinks that wait / 1 that waits, rate", Ratio: &ratio{"wait8", "wait1"}, Target: &report.Target{AtLeast: 0.9}},
				{Key: "flatCPU", What: "8 sinks that wait / 1 that waits, processor time", Ratio: &ratio{"wait8CPU", "wait1CPU"}, Target: &report.Target{AtMost: 1.1}},
				{Key: "following", What: "8 sinks that follow / 1 that follows, rate", Ratio: &ratio{"follow8", "follow1"}},
			},
			Charts: []drawn{{Keys: []string{"wait1", "wait2", "wait4", "wait8", "follow1", "follow8"}, Own: []string{"wait1", "wait2", "wait4", "wait8", "follow1", "follow8"}}},
			run:    (*lab).sinkCost,
		},
		{
			Name:  "growing",
			Title: "Durable ingest while nothing is delivered",
			About: "The load of durable ingest to a docket that got 32,768 records to warm up and whose only sink cannot deliver, so that\n" +
				"every segment is a new one.",
			Rows:   ingestRows(),
			Charts: []drawn{{Keys: []string{"rate", "recycled", "appended"}, Own: []string{"rate"}}},
			run:    func(l *lab, ctx context.Context) (map[string]float64, error) { return l.ingestBeside(ctx, heldBack) },
		},
		{
			Name:   "delivering",
			Title:  "Durable ingest while a file sink delivers",
			About:  "The same with a file sink, which reads, writes and syncs on the same disk and processors meanwhile.",
			Rows:   ingestRows(),
			Charts: []drawn{{Keys: []string{"rate", "recycled", "appended"}, Own: []string{"rate"}}},
			run:    func(l *lab, ctx context.Context) (map[string]float64, error) { return l.ingestBeside(ctx, toFile) },
		},
		{
			Name:  "single",
			Title: "One record in flight",
			About: "One producer waits for the ack of each record: a bare one, and a client whose Log is called again and again. The floor is\n" +
				"a raw overwrite and fdatasync of one record and the round trip to a server in another process that acknowledges without\n" +
				"storing anything. The four take turns of 50.",
			Rows: []row{
				{Key: "ack", What: "ack, median", Unit: "us"},
				{Key: "ack99", What: "ack, 99th percentile", Unit: "us"},
				{Key: "log", What: "Log of a client, median", Unit: "us"},
				{Key: "log99", What: "Log of a client, 99th percentile", Unit: "us"},
				{Key: "raw", What: "raw overwrite + fdatasync of a recycled file, median", Unit: "us"},
				{Key: "raw99", What: "the same, 99th percentile", Unit: "us"},
				{Key: "trip", What: "round trip over the socket, median", Unit: "us"},
				{Key: "trip99", What: "the same, 99th percentile", Unit: "us"},
				{Key: "floor", What: "both medians together", Unit: "us"},
				{Key: "ratio", What: "ack / both together", Ratio: &ratio{"ack", "floor"}, Target: &report.Target{AtMost: 1.3}},
				{Key: "rawTail", What: "raw, 99th percentile / median", Ratio: &ratio{"raw99", "raw"}},
				{Key: "tail", What: "ack, 99th percentile / median", Ratio: &ratio{"ack99", "ack"}, Target: &report.Target{AtMost: 2}},
				{Key: "logRatio", What: "Log / both together", Ratio: &ratio{"log", "floor"}, Target: &report.Target{AtMost: 1.3}},
			},
			Charts: []drawn{{Keys: []string{"ack", "ack99", "log", "log99", "raw", "raw99", "trip", "trip99"}, Own: []string{"ack", "ack99", "log", "log99"}, Log: true}},
			run:    (*lab).single,
		},
	}
}

// restExperiments measure docket while it does nothing.
func restExperiments() []experiment {
	return []experiment{
		{
			Name:  "idle",
			Title: "At rest",
			About: "The configuration of `docket run` without a file, one producer connected that says nothing, after 3 seconds.\n" +
				"The binary is that of `make build`: static and stripped.",
			Rows: []row{
				{Key: "memory", What: "resident memory", Unit: "MB", Target: &report.Target{AtMost: 20}},
				{Key: "binary", What: "size of the binary", Unit: "MB", Target: &report.Target{AtMost: 25}},
			},
			run: (*lab).idle,
		},
	}
}

func ingestRows() []row {
	return append([]row{
		{Key: "rate", What: "acknowledged", Unit: "records/s"},
		{Key: "perCommit", What: "records in a commit"},
		{Key: "cpu", What: "processor time of docket for a million records", Unit: "s"},
		{Key: "memory", What: "resident memory, peak", Unit: "MB"},
	}, rawRows(nil)...)
}

// rawRows are the plain programs, with a target for the second.
func rawRows(recycled *report.Target) []row {
	return []row{
		{Key: "appended", What: "raw append + fdatasync to a fresh file", Unit: "records/s"},
		{Key: "recycled", What: "raw overwrite + fdatasync of a recycled file", Unit: "records/s"},
		{Key: "toAppended", What: "docket / raw append", Ratio: &ratio{"rate", "appended"}},
		{Key: "toRecycled", What: "docket / raw overwrite", Ratio: &ratio{"rate", "recycled"}, Target: recycled},
	}
}

// ingestBeside measures the intake beside one sink, at once and not in laps.
func (l *lab) ingestBeside(ctx context.Context, sink string) (map[string]float64, error) {
	values, err := l.ingestInto(ctx, sink)
	if err != nil {
		return nil, err
	}
	return values, l.addRaw(ctx, values)
}

// addRaw adds the rates of the raw programs at the commit size in values.
func (l *lab) addRaw(ctx context.Context, values map[string]float64) error {
	raw, err := l.raw(ctx, values["perCommit"], l.records)
	values["appended"], values["recycled"] = raw.appended, raw.recycled
	return err
}

func (l *lab) ingestInto(ctx context.Context, sink string) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	s, err := l.startWarm(ctx, dir, sink)
	if err != nil {
		return nil, err
	}
	defer s.kill()
	return s.ingest(ctx, l)
}

// warmRecords is what docket gets before it is measured: a sidecar runs for days
// with its buffers as large as they get.
const warmRecords = 4 * producers * linesInFlight

// startWarm starts docket and gives it warmRecords.
func (l *lab) startWarm(ctx context.Context, dir, sink string) (*sidecar, error) {
	s, err := l.startSidecar(ctx, dir, sink)
	if err != nil {
		return nil, err
	}
	if _, err := l.produce(ctx, load{s.socket, producers, linesInFlight, warmRecords}); err != nil {
		s.kill()
		return nil, err
	}
	return s, nil
}

func (s *sidecar) ingest(ctx context.Context, l *lab) (map[string]float64, error) {
	defer s.profile(ctx)()
	commits, err := s.commits(ctx)
	if err != nil {
		return nil, err
	}
	cpu, err := s.CPUTime()
	if err != nil {
		return nil, err
	}
	p, err := l.produce(ctx, load{s.socket, producers, linesInFlight, l.records})
	if err != nil {
		return nil, err
	}
	cpuAfter, err := s.CPUTime()
	if err != nil {
		return nil, err
	}
	commitsAfter, err := s.commits(ctx)
	if err != nil {
		return nil, err
	}
	memory, err := s.Memory("VmHWM")
	if err != nil {
		return nil, err
	}
	n := float64(l.records / producers * producers)
	return map[string]float64{
		"rate": n / p.Seconds, "perCommit": n / (commitsAfter - commits), "memory": memory,
		"cpu": (cpuAfter - cpu).Seconds() / n * 1e6,
	}, nil
}

func (l *lab) idle(ctx context.Context) (map[string]float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return nil, err
	}
	defer remove()
	s, err := l.startSidecar(ctx, dir, toFile)
	if err != nil {
		return nil, err
	}
	defer s.kill()
	p, err := connect(s.socket, 0, nil)
	if err != nil {
		return nil, err
	}
	defer p.nc.Close()
	memory, err := s.restingMemory(ctx)
	if err != nil {
		return nil, err
	}
	binary, err := os.Stat(l.docket)
	if err != nil {
		return nil, fmt.Errorf("size of the binary: %w", err)
	}
	return map[string]float64{"memory": memory, "binary": float64(binary.Size()) / 1e6}, nil
}
