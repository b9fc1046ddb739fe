package redact

import (
	"bytes"
	"math/bits"
	"strconv"

	"github.com/docket-export/docket/decision/rawjson"
)

// walker goes once over a record and gathers what is to change. Nesting costs it a
// frame for each level, and no stack.
type walker struct {
	r       *Redactor
	text    []byte
	secrets bool // look for Secrets
	quoted  int  // how many records text is quoted within
	frames  []frame
	edits   []edit
}

// frame is an array or object that the walker is in.
type frame struct {
	object   bool
	name     knownName // what it is called in the object around it
	facts    facts     // what its members say
	index    int       // of its next item
	pointers uint64    // the pointers that lead into it, a bit for each
	pending  pending   // edits within it that wait for what it turns out to be
}

// edit is one change of the text. They are in the order of start, the outer before
// the inner.
type edit struct {
	start int  // of the member's name, or of the item
	value int  // start of the value
	holds bool // it is to be done; the others wait for what an object turns out to be
	by    int  // index of the pointer, or byPreset
	next  int  // index of the next edit that waits for the same, or noEdit
}

const (
	byPreset = -1
	noEdit   = -1
)

// walk gathers the edits of the text. pointers are those to follow.
func (w *walker) walk(pointers uint64) {
	w.frames, w.edits = w.frames[:0], w.edits[:0]
	i := rawjson.SkipSpace(w.text, 0)
	if i == len(w.text) || !isContainer(w.text[i]) {
		return
	}
	w.enter(w.text[i], noName, pointers)
	for i++; len(w.frames) > 0; {
		i = rawjson.SkipSpace(w.text, i)
		if i == len(w.text) {
			return // not JSON
		}
		switch w.text[i] {
		case '}', ']':
			w.leave()
			i++
		case ',', ':':
			i++
		default:
			i = w.element(i)
		}
	}
}

func isContainer(c byte) bool { return c == '{' || c == '[' }

func (w *walker) enter(bracket byte, name knownName, pointers uint64) {
	w.frames = append(w.frames, frame{object: bracket == '{', name: name, pointers: pointers, pending: nothingPending})
}

// element looks at the member or item that begins at text[i], and returns where to go
// on: inside it, or behind.
func (w *walker) element(i int) int {
	f := &w.frames[len(w.frames)-1]
	start := i
	var number [20]byte
	var name []byte
	if f.object {
		name, i = rawjson.Name(w.text, i)
		for i < len(w.text) && w.text[i] == ':' { // one too many: a quoted text need not be JSON
			i = rawjson.SkipSpace(w.text, i+1)
		}
	} else if f.pointers != 0 {
		name = strconv.AppendInt(number[:0], int64(f.index), 10)
		f.index++
	}
	if i == len(w.text) {
		return i // not JSON
	}
	known := noName
	if w.secrets && f.object {
		known = nameOf(name)
		w.note(known, name, start, i)
	}
	pointers, by := w.follow(f.pointers, name)
	if by >= 0 {
		w.edits = append(w.edits, edit{start: start, value: i, holds: true, by: by, next: noEdit})
		pointers = 0
	}
	// A value that goes is looked into all the same while there is the preset: it may
	// say what the values beside it are.
	if isContainer(w.text[i]) && (pointers != 0 || w.secrets) {
		w.enter(w.text[i], known, pointers)
		return i + 1
	}
	return max(rawjson.ValueEnd(w.text, i), start+1) // on, also where a quoted text is not JSON
}

// follow returns which of pointers lead on into the element called name of the
// innermost container, and the first that ends there, -1 when none does.
func (w *walker) follow(pointers uint64, name []byte) (into uint64, by int) {
	depth := len(w.frames) - 1
	by = -1
	for ; pointers != 0; pointers &= pointers - 1 {
		n := bits.TrailingZeros64(pointers)
		path := w.r.pointers[n].path
		switch {
		case !path[depth].matches(name):
		case len(path) > depth+1:
			into |= 1 << n
		case by < 0:
			by = n
		}
	}
	return into, by
}

// apply appends the text with its edits to dst, at most limit bytes.
func (w *walker) apply(dst []byte, limit int) ([]byte, error) {
	was := len(dst)
	done := 0 // text[:done] is in dst, or left out
	for _, e := range w.edits {
		if !e.holds || e.start < done {
			continue // or within a value that has gone
		}
		end := rawjson.ValueEnd(w.text, e.value)
		if e.by == byPreset || w.r.pointers[e.by].action == Remove {
			dst, done = w.remove(dst, done, e.start, end)
			continue
		}
		dst = append(dst, w.text[done:e.value]...)
		var err error
		if dst, err = w.r.pointers[e.by].replace(dst, w.text[e.value:end]); err != nil {
			return dst[:was], err
		}
		done = end
		if len(dst)-was > limit { // seen at once: a short item may become a long text a million times
			return dst[:was], ErrTooLarge
		}
	}
	if len(dst)-was+len(w.text)-done > limit {
		return dst[:was], ErrTooLarge
	}
	return append(dst, w.text[done:]...), nil
}

// remove leaves out the element text[start:end] with one of the commas around it: the
// one before it, or when that is not there or has gone, the one behind.
func (w *walker) remove(dst []byte, done, start, end int) (appended []byte, now int) {
	before := len(bytes.TrimRight(w.text[:start], " \t\r\n")) - 1
	if before >= done && w.text[before] == ',' {
		return append(dst, w.text[done:before]...), end
	}
	dst = append(dst, w.text[done:start]...)
	if behind := rawjson.SkipSpace(w.text, end); behind < len(w.text) && w.text[behind] == ',' {
		end = behind + 1
	}
	return dst, end
}

// replace appends what stands in place of value.
func (p *pointer) replace(dst, value []byte) ([]byte, error) {
	if p.action == Replace {
		return append(dst, p.with...), nil
	}
	secret, err := p.key.read()
	if err != nil {
		return dst, err
	}
	if v := rawjson.Value(value); v.Kind() == rawjson.String {
		value = v.Text()
	}
	return appendHMAC(dst, value, secret), nil
}
