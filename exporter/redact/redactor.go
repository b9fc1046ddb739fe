package redact

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/docket-export/docket/decision/rawjson"
)

// Redactor applies the rules of one source. Its methods may be called from any
// goroutine.
type Redactor struct {
	rules    []Rule
	pointers []pointer
	secrets  bool // the preset kubernetesSecrets
	walkers  sync.Pool
}

// New returns the redactor of rules, in which Validate finds no problem; nil without
// rules. No file is read before it is needed.
func New(rules []Rule) (*Redactor, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	r := &Redactor{rules: slices.Clone(rules)}
	r.walkers.New = func() any { return &walker{r: r} }
	keys := make(map[string]*key)
	for i, rule := range rules {
		if rule.Preset != "" {
			r.secrets = true
			continue
		}
		p, err := newPointer(rule, keys)
		if err != nil {
			return nil, fmt.Errorf("redact[%d]: %w", i, err)
		}
		r.pointers = append(r.pointers, p)
	}
	return r, nil
}

// newPointer makes the pointer of a rule. Rules with the same key file share a key.
func newPointer(rule Rule, keys map[string]*key) (pointer, error) {
	path, err := parsePointer(rule.Pointer)
	if err != nil {
		return pointer{}, fmt.Errorf("pointer: %w", err)
	}
	p := pointer{path: path, action: rule.Action}
	switch rule.Action {
	case Replace:
		p.with = rawjson.AppendString(nil, rule.With)
	case HMACSHA256:
		file := string(rule.KeyFile)
		if keys[file] == nil {
			keys[file] = &key{file: rule.KeyFile}
		}
		p.key = keys[file]
	}
	return p, nil
}

// ErrTooLarge says that a record has outgrown its limit: the text that replaces a
// value may be longer.
var ErrTooLarge = errors.New("too large after redaction")

// Append appends the redacted record to dst. record is a valid JSON object of at most
// limit bytes, and so is the result. dst must not share memory with record, which is
// neither changed nor kept. With an error dst comes back unchanged, and the caller
// must not use record. The error is ErrTooLarge when the result would be longer than
// limit; otherwise the key of an HMAC cannot be read. A nil Redactor appends record
// unchanged.
func (r *Redactor) Append(dst, record []byte, limit int) ([]byte, error) {
	if r == nil {
		return append(dst, record...), nil
	}
	secrets := r.secrets && mayHoldSecret(record)
	if len(r.pointers) == 0 && !secrets {
		return append(dst, record...), nil
	}
	w := r.walker(record, secrets)
	defer w.release()
	w.walk(1<<len(r.pointers) - 1)
	return w.apply(dst, limit)
}

// walker returns a walker for text.
func (r *Redactor) walker(text []byte, secrets bool) *walker {
	w, _ := r.walkers.Get().(*walker) // New makes nothing else
	w.text, w.secrets = text, secrets
	return w
}

// release keeps w for the next record, unless this one has made it large.
func (w *walker) release() {
	const few = 256 // frames and edits of any record that is not made up
	w.text = nil
	if cap(w.frames) <= few && cap(w.edits) <= few {
		w.r.walkers.Put(w)
	}
}
