package client

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docket-export/docket/decision"
)

// maxConfigBytes bounds a configuration file. An honest one has twenty lines.
const maxConfigBytes = 64 << 10

// The head of every configuration file.
const (
	fileVersion = "docket.dev/v1alpha1"
	fileKind    = "Client"
)

// The keys of a configuration file.
var (
	fileKeys = []string{"apiVersion", "kind", "address", "producer", "mode", "timeout", "maxBufferedBytes", "keep", "spillFile", "tls"}
	tlsKeys  = []string{"caFile", "certFile", "keyFile", "serverName"}
)

// LoadConfig reads a Config from a small file, so that an engine needs one flag
// for all of it:
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
// The path is the value of that flag. Where the flag is not set there is no
// client, and no code runs for it:
//
//	if path != "" {
//		config, err := client.LoadConfig(path)
//		...
//		c, err = client.New(config)
//	}
//
// For engines that would rather not branch, LoadConfig("") is the zero Config,
// of which New makes a client that is off.
//
// The file is YAML, of which a part is enough: whatever is taken means the same
// to every YAML parser, and the rest is refused with what to write instead.
// "tls: {}" is TLS with the CAs of the system. Log and Transports are for code to
// set, so an address with a scheme that is not built in is checked by New only.
//
// An error has every problem of the file, one a line, as
// "FILE:3: timeout: must be more than 0", and the Config is zero then.
func LoadConfig(path string) (Config, error) {
	if path == "" {
		return Config{}, nil
	}
	data, err := readFile(path, maxConfigBytes)
	if err != nil {
		return Config{}, fmt.Errorf("client configuration %s: %w", path, err)
	}
	config, found := parseConfig(string(data))
	if len(found) == 0 {
		return config, nil
	}
	errs := make([]error, len(found))
	for i, p := range found {
		place := path
		if p.line > 0 {
			place += ":" + strconv.Itoa(p.line)
		}
		errs[i] = fmt.Errorf("%s: %w", place, p)
	}
	return Config{}, errors.Join(errs...)
}

// parseConfig reads the text of a file. The problems are in the order of lines,
// those without a line first.
func parseConfig(text string) (Config, problems) {
	members, found := readYAML(text)
	f := configFile{found: found, lines: make(map[string]int)}
	for _, m := range members {
		f.lines[m.key] = m.value.line
		f.set(m.key, m.value)
	}
	if len(members) > 0 {
		f.require("apiVersion", "must be "+fileVersion)
		f.require("kind", "must be "+fileKind)
		f.require("address", `is required; "" turns the client off`)
		f.validate()
	}
	slices.SortStableFunc(f.found, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	return f.config, f.found
}

// configFile is a file that is being read.
type configFile struct {
	config Config
	lines  map[string]int // of each key and item
	found  problems
}

func (f *configFile) addf(v yamlValue, key, format string, args ...any) {
	f.found = append(f.found, problem{line: v.line, key: key, text: fmt.Sprintf(format, args...)})
}

func (f *configFile) hasProblem(key string) bool {
	return slices.ContainsFunc(f.found, func(p problem) bool { return p.key == key })
}

// check adds what a check has found, save what only follows from a known problem:
// a value that could not be read is not missing as well.
func (f *configFile) check(found problems) {
	for _, p := range found {
		if f.hasProblem(p.key) {
			continue
		}
		line, ok := f.lines[p.key]
		if parent, _, inner := strings.Cut(p.key, "."); inner && !ok {
			line = f.lines[parent]
		}
		p.line = line
		f.found = append(f.found, p)
	}
}

// validate checks what has been read.
func (f *configFile) validate() {
	c := f.config
	if scheme, _, ok := strings.Cut(c.Address, "://"); ok && builtIn(scheme) == nil {
		c.Address = "" // there may be a transport for it in code
	}
	if c.TLS == nil && f.hasProblem("tls") {
		c.TLS = new(TLSConfig) // it was meant to be set
	}
	f.check(c.problems())
}

func (f *configFile) require(key, text string) {
	if _, ok := f.lines[key]; !ok {
		f.check(problems{{key: key, text: text}})
	}
}

// set takes one key of the document.
func (f *configFile) set(key string, v yamlValue) {
	c := &f.config
	switch key {
	case "apiVersion":
		f.constant(key, v, fileVersion)
	case "kind":
		f.constant(key, v, fileKind)
	case "address":
		c.Address = f.text(key, v)
	case "producer":
		c.Producer = f.text(key, v)
	case "mode":
		c.Mode = Mode(f.parsed(key, v, func(text string) error { return checkMode(Mode(text)) }))
	case "timeout":
		f.parsed(key, v, func(text string) (err error) {
			c.Timeout, err = parseDuration(text)
			return err
		})
	case "maxBufferedBytes":
		f.parsed(key, v, func(text string) (err error) {
			c.MaxBufferedBytes, err = parseSize(text)
			return err
		})
	case "keep":
		f.setKeep(v)
	case "spillFile":
		c.SpillFile = f.text(key, v)
	case "tls":
		f.setTLS(v)
	default:
		f.unknown(key, key, v, fileKeys)
	}
}

func (f *configFile) setKeep(v yamlValue) {
	if v.kind != yamlList || len(v.items) == 0 {
		f.addf(v, "keep", "must be a list of decisions, such as [deny, warn]")
		return
	}
	for i, item := range v.items {
		key := fmt.Sprintf("keep[%d]", i)
		f.lines[key] = item.line
		f.config.Keep = append(f.config.Keep, decision.Decision(f.text(key, item)))
	}
}

func (f *configFile) setTLS(v yamlValue) {
	if v.kind != yamlMapping {
		f.addf(v, "tls", "must be a mapping with %s, or {}", strings.Join(tlsKeys, ", "))
		return
	}
	t := new(TLSConfig)
	f.config.TLS = t
	for _, m := range v.members {
		key := "tls." + m.key
		f.lines[key] = m.value.line
		switch m.key {
		case "caFile":
			t.CAFile = f.text(key, m.value)
		case "certFile":
			t.CertFile = f.text(key, m.value)
		case "keyFile":
			t.KeyFile = f.text(key, m.value)
		case "serverName":
			t.ServerName = f.text(key, m.value)
		default:
			f.unknown(key, m.key, m.value, tlsKeys)
		}
	}
}

func (f *configFile) unknown(at, key string, v yamlValue, known []string) {
	switch {
	case slices.Contains(tlsKeys, key):
		f.addf(v, at, "unknown key here: it belongs below tls")
	case slices.Contains(fileKeys, key):
		f.addf(v, at, "unknown key here: it belongs to the document, without indentation")
	default:
		f.addf(v, at, "unknown key, known are: %s", strings.Join(known, ", "))
	}
}

// constant takes a value that can only be want.
func (f *configFile) constant(key string, v yamlValue, want string) {
	f.parsed(key, v, func(text string) error {
		if text != want {
			return fmt.Errorf("must be %s%s", want, not(text))
		}
		return nil
	})
}

// text returns a value that is text, "" when it is something else, or would be
// to another reader of YAML.
func (f *configFile) text(key string, v yamlValue) string {
	return f.parsed(key, v, func(text string) error {
		if other := otherwise(text); v.plain && other != "" {
			return fmt.Errorf("must be text, and %s could be %s to YAML: put it in quotes", text, other)
		}
		return nil
	})
}

// parsed returns a value on one line that parse takes, "" when it does not.
func (f *configFile) parsed(key string, v yamlValue, parse func(text string) error) string {
	if v.kind != yamlScalar {
		f.addf(v, key, "must be a single value, not %s", v.kind)
		return ""
	}
	if err := parse(v.text); err != nil {
		f.addf(v, key, "%v", err)
		return ""
	}
	return v.text
}

// What YAML reads as a number, once its underscores are gone, or a date in one
// version or another; and some more that looks like it: 10.0.0.1.
var (
	numberForm = regexp.MustCompile(`^[-+]?(0[xob][0-9a-f]+|[0-9.,:]+(e[-+]?[0-9]+)?|[.](inf|nan))$`)
	dateForm   = regexp.MustCompile(`^[0-9]{4}-[0-9]`)
)

// otherwise is what a plain text could be to YAML if not text.
func otherwise(plain string) string {
	switch lower := strings.ToLower(plain); {
	case lower == "null":
		return "no value"
	case slices.Contains([]string{"true", "false", "yes", "no", "on", "off", "y", "n"}, lower):
		return "a boolean"
	case numberForm.MatchString(strings.ReplaceAll(lower, "_", "")):
		return "a number"
	case dateForm.MatchString(lower):
		return "a date"
	}
	return ""
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("must be a duration such as 200ms, 3s or 1m, with its unit (a day is 24h)%s", not(text))
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

// parseSize reads a number of bytes as Kubernetes writes quantities: 8Mi, 500k,
// 1048576.
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
		return 0, fmt.Errorf("must be a size such as 8Mi or 512Ki%s", not(text))
	}
	if size := int(n * factor); size >= MinBufferedBytes {
		return size, nil
	}
	return 0, errors.New(tooSmall)
}

// readFile reads a small regular file. A pipe or device is refused: it would
// block, and can be read only once. The error does not name the file.
func readFile(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, withHint(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file: name the file itself")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, withHint(err)
	}
	defer f.Close() // read only: nothing can be lost
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, withHint(err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("is larger than %d KiB: is it the right file?", most>>10)
	}
	return data, nil
}

// withHint drops the path from an error of package os and says what to do.
func withHint(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: mount it, or correct the path", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: let the user of this process read it", err)
	}
	return err
}
