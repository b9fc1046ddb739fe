package decision_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/decision"
)

// pageSamples are the samples with the records that a section of docs/normalized.md is
// about.
var pageSamples = map[string][]string{
	"Gatekeeper's export": {"gatekeeper-3.24/", "gatekeeper/disk-export", "made/docket"}, // docket's records have the same members
	"Gatekeeper's log":    {"gatekeeper/webhook-log-denies.jsonl", "gatekeeper/audit-stderr-one-run.jsonl"},
	"OPA":                 {"opa/", "made/opa", "made/reviews"},
	"Kubernetes":          {"kube-audit/", "made/kubernetes"},
	"docket":              {"made/docket"},
}

var pageRow = regexp.MustCompile("(?m)^\\| `(/[^`]+)` \\| `([^`]+)` \\| `(.+)` \\| ?(\\*same\\*|`([^|]*)`|) ?\\|$")

// TestPage tries each row of docs/normalized.md on the records of its section: there
// must be one with that value in that member, whose form has what the row says. Where
// that is the same text, another one in its place must come out too.
func TestPage(t *testing.T) {
	page := string(readSample(t, "../docs/normalized.md"))
	all := sampleRecords(t)
	sections := strings.Split(page, "\n### ")[1:]
	if len(sections) != len(pageSamples) {
		t.Fatalf("got %d sections, want %d", len(sections), len(pageSamples))
	}
	for _, section := range sections {
		title, text, _ := strings.Cut(section, "\n")
		rows := pageRow.FindAllStringSubmatch(text, -1)
		if want := strings.Count(text, "\n| `/"); len(rows) != want || want < 10 {
			t.Errorf("%s: got %d rows that can be read of %d", title, len(rows), want)
		}
		var records [][]byte
		for name, sample := range all {
			if slices.ContainsFunc(pageSamples[title], func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
				records = append(records, sample...)
			}
		}
		for _, row := range rows {
			pointer, field, example, becomes := row[1], row[2], row[3], row[5]
			if row[4] != "*same*" {
				tryRow(t, records, pointer, field, example, becomes)
				continue
			}
			var text string
			if err := json.Unmarshal([]byte(example), &text); err != nil {
				t.Errorf("%s: %s: %v", pointer, example, err)
			}
			if record := tryRow(t, records, pointer, field, example, text); record != nil && text != "" {
				tryOther(t, record, pointer, field)
			}
		}
	}
}

// tryRow returns the record by which the row holds.
func tryRow(t *testing.T, records [][]byte, pointer, field, example, becomes string) []byte {
	t.Helper()
	var want any
	if err := json.Unmarshal([]byte(example), &want); err != nil {
		t.Errorf("%s: %s: %v", pointer, example, err)
	}
	var forms []string
	for _, record := range records {
		if value, ok := at(decode(t, record), pointer); !ok || !reflect.DeepEqual(value, want) {
			continue
		}
		form, _ := decision.Normalize(record)
		got := form.Field(field)
		if got == becomes {
			return record
		}
		forms = append(forms, got)
	}
	t.Errorf("%s: %s: got no record that makes %s %q of it, but %q", pointer, example, field, becomes, forms)
	return nil
}

// tryOther puts another text into the member, one that needs escapes.
func tryOther(t *testing.T, record []byte, pointer, field string) {
	t.Helper()
	const other = "another \"text\" \u00fc <b>"
	object := decode(t, record)
	above, name := pointer[:strings.LastIndexByte(pointer, '/')], pointer[strings.LastIndexByte(pointer, '/')+1:]
	parent, _ := at(object, above)
	parent.(map[string]any)[unescapePointer(name)] = other
	changed, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	form, _ := decision.Normalize(changed)
	if got := form.Field(field); got != other {
		t.Errorf("%s: got %s %q, want %q", pointer, field, got, other)
	}
}

func decode(t *testing.T, record []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(record, &v); err != nil {
		t.Fatalf("%.80s: %v", record, err)
	}
	return v
}

// at returns the value at a JSON pointer to a member of objects.
func at(v any, pointer string) (value any, found bool) {
	for name := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		object, _ := v.(map[string]any)
		if v, found = object[unescapePointer(name)]; !found {
			return nil, false
		}
	}
	return v, true
}

func unescapePointer(name string) string { return strings.ReplaceAll(name, "~1", "/") }

// TestFields: Field knows every field of the form, and the page has a row for each.
func TestFields(t *testing.T) {
	record := []byte(`{"schemaVersion":1,"timestamp":"2026-01-05T11:04:07.5+01:00","process":"admission","decision":"deny","group":"a","kind":"b","name":"c",
		"resourceGroup":"d","resourceAPIVersion":"e","resourceKind":"f","requestResource":"g","requestSubresource":"h","resourceNamespace":"i","resourceName":"j",
		"requestUsername":"k","operation":"l","id":"m","message":"n"}`)
	form, ok := decision.Normalize(record)
	form.FailedOpen = true
	var got []string
	for _, name := range decision.NormalizedFields() {
		got = append(got, form.Field(name))
	}
	want := strings.Fields("2026-01-05T10:04:07.5Z docket admission deny a b c d e f g h i j k l m n true")
	if !ok || !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, name := range []string{"", "policy", "policy.", "resource.x", "x"} {
		if text := form.Field(name); text != "" {
			t.Errorf("%q: got %q, want nothing", name, text)
		}
	}
	page := readSample(t, "../docs/normalized.md")
	for _, name := range decision.NormalizedFields() {
		if !bytes.Contains(page, []byte("`"+name+"`")) {
			t.Errorf("docs/normalized.md does not have %s", name)
		}
		if empty := (&decision.Normalized{}).Field(name); empty != "" {
			t.Errorf("%s: got %q of an empty form", name, empty)
		}
	}
}
