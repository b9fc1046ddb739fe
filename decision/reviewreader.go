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
// If members have the same name, the last one counts, and objects of the same name are
// merged: the API server and the engines read a review so. Names are compared without
// their escapes. Upper and lower case differ.
//
// The objects are skipped without a look at what is between their brackets. Everything
// else must be JSON.
type ReviewReader struct {
	include []Content

	came    []byte // the first bytes, as they came; nil since there were too many
	read    int    // of came
	streams bool   // what comes is read at once

	state reviewState
	err   error       // why the rest does not matter
	in    *reviewPart // whose members come; nil: none
	part  *reviewPart // whose value comes or is read; nil: one that nothing is known about

	end      rawjson.End // of the name or value that is read
	first    byte        // of it
	keep     bool        // it is kept in buf
	tooLarge bool        // it was kept until it was too large
	buf      []byte
	limit    int // of buf

	text, content int // bytes that were kept of values, those included that others have replaced
	patch         base64Size
	omitted       partSet // whose value was too large
	apiVersion    string
	kind          string
	asked         reviewRequest
	answered      reviewResponse
}

// reviewRequest is what a request says.
type reviewRequest struct {
	Record
	converted             bool   // to what the webhook wants to see
	original, originalSub string // resource and subresource before
}

// reviewResponse is what an answer says.
type reviewResponse struct {
	Record
	given, allowed, warned bool
	unclear                bool // what allowed is was not kept
	uid, reason            string
	patch                  []byte // in base64
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
	return &ReviewReader{include: include, part: reviewParts[0]}
}

// Reset makes r as new, for another half with the same contents. Records that were made
// of r stay as they are.
func (r *ReviewReader) Reset() {
	buf := r.buf[:0]
	if cap(buf) > maxIdleBuffer {
		buf = nil
	}
	*r = ReviewReader{include: r.include, part: reviewParts[0], buf: buf, came: r.came[:0]}
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
		r.state, r.in = reviewComma, r.in.around
		if r.in == nil {
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
	part := r.part
	if part != nil && part.inner && p[0] == '{' {
		if part.set != nil {
			part.set(r, p[:1])
		}
		r.in, r.state = part, reviewFirstName
		return p[1:]
	}
	if r.in == nil {
		r.fail(errNotObject)
		return nil
	}
	keep, limit := part == nil || !part.skip, min(maxReviewText-r.text, maxReviewValue)
	if part != nil && part.content != "" {
		keep, limit = slices.Contains(r.include, part.content), min(maxReviewContents-r.content, maxReviewContent)
		r.patch = base64Size{}
	}
	r.start(reviewInValue, p[0], limit, keep)
	return p
}

// name begins the name of a member, whose first byte is p[0].
func (r *ReviewReader) name(p []byte) []byte {
	r.start(reviewInName, p[0], maxReviewName, true)
	return p
}

// start begins a name or a value of at most limit bytes, whose first byte is c.
func (r *ReviewReader) start(state reviewState, c byte, limit int, keep bool) {
	r.state, r.first, r.limit = state, c, limit
	r.buf, r.keep, r.tooLarge = r.buf[:0], keep, false
	r.end = rawjson.End{}
}

// inValue goes on with a name or a value.
func (r *ReviewReader) inValue(p []byte) []byte {
	n, done := r.end.Next(p)
	r.take(p[:n])
	if r.state == reviewInValue && r.part != nil && r.part.content == ContentPatch {
		r.patch.add(p[:n])
	}
	switch {
	case !done:
	case r.keep && !r.valid():
		r.fail(errNotJSON)
	case r.state == reviewInValue:
		r.endValue(r.buf)
	default:
		r.state, r.part = reviewColon, nil
		if r.keep {
			r.part = reviewMembers[reviewMember{r.in, string(rawjson.Value(r.buf).Text())}]
		}
	}
	return p[n:]
}

// take keeps the next bytes of a value, unless it becomes too large.
func (r *ReviewReader) take(p []byte) {
	if r.keep && len(r.buf)+len(p) > r.limit {
		r.buf, r.keep, r.tooLarge = r.buf[:0], false, true
	} else if r.keep {
		r.buf = append(r.buf, p...)
	}
}

// valid reports whether what was read is JSON, after each byte that is not UTF-8 has
// become U+FFFD: the API server takes such text.
func (r *ReviewReader) valid() bool {
	if rawjson.KindOf(r.buf) != rawjson.Invalid {
		return true
	}
	if utf8.Valid(r.buf) {
		return false
	}
	mended := string([]rune(string(r.buf)))
	r.buf = r.buf[:0]
	r.take([]byte(mended))
	return !r.keep || rawjson.KindOf(r.buf) != rawjson.Invalid
}

// endValue takes the value that was read, and that is valid if it was kept.
func (r *ReviewReader) endValue(value rawjson.Value) {
	r.state = reviewComma
	part, kind := r.part, rawjson.Value{r.first}.Kind()
	switch {
	case kind == rawjson.Invalid:
		r.fail(errNotJSON)
		return
	case part == nil || part.skip:
		return
	case kind == rawjson.Null:
		if part.nullable {
			part.set(r, nil)
			r.omitted &^= part.bits
		}
		return
	case part.kind != rawjson.Invalid && kind != part.kind:
		r.fail(part.errorf("must be %s, not %s", article(part.kind), article(kind)))
		return
	case part.content == ContentPatch && !r.patch.ok():
		r.fail(part.errorf("must be base64"))
		return
	}
	r.omitted &^= part.bits
	if r.tooLarge {
		r.omitted |= part.bits
	} else if err := part.check(value); err != nil {
		r.fail(err)
		return
	}
	if value == nil { // of which nothing was kept
		value = rawjson.Value{}
	}
	if part.content != "" {
		r.content += len(value)
	} else {
		r.text += len(value)
	}
	part.set(r, value)
}

// finish says why what was read is not the whole of a JSON object.
func (r *ReviewReader) finish() error {
	r.catchUp(len(r.came))
	switch {
	case r.state == reviewBroken:
		return r.err
	case r.state == reviewEnd:
		return nil
	case r.state == reviewValue && r.in == nil:
		return errors.New("is empty")
	}
	return errors.New("ends in the middle")
}

// Size returns how much memory r holds, for callers who bound the memory of many readers.
func (r *ReviewReader) Size() int { return cap(r.came) + cap(r.buf) + r.text + r.content }
