package main

import (
	"context"
	"fmt"
	"os"
	"slices"
)

const (
	producers     = 8
	linesInFlight = 1024 // of each producer
)

// experiments are all there are, in the order of the table.
func experiments() []experiment {
	return slices.Concat(pipelineExperiments(), sourceExperiments(), deliveryExperiments(), clientExperiments(), queueExperiments(), restExperiments())
}

// pipelineExperiments measure docket from the socket to the disk.
func pipelineExperiments() []experiment {
	return []experiment{
		{
			Name:  "ingest",
			Title: "Durable ingest through the socket, intake alone",
			About: "Eight producers in a process of their own, each with 1,024 records in flight, write 64 lines at a time to\n" +
				"the stripped `docket` binary, which validates them as JSON; before that it gets 32,768 to warm up. Its only sink cannot deliver. The raw programs write\n" +
				"the same bytes in commits of the size that docket had in the same round, and have the processors to themselves.",
			Rows: ingestRows(&target{AtLeast: 0.3}),
			run:  func(l *lab, ctx context.Context) (map[string]float64, error) { return l.ingest(ctx, heldBack) },
		},
		{
			Name:  "delivering",
			Title: "Durable ingest while a file sink delivers",
			About: "The same with a file sink, which reads, writes and syncs on the same disk and processors meanwhile.",
			Rows:  ingestRows(nil),
			run:   func(l *lab, ctx context.Context) (map[string]float64, error) { return l.ingest(ctx, toFile) },
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
				{Key: "ratio", What: "ack / both together", Ratio: &ratio{"ack", "floor"}, Target: &target{AtMost: 1.3}},
				{Key: "logRatio", What: "Log / both together", Ratio: &ratio{"log", "floor"}, Target: &target{AtMost: 1.3}},
			},
			run: (*lab).single,
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
				{Key: "memory", What: "resident memory", Unit: "MB", Target: &target{AtMost: 25}},
				{Key: "binary", What: "size of the binary", Unit: "MB", Target: &target{AtMost: 25}},
			},
			run: (*lab).idle,
		},
	}
}

func ingestRows(t *target) []row {
	return append([]row{
		{Key: "rate", What: "acknowledged", Unit: "records/s"},
		{Key: "perCommit", What: "records in a commit"},
		{Key: "cpu", What: "processor time of docket for a million records", Unit: "s"},
		{Key: "memory", What: "resident memory, peak", Unit: "MB"},
	}, rawRows(t, nil)...)
}

// rawRows are the plain programs, with a target for each.
func rawRows(appended, recycled *target) []row {
	return []row{
		{Key: "appended", What: "raw append + fdatasync to a fresh file", Unit: "records/s"},
		{Key: "recycled", What: "raw overwrite + fdatasync of a recycled file", Unit: "records/s"},
		{Key: "toAppended", What: "docket / raw append", Ratio: &ratio{"rate", "appended"}, Target: appended},
		{Key: "toRecycled", What: "docket / raw overwrite", Ratio: &ratio{"rate", "recycled"}, Target: recycled},
	}
}

func (l *lab) ingest(ctx context.Context, sink string) (map[string]float64, error) {
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
	commits, err := s.commits(ctx)
	if err != nil {
		return nil, err
	}
	cpu, err := s.cpuTime()
	if err != nil {
		return nil, err
	}
	p, err := l.produce(ctx, load{s.socket, producers, linesInFlight, l.records})
	if err != nil {
		return nil, err
	}
	cpuAfter, err := s.cpuTime()
	if err != nil {
		return nil, err
	}
	commitsAfter, err := s.commits(ctx)
	if err != nil {
		return nil, err
	}
	memory, err := s.memory("VmHWM")
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
