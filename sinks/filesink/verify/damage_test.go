package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// damage is done to the standard export. want is the first break.
type damage struct {
	do   func(b *builder, names []string)
	want Break
}

// first makes the break of a whole file of the standard export: line is also the
// number of the file.
func first(kind Kind, line int, from, to uint64) Break {
	return Break{Kind: kind, Line: uint64(line), File: standardName(line), Queue: queueA, FirstSeq: from, LastSeq: to}
}

func standardName(line int) string {
	to := uint64(5 * line)
	return fmt.Sprintf("2026-01-%02d/", (line-1)/2+1) + manifest.Finished(to-4, to, "20260105T100407Z", "")
}

var damages = map[string]damage{
	"byte edited": {
		func(b *builder, names []string) { b.change(names[1], flip(30)) },
		first(FileChanged, 2, 6, 10),
	},
	"last byte edited": {
		func(b *builder, names []string) {
			b.change(names[3], func(data []byte) []byte { return flip(len(data) - 1)(data) })
		},
		first(FileChanged, 4, 16, 20),
	},
	"lines reordered": {
		func(b *builder, names []string) {
			b.changeLines(names[2], func(l []string) []string { l[0], l[1] = l[1], l[0]; return l })
		},
		first(FileChanged, 3, 12, 15),
	},
	"last line cut": {
		func(b *builder, names []string) {
			b.changeLines(names[2], func(l []string) []string { return l[:2] })
		},
		first(FileTruncated, 3, 12, 15),
	},
	"torn line": {
		func(b *builder, names []string) {
			b.change(names[1], func(data []byte) []byte { return data[:len(data)-1] })
		},
		first(FileTruncated, 2, 6, 10),
	},
	"line removed from the middle": {
		func(b *builder, names []string) {
			b.changeLines(names[1], func(l []string) []string { return slices.Delete(l, 1, 2) })
		},
		first(FileTruncated, 2, 6, 10),
	},
	"file emptied": {
		func(b *builder, names []string) { b.write(names[1], nil) },
		first(FileTruncated, 2, 6, 10),
	},
	"line added": {
		func(b *builder, names []string) {
			b.change(names[1], func(data []byte) []byte { return append(data, recordOf(queueA, 11)+"\n"...) })
		},
		first(FileExtended, 2, 6, 10),
	},
	"byte edited and line added": {
		func(b *builder, names []string) {
			b.change(names[1], func(data []byte) []byte { return append(flip(30)(data), '\n') })
		},
		first(FileChanged, 2, 6, 10),
	},
	"two files damaged": {
		func(b *builder, names []string) {
			b.change(names[3], flip(30))
			b.change(names[1], flip(30))
		},
		first(FileChanged, 2, 6, 10),
	},
	"file missing": {
		func(b *builder, names []string) { b.must(os.Remove(b.path(names[2]))) },
		first(FileMissing, 3, 12, 15),
	},
	"directory missing": {
		func(b *builder, names []string) { b.must(os.RemoveAll(filepath.Dir(b.path(names[2])))) },
		first(FileMissing, 3, 12, 15),
	},
	"file missing before a damaged one": {
		func(b *builder, names []string) {
			b.must(os.Remove(b.path(names[2])))
			b.change(names[3], flip(30))
		},
		first(FileMissing, 3, 12, 15),
	},
	"file missing behind a damaged one": {
		func(b *builder, names []string) {
			b.must(os.Remove(b.path(names[2])))
			b.change(names[1], flip(30))
		},
		first(FileChanged, 2, 6, 10),
	},
	"file swapped with another": {
		func(b *builder, names []string) {
			two, four := b.read(names[1]), b.read(names[3])
			b.write(names[1], four)
			b.write(names[3], two)
		},
		first(FileChanged, 2, 6, 10),
	},
	"link in place of a file": {
		func(b *builder, names []string) {
			elsewhere := filepath.Join(b.t.TempDir(), "same")
			b.must(os.Rename(b.path(names[1]), elsewhere))
			b.must(os.Symlink(elsewhere, b.path(names[1])))
		},
		first(NotAFile, 2, 6, 10),
	},
	"directory of a removed file a link": { // nobody looks for it any more
		func(b *builder, names []string) {
			b.must(os.Remove(b.path(names[1])))
			b.must(os.Remove(filepath.Dir(b.path(names[1]))))
			b.must(os.Symlink("2026-01-02", filepath.Dir(b.path(names[1]))))
		},
		first(NotAFile, 2, 6, 10),
	},
	"link inside in place of a file": {
		func(b *builder, names []string) {
			b.must(os.Rename(b.path(names[1]), b.path(names[1]+".moved")))
			b.must(os.Symlink(filepath.Base(names[1])+".moved", b.path(names[1])))
		},
		first(NotAFile, 2, 6, 10),
	},
	"link in place of a directory": {
		func(b *builder, names []string) {
			elsewhere := filepath.Join(b.t.TempDir(), "same")
			b.must(os.Rename(filepath.Dir(b.path(names[1])), elsewhere))
			b.must(os.Symlink(elsewhere, filepath.Dir(b.path(names[1]))))
		},
		first(NotAFile, 2, 6, 10),
	},
	"pipe in place of a file": {
		func(b *builder, names []string) {
			b.must(os.Remove(b.path(names[1])))
			b.must(unix.Mkfifo(b.path(names[1]), 0o600))
		},
		first(NotAFile, 2, 6, 10),
	},
	"file not listed": {
		func(b *builder, _ []string) { b.write("2026-01-01/decisions-copy.ndjson", []byte("{}\n")) },
		Break{Kind: FileUnlisted, File: "2026-01-01/decisions-copy.ndjson"},
	},
	"link not listed": {
		func(b *builder, _ []string) { b.must(os.Symlink("/etc", b.path("etc"))) },
		Break{Kind: FileUnlisted, File: "etc"},
	},
	"hidden file not listed": {
		func(b *builder, _ []string) { b.write(".x/y", nil) },
		Break{Kind: FileUnlisted, File: ".x/y"},
	},
	"active file elsewhere": {
		func(b *builder, _ []string) { b.write("2026-01-01/decisions-active.ndjson", nil) },
		Break{Kind: FileUnlisted, File: "2026-01-01/decisions-active.ndjson"},
	},
	"manifest missing": {
		func(b *builder, _ []string) { b.must(os.Remove(b.path(manifest.FileName))) },
		Break{Kind: ManifestMissing, File: manifest.FileName},
	},
	"manifest empty": {
		func(b *builder, _ []string) { b.write(manifest.FileName, nil) },
		Break{Kind: FileUnlisted, File: standardName(2)},
	},
	"manifest a link": {
		func(b *builder, _ []string) {
			b.must(os.Rename(b.path(manifest.FileName), b.path("m")))
			b.must(os.Symlink("m", b.path(manifest.FileName)))
		},
		Break{Kind: NotAFile, File: manifest.FileName},
	},
	"manifest line removed": {
		func(b *builder, _ []string) {
			b.changeLines(manifest.FileName, func(l []string) []string { return slices.Delete(l, 1, 2) })
		},
		func() Break { w := first(ChainBroken, 2, 12, 15); w.File = standardName(3); return w }(),
	},
	"first manifest line removed": {
		func(b *builder, _ []string) {
			b.changeLines(manifest.FileName, func(l []string) []string { return l[1:] })
		},
		func() Break { w := first(ChainBroken, 1, 6, 10); w.File = standardName(2); return w }(),
	},
	"manifest lines reordered": {
		func(b *builder, _ []string) {
			b.changeLines(manifest.FileName, func(l []string) []string { l[2], l[3] = l[3], l[2]; return l })
		},
		func() Break { w := first(ChainBroken, 3, 16, 20); w.File = standardName(4); return w }(),
	},
	"manifest line twice": {
		func(b *builder, _ []string) {
			b.changeLines(manifest.FileName, func(l []string) []string { return slices.Insert(l, 2, l[1]) })
		},
		func() Break { w := first(ChainBroken, 3, 6, 10); w.File = standardName(2); return w }(),
	},
	"manifest line edited": {
		func(b *builder, _ []string) {
			b.change(manifest.FileName, func(data []byte) []byte {
				return []byte(strings.Replace(string(data), `"finished":"2026-01-05`, `"finished":"2026-01-06`, 1))
			})
		},
		func() Break { w := first(ChainBroken, 2, 6, 10); return w }(),
	},
	"hash in the manifest edited": {
		func(b *builder, _ []string) {
			b.changeLines(manifest.FileName, func(l []string) []string {
				at := strings.Index(l[3], `"sha256":"`) + 12
				l[3] = l[3][:at] + string("0f"[boolInt(l[3][at] == '0')]) + l[3][at+1:]
				return l
			})
		},
		first(FileChanged, 4, 16, 20),
	},
	"garbage in the manifest": {
		func(b *builder, _ []string) {
			b.changeLines(manifest.FileName, func(l []string) []string { return slices.Insert(l, 2, "{}\n") })
		},
		Break{Kind: LineDamaged, Line: 3},
	},
	"endless line in the manifest": {
		func(b *builder, _ []string) {
			b.changeLines(manifest.FileName, func(l []string) []string {
				return slices.Insert(l, 2, strings.Repeat("x", manifest.MaxLine+1)+"\n")
			})
		},
		Break{Kind: LineDamaged, Line: 3},
	},
	"file missing before a broken line": {
		func(b *builder, names []string) {
			b.must(os.Remove(b.path(names[1])))
			b.changeLines(manifest.FileName, func(l []string) []string { return slices.Insert(l, 3, "{}\n") })
		},
		Break{Kind: LineDamaged, Line: 4},
	},
	"damaged file before a broken line": {
		func(b *builder, names []string) {
			b.change(names[1], flip(30))
			b.changeLines(manifest.FileName, func(l []string) []string { return slices.Insert(l, 3, "{}\n") })
		},
		first(FileChanged, 2, 6, 10),
	},
	"last file and its line removed, removal too": {
		func(b *builder, names []string) {
			b.must(os.Remove(b.path(names[3])))
			b.changeLines(manifest.FileName, func(l []string) []string { return l[:3] })
		},
		first(FileMissing, 1, 1, 5), // the line that said why was behind
	},
	"last line removed": {
		func(b *builder, _ []string) {
			b.add(file{name: "x.ndjson", to: 22})
			b.changeLines(manifest.FileName, func(l []string) []string { return l[:5] })
		},
		Break{Kind: FileUnlisted, File: "x.ndjson"},
	},
	"last newline removed": {
		func(b *builder, _ []string) {
			b.add(file{name: "x.ndjson", to: 22})
			b.change(manifest.FileName, func(data []byte) []byte { return data[:len(data)-1] })
		},
		Break{Kind: FileUnlisted, File: "x.ndjson"},
	},
	"removed twice": {
		func(b *builder, names []string) {
			b.write(names[0], nil)
			b.remove(names[0])
		},
		Break{Kind: RemovedTwice, Line: 6, File: standardName(1)},
	},
	"name twice": {
		func(b *builder, names []string) {
			content := b.read(names[1])
			b.add(file{name: names[1], to: 25})
			b.write(names[1], content)
		},
		Break{Kind: NameRepeated, Line: 6, File: standardName(2), Queue: queueA, FirstSeq: 21, LastSeq: 25},
	},
	"seqs missing": {
		func(b *builder, _ []string) { b.add(file{name: "x.ndjson", from: 23, to: 25}) },
		Break{Kind: SeqsMissing, Line: 6, File: "x.ndjson", Queue: queueA, FirstSeq: 21, LastSeq: 22},
	},
	"seqs twice": {
		func(b *builder, _ []string) { b.add(file{name: "x.ndjson", from: 20, to: 25}) },
		Break{Kind: SeqsRepeated, Line: 6, File: "x.ndjson", Queue: queueA, FirstSeq: 20, LastSeq: 25},
	},
	"unknown gap": {
		func(b *builder, _ []string) {
			b.add(file{name: "x.ndjson", to: 25, gaps: []sinks.Gap{{From: 22, To: 23, Reason: manifest.Unknown}}})
		},
		Break{Kind: UnknownGap, Line: 6, File: "x.ndjson", Queue: queueA, FirstSeq: 22, LastSeq: 23},
	},
	"count wrong": { // as only the owner of the chain could
		func(b *builder, names []string) {
			b.chainAnew(nil, func(l []*manifest.Line) []*manifest.Line {
				l[3].Entry.Records, l[3].Entry.LastSeq = 6, 21
				return l
			})
		},
		first(WrongCount, 4, 16, 21),
	},
	"path that leads out": {
		func(b *builder, _ []string) {
			b.changeLines(manifest.FileName, func(l []string) []string {
				l[3] = strings.Replace(l[3], standardName(4), "../../../../etc/passwd", 1)
				return l
			})
		},
		Break{Kind: LineDamaged, Line: 4},
	},
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// flip flips a bit of the byte at an offset.
func flip(at int) func([]byte) []byte {
	return func(data []byte) []byte {
		data[at] ^= 1
		return data
	}
}

func TestDamage(t *testing.T) {
	for name, tt := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBuilder(t)
			tt.do(b, standard(b, ""))
			r := mustRun(t, b.dir, Options{})
			checkBreak(t, r.Break, tt.want)
		})
	}
}

// checkBreak compares all but the texts, which must be there.
func checkBreak(t *testing.T, got *Break, want Break) {
	t.Helper()
	if got == nil {
		t.Fatalf("got no break, want %+v", want)
	}
	if got.Expected == "" || got.Found == "" || got.Meaning() == "" {
		t.Errorf("got %+v, want what was expected and found, and what it means", got)
	}
	bare := *got
	bare.Expected, bare.Found = "", ""
	if bare != want {
		t.Errorf("got %+v\n(expected %s; found %s)\nwant %+v", bare, got.Expected, got.Found, want)
	}
}
