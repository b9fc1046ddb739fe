package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/docket-export/docket/decision/stream"
)

const (
	producers     = 8
	linesInFlight = 1024 // of each producer
)

// experiments are all there are, in the order of the table.
func experiments() []experiment {
	return slices.Concat(pipelineExperiments(), queueExperiments(), restExperiments())
}

// pipelineExperiments measure docket from the socket to the disk and on to a sink.
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
			About: "One producer waits for the ack of each record. The floor is a raw overwrite and fdatasync of one record and the\n" +
				"round trip to a server in another process that acknowledges without storing anything.",
			Rows: []row{
				{Key: "p50", What: "ack, median", Unit: "us"},
				{Key: "p99", What: "ack, 99th percentile", Unit: "us"},
				{Key: "raw", What: "raw overwrite + fdatasync of a recycled file, median", Unit: "us"},
				{Key: "trip", What: "round trip over the socket, median", Unit: "us"},
				{Key: "floor", What: "both together", Unit: "us"},
				{Key: "ratio", What: "ack / both together", Ratio: &ratio{"p50", "floor"}},
			},
			run: (*lab).single,
		},
		{
			Name:  "backlog",
			Title: "Delivery of a backlog to a file",
			About: "100,000 records are stored while nothing can be delivered; then docket is started again with a file sink. The\n" +
				"rate counts from the first byte in the export to the last record that the sink has synced. The raw program\n" +
				"writes the same bytes to a fresh file and syncs as often as there were batches. What is read is in the page cache.",
			Rows: []row{
				{Key: "rate", What: "delivered and synced", Unit: "records/s"},
				{Key: "perBatch", What: "records in a batch"},
				{Key: "appended", What: "raw append + fdatasync", Unit: "records/s"},
				{Key: "ratio", What: "docket / raw append", Ratio: &ratio{"rate", "appended"}},
				{Key: "restart", What: "from the start of docket to the last record", Unit: "s"},
			},
			run: (*lab).backlog,
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
	s, err := l.startSidecar(ctx, dir, sink)
	if err != nil {
		return nil, err
	}
	defer s.kill()
	if _, err := l.produce(ctx, load{s.socket, producers, linesInFlight, warmRecords}); err != nil {
		return nil, err
	}
	return s.ingest(ctx, l)
}

// warmRecords is what docket gets before it is measured: a sidecar runs for days
// with its buffers as large as they get.
const warmRecords = 4 * producers * linesInFlight

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

// singleRecords bounds the time on a slow disk: 1,000 syncs of 5 ms are 5 s.
const singleRecords = 1000

func (l *lab) single(ctx context.Context) (map[string]float64, error) {
	docket, err := l.ackTimes(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := l.rawWait(ctx)
	if err != nil {
		return nil, err
	}
	trip, err := l.roundTrip(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]float64{
		"p50": docket.P50, "p99": docket.P99, "raw": raw, "trip": trip, "floor": raw + trip,
	}, nil
}

// ackTimes is how long docket takes to acknowledge one record at a time.
func (l *lab) ackTimes(ctx context.Context) (produced, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return produced{}, err
	}
	defer remove()
	s, err := l.startSidecar(ctx, dir, heldBack)
	if err != nil {
		return produced{}, err
	}
	defer s.kill()
	return l.produce(ctx, load{s.socket, 1, 1, singleRecords})
}

// rawWait is the median time in microseconds to write one record over another and
// sync.
func (l *lab) rawWait(ctx context.Context) (float64, error) {
	dir, remove, err := l.scratch()
	if err != nil {
		return 0, err
	}
	defer remove()
	f, err := recycledFile(ctx, filepath.Join(dir, "raw"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	w := overwriter{file: f, commit: commitOf(1), span: segmentBytes}
	var waits []time.Duration
	for range singleRecords {
		took, err := w.write()
		if err != nil {
			return 0, err
		}
		waits = append(waits, took)
	}
	p50, _ := quantiles(waits)
	return p50, nil
}

// roundTrip is the median time in microseconds to a server that only answers.
func (l *lab) roundTrip(ctx context.Context) (float64, error) {
	socket := filepath.Join(l.short, "answer.sock")
	server, err := start(ctx, l.self, answerCommand, socket)
	if err != nil {
		return 0, err
	}
	defer server.kill()
	p, err := l.produce(ctx, load{socket, 1, 1, singleRecords})
	return p.P50, err
}

const idleWait = 3 * time.Second

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
	nc, err := net.Dial("unix", s.socket)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	if _, err := nc.Write(stream.Hello{Producer: "bench", Next: 1}.Append(nil)); err != nil {
		return nil, err
	}
	select {
	case <-time.After(idleWait):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	memory, err := s.memory("VmRSS")
	if err != nil {
		return nil, err
	}
	binary, err := os.Stat(l.docket)
	if err != nil {
		return nil, fmt.Errorf("size of the binary: %w", err)
	}
	return map[string]float64{"memory": memory, "binary": float64(binary.Size()) / 1e6}, nil
}
