// Package configfile reads the configuration of a client from a small YAML file, so that
// an engine needs one flag for all of it:
//
//	apiVersion: docket.dev/v1alpha1
//	kind: Client
//	address: tcp://docket.example.com:7443   # required; "" turns the client off
//	producer: gatekeeper-audit-0             # everything from here on may be left out
//	mode: BlockingStrict
//	timeout: 200ms
//	maxBufferedBytes: 8Mi
//	keep: [deny, warn]
//	spillFile: /var/lib/engine/docket.spill
//	tls:
//	  caFile: /etc/docket/ca.crt
//	  certFile: /etc/docket/tls.crt
//	  keyFile: /etc/docket/tls.key
//	  serverName: docket.example.com
//
// It is a module of its own, because it needs a YAML library and the client needs none.
package configfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
)

// maxBytes bounds a configuration file. An honest one has twenty lines.
const maxBytes = 64 << 10

// Load reads a file. The path is the value of the engine's flag. Where the flag is not set
// there is no client, and no code runs for it:
//
//	if path != "" {
//		config, err := configfile.Load(path)
//		...
//		c, err = client.New(config)
//	}
//
// For engines that would rather not branch, Load("") is the zero Config, of which
// client.New makes a client that is off.
//
// "tls: {}" is TLS with the CAs of the system. Log and Transports are for code to set, so
// an address with a scheme that is not built in is checked by client.New only.
//
// An error has every problem of the file, one a line, as
// "FILE:3: timeout: must be more than 0", and the Config is zero then.
func Load(path string) (client.Config, error) {
	if path == "" {
		return client.Config{}, nil
	}
	data, err := readFile(path)
	if err != nil {
		return client.Config{}, fmt.Errorf("client configuration %s: %w", path, err)
	}
	config, found := parse(data)
	if len(found) == 0 {
		return config, nil
	}
	errs := make([]error, len(found))
	for i, p := range found {
		place := path
		if p.line > 0 {
			place += ":" + strconv.Itoa(p.line)
		}
		errs[i] = fmt.Errorf("%s: %w", place, p.Problem)
	}
	return client.Config{}, errors.Join(errs...)
}

// problem is one mistake and its place in the file; line is 0 when it has none.
type problem struct {
	client.Problem
	line int
}

// parse reads the text of a file. The problems are in the order of lines, those without a
// line first.
func parse(data []byte) (client.Config, []problem) {
	f := file{lines: make(map[string]int)}
	if root := f.document(data); root != nil {
		f.mapping("", root, f.fields())
		f.require("apiVersion", "must be docket.dev/v1alpha1")
		f.require("kind", "must be Client")
		f.require("address", `is required; "" turns the client off`)
		f.validate()
	}
	slices.SortStableFunc(f.found, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	return f.config, f.found
}

// file is a file that is being read.
type file struct {
	config client.Config
	lines  map[string]int // of each key and item
	found  []problem
}

func (f *file) addf(key, format string, args ...any) {
	line, ok := f.lines[key]
	if parent, _, inner := strings.Cut(key, "."); inner && !ok {
		line = f.lines[parent]
	}
	f.found = append(f.found, problem{client.Problem{Key: key, Text: fmt.Sprintf(format, args...)}, line})
}

func (f *file) hasProblem(key string) bool {
	return slices.ContainsFunc(f.found, func(p problem) bool { return p.Key == key })
}

// document returns the mapping that the file consists of, nil after a problem.
func (f *file) document(data []byte) *yaml.Node {
	docs := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := docs.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && doc.Content[0].Tag == "!!null" {
		f.addf("", "the document is empty")
		return nil
	}
	if err == nil {
		if err = docs.Decode(&second); err == nil {
			err = errors.New("must be one document, with no --- after it")
		}
	}
	if !errors.Is(err, io.EOF) {
		f.addf("", "%v", err)
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		f.addf("", "must have keys with values, such as address: unix:///run/docket/docket.sock")
		return nil
	}
	return root
}

// field is a key that a mapping may have.
type field struct {
	name string
	set  func(key string, v *yaml.Node)
}

func (f *file) fields() []field {
	c := &f.config
	return []field{
		{"apiVersion", f.constant("docket.dev/v1alpha1")},
		{"kind", f.constant("Client")},
		{"address", f.text(&c.Address)},
		{"producer", f.text(&c.Producer)},
		{"mode", f.parsed(func(text string) error {
			if c.Mode = client.Mode(text); text == "" { // which is no default here
				return errors.New("must be Batch, Blocking or BlockingStrict")
			}
			return nil
		})},
		{"timeout", f.parsed(func(text string) (err error) {
			c.Timeout, err = parseDuration(text)
			return err
		})},
		{"maxBufferedBytes", f.parsed(func(text string) (err error) {
			c.MaxBufferedBytes, err = parseSize(text)
			return err
		})},
		{"keep", f.keep},
		{"spillFile", f.text(&c.SpillFile)},
		{"tls", f.tls},
	}
}

func (f *file) tlsFields(t *client.TLSConfig) []field {
	return []field{
		{"caFile", f.text(&t.CAFile)},
		{"certFile", f.text(&t.CertFile)},
		{"keyFile", f.text(&t.KeyFile)},
		{"serverName", f.text(&t.ServerName)},
	}
}

func names(fields []field) (names []string) {
	for _, known := range fields {
		names = append(names, known.name)
	}
	return names
}

// mapping takes the keys of n, whose own key prefix names.
func (f *file) mapping(prefix string, n *yaml.Node, fields []field) {
	known := names(fields)
	for i := 0; i < len(n.Content); i += 2 {
		name, v := n.Content[i].Value, n.Content[i+1]
		key := prefix + name
		if first, ok := f.lines[key]; ok {
			f.found = append(f.found, problem{client.Problem{Key: key, Text: fmt.Sprintf("duplicate key, first on line %d", first)}, n.Content[i].Line})
			continue
		}
		f.lines[key] = n.Content[i].Line
		v = target(v)
		switch at := slices.Index(known, name); {
		case at < 0:
			f.unknown(key, name, known)
		case v.Tag == "!!null":
			f.addf(key, `must have a value: write one, or "" for an empty one, or remove the key`)
		default:
			fields[at].set(key, v)
		}
	}
}

// target is v, or what v is an alias of.
func target(v *yaml.Node) *yaml.Node {
	if v.Kind == yaml.AliasNode {
		return v.Alias
	}
	return v
}

func (f *file) unknown(key, name string, known []string) {
	switch {
	case slices.Contains(names(f.tlsFields(new(client.TLSConfig))), name):
		f.addf(key, "unknown key here: it belongs below tls")
	case slices.Contains(names(f.fields()), name):
		f.addf(key, "unknown key here: it belongs to the document, without indentation")
	default:
		f.addf(key, "unknown key, known keys: %s", strings.Join(known, ", "))
	}
}

func (f *file) require(key, text string) {
	if _, ok := f.lines[key]; !ok {
		f.addf(key, "%s", text)
	}
}

// validate checks what has been read, save what only follows from a known problem: a
// value that could not be read is not missing as well.
func (f *file) validate() {
	c := f.config
	if scheme, _, ok := strings.Cut(c.Address, "://"); ok && scheme != "unix" && scheme != "tcp" {
		c.Address = "" // there may be a transport for it in code
	}
	if c.TLS == nil && f.hasProblem("tls") {
		c.TLS = new(client.TLSConfig) // it was meant to be set
	}
	joined, _ := c.Validate().(interface{ Unwrap() []error })
	if joined == nil {
		return
	}
	for _, err := range joined.Unwrap() {
		if p, ok := errors.AsType[client.Problem](err); ok && !f.hasProblem(p.Key) {
			f.addf(p.Key, "%s", p.Text)
		}
	}
}

func (f *file) keep(key string, v *yaml.Node) {
	if v.Kind != yaml.SequenceNode || len(v.Content) == 0 {
		f.addf(key, "must be a list of decisions, such as [deny, warn]")
		return
	}
	f.config.Keep = make([]decision.Decision, len(v.Content))
	for i, item := range v.Content {
		at := fmt.Sprintf("%s[%d]", key, i)
		f.lines[at] = item.Line
		f.text((*string)(&f.config.Keep[i]))(at, target(item))
	}
}

func (f *file) tls(key string, v *yaml.Node) {
	t := new(client.TLSConfig)
	fields := f.tlsFields(t)
	if v.Kind != yaml.MappingNode {
		f.addf(key, "must be a mapping with %s, or {}", strings.Join(names(fields), ", "))
		return
	}
	f.config.TLS = t
	f.mapping(key+".", v, fields)
}

// text takes a value that is text to YAML as well.
func (f *file) text(into *string) func(string, *yaml.Node) {
	other := map[string]string{"!!int": "a number", "!!float": "a number", "!!bool": "a boolean", "!!timestamp": "a date", "!!null": "no value"}
	return func(key string, v *yaml.Node) {
		f.parsed(func(text string) error {
			if what := other[v.Tag]; what != "" {
				return fmt.Errorf("must be text, but YAML can read %s as %s: put it in quotes", text, what)
			}
			*into = text
			return nil
		})(key, v)
	}
}

// constant takes a value that can only be want.
func (f *file) constant(want string) func(string, *yaml.Node) {
	return f.parsed(func(text string) error {
		if text != want {
			return fmt.Errorf("must be %s, not %.64q", want, text)
		}
		return nil
	})
}

// parsed takes a single value that parse takes.
func (f *file) parsed(parse func(text string) error) func(string, *yaml.Node) {
	return func(key string, v *yaml.Node) {
		switch v.Kind {
		case yaml.ScalarNode:
			if err := parse(v.Value); err != nil {
				f.addf(key, "%v", err)
			}
		case yaml.SequenceNode:
			f.addf(key, "must be a single value, not a list")
		default:
			f.addf(key, "must be a single value, not a mapping")
		}
	}
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("must be a duration such as 200ms, 3s or 1m, with its unit (a day is 24h), not %.64q", text)
	case d <= 0:
		return 0, errors.New("must be more than 0")
	}
	return d, nil
}

var sizeUnits = []struct {
	suffix string
	bytes  uint64
}{
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9},
}

// parseSize reads a number of bytes as Kubernetes writes quantities: 8Mi, 500k, 1048576.
func parseSize(text string) (int, error) {
	number, factor := text, uint64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			number, factor = rest, u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	// With a zero before it, YAML 1.1 reads an octal number.
	if err != nil || n > math.MaxInt/factor || len(number) > 1 && number[0] == '0' {
		return 0, fmt.Errorf("must be a size such as 8Mi or 512Ki, not %.64q", text)
	}
	if size := int(n * factor); size >= client.MinBufferedBytes {
		return size, nil
	}
	return 0, errors.New("must be at least 64Ki") // client.MinBufferedBytes
}

// readFile reads a small regular file. A pipe or device is refused: it would block, and
// can be read only once. The error does not name the file.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file: name the file itself")
	}
	data, err := readUpTo(path, maxBytes+1)
	if len(data) > maxBytes {
		return nil, fmt.Errorf("is larger than %d KiB: is it the right file?", maxBytes>>10)
	}
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: mount it, or correct the path", err)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: let the user of this process read it", err)
	}
	return data, err
}

// readUpTo returns the first limit bytes of a file, whatever size it says it has.
func readUpTo(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(f, limit))
}
