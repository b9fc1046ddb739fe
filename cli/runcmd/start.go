package runcmd

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/hostcheck"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/internal/memlimit"
)

// start is the configuration that docket starts with.
type start struct {
	cfg *exporter.Config
	// text is that of the operator's file, nil when it cannot be read.
	text []byte
	// invalid is why cfg is the stored one and not that of the file; nil: it is that.
	invalid error
	stored  *exporter.Stored // nil: nothing is, or unread says why it is not known
	unread  error
}

// load returns what to start with: the configuration in the operator's file or, where that is
// invalid, the last one that took effect on its queue. queue is where that queue lies, empty
// where the file says so. The built-in configuration has no file. A docket that runs once
// needs no file where queue is named: it goes by that last one.
func load(flags *command.ConfigFlags, queue string, once bool) (s start, err error) {
	if once && queue != "" && flags.File == "" && flags.Data == "" {
		if s.stored, err = exporter.LoadStored(queue, flags.Kinds); err != nil {
			return s, command.Misconfigured("%w", err)
		}
		s.cfg = s.stored.Config
		return s, nil
	}
	if flags.File == "" || flags.Data != "" {
		if queue != "" {
			return s, errors.New("--queue needs -f FILE: it names the directory of the queue if FILE cannot be parsed")
		}
		s.cfg, err = flags.Load()
		return s, err
	}
	if s.text, s.invalid = command.ReadConfig(flags.File); s.invalid == nil {
		s.cfg, s.invalid = command.ParseConfig(flags.Kinds, flags.File, s.text)
	}
	if s.invalid == nil {
		if s.stored, err = exporter.LoadStored(s.cfg.Queue.Directory, flags.Kinds); !errors.Is(err, fs.ErrNotExist) {
			s.unread = err
		}
		return s, nil
	}
	if queue == "" {
		queue, _, _ = exporter.Whereabouts(s.text)
	}
	if queue == "" {
		return s, command.Misconfigured("%w\ndocket: queue directory unknown: with --queue DIR docket runs with the last configuration that took effect there", s.invalid)
	}
	s.stored, err = exporter.LoadStored(queue, flags.Kinds)
	if errors.Is(err, fs.ErrNotExist) {
		return s, s.invalid
	}
	if err != nil {
		return s, command.Misconfigured("%w\ndocket: %w", s.invalid, err)
	}
	s.cfg = s.stored.Config
	return s, nil
}

// mustExist fails when there is no queue in directory: a docket that is to deliver what it
// holds makes none, and has not delivered what lies elsewhere.
func mustExist(directory string) error {
	q, err := inspect.Open(directory, nil)
	if errors.Is(err, inspect.ErrNoQueue) {
		return command.Misconfigured("%w", err)
	}
	if err != nil {
		return command.Failed(err)
	}
	return command.Failed(q.Close())
}

// host is what configurations have in common: the process and the machine.
type host struct {
	log     *slog.Logger
	ceiling int64    // of memory, that was told of; 0: none
	warned  []string // what was warned of
}

// prepare makes the process fit for cfg, before it is in force.
func (h *host) prepare(cfg *exporter.Config) error {
	if redacts(cfg) {
		return forbidCores()
	}
	return nil
}

// warn says what may do harm in cfg, once.
func (h *host) warn(cfg *exporter.Config) {
	warnings := hostcheck.Warnings(cfg)
	for _, warning := range warnings {
		if !slices.Contains(h.warned, warning) {
			h.log.Warn(warning)
		}
	}
	h.warned = warnings
}

// memory is what the garbage collector is told while docket consists of parts.
func (h *host) memory(parts []exporter.MemoryPart) memlimit.Settings {
	ceiling := exporter.MemoryCeiling(parts)
	log := h.log
	if ceiling == h.ceiling {
		log = slog.New(slog.DiscardHandler)
	}
	h.ceiling = ceiling
	return memlimit.For(os.Getenv, memlimit.Program{Ceiling: ceiling}, log)
}
