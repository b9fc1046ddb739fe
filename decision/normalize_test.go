package decision_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/decision"
)

var update = flag.Bool("update", false, "write the golden files of TestNormalizeSamples")

// samplesDir holds what real engines wrote, unchanged.
const samplesDir = "../testdata/samples"

// TestNormalizeSamples compares the whole form of every record in every sample, and of
// the records made for what no sample shows.
func TestNormalizeSamples(t *testing.T) {
	for name, records := range sampleRecords(t) {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			for _, record := range records {
				got.Write(normalizedLine(t, record))
			}
			golden := filepath.Join("testdata/normalized", strings.ReplaceAll(name, "/", "_")+".ndjson")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			compareLines(t, golden, got.String())
		})
	}
}

// normalizedLine is the form of record as JSON, null for a record that is unknown.
func normalizedLine(t *testing.T, record []byte) []byte {
	t.Helper()
	before := bytes.Clone(record)
	form, ok := decision.Normalize(record)
	if !bytes.Equal(record, before) {
		t.Errorf("%.80s was changed", before)
	}
	if !ok {
		if form != (decision.Normalized{}) {
			t.Errorf("got %+v of an unknown record, want nothing", form)
		}
		return []byte("null\n")
	}
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(form); err != nil {
		t.Fatal(err)
	}
	return line.Bytes()
}

func compareLines(t *testing.T, golden, got string) {
	t.Helper()
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(text), "\n")
	if len(gotLines) != len(wantLines) {
		t.Fatalf("%s: got %d lines, want %d", golden, len(gotLines), len(wantLines))
	}
	for i, want := range wantLines {
		if gotLines[i] != want {
			t.Errorf("%s:%d:\ngot  %s\nwant %s", golden, i+1, gotLines[i], want)
		}
	}
}

// sampleRecords are the records of each sample, and of each file in testdata/made, by
// the file's name. It fails for a sample that it does not know how to read.
func sampleRecords(t testing.TB) map[string][][]byte {
	t.Helper()
	all := map[string][][]byte{}
	err := filepath.WalkDir(samplesDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(samplesDir, path)
		if err == nil && !slices.Contains([]string{".yaml", ".rego", ".headers"}, filepath.Ext(path)) {
			all[name] = recordsOf(t, name, readSample(t, path))
		}
		return err
	})
	if err != nil || len(all) != 17 {
		t.Fatalf("got %d samples with records, %v, want 17: %s", len(all), err, samplesDir)
	}
	for _, name := range []string{"kubernetes", "opa", "docket"} {
		all["made/"+name] = lines(readSample(t, "testdata/made/"+name+".ndjson"))
	}
	all["made/reviews"] = reviewed(t)
	return all
}

func recordsOf(t testing.TB, name string, text []byte) [][]byte {
	t.Helper()
	switch {
	case strings.HasPrefix(name, "opa/"):
		unzip, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if text, err = io.ReadAll(unzip); err != nil {
			t.Fatal(err)
		}
		return items(t, text)
	case strings.HasPrefix(name, "kube-audit/"):
		var list struct{ Items json.RawMessage }
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		return append(items(t, list.Items), text) // the list itself is no record
	}
	return lines(text)
}

func readSample(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func items(t testing.TB, array []byte) [][]byte {
	t.Helper()
	var all []json.RawMessage
	if err := json.Unmarshal(array, &all); err != nil || len(all) == 0 {
		t.Fatalf("got %d items, %v", len(all), err)
	}
	var records [][]byte
	for _, item := range all {
		records = append(records, item)
	}
	return records
}

func lines(text []byte) [][]byte {
	return bytes.Split(bytes.TrimSpace(text), []byte("\n"))
}

// reviewed are the real AdmissionReviews as OPA would log them: as input, and as the
// result of its rule main.
func reviewed(t testing.TB) [][]byte {
	t.Helper()
	var records [][]byte
	for _, name := range []string{"deny", "warn", "allow", "delete"} {
		dir := samplesDir + "/gatekeeper/admission/" + name
		record := []byte(`{"decision_id":"d-1","path":"system/main","input":`)
		record = append(record, bytes.TrimSpace(readSample(t, dir+"-request.json"))...)
		record = append(record, `,"result":`...)
		record = append(record, bytes.TrimSpace(readSample(t, dir+"-response.json"))...)
		records = append(records, append(record, `,"timestamp":"2026-01-05T10:04:07Z"}`...))
	}
	return records
}

// What is odd, and what is no record at all.
func TestNormalizeOdd(t *testing.T) {
	tests := map[string]struct {
		record string
		want   string // the form, null for none
	}{
		"nothing":                  {``, `null`},
		"no object":                {`["decision_id"]`, `null`},
		"text":                     {`audit is started`, `null`},
		"null members":             {`{"schemaVersion":null,"decision_id":null,"auditID":null,"stage":null,"eventType":null,"message":"audit is started"}`, `{"engine":"gatekeeper","process":"audit","message":"audit is started"}`},
		"members of other types":   {`{"decision_id":7,"path":["a"],"result":"true","timestamp":5,"input":["user"],"error":"x"}`, `{"engine":"opa"}`},
		"escapes everywhere":       {`{"event\u0054ype":"violation\u005faudited","enforcementAction":"\u0064eny","id":"2026-01-05T10:04:07\u002b01:00"}`, `{"when":"2026-01-05T09:04:07Z","engine":"gatekeeper","process":"audit","decision":"deny","id":"2026-01-05T10:04:07+01:00"}`},
		"last of two counts":       {`{"decision_id":"1","path":"x/allow","result":true,"result":false}`, `{"engine":"opa","decision":"deny","policy":{"name":"x/allow"},"id":"1"}`},
		"last of two objects":      {`{"decision_id":"1","input":{"user":"a"},"input":{},"result":{"allow":false},"result":{}}`, `{"engine":"opa","id":"1"}`},
		"last is no object":        {`{"auditID":"1","stage":"x","user":{"username":"a"},"user":"b"}`, `{"engine":"kubernetes","id":"1"}`},
		"names in another case":    {`{"Decision_ID":"1"}`, `null`},
		"action of the operator":   {`{"eventType":"violation_audited","enforcementAction":"page"}`, `{"engine":"gatekeeper","process":"audit"}`},
		"scoped to nothing known":  {`{"eventType":"violation_audited","enforcementAction":"scoped","enforcementActions":["page",null]}`, `{"engine":"gatekeeper","process":"audit"}`},
		"strictest of the scoped":  {`{"eventType":"violation_audited","enforcementAction":"scoped","enforcementActions":["dryrun","page","warn","deny","warn"]}`, `{"engine":"gatekeeper","process":"audit","decision":"deny"}`},
		"scoped without a list":    {`{"eventType":"violation_audited","enforcementAction":"scoped"}`, `{"engine":"gatekeeper","process":"audit"}`},
		"process of no policy":     {`{"event_type":"mutation_applied","msg":"m","process":"mutation"}`, `null`},
		"time before all years":    {`{"decision_id":"1","timestamp":"0000-01-01T00:00:00+23:59"}`, `{"engine":"opa","id":"1"}`},
		"seconds beyond all years": {`{"event_type":"violation","msg":"m","process":"admission","ts":1e300}`, `{"engine":"gatekeeper","process":"admission","message":"m"}`},
		"decision as failure list": {`{"auditID":"1","stage":"x","verb":"create","responseStatus":{"code":200},"annotations":{"validation.policy.admission.k8s.io/validation_failure":"[7,{},{\"validationActions\":[]},\"x\"]"}}`, `{"engine":"kubernetes","process":"admission","decision":"allow","operation":"CREATE","id":"1"}`},
		"deny that let it through": {`{"auditID":"1","stage":"x","verb":"create","responseStatus":{"code":200},"annotations":{"validation.policy.admission.k8s.io/validation_failure":"[{\"policy\":\"p\",\"validationActions\":[\"Deny\",\"Audit\"]}]"}}`, `{"engine":"kubernetes","process":"admission","decision":"dryrun","policy":{"group":"admissionregistration.k8s.io","kind":"ValidatingAdmissionPolicy","name":"p"},"operation":"CREATE","id":"1"}`},
		"long message":             {`{"decision_id":"1","result":{"allow":false,"msg":"` + strings.Repeat(`\n`, 1000) + `"}}`, `{"engine":"opa","decision":"deny","id":"1","message":"` + strings.Repeat(`\n`, 1000) + `"}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := strings.TrimSpace(string(normalizedLine(t, []byte(tt.record)))); got != tt.want {
				t.Errorf("%.200s:\ngot  %s\nwant %s", tt.record, got, tt.want)
			}
		})
	}
}

// Every sample cut off at every byte, and with a bit of every byte changed, gives some
// form or none.
func TestNormalizeDamaged(t *testing.T) {
	for _, records := range sampleRecords(t) {
		for _, record := range records[:min(len(records), 10)] {
			damaged := bytes.Clone(record)
			for i := range record {
				decision.Normalize(record[:i:i])
				damaged[i] ^= 1 << (i % 8)
				decision.Normalize(damaged)
				damaged[i] = record[i]
			}
		}
	}
}

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
