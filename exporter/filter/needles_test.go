package filter_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/rawjson"
)

// A record that has nothing of what an expression asks for is not read.
func TestMayTake(t *testing.T) {
	const record = `{"a":"shop","b":["x/y","two words"],"n":1}`
	for when, want := range map[string]bool{
		`record.a == "shop"`:                                           true,
		`record.a == "cart"`:                                           false,
		`"cart" == record.a`:                                           false,
		`record["a"] == "cart"`:                                        false,
		`record.a == "cart" && record.n == 1`:                          false,
		`record.n == 1 && record.a == "cart"`:                          false,
		`record.a == "cart" || record.a == "shop"`:                     true,
		`record.a == "cart" || record.a == "cargo"`:                    false,
		`record.a == "cart" || record.n == 1`:                          true,
		`record.a == "cart" || record.a == "shop" && record.n == 1`:    true,
		`record.b[1] == "words"`:                                       false,
		`record.b[1].endsWith("words")`:                                true,
		`normalized.user == "words"`:                                   false,
		`normalized.message == "words"`:                                true,
		`"words" in record.b`:                                          false,
		`record.a in ["cart", "shop"]`:                                 true,
		`record.a in ["cart", "cargo"]`:                                false,
		`record.a in ["cart", ""]`:                                     true,
		`"cart" in record.b`:                                           false,
		`record.b[0].startsWith("x/")`:                                 true,
		`record.b[0].startsWith("abc/")`:                               false,
		`record.b[0].endsWith("cart")`:                                 false,
		`record.b[1].contains("cart")`:                                 false,
		`record.b.exists(x, x == "cart")`:                              true,
		`!(record.a == "cart")`:                                        true,
		`record.a != "cart"`:                                           true,
		`has(record.cart)`:                                             true,
		`"shop cart".contains(record.a)`:                               true,
		`record.a + "x" == "cart"`:                                     true,
		`normalized.resource.namespace == "cart"`:                      false,
		`normalized.resource.namespace == ""`:                          true,
		`normalized.decision == "deny"`:                                true,
		`normalized.policy.kind == "Webhook"`:                          true,
		`normalized.message.contains("cart")`:                          false,
		`normalized.resource.namespace == "shop" && record.n == 1`:     true,
		`normalized.decision == "deny" && normalized.user == "nobody"`: false,
	} {
		if got := mustCompile(t, when).MayTake([]byte(record)); got != want {
			t.Errorf("%s: got %t, want %t", when, got, want)
		}
	}
	for record, want := range map[string]bool{
		`{"a":"c\u0061rt"}`:                   true,
		`{"a":"\u003ccargo\u003e \u0026"}`:    false,
		`{"a":"\u003ccargo\u003e c\u0061rt"}`: true,
		`{"a":"{\"b\":\"c\\u0061rt\"}"}`:      true, // JSON in a text
		`{"a":"{\"b\":\"c\u005cu0061rt\"}"}`:  true,
		`{"a":"{\"b\":\"c\\\u00750061rt\"}"}`: true,
	} {
		if got := mustCompile(t, `record.a.contains("cart")`).MayTake([]byte(record)); got != want {
			t.Errorf("%s: got %t, want %t", record, got, want)
		}
	}
	if !mustCompile(t, `record.a == "<a>&<b>"`).MayTake([]byte(`{"a":"\u003ca\u003e\u0026\u003cb\u003e"}`)) {
		t.Error("what encoding/json escapes was left out")
	}
	if !mustCompile(t, "").MayTake(nil) {
		t.Error("no expression takes nothing")
	}
}

// What an expression takes, MayTake never leaves out, however the record is written.
func TestMayTakeAllThatIsTaken(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	files, err := filepath.Glob("../../testdata/records/*.ndjson")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	texts := []string{
		`{"auditID":"a","stage":"ResponseComplete","verb":"create","responseStatus":{"code":403,"message":"admission webhook \"v.example\" denied the request: no"}}`,
		`{"ts":1767607447.5,"msg":"denied admission: no team","process":"admission","event_type":"violation","resource_namespace":"shop"}`,
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	tried := map[string]bool{}
	for _, text := range texts {
		for line := range strings.Lines(text) {
			for _, when := range questions(strings.TrimSuffix(line, "\n")) {
				if tried[when] {
					continue
				}
				tried[when] = true
				f := mustCompile(t, when)
				record := line
				for range 3 {
					taken, err := f.Takes([]byte(record))
					if err != nil || !taken {
						t.Fatalf("%s of %s: got %t, %v", when, record, taken, err)
					}
					if !f.MayTake([]byte(record)) {
						t.Fatalf("%s takes %s, which MayTake leaves out", when, record)
					}
					record = rewritten(dice, record)
				}
			}
		}
	}
}

// questions are expressions that take a record.
func questions(record string) (list []string) {
	form, _ := decision.Normalize([]byte(record))
	for _, field := range decision.NormalizedFields() {
		name, value := decision.NormalizedPrefix+field, strconv.Quote(form.Field(field))
		if field == "when" || field == "failedOpen" {
			continue
		}
		list = append(list, name+" == "+value, name+" in ["+value+"]", name+".startsWith("+value+")")
	}
	for name, value := range rawjson.Members([]byte(record)) {
		if value.Kind() == rawjson.String {
			list = append(list, fmt.Sprintf("record[%q] == %q", name, value.Text()))
		}
	}
	return list
}

// rewritten writes the texts in a record in another way that JSON has for them.
func rewritten(dice *rand.Rand, record string) string {
	var b strings.Builder
	unicode := dice.IntN(2) == 0
	for i := 0; i < len(record); {
		if record[i] != '"' {
			b.WriteByte(record[i])
			i++
			continue
		}
		end := rawjson.StringEnd([]byte(record), i)
		text := record[i:end]
		if !strings.HasPrefix(record[end:], ":") { // names are compared as they are
			text = strings.NewReplacer(`\\`, `\\`, `\/`, `/`, `/`, `\/`).Replace(text)
			if at := strings.IndexAny(text, "ghijkmopqsvwxyz"); unicode && at > 0 && text[at-1] != '\\' {
				text = fmt.Sprintf(`%s\u%04x%s`, text[:at], text[at], text[at+1:])
			}
		}
		b.WriteString(text)
		i = end
	}
	return b.String()
}
