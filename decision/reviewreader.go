package decision

import (
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/docket-export/docket/decision/rawjson"
)

// The bounds of what a ReviewReader keeps.
const (
	// maxReviewValue is for each value that is no content, so that a long message leaves
	// room for the verdict behind it. Those of a usual review take less than 2 KiB together.
	maxReviewValue = 128 << 10
	// maxReviewContent is for each content.
	maxReviewContent = 256 << 10
	// maxReviewPatch is for a patch, which comes in base64.
	maxReviewPatch = maxReviewContent / 3 * 4
	// maxReviewText is for all that is kept of a half.
	maxReviewText = 768 << 10
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
// are asked for, and of a half of any size not more than 1 MiB. A value
// that is too large is left out, and the record names it in Omitted.
//
// If members have the same name, the last one counts. Names are compared without
// their escapes. Upper and lower case differ.
//
// What is left out is skipped without a look at what is between its brackets. Everything
// else must be JSON.
type ReviewReader struct {
	include []Content

	came    []byte // the first bytes, as they came; empty since there were too many
	streams bool   // what comes is read at once
	isRead  bool   // came is read

	// text is what is kept of what was read: the review without white space, with null in
	// place of what was left out.
	text    []byte
	err     error  // why nothing more is read
	depth   int    // of the object whose members come: the review, its request or response, or the status
	atValue bool   // a value comes
	name    string // of the member that comes

	inToken  bool // a name or a value is being read
	end      rawjson.End
	begin    int  // of the token in text
	length   int  // of the token
	limit    int  // of the token
	keep     bool // the token is kept
	tooLarge bool // the token was kept until it was too large

	omitted    []string // fields of the record whose value was too large
	patchBytes int      // of a patch that was too large
}

// NewReviewReader returns a reader that keeps the contents of include as well. It may be
// used for a request and for a response.
func NewReviewReader(include ...Content) *ReviewReader {
	return &ReviewReader{include: include, atValue: true}
}

// Reset makes r as new, for another half with the same contents. Records that were made
// of r stay as they are.
func (r *ReviewReader) Reset() {
	idle := func(buf []byte) []byte {
		if cap(buf) > maxIdleBuffer {
			return nil
		}
		return buf[:0]
	}
	*r = ReviewReader{include: r.include, atValue: true, came: idle(r.came), text: idle(r.text)}
}

// Write takes the next piece. It never fails, and does not keep p.
func (r *ReviewReader) Write(p []byte) (int, error) {
	if !r.streams && len(r.came)+len(p) <= maxReviewRaw {
		r.came = append(r.came, p...)
		return len(p), nil
	}
	if !r.streams {
		r.read(r.came)
		r.streams, r.came = true, nil
	}
	r.read(p)
	return len(p), nil
}

// Size returns how much memory r holds, for callers who bound the memory of many readers.
func (r *ReviewReader) Size() int { return cap(r.came) + cap(r.text) }

var errReviewTooLarge = errors.New("is too large to record")

func (r *ReviewReader) read(p []byte) {
	for len(p) > 0 && r.err == nil {
		p = p[r.next(p):]
		if len(r.text) > maxReviewText {
			r.err, r.text = errReviewTooLarge, nil
		}
	}
}

// next reads some bytes of p and returns how many. What is not as JSON wants it comes into
// text as it is, where finish finds it.
func (r *ReviewReader) next(p []byte) int {
	if r.inToken {
		return r.token(p)
	}
	switch c := p[0]; c {
	case ' ', '\t', '\r', '\n':
		return rawjson.SkipSpace(p, 0)
	case ',':
	case ':':
		r.atValue = true
	case '}':
		r.depth--
	default:
		if c == '{' && r.atValue && r.opens() {
			r.depth++
			r.atValue = false
			break
		}
		r.start()
		if n := r.token(p); n > 0 {
			return n
		}
	}
	r.text = append(r.text, p[0])
	return 1
}

// opens reports whether the object that comes is read member by member.
func (r *ReviewReader) opens() bool {
	switch r.depth {
	case 0:
		return true
	case 1:
		return r.name == "request" || r.name == "response"
	}
	return r.depth == 2 && r.name == "status"
}

// start begins a name or a value.
func (r *ReviewReader) start() {
	r.inToken, r.end = true, rawjson.End{}
	r.begin, r.length = len(r.text), 0
	r.keep, r.tooLarge, r.limit = true, false, maxReviewValue
	switch {
	case !r.atValue:
		r.limit = maxReviewName
	case r.depth != 2:
	case r.name == "options":
		r.keep = false
	case r.name == "object", r.name == "oldObject":
		r.keep, r.limit = slices.Contains(r.include, Content(r.name)), maxReviewContent
	case r.name == "patch":
		r.limit = maxReviewPatch
	}
}

// token goes on with a name or a value, and returns how many bytes of p belong to it.
func (r *ReviewReader) token(p []byte) int {
	n, done := r.end.Next(p)
	r.length += n
	switch {
	case r.keep && r.length > r.limit:
		r.text, r.keep, r.tooLarge = r.text[:r.begin], false, true
	case r.keep:
		r.text = append(r.text, p[:n]...)
	}
	if done {
		r.endToken()
	}
	return n
}

func (r *ReviewReader) endToken() {
	r.inToken = false
	switch {
	case !r.atValue && r.keep:
		r.name = textOf(r.text[r.begin:])
	case !r.atValue:
		r.text = append(r.text, `""`...)
		r.name = ""
	case !r.keep:
		r.text = append(r.text, "null"...)
	}
	if r.atValue && r.tooLarge {
		r.omit()
	}
	r.atValue = false
}

// omit notes that the value of r.name is left out.
func (r *ReviewReader) omit() {
	if r.depth < 2 {
		return
	}
	field := r.name
	switch r.name {
	case "allowed":
		r.err = errReviewTooLarge
	case "reason":
		field = "message"
	case "userInfo":
		field = "requestUserGroups"
	case "name":
		field = "resourceName"
	case "namespace":
		field = "resourceNamespace"
	case "patch":
		r.patchBytes = (r.length - len(`""`)) / 4 * 3
	case "object", "oldObject", "operation", "message", "warnings", "auditAnnotations", "patchType":
	default:
		return // no field of a record
	}
	if !slices.Contains(r.omitted, field) {
		r.omitted = append(r.omitted, field)
	}
}

// finish returns the members of what was read. The error says why it is not the whole of a
// JSON object.
func (r *ReviewReader) finish() (members, error) {
	if !r.isRead {
		r.read(r.came)
		r.isRead = true
	}
	switch {
	case r.err != nil:
		return nil, r.err
	case len(r.text) == 0:
		return nil, errors.New("is empty")
	case r.text[0] != '{':
		return nil, errors.New("is not a JSON object")
	case r.inToken || r.depth > 0:
		return nil, errors.New("ends in the middle")
	}
	if !utf8.Valid(r.text) { // the API server takes such text, with U+FFFD for each byte
		r.text = []byte(string([]rune(string(r.text))))
		if len(r.text) > maxReviewText {
			return nil, errReviewTooLarge
		}
	}
	if rawjson.KindOf(r.text) == rawjson.Invalid {
		return nil, errors.New("is not JSON")
	}
	return membersOf(r.text), nil
}
