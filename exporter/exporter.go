// Package exporter is the sidecar: it takes records in from sources, keeps them
// in a durable queue, and delivers them to every sink until each has accepted
// them.
//
//	source --line--> ingest --frame--> queue --batch--> deliver --> sink
//	       <--ack---         (fdatasync)       <---ack---
package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/budget"
	"github.com/docket-export/docket/internal/descriptors"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources"
)

// Options are what an exporter needs beside its configuration.
type Options struct {
	Log     *slog.Logger
	Version string
	// Once delivers the queued records, receives nothing, and ends Run when every sink has
	// all records. Run fails with *LeftError when records are left.
	Once bool
	// Store keeps the configuration in force in the directory of the queue; see StoredConfig.
	Store bool
	// Stored is what LoadStored has returned; nil: nothing.
	Stored *Stored
	// Config receives each configuration that takes effect; nil: the Exporter
	// makes its own report.
	Config *ConfigReport
}

// Exporter runs one configuration.
type Exporter struct {
	log       *slog.Logger
	queue     *queue.Queue
	ingest    *ingest
	memory    *budget.Budget // for long lines, of all sources
	now       atomic.Pointer[parts]
	metrics   *metrics
	announced *announcements
	full      fullWatch
	flow      flow
	loads     *ConfigReport
	once      bool
	stores    bool          // the configuration in force; see StoredConfig
	stopping  chan struct{} // closed when Run begins to drain

	lookers chan struct{} // holds a token for each request that reads the queue
	place   inspect.Place // where the last of them was: one that follows the queue goes on there; guarded by lookers

	// turn is held to change which parts run: until Run has started them, by each reload,
	// and from the beginning of a stop on. It guards loops and what else is said to be
	// guarded by it.
	turn            chan struct{}
	taking, outflow *loops // guarded by turn
	// lingering are the loops of sources that were told to end, by name; guarded by turn.
	lingering map[string][]*loop
	// metricsListener is nil where none is configured, and before Run. It is replaced with
	// turn held.
	metricsListener atomic.Pointer[metricsListener]
}

// New opens the queue of cfg. It fails with *state.InUseError when another process owns
// the queue, with *fileversion.Error when a file has an unknown format, and when the
// directory cannot be used. Sources and sinks that cannot start are no errors: Run
// reports and retries them. The caller must call Run, which closes the queue.
func New(cfg *Config, o Options) (*Exporter, error) {
	e := &Exporter{
		log: o.Log, metrics: newMetrics(o.Version), loads: o.Config, once: o.Once, stores: o.Store && !o.Once,
		stopping: make(chan struct{}), turn: make(chan struct{}, 1), lingering: map[string][]*loop{},
		lookers: make(chan struct{}, maxLookers),
	}
	e.turn <- struct{}{}
	if e.loads == nil {
		e.loads = NewConfigReport("", "")
		e.loads.Applied(time.Now(), "")
	}
	cfg = e.serves(cfg)
	e.memory = budget.New(budget.Bytes(int(cfg.Limits.MaxRecordBytes)))
	now := &parts{cfg: cfg}
	e.now.Store(now)
	for _, s := range cfg.Sources {
		r, err := e.newSource(cfg, s)
		if err != nil {
			return nil, err
		}
		now.sources = append(now.sources, r)
	}
	if err := checkVersions(cfg, now.sources); err != nil {
		return nil, err
	}
	opts := cfg.Queue.options()
	opts.Producers = cfg.Limits.Producers
	opts.Committed, opts.Log = e.metrics.committed, o.Log
	q, err := queue.Open(opts)
	if err != nil {
		return nil, err
	}
	e.queue = q
	e.flow.look(q.Stats(), time.Now())
	e.ingest = &ingest{
		queue:          q,
		maxRecordBytes: int(cfg.Limits.MaxRecordBytes),
		refused:        &refusedLog{dir: disk.At(cfg.Queue.Directory).Join("refused"), log: o.Log},
		log:            o.Log,
		refusing:       make(chan struct{}, 1),
		gaps:           e.metrics.producerGap,
		live:           map[queue.Producer]*session{},
		own:            &ownRecords{q},
		buffers:        newSpareBuffers(),
	}
	e.announced = newAnnouncements(e.ingest.own.put, newBackoff(defaultRetry()), o.Log)
	for _, s := range cfg.Sinks {
		if s.Retire {
			e.letGo(s.Name)
			continue
		}
		d, err := e.newSink(cfg, s, e.metrics.delivery(s.Name))
		if err != nil {
			return nil, errors.Join(err, q.Close(context.Background()))
		}
		now.deliveries = append(now.deliveries, d)
	}
	if err := e.retireRemoved(now, o.Stored); err != nil {
		return nil, errors.Join(err, q.Close(context.Background()))
	}
	e.warnOfParked()
	e.metrics.register(e)
	return e, nil
}

// serves returns the part of cfg that counts: a docket that takes nothing in has no sources.
func (e *Exporter) serves(cfg *Config) *Config {
	if !e.once {
		return cfg
	}
	deliver := *cfg
	deliver.Sources = nil
	return &deliver
}

// newSource prepares a source. Nothing is bound or opened before it runs.
func (e *Exporter) newSource(cfg *Config, s SourceConfig) (*sourceRunner, error) {
	limit := int(cfg.Limits.MaxRecordBytes)
	r, err := newRedaction(s, limit, e.log)
	if err != nil {
		return nil, err
	}
	env := sources.Env{
		Name: s.Name, MaxRecordBytes: limit, Log: e.log.With("source", s.Name),
		StateDir: disk.At(cfg.Queue.Directory).Join("sources", s.Name),
		Memory:   e.memory,
		Stored: func(ctx context.Context, visit func(producer string, record []byte)) error {
			return e.visitStored(ctx, s.Name, visit)
		},

		MaxConnections: cfg.connections(descriptors.Limit())[slices.IndexFunc(cfg.Sources, func(o SourceConfig) bool { return o.Name == s.Name })],
	}
	if r != nil { // a nil *redaction would be one
		env.Redaction = r
	}
	return newSourceRunner(s, s.Config.New(env), r, env.Log), nil
}

// options are those of a queue with this configuration.
func (q *QueueConfig) options() queue.Options {
	o := queue.Options{
		Directory:    q.Directory,
		MaxBytes:     int64(q.MaxBytes),
		MinFreeBytes: int64(q.MinFreeBytes),
	}
	switch q.WhenFull {
	case Block:
		o.WhenFull = queue.Block
	case DropOldest:
		o.WhenFull = queue.DropOldest
	}
	if r := q.Retain; r != nil {
		o.Retain = queue.Retain{MaxAge: time.Duration(r.MaxAge), MaxBytes: int64(r.MaxBytes)}
	}
	return o
}

// newSink prepares the delivery of a sink.
func (e *Exporter) newSink(cfg *Config, s SinkConfig, m *deliveryMetrics) (*delivery, error) {
	c, err := e.queue.Cursor(s.Name, s.From == Now)
	if err != nil {
		return nil, err
	}
	facts := queueFacts{
		id: e.queue.ID(), lineage: e.queue.Lineage(), directory: cfg.Queue.Directory,
		lost:      func() []segment.SeqRange { return e.queue.Stats().Lost },
		stored:    e.queue.LastSeq,
		readAhead: readAhead(cfg.Queue.Directory, e.queue),
		announce:  e.announced.of(s.Name),
	}
	d, err := newDelivery(s, facts, c, m, e.log)
	if err == nil {
		d.once = e.once
	}
	return d, err
}

// letGo forgets a sink and what the queue keeps for it.
func (e *Exporter) letGo(sink string) {
	n := e.queue.Forget(sink)
	e.metrics.forget(sink)
	if n > 0 {
		e.log.Warn("sink retired: its undelivered records are dropped", "sink", sink, "records", n)
	}
	e.metrics.forget(sink)
}

// warnOfParked names the sinks that hold records and are not configured.
func (e *Exporter) warnOfParked() {
	stats := e.queue.Stats()
	for _, name := range stats.Parked {
		e.log.Warn(notConfigured, "sink", name, "records", stats.Cursors[name].Pending(stats.LastSeq))
	}
}

const notConfigured = "sink is no longer configured, and the queue keeps all records for it, new ones too: add the sink again, or add it with `retire: true` to drop them"

// Run serves until ctx is done, and then stops; see stop. It returns nil after a clean
// stop, even when records are left: no stored record is lost. See Options.Once for what
// else may end Run.
func (e *Exporter) Run(ctx context.Context) error {
	if !e.once {
		return e.serveUntil(ctx)
	}
	e.log.Info("delivering the records in the queue, receiving nothing", group("left", e.Left()))
	ctx, end := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer end()
	watching.Go(func() {
		e.awaitDrained(ctx)
		end()
	})
	if err := e.serveUntil(ctx); err != nil {
		return err
	}
	return e.left()
}

func (e *Exporter) serveUntil(ctx context.Context) error {
	adminDone, err := e.serveAdmin()
	if err != nil {
		return errors.Join(err, e.queue.Close(context.Background()))
	}
	defer adminDone()
	socketDone := e.serveSocket()
	e.serveMetrics(e.config().Metrics)
	defer e.serveMetrics(nil)

	lasting := context.WithoutCancel(ctx)
	e.taking, e.outflow = newLoops(lasting, "sources"), newLoops(lasting, "deliveries")
	defer e.taking.end()
	defer e.outflow.end()
	e.start(e.parts())
	e.store()
	e.outflow.start(e.announced.run)
	e.outflow.start(e.watchFull)
	e.outflow.start(e.watchRetired)
	e.log.Info("docket is running", "queue", e.queue.ID(), "records", e.queue.LastSeq())
	<-e.turn

	<-ctx.Done()
	close(e.stopping)
	e.turn <- struct{}{} // no reload is under way any more, nor begins
	return e.stop(socketDone)
}

// start serves with the parts of p that do not run yet.
func (e *Exporter) start(p *parts) {
	for _, s := range p.sources {
		if s.loop == nil {
			s.loop = e.taking.start(func(ctx context.Context) { s.run(ctx, e.ingest) })
		}
	}
	for _, d := range p.deliveries {
		if d.loop == nil {
			d.loop = e.outflow.start(d.run)
		}
	}
}

// serveAdmin starts the admin endpoint and returns what stops it.
func (e *Exporter) serveAdmin() (stop func(), err error) {
	if e.config().Admin.Address == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", e.config().Admin.Address)
	if err != nil {
		return nil, fmt.Errorf("admin endpoint: %w: stop the program that uses this address, or change admin.address", err)
	}
	return e.serve(l, ownHost(e.adminHandler(false))), nil
}
