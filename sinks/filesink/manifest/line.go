package manifest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/docket-export/docket/internal/fileversion"
	"github.com/docket-export/docket/internal/lineage"
)

// version is that of the form of the lines.
const version = 1

// Chain is the end of a manifest, where the next line goes. The zero Chain is the
// end of an empty manifest.
type Chain struct {
	Previous Hash               // of the last line
	Key      ed25519.PrivateKey // signs what is added; nil: no signature
}

// Entry returns the line for e, with its newline, and the chain that includes it.
// It does no I/O: if the line cannot be written, discard the new chain. The error
// says why Decode would not take e.
func (c Chain) Entry(e Entry) (line []byte, next Chain, err error) {
	if err := e.check(); err != nil {
		return nil, c, fmt.Errorf("manifest: entry of %s: %w", e.Name, err)
	}
	return c.append(fileLine{
		Version: version, Type: typeFile, Name: e.Name, SHA256: e.SHA256, Bytes: e.Bytes, Records: e.Records, Queue: e.Queue,
		FirstSeq: e.FirstSeq, LastSeq: e.LastSeq, FirstTime: e.FirstTime.UTC(), LastTime: e.LastTime.UTC(),
		Incarnations: e.Incarnations, Gaps: e.Gaps, Finished: e.Finished.UTC(), Previous: c.Previous,
	})
}

// Removed returns the line for r as Entry does for an entry.
func (c Chain) Removed(r Removed) (line []byte, next Chain, err error) {
	if err := r.check(); err != nil {
		return nil, c, fmt.Errorf("manifest: removal of %s: %w", r.Name, err)
	}
	return c.append(removedLine{
		Version: version, Type: typeRemoved, Name: r.Name, Reason: r.Reason, Time: r.Time.UTC(), Previous: c.Previous,
	})
}

// append ends the line for v with the signature and a newline.
func (c Chain) append(v any) ([]byte, Chain, error) {
	line, err := json.Marshal(v)
	if err != nil {
		return nil, c, fmt.Errorf("manifest: %w", err)
	}
	if c.Key != nil {
		signature := ed25519.Sign(c.Key, line)
		line = append(line[:len(line)-1], signatureMember...)
		line = base64.StdEncoding.AppendEncode(line, signature)
		line = append(line, `"}`...)
	}
	if len(line) > MaxLine {
		return nil, c, fmt.Errorf("manifest: line of %d bytes, the limit is %d", len(line), MaxLine)
	}
	return append(line, '\n'), Chain{Previous: sha256.Sum256(line), Key: c.Key}, nil
}

const (
	typeFile    = "file"
	typeRemoved = "removed"

	signatureMember = `,"signature":"`
)

// signatureSize is what a signature adds to a line.
var signatureSize = len(signatureMember) + base64.StdEncoding.EncodedLen(ed25519.SignatureSize) + len(`"`)

// fileLine and removedLine are the lines without their signature, in the order of
// their members.
type fileLine struct {
	Version      int             `json:"version"`
	Type         string          `json:"type"`
	Name         string          `json:"name"`
	SHA256       Hash            `json:"sha256"`
	Bytes        int64           `json:"bytes"`
	Records      uint64          `json:"records"`
	Queue        string          `json:"queue"`
	FirstSeq     uint64          `json:"firstSeq"`
	LastSeq      uint64          `json:"lastSeq"`
	FirstTime    time.Time       `json:"firstTime"`
	LastTime     time.Time       `json:"lastTime"`
	Incarnations lineage.Lineage `json:"incarnations,omitempty"`
	Gaps         Gaps            `json:"gaps"`
	Finished     time.Time       `json:"finished"`
	Previous     Hash            `json:"previous"`
}

type removedLine struct {
	Version  int           `json:"version"`
	Type     string        `json:"type"`
	Name     string        `json:"name"`
	Reason   RemovalReason `json:"reason"`
	Time     time.Time     `json:"time"`
	Previous Hash          `json:"previous"`
}

// Line is a line of a manifest. One of Entry and Removed is set.
type Line struct {
	Entry    *Entry
	Removed  *Removed
	Previous Hash // what the line says of the one before
	Hash     Hash // of this line: what the next one has to say

	signature []byte // nil when there is none
	signed    []byte // the bytes that it is about; those of the caller of Decode
}

// IsSigned reports whether the line has a signature, right or wrong.
func (l *Line) IsSigned() bool { return l.signature != nil }

// SignedBy reports whether the line has a signature of the owner of key. It reads
// the bytes that Decode was given.
func (l *Line) SignedBy(key ed25519.PublicKey) bool {
	return l.IsSigned() && ed25519.Verify(key, append(l.signed[:len(l.signed):len(l.signed)], '}'), l.signature)
}

// IsEntry reports whether the text of a line is about a file that was finished. It looks
// only at the beginning of the line, which Decode checks.
func IsEntry(text []byte) bool { return bytes.HasPrefix(text, entryBegin) }

// entryBegin is never changed.
var entryBegin = fmt.Appendf(nil, `{"version":%d,"type":%q,`, version, typeFile)

// Decode reads a line without its newline. The line may come from anybody: Decode
// checks that names are safe to join to a directory, and that the numbers of the line
// add up. It does not check the chain or the signature. The Line keeps text. For a line
// of an unknown version Decode returns a *fileversion.Error.
func Decode(text []byte) (*Line, error) {
	line := &Line{Hash: sha256.Sum256(text)}
	body, err := line.cutSignature(text)
	if err != nil {
		return nil, err
	}
	var head struct {
		Version *uint64 `json:"version"`
		Type    string  `json:"type"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, fmt.Errorf("not a line of a manifest: %w", err)
	}
	switch {
	case head.Version == nil:
		return nil, errors.New("not a line of a manifest: it has no version")
	case *head.Version != version:
		return nil, &fileversion.Error{File: FileName, Found: *head.Version, Known: version}
	case head.Type == typeFile:
		return line, line.decodeFile(body)
	case head.Type == typeRemoved:
		return line, line.decodeRemoved(body)
	}
	return nil, fmt.Errorf("type %q is neither %s nor %s", head.Type, typeFile, typeRemoved)
}

// cutSignature takes the signature off and returns the line as it was signed.
func (l *Line) cutSignature(text []byte) (body []byte, err error) {
	at := len(text) - signatureSize - 1
	if at < 0 || !bytes.HasPrefix(text[at:], []byte(signatureMember)) {
		return text, nil
	}
	encoded := text[at+len(signatureMember) : len(text)-2]
	l.signature, err = base64.StdEncoding.AppendDecode(nil, encoded)
	if err != nil || !bytes.Equal(base64.StdEncoding.AppendEncode(nil, l.signature), encoded) || !bytes.HasSuffix(text, []byte(`"}`)) {
		return nil, errors.New("the signature is not base64")
	}
	l.signed = text[:at]
	return append(l.signed[:at:at], '}'), nil
}

func (l *Line) decodeFile(body []byte) error {
	var f fileLine
	if err := decodeExactly(body, &f); err != nil {
		return err
	}
	l.Previous = f.Previous
	l.Entry = &Entry{
		Name: f.Name, SHA256: f.SHA256, Bytes: f.Bytes, Records: f.Records, Queue: f.Queue, FirstSeq: f.FirstSeq, LastSeq: f.LastSeq,
		FirstTime: f.FirstTime, LastTime: f.LastTime, Incarnations: f.Incarnations, Gaps: f.Gaps, Finished: f.Finished,
	}
	return l.Entry.check()
}

func (l *Line) decodeRemoved(body []byte) error {
	var r removedLine
	if err := decodeExactly(body, &r); err != nil {
		return err
	}
	l.Previous = r.Previous
	l.Removed = &Removed{Name: r.Name, Reason: r.Reason, Time: r.Time}
	return l.Removed.check()
}

// decodeExactly refuses what is not written as append writes it, which leaves no
// room for a member that stands twice or that another reader understands otherwise.
func decodeExactly(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("not a line of a manifest: %w", err)
	}
	again, err := json.Marshal(into)
	if err != nil {
		return fmt.Errorf("not a line of a manifest: %w", err)
	}
	if !bytes.Equal(again, body) {
		return errors.New("not written as docket writes a line")
	}
	return nil
}

// check says what is wrong with e by itself.
func (e *Entry) check() error {
	if err := CheckName(e.Name); err != nil {
		return err
	}
	if id, err := uuid.Parse(e.Queue); err != nil || id.String() != e.Queue {
		return errors.New("queue is not a UUID")
	}
	if e.Records == 0 || e.Bytes <= 0 {
		return errors.New("a file without records")
	}
	if e.FirstSeq == 0 || e.LastSeq < e.FirstSeq || e.LastSeq == math.MaxUint64 {
		return fmt.Errorf("seqs %d to %d are not a range", e.FirstSeq, e.LastSeq)
	}
	for i, one := range e.Incarnations {
		if id, err := uuid.Parse(one.ID); err != nil || id.String() != one.ID || one.First > e.LastSeq || i == 0 && one.First > e.FirstSeq || i > 0 && one.First <= e.Incarnations[i-1].First {
			return fmt.Errorf("incarnation %q from seq %d on is none of the file", one.ID, one.First)
		}
	}
	if _, ok := e.Gaps.Find(e.FirstSeq); ok {
		return fmt.Errorf("firstSeq %d lies in a gap", e.FirstSeq)
	}
	if gap, ok := e.Gaps.last(); ok && gap.To > e.LastSeq {
		return fmt.Errorf("gap %d-%d goes beyond lastSeq %d", gap.From, gap.To, e.LastSeq)
	}
	var inside uint64
	for gap := range e.Gaps.All() {
		if gap.From > e.FirstSeq {
			inside += gap.To - gap.From + 1
		}
	}
	if covered := e.LastSeq - e.FirstSeq + 1; e.Records != covered-inside {
		return fmt.Errorf("%d records and %d seqs in gaps do not make up the %d seqs from %d to %d",
			e.Records, inside, covered, e.FirstSeq, e.LastSeq)
	}
	return nil
}

func (r *Removed) check() error {
	switch r.Reason {
	case MaxAge, MaxFiles, MaxTotalBytes:
		return CheckName(r.Name)
	}
	return fmt.Errorf("reason %q is not one of %s, %s, %s", r.Reason, MaxAge, MaxFiles, MaxTotalBytes)
}
