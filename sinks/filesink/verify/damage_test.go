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
	do   doing
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
	"byte edited":                  {edit(2, flip(30)), first(FileChanged, 2, 6, 10)},
	"last byte edited":             {edit(4, func(data []byte) []byte { return flip(len(data) - 1)(data) }), first(FileChanged, 4, 16, 20)},
	"lines reordered":              {editLines(3, func(l []string) []string { l[0], l[1] = l[1], l[0]; return l }), first(FileChanged, 3, 12, 15)},
	"last line cut":                {editLines(3, func(l []string) []string { return l[:2] }), first(FileTruncated, 3, 12, 15)},
	"torn line":                    {edit(2, func(data []byte) []byte { return data[:len(data)-1] }), first(FileTruncated, 2, 6, 10)},
	"line removed from the middle": {editLines(2, func(l []string) []string { return slices.Delete(l, 1, 2) }), first(FileTruncated, 2, 6, 10)},
	"file emptied":                 {edit(2, func([]byte) []byte { return nil }), first(FileTruncated, 2, 6, 10)},
	"line added":                   {editLines(2, func(l []string) []string { return append(l, recordOf(queueA, 11)+"\n") }), first(FileExtended, 2, 6, 10)},
	"byte edited and line added":   {edit(2, func(data []byte) []byte { return append(flip(30)(data), '\n') }), first(FileChanged, 2, 6, 10)},
	"two files damaged":            {both(edit(4, flip(30)), edit(2, flip(30))), first(FileChanged, 2, 6, 10)},
	"file missing":                 {missing(3), first(FileMissing, 3, 12, 15)},
	"directory missing": {
		func(b *builder, names []string) { b.must(os.RemoveAll(filepath.Dir(b.path(names[2])))) },
		first(FileMissing, 3, 12, 15),
	},
	"file missing before a damaged one": {both(missing(3), edit(4, flip(30))), first(FileMissing, 3, 12, 15)},
	"file missing behind a damaged one": {both(missing(3), edit(2, flip(30))), first(FileChanged, 2, 6, 10)},
	"file swapped with another": {
		func(b *builder, names []string) {
			two, four := b.read(names[1]), b.read(names[3])
			b.write(names[1], four)
			b.write(names[3], two)
		},
		first(FileChanged, 2, 6, 10),
	},
	"link in place of a file": {
		func(b *builder, names []string) { b.linkElsewhere(names[1]) },
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
		func(b *builder, names []string) { b.linkElsewhere(filepath.Dir(names[1])) },
		first(NotAFile, 2, 6, 10),
	},
	"pipe in place of a file": {
		both(missing(2), func(b *builder, names []string) { b.must(unix.Mkfifo(b.path(names[1]), 0o600)) }),
		first(NotAFile, 2, 6, 10),
	},
	"file not listed":        {added("2026-01-01/decisions-copy.ndjson"), unlisted("2026-01-01/decisions-copy.ndjson")},
	"link not listed":        {func(b *builder, _ []string) { b.must(os.Symlink("/etc", b.path("etc"))) }, unlisted("etc")},
	"hidden file not listed": {added(".x/y"), unlisted(".x/y")},
	"active file elsewhere":  {added("2026-01-01/decisions-active.ndjson"), unlisted("2026-01-01/decisions-active.ndjson")},
	"manifest missing": {
		func(b *builder, _ []string) { b.must(os.Remove(b.path(manifest.FileName))) },
		Break{Kind: ManifestMissing, File: manifest.FileName},
	},
	"manifest empty": {added(manifest.FileName), unlisted(standardName(2))},
	"manifest a link": {
		func(b *builder, _ []string) {
			b.must(os.Rename(b.path(manifest.FileName), b.path("m")))
			b.must(os.Symlink("m", b.path(manifest.FileName)))
		},
		Break{Kind: NotAFile, File: manifest.FileName},
	},
	"manifest line removed":       {manifestLines(func(l []string) []string { return slices.Delete(l, 1, 2) }), unchained(2, 3, 12, 15)},
	"first manifest line removed": {manifestLines(func(l []string) []string { return l[1:] }), unchained(1, 2, 6, 10)},
	"manifest lines reordered":    {manifestLines(func(l []string) []string { l[2], l[3] = l[3], l[2]; return l }), unchained(3, 4, 16, 20)},
	"manifest line twice":         {manifestLines(func(l []string) []string { return slices.Insert(l, 2, l[1]) }), unchained(3, 2, 6, 10)},
	"manifest line edited": {
		manifestLines(func(l []string) []string {
			l[0] = strings.Replace(l[0], `"finished":"2026-01-05`, `"finished":"2026-01-06`, 1)
			return l
		}),
		unchained(2, 2, 6, 10),
	},
	"hash in the manifest edited": {
		manifestLines(func(l []string) []string {
			at := strings.Index(l[3], `"sha256":"`) + 12
			other := map[bool]string{true: "f", false: "0"}[l[3][at] == '0']
			l[3] = l[3][:at] + other + l[3][at+1:]
			return l
		}),
		first(FileChanged, 4, 16, 20),
	},
	"garbage in the manifest": {manifestLines(garbage(2, "{}")), Break{Kind: LineDamaged, Line: 3}},
	"endless line in the manifest": {
		manifestLines(garbage(2, strings.Repeat("x", manifest.MaxLine+1))),
		Break{Kind: LineDamaged, Line: 3},
	},
	"file missing before a broken line": {both(missing(2), manifestLines(garbage(3, "{}"))), Break{Kind: LineDamaged, Line: 4}},
	"damaged file before a broken line": {both(edit(2, flip(30)), manifestLines(garbage(3, "{}"))), first(FileChanged, 2, 6, 10)},
	"last file and its line removed, removal too": {
		both(missing(4), manifestLines(func(l []string) []string { return l[:3] })),
		first(FileMissing, 1, 1, 5), // the line that said why was behind
	},
	"last line removed": {
		both(grown(file{name: "x.ndjson", to: 22}), manifestLines(func(l []string) []string { return l[:5] })),
		unlisted("x.ndjson"),
	},
	"last newline removed": {
		both(grown(file{name: "x.ndjson", to: 22}), manifestLines(func(l []string) []string {
			l[5] = strings.TrimSuffix(l[5], "\n")
			return l
		})),
		unlisted("x.ndjson"),
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
	"seqs missing": {grown(file{name: "x.ndjson", from: 23, to: 25}), sixth(SeqsMissing, 21, 22)},
	"seqs twice":   {grown(file{name: "x.ndjson", from: 20, to: 25}), sixth(SeqsRepeated, 20, 25)},
	"unknown gap": {
		grown(file{name: "x.ndjson", to: 25, gaps: []sinks.Gap{{From: 22, To: 23, Reason: manifest.Unknown}}}),
		sixth(UnknownGap, 22, 23),
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
		manifestLines(func(l []string) []string {
			l[3] = strings.Replace(l[3], standardName(4), "../../../../etc/passwd", 1)
			return l
		}),
		Break{Kind: LineDamaged, Line: 4},
	},
}

type doing func(b *builder, names []string)

// edit changes the content of file n, from 1.
func edit(n int, by func([]byte) []byte) doing {
	return func(b *builder, names []string) { b.change(names[n-1], by) }
}

func editLines(n int, by func([]string) []string) doing {
	return func(b *builder, names []string) { b.changeLines(names[n-1], by) }
}

func manifestLines(by func([]string) []string) doing {
	return func(b *builder, _ []string) { b.changeLines(manifest.FileName, by) }
}

// garbage is for manifestLines: a line at an index.
func garbage(at int, text string) func([]string) []string {
	return func(l []string) []string { return slices.Insert(l, at, text+"\n") }
}

// missing takes file n away.
func missing(n int) doing {
	return func(b *builder, names []string) { b.must(os.Remove(b.path(names[n-1]))) }
}

// added puts an empty file there.
func added(name string) doing { return func(b *builder, _ []string) { b.write(name, nil) } }

// grown adds a file to the export.
func grown(f file) doing { return func(b *builder, _ []string) { b.add(f) } }

func both(first, second doing) doing {
	return func(b *builder, names []string) { first(b, names); second(b, names) }
}

// linkElsewhere moves what has a name out of the export and leaves a link to it.
func (b *builder) linkElsewhere(name string) {
	elsewhere := filepath.Join(b.t.TempDir(), "same")
	b.must(os.Rename(b.path(name), elsewhere))
	b.must(os.Symlink(elsewhere, b.path(name)))
}

func unlisted(name string) Break { return Break{Kind: FileUnlisted, File: name} }

// unchained is a line that does not follow, about the file n.
func unchained(line, n int, from, to uint64) Break {
	b := first(ChainBroken, n, from, to)
	b.Line = uint64(line)
	return b
}

// sixth is a break of the file x.ndjson, which the sixth line names.
func sixth(kind Kind, from, to uint64) Break {
	return Break{Kind: kind, Line: 6, File: "x.ndjson", Queue: queueA, FirstSeq: from, LastSeq: to}
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
