package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// memory is a Reference.
type memory struct {
	queue   string
	records []Record
	due     uint64
	err     error // of Read, behind the records
}

// remembered has the records from to to of queueA, all of which are due.
func remembered(from, to uint64) *memory {
	m := &memory{queue: queueA, due: math.MaxUint64}
	for seq := from; seq <= to; seq++ {
		m.records = append(m.records, Record{Seq: seq, Source: "webhook", Received: when, Data: []byte(recordOf(queueA, seq))})
	}
	return m
}

func (m *memory) Queues() []string { return []string{m.queue} }

func (m *memory) Due(string) uint64 { return m.due }

func (m *memory) Read(_ context.Context, queue string, from uint64, record func(Record) error) error {
	if queue != m.queue {
		return fmt.Errorf("asked for %s", queue)
	}
	for _, r := range m.records {
		if r.Seq < from {
			continue
		}
		r.Data = slices.Clone(r.Data)
		if err := record(r); err != nil {
			return err
		}
		for i := range r.Data {
			r.Data[i] = 'z' // nobody may keep it
		}
	}
	return m.err
}

func (m *memory) without(seqs ...uint64) *memory {
	m.records = slices.DeleteFunc(m.records, func(r Record) bool { return slices.Contains(seqs, r.Seq) })
	return m
}

func TestCompare(t *testing.T) {
	for _, suffix := range []string{"", ".gz", ".zst"} {
		for name, tt := range map[string]struct {
			reference *memory
			do        func(b *builder, names []string)
			want      Compared
			breaks    Break // the zero Break: none
		}{
			"same":             {reference: remembered(1, 20), want: Compared{Same: 13, InGaps: 2, Removed: 5}},
			"part of it":       {reference: remembered(9, 16).without(12, 15), want: Compared{Same: 4, InGaps: 2}},
			"nothing of it":    {reference: remembered(1, 0)},
			"more than is due": {reference: func() *memory { m := remembered(19, 22); m.due = 20; return m }(), want: Compared{Same: 2, NotYet: 2}},
			"end missing": {
				reference: remembered(19, 22),
				breaks:    Break{Kind: RecordMissing, Queue: queueA, FirstSeq: 21, LastSeq: 21},
			},
			"end missing, one due": {
				reference: func() *memory { m := remembered(19, 22); m.due = 21; return m }(),
				breaks:    Break{Kind: RecordMissing, Queue: queueA, FirstSeq: 21, LastSeq: 21},
			},
			"other queue": {
				reference: func() *memory { m := remembered(1, 1); m.queue = queueB; return m }(),
				breaks:    Break{Kind: RecordMissing, Queue: queueB, FirstSeq: 1, LastSeq: 1},
			},
			"record edited and the chain written anew": {
				reference: remembered(1, 20),
				do: func(b *builder, names []string) {
					b.record = func(q string, seq uint64) string {
						if seq == 14 {
							return strings.Replace(recordOf(q, seq), "x", "y", 1) + "y"
						}
						return recordOf(q, seq)
					}
					_, data := b.entry(file{name: names[2], from: 11, to: 15, gaps: standardGaps})
					forge(b, names[2], func([]byte) []byte { return data })
				},
				breaks: Break{Kind: RecordDiffers, Line: 3, Record: 2, Queue: queueA, FirstSeq: 14, LastSeq: 14},
			},
			"records swapped and the chain written anew": {
				reference: remembered(1, 20),
				do: func(b *builder, names []string) {
					b.record = func(q string, seq uint64) string { return recordOf(q, 10-seq%5) }
					_, data := b.entry(file{name: names[1], from: 6, to: 10})
					forge(b, names[1], func([]byte) []byte { return data })
				},
				breaks: Break{Kind: RecordDiffers, Line: 2, Record: 1, Queue: queueA, FirstSeq: 6, LastSeq: 6},
			},
			"record replaced by a gap, which the reference cannot know": {
				reference: remembered(16, 20),
				do: func(b *builder, names []string) {
					_, data := b.entry(file{name: names[3], from: 16, to: 20, gaps: []sinks.Gap{{From: 18, To: 18, Reason: sinks.Filtered}}})
					forge(b, names[3], func([]byte) []byte { return data })
					b.chainAnew(nil, func(l []*manifest.Line) []*manifest.Line {
						b.must(l[3].Entry.Gaps.Add(18, 18, sinks.Filtered))
						l[3].Entry.Records--
						return l
					})
				},
				want: Compared{Same: 4, InGaps: 1},
			},
			"no records in the file": {
				reference: remembered(6, 20),
				do: func(b *builder, names []string) {
					forge(b, names[1], func([]byte) []byte { return compress(b.t, names[1], []byte("{}")) })
				},
				breaks: Break{Kind: WrongCount, Line: 2, Queue: queueA, FirstSeq: 6, LastSeq: 10},
			},
		} {
			t.Run(name+suffix, func(t *testing.T) {
				t.Parallel()
				b := newBuilder(t)
				names := standard(b, suffix)
				if tt.do != nil {
					tt.do(b, names)
				}
				r := mustRun(t, b.dir, Options{Reference: tt.reference})
				if tt.breaks == (Break{}) {
					if r.Break != nil || r.Compared != tt.want {
						t.Errorf("got %+v, %+v, want no break, %+v", r.Break, r.Compared, tt.want)
					}
					return
				}
				if tt.breaks.Line > 0 {
					tt.breaks.File = names[tt.breaks.Line-1]
				}
				checkBreak(t, r.Break, tt.breaks)
			})
		}
	}
}

var standardGaps = []sinks.Gap{{From: 11, To: 11, Reason: sinks.Filtered}, {From: 13, To: 13, Reason: sinks.Dropped}}

// A file that was changed is searched for the record that was.
func TestPinpoint(t *testing.T) {
	b := newBuilder(t)
	names := standard(b, "")
	b.changeLines(names[2], func(l []string) []string { l[1], l[2] = l[2], l[1]; return l })
	later := remembered(18, 20)
	later.records[0].Data[1] ^= 1
	for name, o := range map[string]Options{
		"without a reference":              {},
		"with":                             {Reference: remembered(1, 20)},
		"that has nothing left":            {Reference: remembered(18, 20)},
		"that differs in a later file too": {Reference: later},
	} {
		r := mustRun(t, b.dir, o)
		want := first(FileChanged, 3, 12, 15)
		if name == "with" {
			want.Record, want.FirstSeq = 2, 14
		}
		checkBreak(t, r.Break, want)
	}
}

// The unfinished file is compared as far as it was accepted.
func TestCompareActive(t *testing.T) {
	b := newBuilder(t)
	standard(b, "")
	p := b.begin(file{to: 27, gaps: []sinks.Gap{{From: 22, To: 22, Reason: sinks.Filtered}, {From: 25, To: 27, Reason: sinks.Filtered}}})
	o := Options{Position: fixed(p), Reference: remembered(16, 27)}
	if r := mustRun(t, b.dir, o); r.Break != nil || r.Compared != (Compared{Same: 8, InGaps: 4}) {
		t.Errorf("got %+v, %+v, want 8 the same and 4 in gaps", r.Break, r.Compared)
	}
	o.Reference = remembered(16, 28)
	if r := mustRun(t, b.dir, o); r.Break == nil || r.Break.Kind != RecordMissing || r.Break.FirstSeq != 28 || !strings.Contains(r.Break.Found, "ends with seq 27") {
		t.Errorf("got %+v, want that record 28 is missing behind 27", r.Break)
	}
	wrong := remembered(16, 27)
	wrong.records[7].Data[1] ^= 1 // 23
	o.Reference = wrong
	r := mustRun(t, b.dir, o)
	checkBreak(t, r.Break, Break{Kind: RecordDiffers, File: activeFile, Record: 2, Queue: queueA, FirstSeq: 23, LastSeq: 23})

	p.Finishing = "decisions-x.ndjson"
	b.must(os.Rename(b.path(activeFile), b.path(p.Finishing)))
	if r := mustRun(t, b.dir, Options{Position: fixed(p), Reference: remembered(16, 27)}); r.Break != nil || r.Compared.Same != 8 {
		t.Errorf("being finished: got %+v, %+v, want 8 the same", r.Break, r.Compared)
	}

	p.Active, p.Finishing = nil, ""
	b.must(os.Remove(b.path("decisions-x.ndjson")))
	if r := mustRun(t, b.dir, Options{Position: func() (manifest.Position, bool, error) {
		q := p
		q.Last, q.Gaps = 22, manifest.Gaps{}
		return q, true, q.Gaps.Add(21, 22, sinks.Filtered)
	}, Reference: remembered(16, 22)}); r.Break != nil || r.Compared != (Compared{Same: 5, InGaps: 2}) {
		t.Errorf("only gaps: got %+v, %+v, want 5 the same and 2 in gaps", r.Break, r.Compared)
	}
}

func TestCompareEarlier(t *testing.T) {
	b := newBuilder(t)
	b.add(file{from: 11, to: 15})
	r := mustRun(t, b.dir, Options{Reference: remembered(9, 15)})
	if r.Break != nil || r.Compared != (Compared{Same: 5, Earlier: 2}) {
		t.Errorf("got %+v, %+v, want 5 the same and 2 earlier", r.Break, r.Compared)
	}
}

func TestReferenceFails(t *testing.T) {
	b := newBuilder(t)
	standard(b, "")
	m := remembered(6, 8)
	m.err = errors.New("queue: input/output error")
	if _, err := Run(t.Context(), b.dir, Options{Reference: m}); !errors.Is(err, m.err) {
		t.Errorf("got %v, want %v", err, m.err)
	}
}

func TestOther(t *testing.T) {
	b := newBuilder(t)
	standard(b, ".zst")
	b.add(file{name: "b.ndjson", queue: queueB, from: 7, to: 9})
	build := func(do func(o *builder)) *builder {
		o := newBuilder(t)
		for _, f := range []file{{from: 3, to: 8, gaps: []sinks.Gap{{From: 7, To: 7, Reason: sinks.Filtered}}}, {to: 18}, {to: 20}} {
			o.add(f)
		}
		o.add(file{queue: queueB, from: 8, to: 9})
		if do != nil {
			do(o)
		}
		return o
	}
	for name, tt := range map[string]struct {
		do     func(o *builder)
		want   Compared
		breaks Break
	}{
		"same": {want: Compared{Same: 14, Removed: 3, InGaps: 2}},
		"a file removed there": {
			do: func(o *builder) {
				o.remove("decisions-00000000000000000009-00000000000000000018-20260105T100402Z.ndjson")
			},
			want: Compared{Same: 6, Removed: 3},
		},
		"goes further": {
			do:     func(o *builder) { o.add(file{to: 22}) },
			breaks: Break{Kind: RecordMissing, Queue: queueA, FirstSeq: 21, LastSeq: 21},
		},
		"a queue more": {
			do:     func(o *builder) { o.add(file{queue: "00000000-0000-0000-0000-000000000001", from: 1, to: 2}) },
			breaks: Break{Kind: RecordMissing, Queue: "00000000-0000-0000-0000-000000000001", FirstSeq: 1, LastSeq: 1},
		},
		"another record": {
			do: func(o *builder) {
				o.changeLines("decisions-00000000000000000019-00000000000000000020-20260105T100403Z.ndjson", func(l []string) []string {
					return []string{l[0], strings.Replace(l[1], "x", "y", 1)}
				})
			},
			breaks: Break{Kind: RecordDiffers, Line: 4, File: standardName(4) + ".zst", Record: 5, Queue: queueA, FirstSeq: 20, LastSeq: 20},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := OpenOther(build(tt.do).dir)
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			r := mustRun(t, b.dir, Options{Reference: o})
			if tt.breaks != (Break{}) {
				checkBreak(t, r.Break, tt.breaks)
				return
			}
			if r.Break != nil || r.Compared != tt.want {
				t.Errorf("got %+v, %+v, want no break, %+v", r.Break, r.Compared, tt.want)
			}
		})
	}
	if _, err := OpenOther(t.TempDir()); !errors.Is(err, ErrNoExport) {
		t.Errorf("empty directory: got %v, want that there is no export", err)
	}
	broken := build(func(o *builder) { o.append([]byte("{}\n")) })
	if _, err := OpenOther(broken.dir); err == nil || !strings.Contains(err.Error(), "manifest line 5") {
		t.Errorf("broken manifest: got %v, want that line 5 cannot be taken", err)
	}
}

func TestSame(t *testing.T) {
	const id = queueA + "-7"
	stamped := func(object, source, received string) string {
		return strings.Replace(object, "|", `"_docket":{"id":"`+id+`","seq":7,"source":"`+source+`","received":"`+received+`"}`, 1)
	}
	const received = "2026-01-05T10:04:07.12Z"
	want := Record{Seq: 7, Source: "webhook", Received: time.Date(2026, 1, 5, 10, 4, 7, 120_000_000, time.UTC)}
	for name, tt := range map[string]struct {
		record, line string
		want         bool
	}{
		"plain":               {`{"a":1.0}`, `{"a":1.0}`, true},
		"other":               {`{"a":1.0}`, `{"a":1}`, false},
		"stamped":             {`{"a":1}`, stamped(`{"a":1,|}`, "webhook", received), true},
		"stamped, empty":      {`{}`, stamped(`{|}`, "webhook", received), true},
		"stamped, white":      {` { } `, stamped(` { |} `, "webhook", received), true},
		"stamped, other":      {`{"a":1}`, stamped(`{"a":2,|}`, "webhook", received), false},
		"stamped, shorter":    {`{"a":1,"b":2}`, stamped(`{"a":1,|}`, "webhook", received), false},
		"stamped, longer":     {`{"a":1}`, stamped(`{"a":1,|} `, "webhook", received), false},
		"stamp of another":    {`{"a":1}`, strings.ReplaceAll(stamped(`{"a":1,|}`, "webhook", received), "7", "8"), false},
		"stamp of a source":   {`{"a":1}`, stamped(`{"a":1,|}`, "audit", received), false},
		"stamp of a time":     {`{"a":1}`, stamped(`{"a":1,|}`, "webhook", "2026-01-05T10:04:08Z"), false},
		"record has one":      {stamped(`{"a":1,|}`, "webhook", received), stamped(stamped(`{"a":1,|,|}`, "webhook", received), "webhook", received), true},
		"only there":          {stamped(`{"a":1,|}`, "x", "y"), `{"a":1}`, true},
		"only there, another": {stamped(`{"a":2,|}`, "x", "y"), `{"a":1}`, false},
		"member more":         {`{"a":1}`, strings.Replace(stamped(`{"a":1,|}`, "webhook", received), `"}}`, `","b":1}}`, 1), false},
		"stamp cut":           {`{"a":1}`, `{"a":1,"_docket":{"id":"` + id + `","seq":7,"source":"webhook"}}`, false},
	} {
		want.Data = []byte(tt.record)
		if got := same([]byte(tt.line), want); got != tt.want {
			t.Errorf("%s: got %t, want %t: %s", name, got, tt.want, tt.line)
		}
	}
}

// What the other side has and the export has not, by lines that nobody vouches for, is no
// proof, and a part that is the same is proven from its first record to its last.
func TestComparedWithTampered(t *testing.T) {
	for name, tt := range map[string]struct {
		files  []file
		from   uint64 // of the reference, which goes to 20
		proven uint64 // the first record that is; 0: none
		says   string
	}{
		"the newest record alone": {[]file{{to: 20}}, 20, 20, ""},
		"all":                     {[]file{{to: 20}}, 1, 1, ""},
		"records made a gap":      {[]file{{to: 19, gaps: []sinks.Gap{{From: 1, To: 18, Reason: sinks.Filtered}}}, {to: 20}}, 1, 0, "record 1, which the other side has, is left out"},
		"the beginning cut":       {[]file{{from: 11, to: 20}}, 1, 0, "10 records of the other side are older than the export"},
	} {
		b := newBuilder(t)
		b.chain.Key = testKey(1)
		for _, f := range tt.files {
			b.add(f)
		}
		r := mustRun(t, b.dir, Options{Reference: remembered(tt.from, 20)})
		switch {
		case tt.proven > 0 && (r.Verdict() != Proven || r.Anchors[0].From != tt.proven || r.Proven() != Place{queueA, 20}):
			t.Errorf("%s: got %s, %+v, %q, want a proof of %d to 20", name, r.Verdict(), r.Anchors, r.Doubts, tt.proven)
		case tt.proven == 0 && (r.Verdict() != Unanchored || len(r.Doubts) != 1 || !strings.Contains(r.Doubts[0], tt.says)):
			t.Errorf("%s: got %s, %q, want no proof: %s", name, r.Verdict(), r.Doubts, tt.says)
		}
		if r := mustRun(t, b.dir, Options{Reference: remembered(tt.from, 20), PublicKeys: publicKeys(1)}); r.Verdict() != Proven {
			t.Errorf("%s, signed: got %s, %q, want a proof", name, r.Verdict(), r.Doubts)
		}
	}
}
