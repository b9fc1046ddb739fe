package exporter

import (
	_ "embed" // default.yaml, gatekeeper.yaml
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sources"
)

// The head of every configuration file.
const (
	apiVersion = "docket.dev/v1alpha1"
	kind       = "Exporter"
)

// Kinds are the sources and sinks that a configuration can name.
type Kinds struct {
	Sources sources.Registry
	Sinks   sinks.Registry
}

// document is a configuration file as it is written. Reading it, sources and
// sinks stay nodes until their kind is known.
type document[Source, Sink any] struct {
	APIVersion string         `yaml:"apiVersion"`
	Kind       string         `yaml:"kind"`
	Sources    []Source       `yaml:"sources"`
	Queue      QueueConfig    `yaml:"queue"`
	Sinks      []Sink         `yaml:"sinks"`
	Admin      AdminConfig    `yaml:"admin"`
	Metrics    *MetricsConfig `yaml:"metrics"`
	Shutdown   ShutdownConfig `yaml:"shutdown"`
	Limits     LimitsConfig   `yaml:"limits"`
}

// sourceEntry is one item of "sources". Section holds the key of its kind.
type sourceEntry[Section any] struct {
	SourceConfig `yaml:",inline"`
	Section      map[string]Section `yaml:",rest"`
}

// sinkEntry is one item of "sinks".
type sinkEntry[Section any] struct {
	SinkConfig `yaml:",inline"`
	Section    map[string]Section `yaml:",rest"`
}

// The keys of an entry beside that of its kind.
var sourceKeys, sinkKeys = config.Keys[SourceConfig](), config.Keys[SinkConfig]()

// Load reads a configuration file. It reports everything that is wrong with it,
// in the order of lines; the Config is nil then. Disk and network are not
// touched: whether a directory can be written is for Run to find out.
func Load(data []byte, kinds Kinds) (*Config, config.Problems) {
	root, problems := config.Parse(data)
	if root.IsZero() {
		return nil, problems
	}
	doc := defaultDocument()
	l := loader{kinds: kinds, problems: append(problems, root.Decode(&doc)...)}
	l.load(doc)
	if len(l.problems) > 0 {
		return nil, root.Locate(l.problems)
	}
	return &l.cfg, nil
}

func defaultDocument() document[config.Node, config.Node] {
	return document[config.Node, config.Node]{
		Queue:    defaultQueue(),
		Admin:    defaultAdmin(),
		Shutdown: defaultShutdown(),
		Limits:   defaultLimits(),
	}
}

// loader gathers a Config and what is wrong with it.
type loader struct {
	kinds    Kinds
	cfg      Config
	problems config.Problems
}

func (l *loader) load(doc document[config.Node, config.Node]) {
	l.cfg = Config{Queue: doc.Queue, Admin: doc.Admin, Metrics: doc.Metrics, Shutdown: doc.Shutdown, Limits: doc.Limits}
	var p config.Problems
	p.Check("apiVersion", config.Choice(doc.APIVersion, apiVersion))
	p.Check("kind", config.Choice(doc.Kind, kind))
	p.Refuse(len(doc.Sources) == 0, "sources", "needs at least one source")
	p.Refuse(len(doc.Sinks) == 0, "sinks", "needs at least one sink")
	l.check(p)
	l.check(l.cfg.validateSections())
	l.loadSources(doc.Sources)
	l.loadSinks(doc.Sinks)
}

// check adds what a check has found, save what only follows from a known problem:
// a value that could not be read is not missing as well.
func (l *loader) check(found config.Problems) {
	for _, f := range found {
		if !slices.ContainsFunc(l.problems, func(p config.Problem) bool { return p.Path == f.Path }) {
			l.problems = append(l.problems, f)
		}
	}
}

func (l *loader) loadSources(entries []config.Node) {
	names, claimed := make(claims), make(claims)
	for _, entry := range entries {
		var e sourceEntry[config.Node]
		if !l.decodeEntry(entry, &e) {
			continue
		}
		l.check(checkUnique(entry.Path(), e.Name, names))
		l.check(e.SourceConfig.validate().In(entry.Path()))
		source := e.SourceConfig
		for _, definition := range presentKinds(l, entry, l.kinds.Sources, sourceKeys) {
			source.Kind, source.Config = definition.Kind, definition.NewConfig()
			section := e.Section[definition.Kind]
			l.loadSection(section, source.Config)
			for _, c := range config.ClaimsOf(source.Config) {
				l.checkClaim(section, c, claimed)
			}
		}
		if u, ok := source.Config.(sources.Unredacted); ok && len(source.Redact) > 0 && u.KeepsParts() != "" {
			var p config.Problems
			p.Addf("redact", "cannot be used with %s.%s, which keeps parts of records: remove one of the two", source.Kind, u.KeepsParts())
			l.check(p.In(entry.Path()))
		}
		l.cfg.Sources = append(l.cfg.Sources, source)
	}
}

func (l *loader) loadSinks(entries []config.Node) {
	names, claimed := make(claims), make(claims)
	for _, entry := range entries {
		e := sinkEntry[config.Node]{SinkConfig: defaultSink()}
		e.Batch = l.batchDefault(entry)
		if !l.decodeEntry(entry, &e) {
			continue
		}
		sink := e.SinkConfig
		l.check(checkUnique(entry.Path(), e.Name, names))
		l.check(sink.validate().In(entry.Path()))
		for _, definition := range presentKinds(l, entry, l.kinds.Sinks, sinkKeys) {
			sink.Kind, sink.Config = definition.Kind, definition.NewConfig()
			section := e.Section[definition.Kind]
			l.loadSection(section, sink.Config)
			for _, c := range config.ClaimsOf(sink.Config) {
				l.checkClaim(section, c, claimed)
			}
		}
		l.cfg.Sinks = append(l.cfg.Sinks, sink)
	}
}

// batchDefault is that of the sink's kind, which is not known otherwise before
// the entry has been decoded.
func (l *loader) batchDefault(entry config.Node) sinks.BatchLimits {
	for _, key := range entry.Keys() {
		if definition, ok := l.kinds.Sinks.Lookup(key); ok {
			return definition.Batch
		}
	}
	return sinks.DefaultBatch()
}

// decodeEntry reads an item of a list. It is false when that is no mapping: there
// is nothing more to be said about it then.
func (l *loader) decodeEntry(entry config.Node, into any) bool {
	if entry.IsZero() {
		return false // null, which was reported with the list
	}
	problems := entry.Decode(into)
	l.problems = append(l.problems, problems...)
	return !slices.ContainsFunc(problems, func(p config.Problem) bool { return p.Path == entry.Path() })
}

// loadSection reads the section of one kind and checks it.
func (l *loader) loadSection(section config.Node, into interface{ Validate() config.Problems }) {
	l.problems = append(l.problems, section.Decode(into)...)
	l.check(into.Validate().In(section.Path()))
}

// presentKinds returns the definitions whose key is in entry, in the order of the
// file, and reports when that is not exactly one. A key that is neither that of a
// kind nor known is a problem.
func presentKinds[D config.Keyed](l *loader, entry config.Node, kinds config.Registry[D], known []string) []D {
	var present []D
	var keys []string // of present
	misspelt := false
	for _, key := range entry.Keys() {
		if slices.Contains(known, key) {
			continue
		}
		if definition, ok := kinds.Lookup(key); ok {
			present, keys = append(present, definition), append(keys, key)
			continue
		}
		l.problems = append(l.problems, config.UnknownKey(entry, key, slices.Concat(known, kinds.Keys())))
		// A section was meant to be the kind. To say that there is none would
		// report one mistake twice.
		section, _ := entry.Get(key)
		misspelt = misspelt || len(section.Keys()) > 0
	}
	switch {
	case len(present) == 0 && !misspelt:
		l.check(config.Problems{entry.Problemf("needs one of: %s", strings.Join(kinds.Keys(), ", "))})
	case len(present) > 1:
		l.check(config.Problems{entry.Problemf("has both %s: give each an entry of its own", strings.Join(keys, " and "))})
	}
	return present
}

// nameForm is that of a DNS label: names stand in metrics and file names.
var nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func checkName(name string) error {
	if name == "" {
		return errors.New("is required")
	}
	if !nameForm.MatchString(name) {
		return errors.New("must be lower-case letters, digits and dashes, at most 63, with a letter or digit at both ends")
	}
	return nil
}

// checkUnique reports a name that an earlier entry has.
func checkUnique(entry, name string, names claims) config.Problems {
	var p config.Problems
	if owner, taken := names[name]; taken {
		p.Addf(entry+".name", "must be unique: %s has this name", owner)
	} else if nameForm.MatchString(name) {
		names[name] = entry
	}
	return p
}

// claims maps what only one part may have to the path of the part that has it.
type claims map[string]string

// checkClaim reports a claim of section that another part has too, such as a socket: the
// later one would take it away, or a part of its producers. A directory that is written
// to must not touch the queue's.
func (l *loader) checkClaim(section config.Node, c config.Claim, claimed claims) {
	if c.Value == "" {
		return
	}
	path, value := section.Path()+"."+c.Key, c.Value
	if c.Kind <= config.Input {
		value = absolute(value)
	}
	if q := l.cfg.Queue.Directory; c.Kind == config.Directory && q != "" && (inside(value, absolute(q)) || inside(absolute(q), value)) {
		l.check(config.Problems{{Path: path, Text: "must not be in queue.directory, nor contain it"}})
		return
	}
	claim := c.Kind.String() + " " + value
	if owner, taken := claimed[claim]; taken {
		l.check(config.Problems{{Path: path, Text: fmt.Sprintf("must be unique: %s has this %s", owner, c.Kind)}})
		return
	}
	claimed[claim] = section.Path()
}

// absolute makes paths comparable. Links are not followed: that would touch the
// disk.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return filepath.Clean(path) // the working directory is gone
}

// inside reports whether path is dir or below it.
func inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

//go:embed default.yaml
var defaultYAML string

// DefaultConfig returns the embedded configuration with everything below dataDir:
// a socket, the queue and a file export. A problem means that dataDir cannot be
// used: it is not text, or makes the path of the socket too long.
func DefaultConfig(dataDir string, kinds Kinds) (*Config, config.Problems) {
	return loadEmbedded(defaultYAML, kinds, "DATA", filepath.Clean(dataDir))
}

//go:embed gatekeeper.yaml
var gatekeeperYAML string

// GatekeeperConfig returns the embedded configuration of a container beside Gatekeeper:
// it reads what Gatekeeper exports below rootPath and writes the records to standard
// output. The queue is below dataDir. A problem means that one of the two cannot be
// used: they are not text, or the queue would lie where Gatekeeper removes files.
func GatekeeperConfig(rootPath, dataDir string, deleteAfterRead bool, kinds Kinds) (*Config, config.Problems) {
	if root, data := absolute(rootPath), absolute(dataDir); inside(data, root) || inside(root, filepath.Join(data, "queue")) {
		return nil, config.Problems{{Text: fmt.Sprintf("the data directory %s must not be in %s, nor contain it: Gatekeeper removes files there", dataDir, rootPath)}}
	}
	return loadEmbedded(gatekeeperYAML, kinds,
		"ROOT", filepath.Clean(rootPath), "DATA", filepath.Clean(dataDir), "DELETE", strconv.FormatBool(deleteAfterRead))
}

// loadEmbedded loads text, in which each word stands for the value after it.
func loadEmbedded(text string, kinds Kinds, words ...string) (*Config, config.Problems) {
	for i := 1; i < len(words); i += 2 {
		if !utf8.ValidString(words[i]) {
			return nil, config.Problems{{Text: "the path of the data directory must be UTF-8"}}
		}
		quoted := strconv.Quote(words[i])
		words[i] = quoted[1 : len(quoted)-1]
	}
	return Load([]byte(strings.NewReplacer(words...).Replace(text)), kinds)
}

// YAML returns c as a configuration file in which every default is written out.
// Load makes an equal Config from it. Secrets are in files, and the text has
// only their paths. A token in the query of a URL is shown as it was written.
func (c *Config) YAML() ([]byte, error) {
	text, err := config.Encode(c.document())
	if err != nil {
		return nil, fmt.Errorf("configuration as YAML: %w", err)
	}
	return text, nil
}

// Files lists every file that c names, with the paths that Load's problems have.
func (c *Config) Files() []config.FileUse { return config.Files(c.document()) }

// Claims returns what sources and sinks claim of a kind, with the paths that Load's
// problems have.
func (c *Config) Claims(kind config.ClaimKind) (list []config.Claim) {
	c.eachPart(func(path string, part any) {
		for _, claim := range config.ClaimsOf(part) {
			if claim.Kind == kind && claim.Value != "" {
				claim.Key = path + "." + claim.Key
				list = append(list, claim)
			}
		}
	})
	return list
}

// Warnings lists what is valid but may be a mistake.
func (c *Config) Warnings() config.Problems {
	var p config.Problems
	c.eachPart(func(path string, part any) {
		if w, ok := part.(config.Warner); ok {
			p = append(p, w.Warnings().In(path)...)
		}
	})
	return p
}

// eachPart calls do with the section of each source and sink, and its path.
func (c *Config) eachPart(do func(path string, part any)) {
	for i, s := range c.Sources {
		do(partPath("sources", i, s.Kind), s.Config)
	}
	for i, s := range c.Sinks {
		do(partPath("sinks", i, s.Kind), s.Config)
	}
}

// partPath is the path of the section of a kind in the i-th entry of a list.
func partPath(list string, i int, kind string) string {
	return fmt.Sprintf("%s[%d].%s", list, i, kind)
}

// document is c as it is written.
func (c *Config) document() document[sourceEntry[sources.Config], sinkEntry[sinks.Config]] {
	doc := c.sections()
	for _, s := range c.Sources {
		doc.Sources = append(doc.Sources, s.entry())
	}
	for _, s := range c.Sinks {
		doc.Sinks = append(doc.Sinks, s.entry())
	}
	return doc
}

// sections is the document without sources and sinks.
func (c *Config) sections() document[sourceEntry[sources.Config], sinkEntry[sinks.Config]] {
	return document[sourceEntry[sources.Config], sinkEntry[sinks.Config]]{
		APIVersion: apiVersion,
		Kind:       kind,
		Queue:      c.Queue,
		Admin:      c.Admin,
		Metrics:    c.Metrics,
		Shutdown:   c.Shutdown,
		Limits:     c.Limits,
	}
}

func (s SourceConfig) entry() sourceEntry[sources.Config] {
	return sourceEntry[sources.Config]{s, map[string]sources.Config{s.Kind: s.Config}}
}

func (s SinkConfig) entry() sinkEntry[sinks.Config] {
	return sinkEntry[sinks.Config]{s, map[string]sinks.Config{s.Kind: s.Config}}
}
