package decision

import (
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/docket-export/docket/decision/rawjson"
)

// The bounds of what a ReviewReader keeps. Together they stay below the largest record
// that docket stores by default.
const (
	// maxReviewText is for all values that are no content. Those of a usual review
	// take less than 2 KiB.
	maxReviewText = 256 << 10
	// maxReviewValue is for each of them, so that a long message leaves room for the
	// verdict behind it.
	maxReviewValue = 128 << 10
	// maxReviewContent is for each content, and maxReviewContents for all of a half.
	maxReviewContent  = 256 << 10
	maxReviewContents = 2 * maxReviewContent
	// maxReviewName is for the name of a member: one that counts has 18 bytes at most, and
	// six times as many with each an escape.
	maxReviewName = 128
	// maxReviewDepth is how deep the objects lie that are looked into.
	maxReviewDepth = 3
	// maxReviewRaw is how much of a half is kept as it came, to be read when its record is
	// made: most reviews leave none. It is more than a usual review has.
	maxReviewRaw = 32 << 10
	// reviewHead is the part of a review in which the API server has its kind and UID.
	reviewHead = 160
	// maxIdleBuffer is the buffer that Reset keeps.
	maxIdleBuffer = 16 << 10
)

// ReviewReader takes one half of an admission review, its request or its response, in
// pieces and as they pass. It keeps what a record needs: never the objects, unless they
// are asked for, and of a review of any size not more than some 1.2 MiB. A value
// that is too large is left out, and the record names it in Omitted.
//
// Of members with the same name the last counts, and objects of the same name are taken
// together, because the API server and the engines read a review so. Names are compared
// as they are after escapes, with upper and lower case apart.
//
// The objects are skipped without a look at what is between their brackets. Everything
// else must be JSON.
type ReviewReader struct {
	include []Content

	came    []byte // the first bytes, as they came; nil since there were too many
	read    int    // of came
	streams bool   // what comes is read at once

	state  reviewState
	err    error // why the rest does not matter
	around [maxReviewDepth + 1]*reviewLevel
	depth  int         // of around that are open
	part   *reviewPart // whose value comes or is read; nil: one that nothing is known about

	end      rawjson.End // of the name or value that is read
	first    byte        // of it
	keep     bool        // it is kept, from buf[begin] on
	tooLarge bool        // it was kept until it was too large
	begin    int
	limit    int

	buf     []byte // the values in slots, and the one that is read
	content int    // of buf
	at      [reviewSlots]span
	seen    slotSet // the slots that have a value
	omitted slotSet // the slots whose value was too large
	patch   base64Size
}

// reviewState says what comes next.
type reviewState uint8

const (
	reviewValue     reviewState = iota
	reviewInValue               // the rest of a value
	reviewFirstName             // the name of a member, or the end of the object
	reviewName
	reviewInName
	reviewColon
	reviewComma // or the end of the object
	reviewEnd   // nothing but white space
	reviewBroken
)

// NewReviewReader returns a reader that keeps the contents of include as well. It may be
// used for a request and for a response.
func NewReviewReader(include ...Content) *ReviewReader {
	return &ReviewReader{include: include}
}

// Reset makes r as new, for another half with the same contents. Records that were made
// of r stay as they are.
func (r *ReviewReader) Reset() {
	buf := r.buf[:0]
	if cap(buf) > maxIdleBuffer {
		buf = nil
	}
	*r = ReviewReader{include: r.include, buf: buf, came: r.came[:0]}
}

// Write takes the next piece. It never fails, and does not keep p.
func (r *ReviewReader) Write(p []byte) (int, error) {
	if !r.streams && len(r.came)+len(p) <= maxReviewRaw {
		r.came = append(r.came, p...)
		return len(p), nil
	}
	r.catchUp(len(r.came))
	r.came, r.read, r.streams = nil, 0, true
	for rest := p; len(rest) > 0; {
		rest = r.next(rest)
	}
	return len(p), nil
}

// catchUp reads the first n bytes of what came.
func (r *ReviewReader) catchUp(n int) {
	for n = min(n, len(r.came)); r.read < n; {
		r.read = n - len(r.next(r.came[r.read:n]))
	}
}

// next takes one token of p, or as much of it as p has, and returns what follows.
func (r *ReviewReader) next(p []byte) []byte {
	switch r.state {
	case reviewInValue, reviewInName:
		return r.inValue(p)
	case reviewBroken:
		return nil
	}
	i := rawjson.SkipSpace(p, 0)
	if i == len(p) {
		return nil
	}
	switch c := p[i]; {
	case r.state == reviewValue:
		return r.value(p[i:])
	case c == '"' && (r.state == reviewName || r.state == reviewFirstName):
		return r.name(p[i:])
	case c == ':' && r.state == reviewColon:
		r.state = reviewValue
	case c == ',' && r.state == reviewComma:
		r.state = reviewName
	case c == '}' && (r.state == reviewComma || r.state == reviewFirstName):
		r.depth--
		r.state = reviewComma
		if r.depth == 0 {
			r.state = reviewEnd
		}
	default:
		r.fail(errNotJSON)
	}
	return p[i+1:]
}

var (
	errNotJSON   = errors.New("is not JSON")
	errNotObject = errors.New("is not a JSON object")
)

// fail ends the reading: nothing that follows counts.
func (r *ReviewReader) fail(err error) { r.err, r.state = err, reviewBroken }

// value begins a value, whose first byte is p[0].
func (r *ReviewReader) value(p []byte) []byte {
	if r.depth == 0 {
		if p[0] != '{' {
			r.fail(errNotObject)
			return nil
		}
		r.open(&reviewRoot)
		return p[1:]
	}
	part := r.part
	if part == nil {
		r.start(reviewInValue, p[0], maxReviewValue)
		return p
	}
	if part.inner != nil && p[0] == '{' {
		r.seen |= 1 << part.slot
		r.open(part.inner)
		return p[1:]
	}
	limit := maxReviewValue
	if part.content != "" {
		limit = maxReviewContent
	}
	r.start(reviewInValue, p[0], limit)
	r.keep = !part.skip && (part.content == "" || slices.Contains(r.include, part.content))
	if part.slot == answeredPatch {
		r.patch = base64Size{}
		return p
	}
	if n := plainString(p); n > 0 && r.keep {
		r.take(p[:n])
		r.endValue(true)
		return p[n:]
	}
	return p
}

// name begins the name of a member, whose first byte is p[0].
func (r *ReviewReader) name(p []byte) []byte {
	if n := plainString(p); n > 0 {
		r.state, r.part = reviewColon, r.around[r.depth-1].find(p[1:n-1])
		return p[n:]
	}
	r.start(reviewInName, p[0], maxReviewName)
	return p
}

// plainString returns how many bytes the string has that p begins with, if it is all there
// and has neither escapes nor anything beyond ASCII; else 0.
func plainString(p []byte) int {
	if p[0] != '"' {
		return 0
	}
	end := rawjson.StringEnd(p, 0)
	if _, ok := rawjson.Value(p[:end]).Plain(); !ok || end == 1 || p[end-1] != '"' {
		return 0
	}
	return end
}

func (r *ReviewReader) open(level *reviewLevel) {
	r.around[r.depth] = level
	r.depth++
	r.state = reviewFirstName
}

// start begins a name or a value of at most limit bytes, whose first byte is c.
func (r *ReviewReader) start(state reviewState, c byte, limit int) {
	r.state, r.first, r.limit = state, c, limit
	r.begin, r.keep, r.tooLarge = len(r.buf), true, false
	r.end = rawjson.End{}
}

// inValue goes on with a name or a value.
func (r *ReviewReader) inValue(p []byte) []byte {
	n, done := r.end.Next(p)
	if r.keep {
		r.take(p[:n])
	}
	if r.state == reviewInName {
		if done {
			r.endName()
		}
		return p[n:]
	}
	if r.part != nil && r.part.slot == answeredPatch {
		r.patch.add(p[:n])
	}
	if done {
		r.endValue(!r.keep || r.valid())
	}
	return p[n:]
}

// take keeps the next bytes of a value, unless it has become too large.
func (r *ReviewReader) take(p []byte) {
	size := len(r.buf) - r.begin + len(p)
	if size > r.limit || size > r.room() {
		r.drop()
		return
	}
	r.buf = append(r.buf, p...)
}

// drop drops what was kept of a name or value that is too large.
func (r *ReviewReader) drop() { r.buf, r.keep, r.tooLarge = r.buf[:r.begin], false, true }

// room is what is left for what is read: values that stand twice count twice.
func (r *ReviewReader) room() int {
	switch {
	case r.state == reviewInName: // which is not kept for long
		return maxReviewName
	case r.part != nil && r.part.content != "":
		return maxReviewContents - r.content
	}
	return maxReviewText - (r.begin - r.content)
}

// endName looks up the member whose name was read.
func (r *ReviewReader) endName() {
	r.state, r.part = reviewColon, nil
	switch {
	case r.keep && !r.valid():
		r.fail(errNotJSON)
	case r.keep:
		r.part = r.around[r.depth-1].find(rawjson.Value(r.buf[r.begin:]).Text())
		r.buf = r.buf[:r.begin]
	}
}

// valid reports whether what was read is JSON, after each byte that is not UTF-8 has
// become U+FFFD: the API server takes such text.
func (r *ReviewReader) valid() bool {
	read := r.buf[r.begin:]
	if rawjson.KindOf(read) != rawjson.Invalid {
		return true
	}
	if utf8.Valid(read) {
		return false
	}
	mended := string([]rune(string(read)))
	r.buf = r.buf[:r.begin]
	r.take([]byte(mended))
	return !r.keep || rawjson.KindOf(r.buf[r.begin:]) != rawjson.Invalid
}

// endValue notes the value that was read, and that is valid as far as it was kept.
func (r *ReviewReader) endValue(valid bool) {
	r.state = reviewComma
	part, kind := r.part, rawjson.Value{r.first}.Kind()
	switch {
	case kind == rawjson.Invalid || !valid:
		r.fail(errNotJSON)
	case part == nil || part.skip:
	case kind == rawjson.Null:
		r.seen &^= part.resets
		r.omitted &^= part.resets
	case part.kind != rawjson.Invalid && kind != part.kind:
		r.fail(part.errorf("must be %s, not %s", article(part.kind), article(kind)))
	case part.slot == answeredPatch && !r.patch.ok():
		r.fail(part.errorf("must be base64"))
	case r.tooLarge:
		r.seen &^= 1 << part.slot
		r.omitted |= 1 << part.slot
	default:
		if err := part.check(r.buf[r.begin:]); err != nil {
			r.fail(err)
			break
		}
		r.note(part)
		return
	}
	r.buf = r.buf[:r.begin]
}

// note notes that part has a value, and where, if that was kept.
func (r *ReviewReader) note(part *reviewPart) {
	r.at[part.slot] = span{r.begin, len(r.buf)}
	r.seen |= 1 << part.slot
	r.omitted &^= 1 << part.slot
	if part.content != "" {
		r.content += len(r.buf) - r.begin
	}
}

// finish says why what was read is not the whole of a JSON object.
func (r *ReviewReader) finish() error {
	r.catchUp(len(r.came))
	switch {
	case r.state == reviewBroken:
		return r.err
	case r.state == reviewEnd:
		return nil
	case r.state == reviewValue && r.depth == 0:
		return errors.New("is empty")
	}
	return errors.New("ends in the middle")
}

// raw returns the value in a slot, nil where there is none.
func (r *ReviewReader) raw(slot reviewSlot) rawjson.Value {
	if !r.seen.has(slot) {
		return nil
	}
	return r.buf[r.at[slot].begin:r.at[slot].end]
}
