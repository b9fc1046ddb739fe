package decision

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// paths calls yield with every member below l and its path.
func paths(l level, above []string, yield func(path []string, m member)) {
	for _, e := range known.entries {
		if e.level != l {
			continue
		}
		path := append(slices.Clone(above), e.name)
		if e.member != none {
			yield(path, e.member)
		}
		if e.inner != nowhere {
			paths(e.inner, path, yield)
		}
	}
}

// Every member has a place of its own, among those of the levels that it lies in.
func TestMembersHaveOnePath(t *testing.T) {
	seen := map[member][]string{none: {}, known.prefix.member: {known.prefix.name}}
	note := func(path []string, m member) {
		if seen[m] != nil {
			t.Errorf("member %d is at %q and at %q", m, seen[m], path)
		}
		seen[m] = path
	}
	paths(inRecord, nil, note)
	paths(inItem, []string{"an item"}, note)
	for m := none; m <= known.members; m++ {
		if seen[m] == nil {
			t.Errorf("got no path to member %d", m)
		}
	}
	if known.members >= maxMembers || known.prefix.member != atFailedOpen {
		t.Errorf("got %d members, and %d for a name that begins so", known.members, known.prefix.member)
	}
	for l := inItem + 1; l < known.levels; l++ {
		count := member(0)
		below := known.below[l]
		paths(l, nil, func(path []string, m member) {
			count++
			if m < below.first || m > below.last {
				t.Errorf("member %d, %q below level %d, is not among %d to %d", m, path, l, below.first, below.last)
			}
		})
		if l == known.prefix.level {
			count++
		}
		if count != below.last-below.first+1 {
			t.Errorf("level %d has %d members, want %d to %d and nothing else among them", l, count, below.first, below.last)
		}
	}
}

// FuzzMembers compares the places of members with what encoding/json decodes, and
// their texts with the strings.
func FuzzMembers(f *testing.F) {
	for _, dir := range []string{"../testdata/records", "testdata/made"} {
		files, err := filepath.Glob(dir + "/*.ndjson")
		if err != nil || len(files) == 0 {
			f.Fatalf("got no records in %s, %v", dir, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			for line := range bytes.Lines(text) {
				f.Add(line)
			}
		}
	}
	f.Add([]byte(`{"user":{"username":"a"},"user":{},"result":{"allow":true},"result":[1]}`))
	f.Add([]byte(`{"input":{"request":{"kind":{"kind":"a"}},"request":null},"us\u0065r":{"username":"\ud83d\ude00\ud800\u00e9\/"}}`))
	f.Add([]byte(" {\n\"id\" : \"a\\\\\" ,\t\"message\":\"\xff\\\"\" } "))
	f.Fuzz(func(t *testing.T, record []byte) {
		form, _ := Normalize(record)
		dec := json.NewDecoder(bytes.NewReader(record))
		dec.UseNumber()
		var want map[string]any
		if !json.Valid(record) || dec.Decode(&want) != nil || want == nil {
			return
		}
		for _, name := range NormalizedFields() {
			if text := form.Field(name); !utf8.ValidString(text) {
				t.Errorf("%s is not UTF-8: %q", name, text)
			}
		}
		var got members
		if !got.readAs(inRecord, record) {
			t.Fatal("got no object")
		}
		paths(inRecord, nil, func(path []string, m member) {
			compareMember(t, &got, path, m, want)
		})
	})
}

func compareMember(t *testing.T, got *members, path []string, m member, record map[string]any) {
	t.Helper()
	var want any = record
	found := true
	for _, name := range path {
		object, _ := want.(map[string]any)
		want, found = object[name]
	}
	raw := got.raw(m)
	if raw == nil || !found {
		if (raw != nil) != found {
			t.Errorf("%q: got %q, found by encoding/json: %t", path, raw, found)
		}
		return
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil || !reflect.DeepEqual(value, want) {
		t.Errorf("%q: got %q, %v, want %v", path, raw, err, want)
	}
	var texts maker
	if text, isText := want.(string); isText && texts.unquote(raw) != text {
		t.Errorf("%q: got the text %q of %s, want %q", path, texts.unquote(raw), raw, text)
	}
}

// Every member that Normalize looks at is on the page.
func TestPageHasEveryMember(t *testing.T) {
	page, err := os.ReadFile("../docs/normalized.md")
	if err != nil {
		t.Fatal(err)
	}
	paths(inRecord, nil, func(path []string, m member) {
		pointer := ""
		for _, name := range path {
			pointer += "/" + strings.ReplaceAll(name, "/", "~1")
		}
		if !bytes.Contains(page, []byte("| `"+pointer+"` |")) {
			t.Errorf("docs/normalized.md has no row for %s", pointer)
		}
	})
}
