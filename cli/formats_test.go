package cli

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fileFormat is a file that docket writes and reads again, apart from the queue's own:
// queue.TestUnknownVersionsAreRefused has those.
type fileFormat struct {
	file    string // as docs/file-formats.md calls it
	glob    string // where everySource has it
	version int    // the newest that this docket reads
	oldest  int    // and the oldest
	// set returns the content as a docket of that version would have written it.
	set func(content []byte, version int) []byte
	// sink: it is not docket that refuses to run, but the file sink alone.
	sink bool
}

var fileFormats = []fileFormat{
	{"sources/<name>/state.json", "queue/sources/gk-delta/state.json", 1, 1, setMember, false},
	{"sources/<name>/delta/<channel>/state.json", "queue/sources/gk-delta/delta/*/state.json", 1, 1, setMember, false},
	{"sources/<name>/tail.json", "queue/sources/tail-json/tail.json", 2, 1, setMember, false},
	{"sources/<name>/known", "queue/sources/opa/known", 1, 1, setKnown, false},
	{"deadletters/<sink>/letters.log", "queue/deadletters/siem/letters.log", 2, 2, setLetters, false},
	{"decisions-active.position", "export/decisions-active.position", 3, 2, setPosition, true},
	{"manifest.jsonl", "export/manifest.jsonl", 1, 1, setMember, true},
}

var versionMember = regexp.MustCompile(`"version":\d+,`)

// setMember is for documents and lines of JSON.
func setMember(content []byte, version int) []byte {
	return versionMember.ReplaceAll(content, fmt.Appendf(nil, `"version":%d,`, version))
}

func setKnown(content []byte, version int) []byte {
	content[3] = byte('0' + version)
	entry := content[:32+16*binary.LittleEndian.Uint32(content[4:])]
	copy(entry[24:28], make([]byte, 4))
	binary.LittleEndian.PutUint32(entry[24:], crc32.Checksum(entry, castagnoli))
	return content
}

func setLetters(content []byte, version int) []byte {
	_, rest, _ := bytes.Cut(content, []byte("\n"))
	head := fmt.Sprintf(`{"version":%d}`, version)
	return append(fmt.Appendf(nil, "%08x %s\n", crc32.Checksum([]byte(head), castagnoli), head), rest...)
}

func setPosition(content []byte, version int) []byte {
	for _, at := range []int{0, 4096} {
		slot := content[at : at+278]
		slot[7] = byte('0' + version)
		binary.BigEndian.PutUint32(slot[274:], crc32.Checksum(slot[:274], castagnoli))
	}
	return content
}

// TestFormatVersions: a file of a version that docket does not read is named, with the
// version, and stays as it is, like every other; docket does not run, or the sink that the
// file belongs to takes nothing. An older version that it reads it goes on with.
func TestFormatVersions(t *testing.T) {
	s := newEverySource(t, "\n")
	for _, c := range canaryCases {
		c.feed(s, c.source, 0, c.before[0])
	}
	s.waitInside("gk-delta", `"crc32c"`)
	s.waitInside("opa", "DKI1")
	s.waitDeadLetters(10)
	s.stop()
	for _, f := range fileFormats {
		for version := f.oldest - 1; version <= f.version+1; version++ {
			if testing.Short() && version <= f.version {
				continue // a downgrade is what happens to people
			}
			t.Run(fmt.Sprintf("%s of version %d", f.file, version), func(t *testing.T) {
				s.t = t
				name := s.changeVersion(f, version)
				before := s.files()
				switch {
				case version >= f.oldest && version <= f.version:
					s.start()
					s.stop()
				case f.sink:
					s.wantSinkInError(name, version)
					if got := s.files()[name]; got != before[name] {
						t.Errorf("the file has changed")
					}
				default:
					s.wantRefused(name, version)
					if got := s.files(); !maps.Equal(got, before) {
						t.Errorf("got other files than before")
					}
				}
				for file, text := range before { // for the next
					writeFile(t, file, text)
				}
				s.changeVersion(f, f.version)
			})
		}
	}
}

// changeVersion writes a file of s as another docket would have, and returns its name.
func (s *everySource) changeVersion(f fileFormat, version int) string {
	s.t.Helper()
	names, err := filepath.Glob(s.path(f.glob))
	if err != nil || len(names) == 0 {
		s.t.Fatalf("got %v, %v, want a file as %s", names, err, f.glob)
	}
	writeFile(s.t, names[0], string(f.set([]byte(readFile(s.t, names[0])), version)))
	return names[0]
}

// files are all below the queue's directory and the export, but the locks.
func (s *everySource) files() map[string]string {
	s.t.Helper()
	files := map[string]string{}
	for _, dir := range []string{"queue", "export"} {
		err := filepath.WalkDir(s.path(dir), func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || strings.HasSuffix(name, "lock") {
				return err
			}
			text, err := os.ReadFile(name)
			files[name] = string(text)
			return err
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return files
}

// wantRefused runs docket, which must end at once and say why.
func (s *everySource) wantRefused(file string, version int) {
	s.t.Helper()
	p := startProcess(s.t, "run", "-f", s.config)
	if got := p.wait(); got != command.ExitUsage {
		s.t.Errorf("got exit code %d, want %d", got, command.ExitUsage)
	}
	if got, want := p.stderr(), fmt.Sprintf("%s has format version %d,", file, version); !strings.Contains(got, want) {
		s.t.Errorf("got %q, want %q in it", got, want)
	}
}

// wantSinkInError runs docket, of which one sink must not go on. The others do.
func (s *everySource) wantSinkInError(file string, version int) {
	s.t.Helper()
	s.start()
	s.feedUnix("unix", 0, `{"n":1}`+"\n")
	status := waitStatus(s.t, s.admin, func(st exporter.Status) bool {
		return st.Sinks[0].State == exporter.Error
	})
	if want := fmt.Sprintf("%s has format version %d,", file, version); !strings.Contains(status.Sinks[0].LastError, want) {
		s.t.Errorf("got %q, want %q in it", status.Sinks[0].LastError, want)
	}
	s.kill() // in order it would drain for seconds, in vain
}

// TestFormatsAreDocumented: docs/file-formats.md has a row for each file.
func TestFormatsAreDocumented(t *testing.T) {
	page := readFile(t, "../docs/file-formats.md")
	rows := map[string]string{}
	for line := range strings.SplitSeq(page, "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			rows[strings.Trim(cells[1], " `")] = line
		}
	}
	for _, f := range fileFormats {
		if !strings.Contains(rows[f.file], fmt.Sprintf("| %d |", f.version)) {
			t.Errorf("got row %q of %s, want its version %d", rows[f.file], f.file, f.version)
		}
	}
	for _, file := range []string{"<seq>-<epoch>.segment", "cursors", "positions"} {
		if rows[file] == "" {
			t.Errorf("got no row of %s", file)
		}
	}
}
