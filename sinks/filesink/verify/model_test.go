package verify

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// randomExport is an export with what was known of it outside, line by line.
type randomExport struct {
	*builder
	dice  *rand.Rand
	files []string     // by line; empty: a removal
	ends  []Checkpoint // by line: what docket has told after it
	gone  map[int]int  // by the line of a removal: that of the file
}

func newRandomExport(t *testing.T, dice *rand.Rand) *randomExport {
	x := &randomExport{builder: newBuilder(t), dice: dice, gone: map[int]int{}}
	if dice.IntN(2) == 0 {
		x.chain.Key = testKey(1)
	}
	x.grow(2 + dice.IntN(4))
	return x
}

// grow adds so many files.
func (x *randomExport) grow(files int) {
	for range files {
		from := x.last[queueA] + 1
		f := file{to: from + 3 + x.dice.Uint64N(5)}
		if x.dice.IntN(2) == 0 {
			f.gaps = []sinks.Gap{{From: from + 1, To: from + 2, Reason: sinks.Filtered}}
		}
		x.files = append(x.files, x.add(f))
		x.ends = append(x.ends, x.checkpoint())
		if oldest := slices.IndexFunc(x.files, func(name string) bool { return name != "" }); x.dice.IntN(4) == 0 && oldest < len(x.files)-1 {
			x.remove(x.files[oldest])
			x.files[oldest] = ""
			x.gone[len(x.files)] = oldest
			x.files = append(x.files, "")
			x.ends = append(x.ends, x.checkpoint())
		}
	}
}

// anyFile is the line of a file that is there.
func (x *randomExport) anyFile() int {
	for {
		if at := x.dice.IntN(len(x.files)); x.files[at] != "" {
			return at
		}
	}
}

// rewrite makes the manifest anew around a file that was changed.
func (x *randomExport) rewrite(line int) {
	x.chainAnew(x.chain.Key, func(lines []*manifest.Line) []*manifest.Line {
		data := x.read(x.files[line])
		lines[line].Entry.SHA256, lines[line].Entry.Bytes = sumOf(data), int64(len(data))
		return lines
	})
}

const saidToBeRemoved = "file deleted, said to be removed"

// tamperings each do something to x and return the first line, from 0, that is no
// longer what it was, or whose file is not.
var tamperings = map[string]func(x *randomExport) int{
	"newest file and lines cut": func(x *randomExport) int {
		line := x.anyFile()
		for _, name := range x.files[line:] {
			if name != "" {
				x.must(os.Remove(x.path(name)))
			}
		}
		x.changeLines(manifest.FileName, func(l []string) []string { return l[:line] })
		return line
	},
	"emptied": func(x *randomExport) int { x.emptied(); return 0 },
	"all gone": func(x *randomExport) int {
		x.must(os.RemoveAll(x.dir))
		x.must(os.Mkdir(x.dir, 0o700))
		return 0
	},
	"file truncated": func(x *randomExport) int {
		line := x.anyFile()
		x.change(x.files[line], func(data []byte) []byte { return data[:x.dice.IntN(len(data))] })
		return line
	},
	"files swapped": func(x *randomExport) int {
		a, b := x.anyFile(), x.anyFile()
		first, second := x.read(x.files[a]), x.read(x.files[b])
		if slices.Equal(first, second) {
			return len(x.files)
		}
		x.write(x.files[a], second)
		x.write(x.files[b], first)
		return min(a, b)
	},
	"byte edited": func(x *randomExport) int {
		line := x.anyFile()
		x.change(x.files[line], func(data []byte) []byte { return flip(x.dice.IntN(len(data)))(data) })
		return line
	},
	"file edited, manifest made anew": func(x *randomExport) int {
		line := x.anyFile()
		x.change(x.files[line], flip(6))
		x.rewrite(line)
		return line
	},
	saidToBeRemoved: func(x *randomExport) int {
		line := x.anyFile()
		x.remove(x.files[line])
		return line
	},
	"line removed": func(x *randomExport) int {
		line := x.dice.IntN(len(x.files))
		x.changeLines(manifest.FileName, func(l []string) []string { return slices.Delete(l, line, line+1) })
		return line
	},
	"older manifest": func(x *randomExport) int {
		line := x.dice.IntN(len(x.files))
		x.changeLines(manifest.FileName, func(l []string) []string { return l[:line] })
		return line
	},
	"another export in its place": func(x *randomExport) int {
		x.must(os.RemoveAll(x.dir))
		other := &randomExport{builder: &builder{t: x.t, dir: x.dir, last: map[string]uint64{}, record: func(_ string, seq uint64) string {
			return fmt.Sprintf(`{"other":%d}`, seq)
		}}, dice: x.dice, gone: map[int]int{}}
		other.grow(len(x.files))
		return 0
	},
	"mixed with another export": func(x *randomExport) int {
		line := x.anyFile()
		x.change(x.files[line], func(data []byte) []byte { return []byte(strings.ReplaceAll(string(data), `"n"`, `"m"`)) })
		x.rewrite(line)
		return line
	},
}

// isRemovedBehind reports whether retention has removed a file up to line in a later one:
// then no anchor in line vouches for the removal.
func (x *randomExport) isRemovedBehind(line int) bool {
	for removal, file := range x.gone {
		if file <= line && removal > line {
			return true
		}
	}
	return false
}

// strong are anchors that vouch for each byte up to a line.
func (x *randomExport) strong(line int) map[string]Options {
	some := []Checkpoint{x.ends[line]}
	for _, earlier := range x.ends[:line] {
		if x.dice.IntN(2) == 0 {
			some = append(some, earlier)
		}
	}
	x.dice.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	return map[string]Options{"line": {Last: &Anchor{Line: &x.ends[line].Line}}, "checkpoints": {Checkpoints: some}}
}

// forged is what somebody who has touched the export can have docket store: a producer's
// record with the checkpoint of the export as it is now.
func (x *randomExport) forged() []Checkpoint {
	if text, err := os.ReadFile(x.path(manifest.FileName)); err != nil || len(text) == 0 {
		return nil
	}
	return []Checkpoint{x.checkpoint()}
}

// TestTampering does something to random exports, and never gets a proof up to an anchor
// that lies behind it, nor a break where nothing was done.
func TestTampering(t *testing.T) {
	runs := 40
	if testing.Short() {
		runs = 8
	}
	for name, tamper := range tamperings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(runs) {
				x := newRandomExport(t, rand.New(rand.NewPCG(seed, 15)))
				anchor := x.dice.IntN(len(x.files))
				anchors := x.strong(anchor)
				for how, o := range anchors {
					r := mustRun(t, x.dir, o)
					if x.isRemovedBehind(anchor) {
						if r.Verdict() != Unanchored {
							t.Fatalf("seed %d, removed behind the anchor, %s: got %s, want %s", seed, how, r.Verdict(), Unanchored)
						}
					} else if r.Verdict() != Proven || r.Proven() != x.ends[anchor].Place {
						t.Fatalf("seed %d, untouched, %s: got %s up to %+v, %+v, want a proof up to %+v", seed, how, r.Verdict(), r.Proven(), r.Break, x.ends[anchor].Place)
					}
				}
				if r := mustRun(t, x.dir, Options{}); r.Verdict() != Unanchored {
					t.Fatalf("seed %d, untouched, no anchor: got %s, %+v, want %s", seed, r.Verdict(), r.Break, Unanchored)
				}
				touched := tamper(x)
				if name != saidToBeRemoved { // docs/verify.md, "Checkpoints": what is left without stamps
					anchors["checkpoints and a forged one"] = Options{Checkpoints: append(slices.Clone(anchors["checkpoints"].Checkpoints), x.forged()...)}
				}
				if r := mustRun(t, x.dir, Options{}); r.Verdict() == Proven {
					t.Fatalf("seed %d, no anchor: got a proof", seed)
				}
				for how, o := range anchors {
					if r := mustRun(t, x.dir, o); touched <= anchor && r.Verdict() == Proven {
						t.Fatalf("seed %d, line %d touched, %s of line %d: got a proof up to %+v", seed, touched+1, how, anchor+1, r.Proven())
					}
				}
			}
		})
	}
}
