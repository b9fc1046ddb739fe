package deadletter

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"
)

const (
	version = 1
	// maxLine bounds what is read as one line: the longest record that docket
	// takes, with room for its stamp and for the answer of its destination.
	maxLine = 32 << 20
	// crcDigits are those of a checksum.
	crcDigits = 8
)

// The kinds of lines.
const (
	wordLog       = "log"
	wordKept      = "kept"
	wordRedriving = "redriving"
	wordRedrive   = "redrive"
	wordRemove    = "remove"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// line is one of the log. Its bytes are those that it was parsed from.
type line struct {
	word    string
	after   int64
	version uint64 // of the log, in its first line
	// of a letter
	seq       uint64
	head      int // bytes before about
	about     []byte
	recordCRC uint32
	record    []byte // as much as was read
	recordLen int
	// of a change
	spans []span
}

func (l *line) isLetter() bool { return l.word == wordKept || l.word == wordRedriving }

// about is a letter without its record and its seq.
type about struct {
	Incarnation string    `json:"incarnation,omitempty"`
	Source      string    `json:"source"`
	Producer    string    `json:"producer,omitempty"`
	Received    time.Time `json:"received"`
	Reason      string    `json:"reason"`
	Status      string    `json:"status,omitempty"`
	Answer      string    `json:"answer,omitempty"`
	Attempts    int       `json:"attempts"`
	FirstFailed time.Time `json:"firstFailed"`
	LastFailed  time.Time `json:"lastFailed"`
}

func aboutOf(l Letter) about {
	return about{l.Incarnation, l.Source, l.Producer, l.Received, l.Reason, l.Status, l.Answer, l.Attempts, l.FirstFailed, l.LastFailed}
}

func (a about) letter(seq uint64, redriving bool, record []byte) Letter {
	return Letter{
		Seq: seq, Incarnation: a.Incarnation, Source: a.Source, Producer: a.Producer, Received: a.Received, Reason: a.Reason, Status: a.Status, Answer: a.Answer,
		Attempts: a.Attempts, FirstFailed: a.FirstFailed, LastFailed: a.LastFailed, Redriving: redriving, Record: record,
	}
}

func parseAbout(b []byte) (a about, err error) {
	err = json.Unmarshal(b, &a)
	return a, err
}

// appendHead appends the first line of a log.
func appendHead(b []byte) []byte {
	return appendLine(b, fmt.Sprintf("%s 0 %d", wordLog, version))
}

// appendChange appends a line that changes the letters in spans.
func appendChange(b []byte, word string, after int64, spans []span) []byte {
	return appendLine(b, fmt.Sprintf("%s %d %s", word, after, formatSpans(spans)))
}

func appendLine(b []byte, text string) []byte {
	return fmt.Appendf(b, "%08x %s\n", checksum([]byte(text)), text)
}

// appendLetter appends the line of a letter, and returns how many bytes of it are
// before about.
func appendLetter(b []byte, redriving bool, after int64, seq uint64, about, record []byte) ([]byte, int) {
	word := wordKept
	if redriving {
		word = wordRedriving
	}
	start := len(b)
	b = append(b, "00000000 "...)
	b = fmt.Appendf(b, "%s %d %d %d %d %08x ", word, after, seq, len(about), len(record), checksum(record))
	head := len(b) - start
	b = append(b, about...)
	sum := checksum(b[start+crcDigits+1:])
	copy(b[start:], fmt.Appendf(nil, "%08x", sum))
	b = append(b, ' ')
	b = append(b, record...)
	return append(b, '\n'), head
}

var errLine = errors.New("not a line of a log of dead letters")

// parseLine reads a line, without its newline.
func parseLine(b []byte) (line, error) {
	l, err := parseStart(b)
	if err == nil && l.isLetter() && (len(b) != int(l.entry(0).size())-1 || checksum(l.record) != l.recordCRC) {
		err = errLine
	}
	return l, err
}

// entry is that of the letter whose line stands at an offset.
func (l *line) entry(at int64) entry {
	return entry{
		seq: l.seq, at: at, head: uint16(l.head), redriving: l.word == wordRedriving,
		about: uint32(len(l.about)), record: uint32(l.recordLen),
	}
}

// parseStart reads a line that may end before the record does.
func parseStart(b []byte) (l line, err error) {
	f := fields{rest: b, ok: true}
	sum := f.crc()
	covered := f.rest
	l.word = string(f.next())
	l.after = int64(f.number(63))
	switch l.word {
	case wordLog:
		l.version = f.number(32)
		f.ok = f.ok && len(f.rest) == 0
	case wordRedrive, wordRemove:
		l.spans, f.ok = parseSpans(f.rest)
	case wordKept, wordRedriving:
		l.seq = f.number(64)
		n := f.number(31)
		l.recordLen = int(f.number(31))
		l.recordCRC = f.crc()
		l.head = len(b) - len(f.rest)
		l.about = f.bytes(int(n))
		l.record = f.rest
		covered = covered[:len(covered)-len(f.gap)]
	default:
		return l, errLine
	}
	if !f.ok || checksum(covered) != sum {
		return l, errLine
	}
	return l, nil
}

// fields takes apart a line. ok is false once something was missing or wrong.
type fields struct {
	rest []byte
	gap  []byte // the rest behind bytes, with the space before it
	ok   bool
}

// next is the text before the next space, or the end.
func (f *fields) next() []byte {
	field, rest, _ := bytes.Cut(f.rest, []byte(" "))
	f.rest = rest
	return field
}

func (f *fields) number(bits int) uint64 {
	n, err := strconv.ParseUint(string(f.next()), 10, bits)
	f.ok = f.ok && err == nil
	return n
}

func (f *fields) crc() uint32 {
	var sum [crcDigits / 2]byte
	text := f.next()
	if len(text) != crcDigits {
		f.ok = false
		return 0
	}
	_, err := hex.Decode(sum[:], text)
	f.ok = f.ok && err == nil
	return uint32(sum[0])<<24 | uint32(sum[1])<<16 | uint32(sum[2])<<8 | uint32(sum[3])
}

// bytes are the next n bytes, behind which there is a space, or the end.
func (f *fields) bytes(n int) []byte {
	if !f.ok || n > len(f.rest) || n < len(f.rest) && f.rest[n] != ' ' {
		f.ok = false
		return nil
	}
	taken := f.rest[:n]
	f.gap = f.rest[n:]
	f.rest = bytes.TrimPrefix(f.gap, []byte(" "))
	return taken
}
