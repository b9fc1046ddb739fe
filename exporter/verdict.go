package exporter

import (
	"bytes"
	"context"
	"time"

	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/sources"
)

const (
	// maxRefused bounds the refusals of one session that are decided and not settled
	// yet, or settled and not passed on: a refused line takes a hundred times the memory
	// of its two bytes, a stored one nothing.
	maxRefused = 64
	// maxRedacted is where a verdict on redacted records ends: a rule can make of a
	// record a much longer one.
	maxRedacted = 256 << 10
	// maxEvidence is how much of a refused line is kept: enough to recognise it.
	maxEvidence = 64 << 10
)

// verdict is the fate of the lines of one chunk, or of the first of them.
type verdict struct {
	s       *session
	chunk   queue.Chunk
	lines   int // read, whatever becomes of them
	refused []sources.Refusal
	kept    []refusedLine // for the refused log
	claimed bool          // in.refusing has our token
	lost    losses        // reported by the records to store
	buffer  *[]byte       // holds the records to store when they are redacted; otherwise nil
}

func (s *session) newVerdict() *verdict {
	return &verdict{s: s, chunk: queue.Chunk{
		Source:   s.opening.Source,
		Identity: s.opening.Identity,
		Producer: s.opening.Producer,
		Received: time.Now(),
	}}
}

// sort decides the fate of lines, and returns those that are left because more of them
// would be refused, or grow by redaction, than one verdict may hold. The records to store
// are moved together at the start of lines; when all are good, nothing moves. Redacted
// records are written to a buffer of their own: they may be longer. Its error is that of ctx.
func (s *session) sort(ctx context.Context, lines []byte) (v *verdict, rest []byte, err error) {
	v = s.newVerdict()
	v.chunk.Records = lines[:0]
	if s.redaction != nil {
		v.buffer = s.in.buffers.lend()
		v.chunk.Records = *v.buffer
	}
	for rest = lines; len(rest) > 0 && !v.isFull(); {
		n := bytes.IndexByte(rest, '\n')
		line := bytes.TrimSuffix(rest[:n], []byte{'\r'})
		rest = rest[n+1:]
		if blank(line) {
			continue
		}
		v.lines++
		number, duplicate := v.number()
		if duplicate {
			v.chunk.Duplicates++
			continue
		}
		line = sources.WithoutMark(line)
		reason, detail := checkRecord(line, s.in.maxRecordBytes)
		if reason == "" {
			reason, detail = v.store(line)
		}
		if reason != "" {
			if err = v.claim(ctx); err != nil {
				break
			}
			v.refuse(sources.Refusal{Number: number, Reason: reason, Detail: detail}, lineText{line, int64(len(line))})
		}
	}
	if v.buffer != nil {
		*v.buffer = v.chunk.Records // which may have grown out of it
	}
	return v, rest, err
}

// isFull reports whether the next line is for the next verdict.
func (v *verdict) isFull() bool {
	return v.s.refused >= maxRefused || v.buffer != nil && len(v.chunk.Records) >= maxRedacted
}

// blank reports whether a line has nothing but white space.
func blank(line []byte) bool {
	for _, c := range line { // bytes.TrimLeft would make a table of the three each time
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

// store adds a record to those to store, or says why it cannot be one of them. Losses that
// it reports are counted before it is redacted: no rule is about the ledger.
func (v *verdict) store(line []byte) (reason sources.Reason, detail string) {
	records := v.chunk.Records
	if r := v.s.redaction; r != nil {
		if records, reason, detail = r.append(records, line); reason != "" {
			return reason, detail
		}
	}
	if bytes.HasPrefix(line, lossPrefix) {
		v.countLoss(line)
	}
	if v.s.redaction == nil {
		records = append(records, line...) // which moves it to the left, if at all
	}
	records = append(records, '\n') // in place of the line's own "\n" or "\r", or before it
	v.chunk.Records = records
	v.chunk.Count++
	return "", ""
}

// number returns the number of the next line, 0 without a producer.
func (v *verdict) number() (number uint64, duplicate bool) {
	s := v.s
	if s.opening.Producer == "" {
		return 0, false
	}
	number = s.next
	s.next++
	v.chunk.Position = number
	return number, s.received.Has(number)
}

// lineText is a line as far as its source has held it.
type lineText struct {
	begin  []byte
	length int64 // of the whole line
}

// refuse notes a refusal. Where a source redacts, a refused line is not kept in clear text
// either.
func (v *verdict) refuse(r sources.Refusal, line lineText) {
	v.s.refused++
	v.refused = append(v.refused, r)
	kept := refusedLine{
		Time:     v.chunk.Received.UTC(),
		Source:   v.s.opening.Source,
		Producer: v.s.opening.Producer,
		Number:   r.Number,
		Reason:   r.Reason,
		Detail:   r.Detail,
	}
	if v.s.redaction != nil {
		kept.conceal(line)
	} else {
		kept.hold(line)
	}
	v.kept = append(v.kept, kept)
}

// tally counts the refused lines by reason, and the reported losses, for the ledger.
func (v *verdict) tally() {
	v.chunk.Refused = v.chunk.Refused[:0]
	for _, r := range v.refused {
		i := 0
		for i < len(v.chunk.Refused) && v.chunk.Refused[i].Name != string(r.Reason) {
			i++
		}
		if i == len(v.chunk.Refused) {
			v.chunk.Refused = append(v.chunk.Refused, queue.Tally{Name: string(r.Reason)})
		}
		v.chunk.Refused[i].Count++
	}
	v.chunk.Lost = v.lost.tallies(v.chunk.Lost[:0])
}
