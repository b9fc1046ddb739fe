package verifycmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sinks/filesink"
	"github.com/docket-export/docket/sinks/filesink/verify"
)

// referenceFlags say what an export is compared with.
type referenceFlags struct {
	kinds   exporter.Kinds
	against string
	file    string
	sink    string
}

func (f *referenceFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.against, "against", "", "directory of a queue or of another export to compare the records with")
	cmd.Flags().StringVar(&f.sink, "sink", "", "sink that writes the export, to compare with its queue and its checkpoints")
}

// reference is what an export is compared with, and how to close it.
type reference struct {
	verify.Reference
	name  string
	hint  string // what may be wrong with the comparison itself; empty: nothing
	close func()
}

// open opens what the flags name to compare the export in dir with; nil when they
// name nothing. With a configuration it finds the sink.
func (f *referenceFlags) open(dir string) (*reference, error) {
	switch {
	case f.file != "" && f.against != "":
		return nil, errors.New("--file and --against exclude each other: the file names the queue to compare with")
	case f.file != "":
		cfg, err := command.LoadConfig(f.kinds, f.file, "")
		if err != nil {
			return nil, err
		}
		if f.sink == "" {
			if f.sink, err = sinkWritingTo(cfg, dir); err != nil {
				return nil, err
			}
		}
		return openQueueReference(cfg.Queue.Directory, f.sink)
	case f.against == "":
		return nil, nil
	}
	r, err := openQueueReference(f.against, f.sink)
	if !errors.Is(err, inspect.ErrNoQueue) {
		return r, err
	}
	other, exportErr := verify.OpenOther(f.against)
	if errors.Is(exportErr, verify.ErrNoExport) {
		return nil, command.Misconfigured("%s is neither a queue nor a file export", f.against)
	}
	if exportErr != nil {
		return nil, command.Failed(exportErr)
	}
	if f.sink != "" {
		return nil, errors.Join(errors.New("--sink needs a queue, and "+f.against+" is a file export"), other.Close())
	}
	return &reference{Reference: other, name: "export " + f.against, close: func() { _ = other.Close() }}, nil // only read from
}

// sinkWritingTo is the name of the file sink in cfg whose directory is dir.
func sinkWritingTo(cfg *exporter.Config, dir string) (string, error) {
	ours, err := os.Stat(dir)
	if err != nil {
		return "", command.Misconfigured("export %s: %w", dir, err)
	}
	var others []string
	for _, s := range cfg.Sinks {
		c, ok := s.Config.(*filesink.Config)
		if !ok {
			continue
		}
		if info, err := os.Stat(c.Directory); err == nil && os.SameFile(ours, info) {
			return s.Name, nil
		}
		others = append(others, c.Directory)
	}
	if len(others) == 0 {
		return "", errors.New("the configuration has no file sink: name the sink that has written the export with --sink")
	}
	return "", fmt.Errorf("no configured sink writes to %s, only to %s: name the sink with --sink", dir, strings.Join(others, ", "))
}

// openQueueReference opens the queue in dir for reading, in use or not. Without the
// name of a sink the export has to have all of it.
func openQueueReference(dir, sink string) (*reference, error) {
	o, err := inspect.Open(dir, disk.ReadOnly(dir))
	if errors.Is(err, inspect.ErrNoQueue) {
		return nil, command.Misconfigured("%w", err)
	}
	if err != nil {
		return nil, command.Failed(err)
	}
	r := &queueReference{o: o, due: math.MaxUint64}
	ref := &reference{Reference: r, name: "queue " + dir, close: func() { _ = o.Close() }} // it holds nothing
	if sink == "" {
		ref.hint = "the record may still be pending for the sink: name the sink with --sink"
		return ref, nil
	}
	a, ok := o.Sink(sink)
	if !ok {
		c, err := o.Contents(context.Background())
		if err != nil {
			return nil, command.Failed(err)
		}
		return nil, fmt.Errorf("queue %s has no sink %q: choose one of %s", dir, sink, strings.Join(slices.Sorted(maps.Keys(c.Cursors)), ", "))
	}
	// The export must have every record that the sink had before this look.
	r.due = a.Next - 1
	return ref, nil
}

// queueReference is a queue as it was when it was opened. An exporter may go on with
// it: what is overwritten meanwhile counts as no longer kept.
type queueReference struct {
	o   *inspect.Queue
	due uint64
}

// Queues implements verify.Reference.
func (r *queueReference) Queues() []string { return []string{r.o.ID()} }

// Due implements verify.Reference.
func (r *queueReference) Due(string) uint64 { return r.due }

// Read implements verify.Reference.
func (r *queueReference) Read(ctx context.Context, _ string, from uint64, record func(verify.Record) error) error {
	nothingLost := func(inspect.Finding) error { return nil } // that the export would answer for
	return r.o.Read(ctx, segment.SeqRange{From: from, To: math.MaxUint64}, func(q queue.Record) error {
		return record(verify.Record{Seq: q.Seq, Incarnation: q.Incarnation, Source: q.Source, Received: q.Received, Data: q.Data})
	}, nothingLost)
}
