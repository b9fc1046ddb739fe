package verify

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// lineHashes are the hashes of the lines of the manifest.
func (b *builder) lineHashes() (list []manifest.Hash) {
	b.t.Helper()
	for line := range strings.Lines(string(b.read(manifest.FileName))) {
		list = append(list, sumOf([]byte(strings.TrimSuffix(line, "\n"))))
	}
	return list
}

// checkpoint is what docket would say of the export as it is.
func (b *builder) checkpoint() Checkpoint {
	b.t.Helper()
	hashes := b.lineHashes()
	var end Place
	for line, err := range manifest.Read(strings.NewReader(string(b.read(manifest.FileName)))) {
		b.must(err)
		if e := line.Entry; e != nil {
			end = Place{e.Queue, e.LastSeq}
		}
	}
	return Checkpoint{Sink: "compliance", Export: hashes[0], Line: hashes[len(hashes)-1], Place: end, Time: when, From: "siem.ndjson, line 1"}
}

// cut takes the newest file and its line away, as somebody does who wants nothing to be
// seen.
func (b *builder) cut(newest string) {
	b.t.Helper()
	b.must(os.Remove(b.path(newest)))
	b.changeLines(manifest.FileName, func(l []string) []string { return l[:len(l)-1] })
}

// emptied takes everything away but an empty manifest.
func (b *builder) emptied() {
	b.t.Helper()
	b.must(os.RemoveAll(b.dir))
	b.write(manifest.FileName, nil)
}

// An export says of itself how far it goes, and whoever can write to it can make it say
// less. So without an anchor its end is not proven, with one it is, and a key is none.
func TestVerdict(t *testing.T) {
	untouched := func(*builder, string) {}
	cut := (*builder).cut
	emptied := func(b *builder, _ string) { b.emptied() }
	gone := func(b *builder, _ string) { b.must(os.RemoveAll(b.dir)); b.must(os.Mkdir(b.dir, 0o700)) }
	anchors := map[string]func(*builder) Options{
		"none":       func(*builder) Options { return Options{} },
		"public key": func(*builder) Options { return Options{PublicKeys: publicKeys(1)} },
		"line":       func(b *builder) Options { return Options{Last: &Anchor{Line: &b.chain.Previous}} },
		"record": func(b *builder) Options {
			return Options{Last: &Anchor{Queue: queueA, Seq: b.last[queueA]}, PublicKeys: publicKeys(1)}
		},
		"checkpoints": func(b *builder) Options { return Options{Checkpoints: []Checkpoint{b.checkpoint()}} },
	}
	for name, tt := range map[string]struct {
		do   func(b *builder, newest string)
		want map[string]Verdict // where it is not that of "else"
	}{
		"untouched": {untouched, map[string]Verdict{"none": Unanchored, "public key": Unanchored, "else": Proven}},
		"cut":       {cut, map[string]Verdict{"none": Unanchored, "public key": Unanchored, "else": Broken}},
		"emptied":   {emptied, map[string]Verdict{"none": Unanchored, "else": Broken}},
		"gone":      {gone, map[string]Verdict{"none": Unanchored, "else": Broken}},
	} {
		for anchor, options := range anchors {
			t.Run(name+"/"+anchor, func(t *testing.T) {
				t.Parallel()
				b := newBuilder(t)
				b.chain.Key = testKey(1)
				standard(b, "")
				newest := b.add(file{to: 25})
				o := options(b)
				tt.do(b, newest)
				want, ok := tt.want[anchor]
				if !ok {
					want = tt.want["else"]
				}
				r := mustRun(t, b.dir, o)
				if r.Verdict() != want {
					t.Errorf("got %s, %+v, want %s", r.Verdict(), r.Break, want)
				}
				if want == Proven && (r.Proven() != Place{queueA, 25} || r.End != Place{queueA, 25}) {
					t.Errorf("got proven up to %+v of %+v, want all 25 records", r.Proven(), r.End)
				}
			})
		}
	}
}

// What lies behind the anchor is not proven, and is said to be there.
func TestProvenUpTo(t *testing.T) {
	b := newBuilder(t)
	b.add(file{queue: queueB, from: 7, to: 9})
	earlier := b.checkpoint()
	standard(b, "")
	b.begin(27)
	first := b.lineHashes()[0]
	for name, tt := range map[string]struct {
		o      Options
		proven Place
		line   uint64
	}{
		"line":                    {Options{Last: &Anchor{Line: &first}}, Place{queueB, 9}, 1},
		"record":                  {Options{Last: &Anchor{Queue: queueB, Seq: 8}}, Place{queueB, 8}, 0},
		"checkpoint of the start": {Options{Checkpoints: []Checkpoint{earlier}}, Place{queueB, 9}, 1},
		"the newest checkpoint":   {Options{Checkpoints: []Checkpoint{b.checkpoint(), earlier}}, Place{queueA, 20}, 6},
	} {
		r := mustRun(t, b.dir, tt.o)
		if r.Verdict() != Proven || r.Proven() != tt.proven || r.Anchors[0].Line != tt.line || r.End != (Place{queueA, 20}) {
			t.Errorf("%s: got %s, %+v, up to %+v of %+v, want %+v by line %d, and 20 in all", name, r.Verdict(), r.Anchors, r.Proven(), r.End, tt.proven, tt.line)
		}
	}
	if r := mustRun(t, b.dir, Options{Checkpoints: []Checkpoint{}}); r.Verdict() != Unanchored || len(r.Notes) == 0 {
		t.Errorf("no checkpoint: got %s, %q, want that it is no anchor, with a note", r.Verdict(), r.Notes)
	}
}

// Somebody who deletes a file can add a line that says retention did. So a removal is
// proven as any other line is: by a line anchor behind it, or by a signature.
func TestRemovedBehindAnchor(t *testing.T) {
	for name, options := range map[string]func(*builder) Options{
		"checkpoint": func(b *builder) Options { return Options{Checkpoints: []Checkpoint{b.checkpoint()}} },
		"line":       func(b *builder) Options { head := b.chain.Previous; return Options{Last: &Anchor{Line: &head}} },
		"record":     func(b *builder) Options { return Options{Last: &Anchor{Queue: queueA, Seq: 20}} },
	} {
		for _, victim := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s/file %d", name, victim+1), func(t *testing.T) {
				t.Parallel()
				b := newBuilder(t)
				b.chain.Key = testKey(1)
				names := []string{b.add(file{to: 5}), b.add(file{to: 10}), b.add(file{to: 20})}
				o := options(b)
				signed := o
				signed.PublicKeys = publicKeys(1)
				b.remove(names[victim])
				b.add(file{to: 30})
				r := mustRun(t, b.dir, o)
				if r.Verdict() != Unanchored || len(r.Doubts) != 1 || !strings.Contains(r.Doubts[0], "1 file missing, from record") {
					t.Errorf("got %s up to %+v, %+v, %q, want no proof and the file", r.Verdict(), r.Proven(), r.Break, r.Doubts)
				}
				o.Checkpoints = append(o.Checkpoints, b.checkpoint())
				if r := mustRun(t, b.dir, o); r.Verdict() != Proven {
					t.Errorf("and a newer checkpoint: got %s, %+v, %q, want a proof", r.Verdict(), r.Break, r.Doubts)
				}
				if r := mustRun(t, b.dir, signed); r.Verdict() != Proven {
					t.Errorf("signed: got %s, %+v, %q, want a proof", r.Verdict(), r.Break, r.Doubts)
				}
			})
		}
	}
	b := newBuilder(t)
	b.add(file{to: 5})
	o := Options{Checkpoints: []Checkpoint{b.checkpoint()}}
	behind := b.add(file{to: 10})
	b.add(file{to: 15})
	b.remove(behind)
	if r := mustRun(t, b.dir, o); r.Verdict() != Proven || r.Proven().Seq != 5 {
		t.Errorf("a file behind the anchor: got %s, %q, want a proof up to the anchor", r.Verdict(), r.Doubts)
	}
}

func TestCheckpoints(t *testing.T) {
	other := Checkpoint{Sink: "elsewhere", Export: manifest.Hash{1}, Line: manifest.Hash{2}, Place: Place{queueA, 99}, Time: when}
	for name, tt := range map[string]struct {
		do   func(b *builder, list []Checkpoint) []Checkpoint
		want Verdict
		says string // in the break or in a note
	}{
		"each after its line": {func(_ *builder, list []Checkpoint) []Checkpoint { return list }, Proven, ""},
		"copies, in no order": {func(_ *builder, list []Checkpoint) []Checkpoint {
			slices.Reverse(list)
			return append(list, list...)
		}, Proven, ""},
		"another sink's among them": {func(_ *builder, list []Checkpoint) []Checkpoint { return append(list, other) }, Unanchored, "name the sink that writes here with --sink"},
		"another export's of the sink": {func(_ *builder, list []Checkpoint) []Checkpoint {
			c := other
			c.Sink = list[0].Sink
			return append(list, c)
		}, Unanchored, "use only checkpoints since then"},
		"others alone": {func(*builder, []Checkpoint) []Checkpoint { return []Checkpoint{other} }, Unanchored, "the newest by sink elsewhere"},
		"another end": {func(_ *builder, list []Checkpoint) []Checkpoint {
			list[1].Seq++
			return list
		}, Broken, "ends with record 11 of queue " + queueA},
		"another queue": {func(_ *builder, list []Checkpoint) []Checkpoint {
			list[1].Queue = queueB
			return list
		}, Broken, string(CheckpointDiffers)},
		"a line that is not there": {func(_ *builder, list []Checkpoint) []Checkpoint {
			list[2].Line[0] ^= 1
			return list
		}, Broken, "siem.ndjson, line 1"},
		"end rewritten": {func(b *builder, list []Checkpoint) []Checkpoint {
			b.chainAnew(nil, func(lines []*manifest.Line) []*manifest.Line {
				lines[3].Entry.Finished = when.AddDate(1, 0, 0)
				return lines
			})
			return list
		}, Broken, string(CheckpointMissing)},
		"all rewritten": {func(b *builder, list []Checkpoint) []Checkpoint {
			b.chainAnew(nil, func(lines []*manifest.Line) []*manifest.Line {
				lines[0].Entry.Finished = when.AddDate(1, 0, 0)
				return lines
			})
			return list
		}, Unanchored, "the export was started over"},
		"emptied": {func(b *builder, list []Checkpoint) []Checkpoint { b.emptied(); return list }, Broken, "no line of a manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBuilder(t)
			var list []Checkpoint
			for _, to := range []uint64{5, 10, 15, 20} {
				b.add(file{to: to})
				list = append(list, b.checkpoint())
			}
			list = tt.do(b, list)
			r := mustRun(t, b.dir, Options{Checkpoints: list})
			said := strings.Join(slices.Concat(r.Notes, r.Doubts), "\n")
			if r.Break != nil {
				said = string(r.Break.Kind) + ": " + r.Break.Expected + "; " + r.Break.Found
			}
			if r.Verdict() != tt.want || !strings.Contains(said, tt.says) {
				t.Errorf("got %s, %q, want %s, %q", r.Verdict(), said, tt.want, tt.says)
			}
		})
	}
}

// asRecord is a copy of c as a sink without a stamp has it.
func (c *Checkpoint) asRecord() string {
	return fmt.Sprintf(`{"eventType":"docket.export.checkpoint","sink":%q,"export":"%s","line":"%s","lastSeq":%d,"queue":"%s","time":"%s"}`,
		c.Sink, c.Export, c.Line, c.Seq, c.Queue, c.Time.Format(time.RFC3339))
}

// Somebody who writes an export anew can send docket a record that says so, of any sink and
// queue, and whoever collects the copies may have no stamp to tell it by. What docket has
// said before is in the copies as well: so such a record proves nothing.
func TestForgedCheckpoint(t *testing.T) {
	const stamp = `"_docket":{"id":"x-9","seq":9,"source":"unix","received":"2026-01-05T10:05:00Z"}`
	as := func(change func(*Checkpoint)) func(Checkpoint) string {
		return func(c Checkpoint) string { change(&c); return c.asRecord() }
	}
	for name, record := range map[string]func(Checkpoint) string{
		"no stamp": as(func(*Checkpoint) {}),
		"a stamp of its own": func(c Checkpoint) string {
			return strings.TrimSuffix(c.asRecord(), "}") + `,"_docket":{"source":"docket"}}`
		},
		"of another sink":       as(func(c *Checkpoint) { c.Sink = "twin" }),
		"in a stamped record":   func(c Checkpoint) string { return `{"x":` + c.asRecord() + `,` + stamp + `}` },
		"as text of such a one": func(c Checkpoint) string { return fmt.Sprintf(`{"x":%q,%s}`, c.asRecord(), stamp) },
		"in a record":           func(c Checkpoint) string { return `{"x":[` + c.asRecord() + `]}` },
	} {
		for _, queue := range []string{queueA, queueB} {
			t.Run(name+"/"+queue[:4], func(t *testing.T) {
				t.Parallel()
				b := newBuilder(t)
				var genuine []string
				for _, to := range []uint64{5, 10} {
					b.add(file{to: to})
					c := b.checkpoint()
					genuine = append(genuine, c.asRecord())
				}
				b.must(os.RemoveAll(b.dir))
				forged := &builder{t: t, dir: b.dir, last: map[string]uint64{}, record: func(string, uint64) string { return `{"forged":true}` }}
				forged.add(file{queue: queue, to: 10})
				copies := strings.Join(append(genuine, record(forged.checkpoint())), "\n")
				list, err := ReadCheckpoints(strings.NewReader(copies), "siem")
				b.must(err)
				for _, sink := range []string{"", "compliance"} {
					r := mustRun(t, b.dir, Options{Checkpoints: list, Sink: sink, Last: &Anchor{Queue: queue, Seq: 10}})
					if r.Verdict() != Unanchored || len(r.Doubts) != 1 {
						t.Errorf("sink %q: got %s up to %+v, %+v, %q, want no proof and the reason", sink, r.Verdict(), r.Proven(), r.Break, r.Doubts)
					}
				}
			})
		}
	}
}

// Two sinks of one docket may begin with the same line, byte for byte, and part later:
// then somebody has to say whose export it is.
func TestCheckpointsOfTwins(t *testing.T) {
	b, twin := newBuilder(t), newBuilder(t)
	var mine, other []Checkpoint
	for _, to := range []uint64{5, 10} {
		b.add(file{to: to})
		mine = append(mine, b.checkpoint())
	}
	for _, to := range []uint64{5, 12} {
		twin.add(file{to: to})
		c := twin.checkpoint()
		c.Sink = "twin"
		other = append(other, c)
	}
	both := slices.Concat(mine, other)
	if _, err := Run(t.Context(), b.dir, Options{Checkpoints: both}); !errors.Is(err, ErrWhichSink) || !strings.Contains(err.Error(), "of sinks compliance, twin") {
		t.Errorf("got %v, want to be asked for the sink", err)
	}
	for sink, want := range map[string]Verdict{"compliance": Proven, "twin": Broken, "none": Unanchored} {
		if r := mustRun(t, b.dir, Options{Checkpoints: both, Sink: sink}); r.Verdict() != want {
			t.Errorf("sink %s: got %s, %+v, want %s", sink, r.Verdict(), r.Break, want)
		}
	}
}
