package exporter

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sources"
)

// StoredConfig is the name of a file in the directory of a queue: the last configuration that
// took effect there. docket run uses it when the operator's file is invalid.
const StoredConfig = state.ConfigFile

// storedSum begins the first line, and the SHA-256 of all lines below ends it: half of the
// file would be a configuration, too.
const storedSum = "# sha256: "

// storedHead stands before that configuration.
const storedHead = `# Written by docket: the last configuration that took effect, with every default.
# docket run -f FILE uses it while FILE is invalid. Changes here are overwritten.
# "retired" lists removed sinks that still receive the records up to number "through".
`

// StoredPath is where the last configuration of the queue in directory is stored.
func StoredPath(directory string) string { return filepath.Join(directory, StoredConfig) }

// Stored is what a queue keeps of earlier configurations.
type Stored struct {
	Config  *Config // the last that took effect
	Retired []RetiredSink
}

// RetiredSink is a removed sink that must still get records.
type RetiredSink struct {
	Sink    SinkConfig
	Through uint64 // seq of the last record that it gets
}

// storedDocument is that file as it is written: a configuration and one key more.
type storedDocument[Source, Sink any] struct {
	Document document[Source, Sink] `yaml:",inline"`
	Retired  []retiredEntry[Sink]   `yaml:"retired"`
}

type retiredEntry[Sink any] struct {
	Through uint64 `yaml:"through"`
	Sink    Sink   `yaml:"sink"`
}

// store keeps the configuration in force. docket runs without if it has to.
func (e *Exporter) store() {
	if !e.stores {
		return
	}
	now := e.parts()
	doc := storedDocument[sourceEntry[sources.Config], sinkEntry[sinks.Config]]{Document: now.cfg.document()}
	for _, d := range now.deliveries {
		if through := d.through.Load(); through > 0 {
			doc.Retired = append(doc.Retired, retiredEntry[sinkEntry[sinks.Config]]{through, d.cfg.entry()})
		}
	}
	text, err := storedText(doc)
	if err == nil {
		err = disk.At(now.cfg.Queue.Directory).Join(StoredConfig).Replace(text)
	}
	if err != nil {
		e.log.Error("the configuration cannot be stored: a start with an invalid file would use an older configuration, or fail", "error", err)
	}
}

// storedText is the file with doc. It fails where LoadStored would refuse the file.
func storedText(doc any) ([]byte, error) {
	text, err := config.Encode(doc)
	if err != nil {
		return nil, err
	}
	text = append([]byte(storedHead), text...)
	text = append([]byte(storedSum+sumOf(text)+"\n"), text...)
	if len(text) > config.MaxDocument {
		return nil, fmt.Errorf("with every default written out it has %d bytes, the limit is %d: use fewer sources and sinks, or shorter rules", len(text), config.MaxDocument)
	}
	return text, nil
}

// checkStored fails where text is not as docket has written it.
func checkStored(text []byte) error {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	if string(first) != storedSum+sumOf(rest) {
		return errors.New("damaged or edited: it does not have the checksum that docket wrote. Correct your own configuration file and start docket: docket then rewrites this one")
	}
	return nil
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// LoadStored reads what the queue in directory has stored. Its error wraps fs.ErrNotExist
// when nothing is stored.
func LoadStored(directory string, kinds Kinds) (*Stored, error) {
	text, err := disk.At(directory).Join(StoredConfig).Read(config.MaxDocument + 1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no configuration is stored in %s: %w", directory, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("the stored configuration: %w", err)
	}
	if err := checkStored(text); err != nil {
		return nil, fmt.Errorf("the stored configuration %s is %w", StoredPath(directory), err)
	}
	root, problems := config.Parse(text)
	doc := storedDocument[config.Node, config.Node]{Document: defaultDocument()}
	l := loader{kinds: kinds, problems: append(problems, root.Decode(&doc)...)}
	l.load(doc.Document)
	retired := loader{kinds: kinds, cfg: Config{Queue: l.cfg.Queue}}
	for _, r := range doc.Retired {
		retired.loadSinks([]config.Node{r.Sink})
	}
	if problems := slices.Concat(l.problems, retired.problems); len(problems) > 0 {
		first := root.Locate(problems)[0]
		return nil, fmt.Errorf("this docket cannot use the stored configuration: %s:%d: %s: %s", StoredPath(directory), first.Line, first.Path, first.Text)
	}
	l.cfg.Queue.Directory = directory // the one in which it lies, under whichever name
	s := &Stored{Config: &l.cfg}
	for i, sink := range retired.cfg.Sinks {
		s.Retired = append(s.Retired, RetiredSink{Sink: sink, Through: doc.Retired[i].Through})
	}
	return s, nil
}

// retireRemoved has the sinks that are gone since s, and those that were being drained then,
// get the records that are theirs.
func (e *Exporter) retireRemoved(now *parts, s *Stored) error {
	if s == nil {
		return nil
	}
	removed, last := slices.Clone(s.Retired), e.queue.LastSeq()
	for _, sink := range s.Config.Sinks {
		removed = append(removed, RetiredSink{Sink: sink, Through: last})
	}
	parked := e.queue.Stats().Parked
	for _, r := range removed {
		if now.cfg.sink(r.Sink.Name) != nil || !slices.Contains(parked, r.Sink.Name) {
			continue
		}
		d, err := e.newSink(now.cfg, r.Sink, e.metrics.delivery(r.Sink.Name))
		if err != nil {
			return err
		}
		d.retire(r.Through)
		now.deliveries = append(now.deliveries, d)
	}
	return nil
}
