package exporter

import (
	"fmt"
	"log/slog"

	"github.com/docket-export/docket/sources"
)

// Trial says what a configuration would do with a line, without a queue and without
// connections. It reads the key files of redactions. Its methods must not be called
// at the same time.
type Trial struct {
	limit      int
	redactions map[string]*redaction
	sinks      []trialSink
	buffer     []byte // of the last redacted record
}

type trialSink struct {
	name    string
	selects selection
}

// Fate is the fate of one line.
type Fate struct {
	// Reason and Detail say why the line is refused; empty when it is stored.
	Reason sources.Reason
	Detail string
	// Record is the record to store. It is valid until the next call.
	Record []byte
	// Sinks are the fates of Record at each sink, in the order of the configuration,
	// without those to be retired.
	Sinks []SinkFate
}

// SinkFate is the fate of a record at one sink.
type SinkFate struct {
	Name  string
	Takes bool
	Err   error // why "when" could not be evaluated; Takes is what onError says then
}

// NewTrial returns the trial of cfg.
func NewTrial(cfg *Config) (*Trial, error) {
	t := &Trial{limit: int(cfg.Limits.MaxRecordBytes), redactions: map[string]*redaction{}}
	for _, s := range cfg.Sources {
		r, err := newRedaction(s, t.limit, slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, err
		}
		t.redactions[s.Name] = r
	}
	for _, s := range cfg.Sinks {
		if s.Retire {
			continue
		}
		selects, err := newSelection(s)
		if err != nil {
			return nil, err
		}
		t.sinks = append(t.sinks, trialSink{s.Name, selects})
	}
	return t, nil
}

// Line is the fate of a line, without its newline, that comes from source.
func (t *Trial) Line(source string, line []byte) Fate {
	if reason, detail := checkRecord(line, t.limit); reason != "" {
		return Fate{Reason: reason, Detail: detail}
	}
	record := line
	if r := t.redactions[source]; r != nil {
		redacted, reason, detail := r.append(t.buffer[:0], line)
		if reason != "" {
			return Fate{Reason: reason, Detail: detail}
		}
		t.buffer, record = redacted, redacted
	}
	fate := Fate{Record: record}
	for _, s := range t.sinks {
		takes, err := s.selects.takes(record)
		fate.Sinks = append(fate.Sinks, SinkFate{Name: s.name, Takes: takes, Err: err})
	}
	return fate
}

// TooLarge is the fate of a line that is longer than any limit.
func (t *Trial) TooLarge() Fate {
	return Fate{Reason: sources.TooLarge, Detail: fmt.Sprintf("at most %d bytes are allowed", t.limit)}
}
