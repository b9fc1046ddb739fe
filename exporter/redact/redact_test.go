package redact_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/redact"
)

func newRedactor(t testing.TB, rules ...redact.Rule) *redact.Redactor {
	t.Helper()
	if problems := redact.Validate(rules); len(problems) > 0 {
		t.Fatalf("rules: %v", problems)
	}
	r, err := redact.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// redacted returns what is left of record.
func redacted(t testing.TB, r *redact.Redactor, record string) string {
	t.Helper()
	out, err := r.Append([]byte("before "), []byte(record), math.MaxInt)
	if err != nil {
		t.Fatalf("redact %s: %v", record, err)
	}
	rest, ok := bytes.CutPrefix(out, []byte("before "))
	if !ok {
		t.Fatalf("what stood before the record is gone: %s", out)
	}
	if !json.Valid(rest) {
		t.Errorf("not JSON: %s", rest)
	}
	return string(rest)
}

func remove(pointer string) redact.Rule {
	return redact.Rule{Pointer: pointer, Action: redact.Remove}
}

func replace(pointer, with string) redact.Rule {
	return redact.Rule{Pointer: pointer, Action: redact.Replace, With: with}
}

var secrets = redact.Rule{Preset: redact.KubernetesSecrets}

func TestPointers(t *testing.T) {
	all := []redact.Rule{remove("/*")}
	tests := map[string]struct {
		rules        []redact.Rule
		record, want string
	}{
		"no rules":                      {nil, ` {"a" : 1} `, ` {"a" : 1} `},
		"nothing there":                 {[]redact.Rule{remove("/b"), remove("/a/b"), remove("/a/0")}, `{"a":1,"c":[]}`, `{"a":1,"c":[]}`},
		"only member":                   {[]redact.Rule{remove("/a")}, `{"a":1}`, `{}`},
		"first member":                  {[]redact.Rule{remove("/a")}, `{ "a" : 1 , "b" : 2 }`, `{  "b" : 2 }`},
		"member in the middle":          {[]redact.Rule{remove("/b")}, `{ "a" : 1 , "b" : 2 , "c" : 3 }`, `{ "a" : 1  , "c" : 3 }`},
		"last member":                   {[]redact.Rule{remove("/c")}, `{ "a" : 1 , "b" : 2 , "c" : 3 }`, `{ "a" : 1 , "b" : 2  }`},
		"first two":                     {[]redact.Rule{remove("/a"), remove("/b")}, `{"a":1,"b":2,"c":3}`, `{"c":3}`},
		"last two":                      {[]redact.Rule{remove("/b"), remove("/c")}, `{"a":1,"b":2,"c":3}`, `{"a":1}`},
		"first and last":                {[]redact.Rule{remove("/a"), remove("/c")}, `{"a":1,"b":2,"c":3}`, `{"b":2}`},
		"all":                           {all, `{"a":1,"b":[2,3],"c":{"d":4}}`, `{}`},
		"items":                         {[]redact.Rule{remove("/a/0"), remove("/a/2")}, `{"a":[1,2,3,4]}`, `{"a":[2,4]}`},
		"all items":                     {[]redact.Rule{remove("/a/*")}, `{"a":[1,[2],{"x":3}],"b":1}`, `{"a":[],"b":1}`},
		"member called as an index":     {[]redact.Rule{remove("/a/0")}, `{"a":{"0":1,"00":2}}`, `{"a":{"00":2}}`},
		"every member of every item":    {[]redact.Rule{remove("/*/*/b")}, `{"x":[{"b":1,"c":2},3],"y":{"z":{"b":4}}}`, `{"x":[{"c":2},3],"y":{"z":{}}}`},
		"member called star":            {[]redact.Rule{remove("/*/a")}, `{"*":{"a":1}}`, `{"*":{}}`},
		"empty name":                    {[]redact.Rule{remove("/")}, `{"":1,"a":2}`, `{"a":2}`},
		"escapes of a pointer":          {[]redact.Rule{remove("/a~1b~0c~01")}, `{"a/b~c~1":1,"d":2}`, `{"d":2}`},
		"escaped name":                  {[]redact.Rule{remove("/data")}, `{"da\u0074a":1,"b":2}`, `{"b":2}`},
		"name with a quote":             {[]redact.Rule{remove(`/a"b\`)}, `{"a\"b\\":1,"b":"}\\"}`, `{"b":"}\\"}`},
		"member that stands twice":      {[]redact.Rule{remove("/a")}, `{"a":1,"b":2,"a":[3],"c":4,"a":"5"}`, `{"b":2,"c":4}`},
		"replaced":                      {[]redact.Rule{replace("/a/b", `<"x">`)}, `{"a": {"b" : [1,{"c":2}] , "d":1}}`, `{"a": {"b" : "<\"x\">" , "d":1}}`},
		"replaced item":                 {[]redact.Rule{replace("/a/*", "x")}, `{"a":[1,2]}`, `{"a":["x","x"]}`},
		"first rule counts":             {[]redact.Rule{replace("/a/b", "x"), remove("/a/*")}, `{"a":{"b":1,"c":2}}`, `{"a":{"b":"x"}}`},
		"within what goes":              {[]redact.Rule{replace("/a/b", "x"), remove("/a")}, `{"a":{"b":1},"c":1}`, `{"c":1}`},
		"within what is replaced":       {[]redact.Rule{remove("/a/b"), replace("/a", "y")}, `{"a":{"b":1},"c":1}`, `{"a":"y","c":1}`},
		"brackets in strings":           {[]redact.Rule{remove("/b")}, `{"a":"}{][,\\\"","b":"x,}\\","c":",\\\\"}`, `{"a":"}{][,\\\"","c":",\\\\"}`},
		"nested deeply":                 {[]redact.Rule{remove("/a")}, `{"b":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `,"a":1}`, `{"b":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`},
		"deeper than it goes":           {[]redact.Rule{remove("/a/b/c/d")}, `{"a":{"b":{"c":1}}}`, `{"a":{"b":{"c":1}}}`},
		"numbers keep their text":       {[]redact.Rule{remove("/a")}, `{"n":1.10e+400,"a":-0.0,"s":"\u003c\ud800"}`, `{"n":1.10e+400,"s":"\u003c\ud800"}`},
		"two rules on the way together": {[]redact.Rule{remove("/a/*/x"), replace("/a/b/y", "z")}, `{"a":{"b":{"x":1,"y":2},"c":{"x":3,"y":4}}}`, `{"a":{"b":{"y":"z"},"c":{"y":4}}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := redacted(t, newRedactor(t, tt.rules...), tt.record); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestKubernetesSecrets(t *testing.T) {
	const quoted = `"{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"data\":{\"a\":\"eA==\"}}"`
	tests := map[string]struct{ record, want string }{
		"admission review": {
			`{"request":{"kind":{"group":"","version":"v1","kind":"Secret"},"object":{"apiVersion":"v1","data":{"a":"eA=="},"kind":"Secret","stringData":{"b":"y"},"type":"Opaque"},"oldObject":{"apiVersion":"v1","kind":"Secret","data":{"a":"eg=="}}}}`,
			`{"request":{"kind":{"group":"","version":"v1","kind":"Secret"},"object":{"apiVersion":"v1","kind":"Secret","type":"Opaque"},"oldObject":{"apiVersion":"v1","kind":"Secret"}}}`,
		},
		"the record itself":          {`{"data":1,"kind":"Secret","apiVersion":"v1"}`, `{"kind":"Secret","apiVersion":"v1"}`},
		"without a version":          {`{"data":1,"kind":"Secret"}`, `{"kind":"Secret"}`},
		"another kind":               {`{"data":1,"kind":"ConfigMap","apiVersion":"v1","note":"Secret"}`, `{"data":1,"kind":"ConfigMap","apiVersion":"v1","note":"Secret"}`},
		"a Secret of others":         {`{"data":1,"kind":"Secret","apiVersion":"vault.example.com/v1"}`, `{"data":1,"kind":"Secret","apiVersion":"vault.example.com/v1"}`},
		"kind is no text":            {`{"data":1,"kind":["Secret"]}`, `{"data":1,"kind":["Secret"]}`},
		"escaped":                    {`{"k\u0069nd":"\u0053ecret","da\u0074a":1,"apiVersion":"\u00761"}`, `{"k\u0069nd":"\u0053ecret","apiVersion":"\u00761"}`},
		"twice":                      {`{"data":1,"kind":"Pod","data":2,"kind":"Secret","apiVersion":"v1","apiVersion":"v2","data":3}`, `{"kind":"Pod","kind":"Secret","apiVersion":"v1","apiVersion":"v2"}`},
		"data is no object":          {`{"kind":"Secret","data":null,"stringData":[1]}`, `{"kind":"Secret"}`},
		"within another's data":      {`{"kind":"X","data":{"data":2,"o":{"kind":"Secret","data":1}}}`, `{"kind":"X","data":{"data":2,"o":{"kind":"Secret"}}}`},
		"list with kinds":            {`{"kind":"List","apiVersion":"v1","items":[{"kind":"Secret","data":1},{"kind":"ConfigMap","data":2}]}`, `{"kind":"List","apiVersion":"v1","items":[{"kind":"Secret"},{"kind":"ConfigMap","data":2}]}`},
		"list without kinds":         {`{"items":[{"data":1,"metadata":{"name":"a"}},{"stringData":2},3],"kind":"SecretList","apiVersion":"v1"}`, `{"items":[{"metadata":{"name":"a"}},{},3],"kind":"SecretList","apiVersion":"v1"}`},
		"another list without kinds": {`{"items":[{"data":1}],"kind":"ConfigMapList","note":"Secret"}`, `{"items":[{"data":1}],"kind":"ConfigMapList","note":"Secret"}`},
		"audit event of a list": {
			`{"kind":"Event","objectRef":{"resource":"secrets","apiVersion":"v1"},"responseObject":{"kind":"SecretList","apiVersion":"v1","items":[{"data":1}]}}`,
			`{"kind":"Event","objectRef":{"resource":"secrets","apiVersion":"v1"},"responseObject":{"kind":"SecretList","apiVersion":"v1","items":[{}]}}`,
		},
		"audit event of a list of another kind": {
			`{"responseObject":{"items":[{"data":1}],"kind":"PartialList"},"objectRef":{"resource":"secrets","apiGroup":""}}`,
			`{"responseObject":{"items":[{}],"kind":"PartialList"},"objectRef":{"resource":"secrets","apiGroup":""}}`,
		},
		"escapes beside": {`{"a":"\u003c\u00e9","kind":"S\u0065cret","data":1}`, `{"a":"\u003c\u00e9","kind":"S\u0065cret"}`},
		"audit event of a merge patch": {
			`{"requestObject":{"data":{"a":"eA=="},"metadata":{"annotations":{"` + lastApplied + `":"x","b":"c"}}},"objectRef":{"resource":"secrets","name":"s"},"verb":"patch"}`,
			`{"requestObject":{"metadata":{"annotations":{"b":"c"}}},"objectRef":{"resource":"secrets","name":"s"},"verb":"patch"}`,
		},
		"audit event of a JSON patch": {
			`{"objectRef":{"resource":"secrets"},"requestObject":[{"op":"replace","path":"/data/a","value":"eA=="},{"op":"add","value":{"b":1},"path":"/stringData"},{"op":"remove","path":"/data/c"}]}`,
			`{"objectRef":{"resource":"secrets"},"requestObject":[{"op":"replace","path":"/data/a"},{"op":"add","path":"/stringData"},{"op":"remove","path":"/data/c"}]}`,
		},
		"audit event of a mutating webhook": {
			`{"annotations":{"patch.webhook.admission.k8s.io/round_0_index_0":"{}","authorization.k8s.io/decision":"allow"},"objectRef":{"resource":"secrets"}}`,
			`{"annotations":{"authorization.k8s.io/decision":"allow"},"objectRef":{"resource":"secrets"}}`,
		},
		"audit event about others": {
			`{"objectRef":{"resource":"configmaps"},"note":"Secret","annotations":{"patch.webhook.admission.k8s.io/x":"{}"},"requestObject":{"data":1},"responseObject":{"data":2}}`,
			`{"objectRef":{"resource":"configmaps"},"note":"Secret","annotations":{"patch.webhook.admission.k8s.io/x":"{}"},"requestObject":{"data":1},"responseObject":{"data":2}}`,
		},
		"audit event about secrets of others": {
			`{"objectRef":{"resource":"secrets","apiGroup":"vault.example.com"},"requestObject":{"data":1}}`,
			`{"objectRef":{"resource":"secrets","apiGroup":"vault.example.com"},"requestObject":{"data":1}}`,
		},
		"decision log": {
			`{"input":{"review":{"object":{"kind":"Secret","apiVersion":"v1","data":{"a":"b"}}},"request":{"object":{"data":{},"kind":"Secret"}}}}`,
			`{"input":{"review":{"object":{"kind":"Secret","apiVersion":"v1"}},"request":{"object":{"kind":"Secret"}}}}`,
		},
		"record of a review": {
			`{"resourceAPIVersion":"v1","resourceKind":"Secret","decision":"deny","object":{"kind":"Secret","apiVersion":"v1","metadata":{"annotations":{"` + lastApplied + `":"x"}},"data":{"a":"eA=="},"stringData":{"b":"y"}},"oldObject":{"apiVersion":"v1","kind":"Secret","data":{"a":"eg=="}},"patch":[{"op":"add","path":"/data/b","value":"eA=="},{"op":"remove","path":"/data/a"}]}`,
			`{"resourceAPIVersion":"v1","resourceKind":"Secret","decision":"deny","object":{"kind":"Secret","apiVersion":"v1","metadata":{"annotations":{}}},"oldObject":{"apiVersion":"v1","kind":"Secret"},"patch":[{"op":"add","path":"/data/b"},{"op":"remove","path":"/data/a"}]}`,
		},
		"record of a review, without kinds": {
			`{"object":{"data":1},"oldObject":{"stringData":2},"resourceKind":"Secret","resourceGroup":""}`,
			`{"object":{},"oldObject":{},"resourceKind":"Secret","resourceGroup":""}`,
		},
		"record of a review of others": {
			`{"resourceKind":"Secret","resourceGroup":"vault.example.com","object":{"data":1},"patch":[{"value":1}]}`,
			`{"resourceKind":"Secret","resourceGroup":"vault.example.com","object":{"data":1},"patch":[{"value":1}]}`,
		},
		"record of a review about others": {
			`{"resourceKind":"ConfigMap","message":"no Secret","object":{"data":1},"oldObject":{"data":2},"patch":[{"value":1}]}`,
			`{"resourceKind":"ConfigMap","message":"no Secret","object":{"data":1},"oldObject":{"data":2},"patch":[{"value":1}]}`,
		},
		"record that has a Secret beside": {
			`{"resourceKind":"Pod","patch":[{"op":"add","path":"/x","value":{"kind":"Secret","data":1}}],"object":{"items":[{"kind":"Secret","data":1}]}}`,
			`{"resourceKind":"Pod","patch":[{"op":"add","path":"/x","value":{"kind":"Secret"}}],"object":{"items":[{"kind":"Secret"}]}}`,
		},
		"last applied to a Secret": {
			`{"metadata":{"annotations":{"` + lastApplied + `":"whatever","a":"b"}},"kind":"Secret"}`,
			`{"metadata":{"annotations":{"a":"b"}},"kind":"Secret"}`,
		},
		"last applied in a table": {
			`{"kind":"Table","rows":[{"object":{"kind":"PartialObjectMetadata","metadata":{"annotations":{"` + lastApplied + `":` + quoted + `}}}}]}`,
			`{"kind":"Table","rows":[{"object":{"kind":"PartialObjectMetadata","metadata":{"annotations":{}}}}]}`,
		},
		"last applied to others": {
			`{"kind":"Pod","metadata":{"annotations":{"` + lastApplied + `":"{\"kind\":\"Pod\",\"imagePullSecrets\":1,\"data\":2}"}}}`,
			`{"kind":"Pod","metadata":{"annotations":{"` + lastApplied + `":"{\"kind\":\"Pod\",\"imagePullSecrets\":1,\"data\":2}"}}}`,
		},
		"last applied is no JSON": {`{"` + lastApplied + `":"Secret {[\"","b":1}`, `{"` + lastApplied + `":"Secret {[\"","b":1}`},
		"last applied has a colon too many": {
			`{"` + lastApplied + `":"{\"a\"::1,\"kind\":\"Secret\",\"data\":{\"x\":\"cGFzcw==\"}}","b":1}`,
			`{"b":1}`,
		},
		"last applied lacks a value": {
			`{"` + lastApplied + `":"{\"a\":,\"kind\":\"Secret\",\"data\":{\"x\":\"cGFzcw==\"}}","b":1}`,
			`{"b":1}`,
		},
		"field names are kept": {
			`{"kind":"Secret","metadata":{"managedFields":[{"fieldsV1":{"f:data":{"f:password":{}}}}]}}`,
			`{"kind":"Secret","metadata":{"managedFields":[{"fieldsV1":{"f:data":{"f:password":{}}}}]}}`,
		},
	}
	r := newRedactor(t, secrets)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := redacted(t, r, tt.record); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Text that quotes itself again and again is not followed for ever.
func TestQuotedSecretsEnd(t *testing.T) {
	text := `{"a":1}`
	for range 10 {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		text = `{"note":"Secret","` + lastApplied + `":` + string(quoted) + `}`
	}
	if got, want := redacted(t, newRedactor(t, secrets), text), `{"note":"Secret"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func writeKey(t testing.TB, path, key string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func hmacOf(key, plain string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(plain))
	return "hmac-sha256:" + hex.EncodeToString(mac.Sum(nil))
}

func TestHMAC(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	r := newRedactor(t, redact.Rule{Pointer: "/a", Action: redact.HMACSHA256, KeyFile: config.SecretFile(file)})
	record := []byte(`{"a":"x"}`)
	if out, err := r.Append([]byte("kept"), record, 100); err == nil || string(out) != "kept" || !strings.Contains(err.Error(), file) {
		t.Errorf("without a key: got %s, %v, want an error that names the file", out, err)
	}
	if got, want := redacted(t, r, `{"b":"x"}`), `{"b":"x"}`; got != want {
		t.Errorf("a record that needs no key: got %s, want %s", got, want)
	}

	writeKey(t, file, "first")
	for plain, value := range map[string]string{
		"x":          `"x"`,
		"a\"\né":     `"a\"\n\u00e9"`,
		"1.50":       `1.50`,
		"null":       `null`,
		`{"b": [1]}`: `{"b": [1]}`,
		"":           `""`,
	} {
		if got, want := redacted(t, r, `{"a": `+value+` }`), `{"a": "`+hmacOf("first", plain)+`" }`; got != want {
			t.Errorf("%s: got %s, want %s", value, got, want)
		}
	}

	writeKey(t, file, "second one")
	if got, want := redacted(t, r, string(record)), `{"a":"`+hmacOf("second one", "x")+`"}`; got != want {
		t.Errorf("after a change: got %s, want %s", got, want)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if out, err := r.Append(nil, record, 100); err == nil || len(out) > 0 {
		t.Errorf("a key that has gone: got %s, %v, want an error", out, err)
	}
}

// A record that grows is held to its limit, to the byte.
func TestGrowth(t *testing.T) {
	r := newRedactor(t, replace("/a/*", strings.Repeat("x", 100)))
	record := []byte(`{"a":[` + strings.Repeat("1,", 999) + `1],"b":2}`)
	want := redacted(t, r, string(record))
	if out, err := r.Append([]byte("kept"), record, len(want)); err != nil || string(out) != "kept"+want {
		t.Errorf("at the limit: got %d bytes, %v, want %d", len(out), err, len("kept"+want))
	}
	for _, limit := range []int{len(want) - 1, len(want) / 2, len(record)} {
		if out, err := r.Append([]byte("kept"), record, limit); !errors.Is(err, redact.ErrTooLarge) || string(out) != "kept" {
			t.Errorf("limit %d: got %d bytes, %v, want ErrTooLarge", limit, len(out), err)
		}
	}
}

func TestValidate(t *testing.T) {
	many := make([]redact.Rule, 66)
	for i := range many {
		many[i] = remove(fmt.Sprint("/", i))
	}
	tests := map[string]struct {
		rules []redact.Rule
		want  string
	}{
		"fine":             {[]redact.Rule{remove("/a/*/~0~1"), replace("/b", "x"), {Pointer: "/c", Action: redact.HMACSHA256, KeyFile: "k"}, secrets}, ""},
		"empty":            {[]redact.Rule{{}}, "[0].pointer: is required, such as /request/object/data/*; or preset: kubernetesSecrets"},
		"both":             {[]redact.Rule{secrets, {Pointer: "/a", Preset: "x"}}, "[1].preset: must not be set beside pointer: write two rules"},
		"no slash":         {[]redact.Rule{remove("a/b")}, "[0].pointer: must begin with a slash, such as /request/object/data/*"},
		"odd tilde":        {[]redact.Rule{remove("/a~2"), remove("/~"), remove("/~~0")}, "[0].pointer: has a ~ without 0 or 1 after it: write ~0 for ~, and ~1 for /\n[1].pointer: has a ~ without 0 or 1 after it: write ~0 for ~, and ~1 for /\n[2].pointer: has a ~ without 0 or 1 after it: write ~0 for ~, and ~1 for /"},
		"no action":        {[]redact.Rule{{Pointer: "/a"}}, "[0].action: must be Remove, Replace or HMAC-SHA256"},
		"unknown action":   {[]redact.Rule{{Pointer: "/a", Action: "Hash"}}, `[0].action: must be Remove, Replace or HMAC-SHA256, not "Hash"`},
		"nothing to write": {[]redact.Rule{{Pointer: "/a", Action: redact.Replace}}, "[0].with: is required for Replace: the text to put in place of the value"},
		"no key":           {[]redact.Rule{{Pointer: "/a", Action: redact.HMACSHA256}}, "[0].keyFile: is required for HMAC-SHA256: the file with the key"},
		"keys of others":   {[]redact.Rule{{Pointer: "/a", Action: redact.Remove, With: "x", KeyFile: "k"}}, "[0].with: is only for action Replace\n[0].keyFile: is only for action HMAC-SHA256"},
		"unknown preset":   {[]redact.Rule{{Preset: "secrets"}}, `[0].preset: must be kubernetesSecrets, not "secrets"`},
		"preset and more":  {[]redact.Rule{{Preset: redact.KubernetesSecrets, Action: redact.Remove, With: "x", KeyFile: "k"}}, "[0].action: is only for a pointer: a preset has its own action\n[0].with: is only for action Replace\n[0].keyFile: is only for action HMAC-SHA256"},
		"twice":            {[]redact.Rule{remove("/a"), replace("/a", "x")}, "[1].pointer: must be unique: [0] has this pointer"},
		"too many":         {many, `[64]: exceeds the limit of 64 pointers for a source: use "*" to combine pointers`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := redact.Validate(tt.rules).Error(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// What nothing is to be done about costs no allocation.
func TestNoAllocations(t *testing.T) {
	const most = 2 * raceEnabled // the race detector has a pool lose a quarter of what it gets
	r := newRedactor(t, secrets, remove("/request/object/data/*"), remove("/nothing/*/here"))
	record := []byte(`{"request":{"object":{"kind":"Pod","spec":[1,{"volumes":["Secret"]}]}},"a":[{"b":1}]}`)
	dst := make([]byte, 0, 1000)
	got := testing.AllocsPerRun(1000, func() {
		if _, err := r.Append(dst, record, len(record)); err != nil {
			t.Fatal(err)
		}
	})
	if got > most {
		t.Errorf("got %v allocations for a record, want at most %d", got, most)
	}
}
