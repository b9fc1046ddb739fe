package queue

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/docket-export/docket/exporter/queue/segment"
)

var rewriteVerdicts = flag.Bool("verdicts", false, "write testdata/verdicts.txt anew")

// forgedFrame is a frame as doc.go draws it, written by hand.
type forgedFrame struct {
	commit  int // frames of one commit were synced together
	records int
	size    int // of each record
}

// forgedSegment is a segment as doc.go draws it.
type forgedSegment struct {
	epoch, firstSeq, prevEpoch uint64
	prevEnd                    int64
	frames                     []forgedFrame
	stale                      bool // an earlier use has left frames behind the end
}

var forgedQueue = uuid.MustParse("00112233-4455-6677-8899-aabbccddeeff")

// bytes returns the file and the offsets of its frames; the last is where they end.
func (s forgedSegment) bytes() (b []byte, at []int64, next uint64) {
	b = append(b, make([]byte, 4096)...)
	copy(b, "docketsg")
	binary.LittleEndian.PutUint32(b[8:], 3)
	binary.LittleEndian.PutUint64(b[16:], s.epoch)
	binary.LittleEndian.PutUint64(b[24:], s.firstSeq)
	copy(b[32:], forgedQueue[:])
	binary.LittleEndian.PutUint64(b[48:], 1)
	binary.LittleEndian.PutUint64(b[56:], s.prevEpoch)
	binary.LittleEndian.PutUint64(b[64:], uint64(s.prevEnd))
	copy(b[80:], forgedQueue[:]) // the incarnation
	binary.LittleEndian.PutUint32(b[96:], crc32.Checksum(b[80:96], crc32.MakeTable(crc32.Castagnoli)))
	binary.LittleEndian.PutUint32(b[12:], headerSum(b))
	next = s.firstSeq
	durable, commit := int64(len(b)), 0
	for _, f := range s.frames {
		if f.commit != commit {
			durable, commit = int64(len(b)), f.commit
		}
		at = append(at, int64(len(b)))
		b = append(b, forge(s.epoch, durable, next, f)...)
		next += uint64(f.records)
	}
	at = append(at, int64(len(b)))
	if s.stale {
		for n := range 9 {
			b = append(b, forge(s.epoch-1, 4096, uint64(n+1), forgedFrame{records: 1, size: 40})...)
		}
	}
	return append(b, make([]byte, 16<<10-len(b)%(8<<10))...), at, next
}

// forge writes a frame of producer p of source test. One without records says that a line
// was refused.
func forge(epoch uint64, durable int64, firstSeq uint64, f forgedFrame) []byte {
	var records []byte
	for n := range f.records {
		records = fmt.Appendf(records, "{\"n\":%d,\"pad\":%q}\n", firstSeq+uint64(n), strings.Repeat("x", f.size))
	}
	h := make([]byte, 72, 128)
	copy(h, "DFM1\x02\x04\x01")
	h = append(h, "testp"...)
	if f.records == 0 {
		h[7] = 1
		h = append(h, "\x03bad\x01\x00\x00\x00"...)
	}
	for len(h)%8 != 0 {
		h = append(h, 0)
	}
	binary.LittleEndian.PutUint64(h[8:], epoch)
	binary.LittleEndian.PutUint64(h[16:], uint64(durable))
	binary.LittleEndian.PutUint64(h[24:], firstSeq)
	binary.LittleEndian.PutUint32(h[32:], uint32(f.records))
	binary.LittleEndian.PutUint32(h[36:], uint32(len(records)))
	binary.LittleEndian.PutUint64(h[40:], 1e18)
	binary.LittleEndian.PutUint64(h[48:], firstSeq+uint64(max(f.records, 1))-1)
	sum := crc32.MakeTable(crc32.Castagnoli)
	binary.LittleEndian.PutUint32(h[60:], crc32.Checksum(records, sum))
	binary.LittleEndian.PutUint16(h[68:], uint16(len(h)))
	binary.LittleEndian.PutUint32(h[64:], crc32.Update(crc32.Checksum(h[:64], sum), sum, h[68:]))
	b := slices.Concat(h, records)
	return append(b, make([]byte, (8-len(b)%8)%8)...)
}

// forgedLog is a log of some segments. Its damage is to the last but target.
type forgedLog struct {
	name     string
	segments []forgedSegment
	target   int    // the segment that is damaged
	passed   uint64 // a sink has passed what is before; 0: there is none
	counted  int    // a checkpoint covers so many frames of the last segment
}

// commitsOf are frames of one record each, in commits of so many.
func commitsOf(size int, commits ...int) (frames []forgedFrame) {
	for i, n := range commits {
		for range n {
			frames = append(frames, forgedFrame{commit: i + 1, records: 1, size: size})
		}
	}
	return frames
}

func forgedLogs() (logs []forgedLog) {
	counts := commitsOf(30, 1, 2, 1)
	counts[1].records, counts[3].records = 0, 0
	last := forgedSegment{epoch: 4, firstSeq: 1, frames: commitsOf(60, 1, 3, 2, 1)}
	first := forgedSegment{epoch: 3, firstSeq: 1, frames: commitsOf(50, 1, 2, 1)}
	_, at, next := first.bytes()
	linked := forgedSegment{epoch: 7, firstSeq: next, prevEpoch: 3, prevEnd: at[len(at)-1], frames: commitsOf(50, 1, 2)}
	unlinked := linked
	unlinked.prevEpoch, unlinked.prevEnd = 0, 0
	stale := last
	stale.stale = true
	left := first // a failed commit has left its frames, which went on in the next segment
	left.frames = slices.Concat(first.frames, commitsOf(50, 1))
	return []forgedLog{
		{name: "last", segments: []forgedSegment{last}},
		{name: "last over older frames", segments: []forgedSegment{stale}},
		{name: "last, passed to 3", segments: []forgedSegment{last}, passed: 3},
		{name: "last, all passed", segments: []forgedSegment{last}, passed: 8},
		{name: "last, a checkpoint of 2 frames", segments: []forgedSegment{last}, counted: 2},
		{name: "last, counts alone", segments: []forgedSegment{{epoch: 4, firstSeq: 1, frames: counts}}},
		{name: "sealed", segments: []forgedSegment{first, linked}},
		{name: "sealed, passed to 3", segments: []forgedSegment{first, linked}, passed: 3},
		{name: "sealed, its end not named", segments: []forgedSegment{first, unlinked}},
		{name: "sealed, a commit left behind", segments: []forgedSegment{left, linked}},
		{name: "sealed, a commit left behind, its end not named", segments: []forgedSegment{left, unlinked}},
		{name: "behind a sealed one", segments: []forgedSegment{first, linked}, target: 1},
	}
}

// lay writes the log to dir, with damage done to the target.
func (l forgedLog) lay(t *testing.T, dir string, damage func(b []byte) []byte) {
	t.Helper()
	var path string
	for i, s := range l.segments {
		b, at, _ := s.bytes()
		if i == len(l.segments)-1 && l.counted > 0 {
			layCheckpoint(t, dir, forgedQueue, s.epoch, at[l.counted], s.firstSeq+uint64(l.counted))
		}
		if i == l.target {
			b = damage(b)
		}
		path = filepath.Join(dir, fmt.Sprintf("%020d-%010d.segment", s.firstSeq, s.epoch))
		must(t, os.WriteFile(path, b, 0o600))
	}
	if l.passed > 0 {
		layCursors(t, dir, forgedQueue, l.passed)
	}
}

// seqs writes numbers as ranges.
func seqs(numbers []string) string {
	var b strings.Builder
	for i := 0; i < len(numbers); {
		j := i
		var from, to int
		fmt.Sscan(numbers[i], &from)
		for to = from; j+1 < len(numbers) && numbers[j+1] == fmt.Sprint(to+1); j++ {
			to++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, from)
		if to > from {
			fmt.Fprintf(&b, "-%d", to)
		}
		i = j + 1
	}
	return cmp.Or(b.String(), "none")
}

func ranges(lost []segment.SeqRange) string {
	var all []string
	for _, r := range lost {
		for seq := r.From; seq < r.To; seq++ {
			all = append(all, fmt.Sprint(seq))
		}
	}
	return seqs(all)
}

// verdict is what the tools for a queue at rest say of the queue in dir, and then what
// an exporter makes of it.
func verdict(t *testing.T, dir string) string {
	t.Helper()
	said := checkVerdict(t, dir)
	q, err := Open(Options{Directory: dir, SegmentBytes: 32 << 10})
	if err != nil {
		return said + " | open: " + err.Error()
	}
	s := q.Stats()
	c := cursorOf(t, q, "reader")
	store(t, q, chunk("{}")) // behind all damage, so that Next comes back
	var got []string
	for read := uint64(0); read <= s.LastSeq; {
		records, err := c.Next(t.Context(), Limits{Records: 1, Bytes: 1 << 20})
		must(t, err)
		if read = records[0].Seq; read <= s.LastSeq {
			got = append(got, fmt.Sprint(read))
		}
	}
	s.Lost, s.Corrupt = q.Stats().Lost, q.Stats().Corrupt
	at, _, err := highest(t.Context(), q, Producer{Source: "test", Name: "p"})
	must(t, err)
	var damaged []uint64
	for _, s := range *q.segments.Load() {
		if s.damaged.Load() {
			damaged = append(damaged, s.Epoch)
		}
	}
	must(t, q.Close(t.Context()))
	copies, _ := filepath.Glob(filepath.Join(dir, "quarantine", "*"))
	for i, c := range copies {
		if copies[i] = strings.TrimPrefix(filepath.Ext(c), "."); strings.HasSuffix(copies[i], "Z") {
			copies[i] = "all" // its name has the time
		}
	}
	return fmt.Sprintf("%s | records %s, lost %s (%d), last %d, torn %d, position %d, stored %d, refused %d, damaged %v, kept %v",
		said, seqs(got), ranges(s.Lost), s.Corrupt, s.LastSeq, s.TornTails, at, s.Sources["test"].Stored, s.Sources["test"].Refused["bad"], damaged, copies)
}

// What is found of a damaged log, and said of it, is what testdata/verdicts.txt has. Two readers
// that judged the end of the log apart from each other agreed on the table.
func TestVerdicts(t *testing.T) {
	var logs []verdictLog
	for _, l := range forgedLogs() {
		_, at, _ := l.segments[l.target].bytes()
		logs = append(logs, verdictLog{title: fmt.Sprintf("%s; frames at %v", l.name, at), log: l, run: (*verdictLog).damageEach, at: at})
	}
	for _, size := range []int{1500, 5 << 10} {
		for _, stale := range []bool{false, true} {
			s := forgedSegment{epoch: 4, firstSeq: 1, frames: commitsOf(size, 1, 1, 3), stale: stale}
			_, at, _ := s.bytes()
			for _, l := range []forgedLog{
				{name: "pages", segments: []forgedSegment{s}},
				{name: "pages, passed to 3", segments: []forgedSegment{s}, passed: 3},
				{name: "pages, passed to 5", segments: []forgedSegment{s}, passed: 5},
				{name: "pages, a checkpoint of 2 frames", segments: []forgedSegment{s}, counted: 2},
			} {
				logs = append(logs, verdictLog{title: fmt.Sprintf("%s, older frames %t; frames at %v", l.name, stale, at), log: l, run: (*verdictLog).tearPages, at: at})
			}
		}
	}
	const path = "testdata/verdicts.txt"
	content, err := os.ReadFile(path)
	must(t, err)
	want := map[string]string{}
	for section := range strings.SplitSeq("\n"+string(content), "\n== ") {
		title, lines, _ := strings.Cut(section, "\n")
		want[title] = strings.TrimSpace(lines)
	}
	t.Run("logs", func(t *testing.T) {
		for i := range logs {
			if l := &logs[i]; !testing.Short() || i%15 == 0 {
				t.Run(l.log.name, func(t *testing.T) {
					t.Parallel()
					l.t = t
					l.run(l)
					if !*rewriteVerdicts {
						differ(t, strings.TrimSpace(l.got.String()), want[l.title])
					}
				})
			}
		}
	})
	if *rewriteVerdicts {
		var all bytes.Buffer
		for i := range logs {
			fmt.Fprintf(&all, "== %s\n%s", logs[i].title, &logs[i].got)
		}
		must(t, os.WriteFile(path, all.Bytes(), 0o600))
	}
}

// verdictLog is one log with what is said of each damage to it.
type verdictLog struct {
	t     *testing.T
	title string
	log   forgedLog
	at    []int64 // its frames
	run   func(*verdictLog)
	got   bytes.Buffer
	last  string
}

// one does one damage. A verdict that is that of the damage before is not repeated.
func (l *verdictLog) one(what string, damage func(b []byte) []byte) {
	dir := filepath.Join(l.t.TempDir(), "q")
	must(l.t, os.Mkdir(dir, 0o700))
	l.log.lay(l.t, dir, damage)
	if v := verdict(l.t, dir); v != l.last {
		fmt.Fprintf(&l.got, "%s: %s\n", what, v)
		l.last = v
	}
	must(l.t, os.RemoveAll(dir))
}

// damageEach flips bits, cuts the file and zeroes ranges, all over the target.
func (l *verdictLog) damageEach() {
	end := l.at[len(l.at)-1] + 300
	for off := int64(0); off < end; off += 12 {
		if off == 96 {
			off = 4096
		}
		l.one(fmt.Sprintf("flip from %d", off), func(b []byte) []byte { b[off] ^= 0x10; return b })
	}
	l.last = ""
	for off := l.at[0] - 50; off < end; off += 44 {
		l.one(fmt.Sprintf("cut from %d", off), func(b []byte) []byte { return b[:off] })
	}
	l.last = ""
	for i, from := range l.at[:len(l.at)-1] {
		for _, to := range l.at[i+1:] {
			l.one(fmt.Sprintf("zeros to %d from %d", to, from), func(b []byte) []byte { clear(b[from:to]); return b })
			l.one(fmt.Sprintf("zeros to %d from %d", to-16, from+16), func(b []byte) []byte { clear(b[from+16 : to-16]); return b })
		}
	}
}

// tearPages leaves any of the pages of the last commit, in any order.
func (l *verdictLog) tearPages() {
	first, last := l.at[2]/4096, (l.at[5]-1)/4096
	for set := range 1 << (last - first + 1) {
		l.last = ""
		l.one(fmt.Sprintf("pages %0*b", last-first+1, set), func(b []byte) []byte {
			for p := first; p <= last; p++ {
				if set>>(p-first)&1 == 0 {
					clear(b[max(p*4096, l.at[2]):min((p+1)*4096, l.at[5])])
				}
			}
			return b
		})
	}
}

// differ shows the lines that are in one text alone.
func differ(t *testing.T, got, want string) {
	t.Helper()
	gots, wants := strings.Split(got, "\n"), strings.Split(want, "\n")
	for _, line := range gots {
		if !slices.Contains(wants, line) {
			t.Errorf("got  %s", line)
		}
	}
	for _, line := range wants {
		if !slices.Contains(gots, line) {
			t.Errorf("want %s", line)
		}
	}
}
