package redact_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/redact"
)

// fuzzKey is in the key file of fuzzRules.
const fuzzKey = "a key for tests"

func fuzzRules(t testing.TB) [][]redact.Rule {
	file := filepath.Join(t.TempDir(), "key")
	writeKey(t, file, fuzzKey)
	hash := func(pointer string) redact.Rule {
		return redact.Rule{Pointer: pointer, Action: redact.HMACSHA256, KeyFile: config.SecretFile(file)}
	}
	return [][]redact.Rule{
		{secrets},
		{remove("/a"), remove("/*/b"), replace("/items/0", "x"), hash("/data/*")},
		{secrets, hash("/a"), remove("/requestObject/1"), replace("/*/*/value", `"<é`), hash("/items/*/data")},
		{remove("/*/*"), hash("/*")},
	}
}

// compare checks a record against the edits made on its tree.
func compare(t *testing.T, rules []redact.Rule, record []byte) {
	t.Helper()
	root := parse(record)
	if root == nil || root.Kind != '{' {
		return
	}
	out, err := newRedactor(t, rules...).Append(nil, record, math.MaxInt)
	if err != nil {
		t.Fatalf("redact %s: %v", record, err)
	}
	got := parse(out)
	if got == nil {
		t.Fatalf("record %s\ngot no JSON: %s", record, out)
	}
	unchanged := root.String()
	if !naive(root, rules, fuzzKey) {
		return
	}
	if got.String() != root.String() {
		t.Errorf("record %s\ngot  %s\nwant %s", record, got, root)
	}
	if root.String() == unchanged && !bytes.Equal(out, record) {
		t.Errorf("record %s\ngot  %s\nwant it unchanged", record, out)
	}
}

// FuzzAppend compares whatever the fuzzer finds; TestRandomRecords is more likely to
// make objects that rules are about.
func FuzzAppend(f *testing.F) {
	f.Add([]byte(`{"a":1,"data":{"b":[1,{"c":null}]},"items":["x",{"data":1}],"kind":"Secret"}`), 1)
	f.Add([]byte(`{"objectRef":{"resource":"secrets"},"requestObject":[{"value":1},{"value":2}]}`), 2)
	f.Add([]byte(`{"kind":"SecretList","items":[{"data":1},{"da\u0074a":2}]}`), 0)
	f.Add([]byte(`{"kubectl.kubernetes.io/last-applied-configuration":"{\"kind\":\"Secret\",\"data\":1}"}`), 2)
	f.Add([]byte(`{"resourceKind":"Secret","patch":[{"value":1}],"object":{"data":1},"oldObject":{"kind":"Secret","stringData":1}}`), 0)
	f.Add([]byte(`{"a":`), 3)
	rules := fuzzRules(f)
	f.Fuzz(func(t *testing.T, record []byte, n int) {
		rules := rules[uint(n)%uint(len(rules))]
		if !json.Valid(record) || !utf8.Valid(record) { // which must do no harm
			_, _ = newRedactor(t, rules...).Append(nil, record, math.MaxInt)
			return
		}
		compare(t, rules, record)
	})
}

func TestRandomRecords(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if testing.Short() {
		seed = 1 // the gate decides nothing by chance
	}
	t.Logf("seed %d", seed)
	g := generator{rand.New(rand.NewPCG(seed, 0))}
	rules := fuzzRules(t)
	for range 3000 {
		record := g.object(0)
		compare(t, rules[g.IntN(len(rules))], []byte(record))
		if t.Failed() {
			return
		}
	}
}

// generator makes records of the names that rules know.
type generator struct{ *rand.Rand }

func (g generator) pick(words ...string) string { return words[g.IntN(len(words))] }

func (g generator) space() string { return g.pick("", "", "", " ", "\t ") }

func (g generator) text(s string) string {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always has a form
	}
	if n := g.IntN(8); n < len(s) {
		quoted = []byte(strings.Replace(string(quoted), s[n:n+1], fmt.Sprintf(`\u%04x`, s[n]), 1))
		if !json.Valid(quoted) || n > 0 && s[n-1] == '\\' {
			quoted, _ = json.Marshal(s)
		}
	}
	return string(quoted)
}

func (g generator) object(depth int) string {
	var members []string
	for range g.IntN(6) {
		name := g.pick("a", "b", "data", "stringData", "kind", "kind", "apiVersion", "metadata", "annotations", "items", "objectRef",
			"resource", "apiGroup", "resourceKind", "resourceGroup", "object", "oldObject", "patch", "requestObject", "responseObject", "value", lastApplied, "patch.webhook.admission.k8s.io/x", "")
		members = append(members, g.space()+g.text(name)+g.space()+":"+g.space()+g.member(name, depth)+g.space())
	}
	return "{" + g.space() + strings.Join(members, ",") + "}"
}

func (g generator) member(name string, depth int) string {
	switch {
	case name == "resourceKind":
		return g.text(g.pick("Secret", "Secret", "Pod"))
	case name == "resourceGroup":
		return g.text(g.pick("", "apps"))
	case name == "kind":
		return g.text(g.pick("Secret", "SecretList", "Event", "List"))
	case name == "apiVersion":
		return g.text(g.pick("v1", "v1", "v2"))
	case name == "resource":
		return g.text(g.pick("secrets", "secrets", "pods"))
	case name == "apiGroup":
		return g.text(g.pick("", "apps"))
	case name == lastApplied && depth < 4:
		return g.text(g.object(depth + 2))
	}
	return g.value(depth + 1)
}

func (g generator) value(depth int) string {
	if depth > 5 || g.IntN(4) == 0 {
		return g.pick("1", "-0.50", "null", "true", `"x"`, `"\"}],{[\\"`, `""`, "[]", "{}")
	}
	if g.IntN(3) > 0 {
		return g.object(depth)
	}
	var items []string
	for range g.IntN(4) {
		items = append(items, g.space()+g.value(depth+1)+g.space())
	}
	return "[" + g.space() + strings.Join(items, ",") + "]"
}
