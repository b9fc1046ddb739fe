package manifest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/fileversion"
	"github.com/docket-export/docket/internal/lineage"
	"github.com/docket-export/docket/sinks"
)

const (
	queueA = "3f6c1d9e-6f0f-4a53-9a57-0d6c9b0f3a11"
	queueB = "7b2e4c55-0f3d-4c8e-8a0b-5d1f6e9a2c44"
)

var when = time.Date(2026, 1, 5, 10, 4, 7, 120_000_000, time.UTC)

// entry covers first to last without a gap.
func entry(name string, first, last uint64) Entry {
	return Entry{
		Name: name, SHA256: sha256.Sum256([]byte(name)), Bytes: 100, Records: last - first + 1, Queue: queueA,
		FirstSeq: first, LastSeq: last, FirstTime: when, LastTime: when, Finished: when,
	}
}

func testKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(slices.Repeat([]byte{seed}, ed25519.SeedSize))
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// lines is a manifest of three lines: two entries and the removal of the first.
func lines(t *testing.T, key ed25519.PrivateKey) []string {
	t.Helper()
	second := entry("b.ndjson", 3, 9)
	second.Records -= 3
	second.Incarnations = lineage.Lineage{{ID: queueA, First: 1}, {ID: queueB, First: 6}}
	for _, g := range []sinks.Gap{{From: 4, To: 5, Reason: sinks.Filtered}, {From: 7, To: 7, Reason: sinks.Corrupt}} {
		if err := second.Gaps.Add(g.From, g.To, g.Reason); err != nil {
			t.Fatal(err)
		}
	}
	chain := Chain{Key: key}
	var list []string
	add := func(line []byte, next Chain, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		list, chain = append(list, string(line)), next
	}
	add(chain.Entry(entry("a.ndjson", 1, 2)))
	add(chain.Entry(second))
	add(chain.Removed(Removed{Name: "a.ndjson", Reason: MaxAge, Time: when}))
	return list
}

// The form of the lines is a promise to those who read them with other tools.
func TestForm(t *testing.T) {
	got := lines(t, nil)
	hash := func(line string) string {
		return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.TrimSuffix(line, "\n"))))
	}
	const zeros = "0000000000000000000000000000000000000000000000000000000000000000"
	times := `"firstTime":"2026-01-05T10:04:07.12Z","lastTime":"2026-01-05T10:04:07.12Z"`
	want := []string{
		`{"version":1,"type":"file","name":"a.ndjson","sha256":"` + fmt.Sprintf("%x", sha256.Sum256([]byte("a.ndjson"))) +
			`","bytes":100,"records":2,"queue":"` + queueA + `","firstSeq":1,"lastSeq":2,` + times +
			`,"gaps":{},"finished":"2026-01-05T10:04:07.12Z","previous":"` + zeros + "\"}\n",
		`{"version":1,"type":"file","name":"b.ndjson","sha256":"` + fmt.Sprintf("%x", sha256.Sum256([]byte("b.ndjson"))) +
			`","bytes":100,"records":4,"queue":"` + queueA + `","firstSeq":3,"lastSeq":9,` + times +
			`,"incarnations":[{"id":"` + queueA + `","firstSeq":1},{"id":"` + queueB + `","firstSeq":6}]` +
			`,"gaps":{"Corrupt":"7","Filtered":"4-5"},"finished":"2026-01-05T10:04:07.12Z","previous":"` + hash(got[0]) + "\"}\n",
		`{"version":1,"type":"removed","name":"a.ndjson","reason":"MaxAge","time":"2026-01-05T10:04:07.12Z","previous":"` +
			hash(got[1]) + "\"}\n",
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("line %d: got\n%swant\n%s", i+1, got[i], want[i])
		}
	}
	key := testKey(1)
	for i, line := range lines(t, key) {
		body, signature, ok := strings.Cut(strings.TrimSuffix(line, "\"}\n"), signatureMember)
		raw, err := base64.StdEncoding.DecodeString(signature)
		if !ok || err != nil || !ed25519.Verify(public(key), []byte(body+"}"), raw) {
			t.Errorf("line %d: got %s, want a signature of all before it and a brace", i+1, line)
		}
	}
}

func TestReadWhatWasWritten(t *testing.T) {
	for name, key := range map[string]ed25519.PrivateKey{"not signed": nil, "signed": testKey(1)} {
		t.Run(name, func(t *testing.T) {
			var chain Chain
			var got []string
			for line, err := range Read(strings.NewReader(strings.Join(lines(t, key), ""))) {
				if err != nil {
					t.Fatal(err)
				}
				if line.Previous != chain.Previous {
					t.Errorf("got previous %s, want %s", line.Previous, chain.Previous)
				}
				chain.Previous = line.Hash
				if line.IsSigned() != (key != nil) || line.SignedBy(public(testKey(1))) != (key != nil) || line.SignedBy(public(testKey(2))) {
					t.Errorf("got signed %t, by key 1 %t, by key 2 %t", line.IsSigned(), line.SignedBy(public(testKey(1))), line.SignedBy(public(testKey(2))))
				}
				switch {
				case line.Entry != nil:
					got = append(got, fmt.Sprint(line.Entry.Name, seqsOf(*line.Entry, line.Entry.FirstSeq)))
				case line.Removed != nil:
					got = append(got, fmt.Sprint(line.Removed.Name, line.Removed.Reason))
				}
			}
			want := []string{"a.ndjson[1 2]", "b.ndjson[3 6 8 9]", "a.ndjsonMaxAge"}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	plain, signed := lines(t, nil), lines(t, testKey(1))
	file, removed := plain[1], plain[2]
	edit := func(line, old, text string) string {
		if !strings.Contains(line, old) {
			t.Fatalf("%q is not in %s", old, line)
		}
		return strings.Replace(line, old, text, 1)
	}
	for name, tt := range map[string]struct{ line, want string }{
		"nothing":              {"", "not a line"},
		"no object":            {"[]", "not a line"},
		"torn":                 {file[:50], "not a line"},
		"newer version":        {edit(file, `"version":1`, `"version":2`), "format version 2"},
		"no type":              {edit(file, `"type":"file"`, `"type":"fiel"`), `type "fiel"`},
		"white space":          {edit(file, `,"type"`, `, "type"`), "not written as"},
		"a member more":        {edit(file, `"gaps"`, `"x":1,"gaps"`), "not written as"},
		"a member twice":       {edit(file, `"records":4`, `"records":5,"records":4`), "not written as"},
		"name of other case":   {edit(file, `"bytes"`, `"Bytes"`), "not written as"},
		"short hash":           {edit(file, `"sha256":"`, `"sha256":"00`), "hash has 66"},
		"upper case hash":      {edit(file, fmt.Sprintf("%x", sha256.Sum256([]byte("b.ndjson"))), fmt.Sprintf("%X", sha256.Sum256([]byte("b.ndjson")))), "not written as"},
		"absolute name":        {edit(file, "b.ndjson", "/etc/passwd"), "not a path below"},
		"name that leads out":  {edit(file, "b.ndjson", "a/../../b"), "not a path below"},
		"name of a drive":      {edit(file, "b.ndjson", `c:\\b`), "not a path below"},
		"name in two forms":    {edit(file, "b.ndjson", "./b.ndjson"), "not a path below"},
		"name with a newline":  {edit(file, "b.ndjson", `b\n.ndjson`), "cannot be printed"},
		"name turned around":   {edit(file, "b.ndjson", "b\u202enosjdn"), "cannot be printed"},
		"endless name":         {edit(file, "b.ndjson", strings.Repeat("b", 1025)), "more than 1024"},
		"no name":              {edit(file, "b.ndjson", ""), "not a path below"},
		"name of the manifest": {edit(file, "b.ndjson", FileName), "belongs to the manifest"},
		"removal leads out":    {edit(removed, "a.ndjson", "../a"), "not a path below"},
		"no such limit":        {edit(removed, "MaxAge", "Whim"), `reason "Whim"`},
		"removal with a size":  {edit(removed, `"reason"`, `"bytes":1,"reason"`), "not written as"},
		"no queue":             {edit(file, queueA, "q"), "not a UUID"},
		"queue in braces":      {edit(file, queueA, "{"+queueA+"}"), "not a UUID"},
		"no records":           {edit(file, `"records":4`, `"records":0`), "without records"},
		"no bytes":             {edit(file, `"bytes":100`, `"bytes":0`), "without records"},
		"negative bytes":       {edit(file, `"bytes":100`, `"bytes":-1`), "without records"},
		"a record more":        {edit(file, `"records":4`, `"records":5`), "5 records and 3 seqs in gaps do not make up the 7 seqs from 3 to 9"},
		"ends before it began": {edit(file, `"lastSeq":9`, `"lastSeq":2`), "not a range"},
		"begins with no seq":   {edit(file, `"firstSeq":3`, `"firstSeq":0`), "not a range"},
		"begins in a gap":      {edit(file, `"firstSeq":3`, `"firstSeq":4`), "lies in a gap"},
		"gap beyond the end":   {edit(file, `"4-5"`, `"4-5,11"`), "goes beyond lastSeq"},
		"gaps that overlap":    {edit(file, `"Corrupt":"7"`, `"Corrupt":"5"`), "does not come after"},
		"gap without reason":   {edit(file, `"Corrupt":"7"`, `"Whim":"7"`), "no such reason"},
		"gap from 0":           {edit(file, `"4-5"`, `"0-5"`), "not a range"},
		"gap turned around":    {edit(file, `"4-5"`, `"5-4"`), "not a range"},
		"endless gap":          {edit(file, `"4-5"`, `"4-18446744073709551615"`), "not a range"},
		"gap in other words":   {edit(file, `"4-5"`, `"4,5"`), "not written as"},
		"gap of two numbers":   {edit(file, `"4-5"`, `"4-05"`), "not written as"},
		"signature cut":        {signed[1][:len(signed[1])-10], "not a line"},
		"signature too short":  {edit(signed[1], signatureMember, signatureMember+"AAAA"), "not written as"},
		"signature not base64": {edit(signed[1], `==`, `=!`), "the signature is not base64"},
		"signature with bits":  {spareBits(signed[1]), "the signature is not base64"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode([]byte(strings.TrimSuffix(tt.line, "\n")))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// spareBits sets a bit of the signature in line that a decoder may overlook.
func spareBits(line string) string {
	b := []byte(line)
	b[strings.LastIndex(line, "==")-1]++
	return string(b)
}

// What Decode would not take is not written either.
func TestNotWritten(t *testing.T) {
	for name, change := range map[string]func(*Entry){
		"name": func(e *Entry) { e.Name = "../x" }, "count": func(e *Entry) { e.Records++ }, "queue": func(e *Entry) { e.Queue = "" },
	} {
		e := entry("a.ndjson", 1, 2)
		change(&e)
		chain := Chain{Previous: Hash{1}}
		if line, next, err := chain.Entry(e); err == nil || line != nil || next.Previous != chain.Previous {
			t.Errorf("%s: got %q, %v, want an error and the chain as it was", name, line, err)
		}
	}
}

func TestEditedLinesAreNotSigned(t *testing.T) {
	for i, text := range lines(t, testKey(1)) {
		for at := range len(text) - 1 {
			b := []byte(strings.TrimSuffix(text, "\n"))
			b[at] ^= 1
			if line, err := Decode(b); err == nil && line.SignedBy(public(testKey(1))) {
				t.Fatalf("line %d, bit flipped at %d: got a signed line %s", i+1, at, b)
			}
		}
	}
}

func TestReaderGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	w, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list := lines(t, nil)
	r := NewReader(f)
	for i, line := range list {
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("before line %d: got %v, want EOF", i+1, err)
		}
		for _, part := range []string{line[:30], line[30:]} {
			if _, err := w.WriteString(part); err != nil {
				t.Fatal(err)
			}
			if part == line[:30] {
				if _, err := r.Next(); !errors.Is(err, io.EOF) || r.Torn() != 30 {
					t.Errorf("in line %d: got %v, %d bytes torn, want EOF and 30", i+1, err, r.Torn())
				}
			}
		}
		got, err := r.Next()
		if err != nil || r.Number() != uint64(i+1) || r.Torn() != 0 {
			t.Fatalf("line %d: got %+v, %v as number %d", i+1, got, err, r.Number())
		}
	}
}

func TestReaderIsBounded(t *testing.T) {
	for name, tail := range map[string]string{"no newline": "", "a newline": "\n"} {
		in := &endless{left: 10 << 20, tail: tail}
		var lineErr *LineError
		if _, err := NewReader(in).Next(); !errors.As(err, &lineErr) || !strings.Contains(err.Error(), "line 1: longer than") {
			t.Errorf("%s: got %v, want that line 1 is too long", name, err)
		}
		if read := 10<<20 - in.left; read > MaxLine+128<<10 {
			t.Errorf("%s: got %d bytes read, want no more than a line", name, read)
		}
	}
}

type endless struct {
	left int
	tail string
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return copy(p, e.tail), io.EOF
	}
	n := min(len(p), e.left)
	e.left -= n
	return copy(p, strings.Repeat("a", n)), nil
}

// A last line of a newer docket is told from lines that are damaged or torn.
func TestCheckVersion(t *testing.T) {
	list := lines(t, nil)
	newer := strings.Replace(list[1], `"version":1`, `"version":2`, 1)
	for name, tt := range map[string]struct {
		content string
		unknown bool
	}{
		"empty":              {"", false},
		"ours":               {list[0], false},
		"newer":              {list[0] + newer, true},
		"newer and torn":     {list[0] + newer + list[2][:40], true},
		"newer before ours":  {newer + list[0], false},
		"only torn":          {newer[:40], false},
		"damaged":            {list[0] + "{}\n", false},
		"a tail of no lines": {list[0] + strings.Repeat("x", 3*MaxLine), false},
	} {
		err := CheckVersion(strings.NewReader(tt.content), int64(len(tt.content)))
		if _, unknown := errors.AsType[*fileversion.Error](err); unknown != tt.unknown || !unknown && err != nil {
			t.Errorf("%s: got %v, want an unknown version: %t", name, err, tt.unknown)
		}
	}
}

func TestKeys(t *testing.T) {
	private, public1, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	_, public2, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParsePublicKeys(slices.Concat(public1, public2))
	if err != nil || len(keys) != 2 || !keys[0].Equal(key.Public()) || keys[1].Equal(key.Public()) {
		t.Errorf("got %d keys, %v, want the two, the first belonging to the private key", len(keys), err)
	}
	if _, err := ParsePublicKeys(private); err == nil || !strings.Contains(err.Error(), "this is the private key") {
		t.Errorf("private for public: got %v", err)
	}
	for name, text := range map[string][]byte{"public": public1, "empty": nil, "cut": private[:40]} {
		if _, err := ParsePrivateKey(text); err == nil || strings.Contains(err.Error(), string(text[:min(len(text), 5)])) && len(text) > 0 {
			t.Errorf("%s for private: got %v, want an error that does not quote it", name, err)
		}
	}
	if _, err := ParsePublicKeys(nil); err == nil {
		t.Error("no public key: got none, want an error")
	}
}
