package filter_test

import (
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter/filter"
)

func mustCompile(t testing.TB, expression string) *filter.Filter {
	t.Helper()
	f, err := filter.Compile(expression)
	if err != nil {
		t.Fatalf("compile %s: %v", expression, err)
	}
	return f
}

func TestTakes(t *testing.T) {
	object := strings.Repeat(`{"a":[`, 50) + strings.Repeat(`{"n":1},`, 5000) + `"x"` + strings.Repeat("]}", 50)
	large := `{"a":` + object + `,"b":` + object + `,"c":` + strings.Replace(object, "x", "y", 1) + `}`
	tests := map[string]struct {
		when, record string
		want         bool
	}{
		"equal":                          {`record.enforcementAction == "deny"`, `{"enforcementAction":"deny"}`, true},
		"not equal":                      {`record.enforcementAction == "deny"`, `{"enforcementAction":"warn"}`, false},
		"other type is not equal":        {`record.a == "1"`, `{"a":1}`, false},
		"white space around the object":  {`record.a == 1`, " \t{ \"a\" : 1 } ", true},
		"nested":                         {`record.a.b.c == true`, `{"a":{"x":{"b":0},"b":{"c":true}}}`, true},
		"name that is no identifier":     {`record["a-b"] == 1 && record.` + "`a-b`" + ` == 1`, `{"a-b":1}`, true},
		"empty name":                     {`record[""] == 1`, `{"":1}`, true},
		"escaped name":                   {`record.data == 1`, `{"da\u0074a":1}`, true},
		"escaped value":                  {`record.a == "d\"\u00e9\n"`, `{"a":"\u0064\"é\n"}`, true},
		"half a surrogate pair":          {`record.a == "\ufffd"`, `{"a":"\ud800"}`, true},
		"last of two counts":             {`record.a == 2 && size(record) == 1`, `{"a":1,"a":2}`, true},
		"has a field":                    {`has(record.a)`, `{"a":null}`, true},
		"has no such field":              {`has(record.a)`, `{"b":{"a":1}}`, false},
		"has a nested field":             {`has(record.a.b)`, `{"a":{"b":1}}`, true},
		"has no nested field":            {`has(record.a.b)`, `{"a":{}}`, false},
		"in the record":                  {`"a" in record && !("b" in record)`, `{"a":1}`, true},
		"whole number":                   {`record.n == 5`, `{"n":5}`, true},
		"whole number written otherwise": {`record.n == 5 && record.m == 5`, `{"n":5.0,"m":0.5e1}`, true},
		"whole number and fraction":      {`record.n > 1.5 && record.n < 2.5`, `{"n":2}`, true},
		"fraction and whole number":      {`record.n > 1 && record.n < 2`, `{"n":1.5}`, true},
		"size and fraction":              {`size(record.l) > 1.5`, `{"l":[1,2]}`, true},
		"beyond 53 bits":                 {`record.n == 9007199254740993 && record.n != 9007199254740992`, `{"n":9007199254740993}`, true},
		"beyond 63 bits":                 {`record.n == 18446744073709551615u && record.n > 5`, `{"n":18446744073709551615}`, true},
		"beyond 64 bits":                 {`record.n > 18e18 && record.n < 19e18`, `{"n":18446744073709551616}`, true},
		"beyond any double":              {`record.n > 1e308 && record.m < 0`, `{"n":1e400,"m":-1e400}`, true},
		"negative":                       {`record.n == -9223372036854775807 && record.n != -9223372036854775806`, `{"n":-9223372036854775807}`, true},
		"negative zero":                  {`record.n == 0`, `{"n":-0}`, true},
		"one of a list":                  {`record.ns in ["a", "b"]`, `{"ns":"b"}`, true},
		"number in a list":               {`5.0 in record.l && 6 in record.l`, `{"l":[5,6.0]}`, true},
		"items of a list":                {`record.l.exists(x, x.name.startsWith("kube-")) && record.l[1].name == "b" && size(record.l) == 2`, `{"l":[{"name":"kube-a"},{"name":"b"}]}`, true},
		"names of a map":                 {`record.m.exists(k, k == "b" && record.m[k] == 2)`, `{"m":{"a":1,"b":2}}`, true},
		"empty list and map":             {`record.l == [] && record.m == {} && record.l.all(x, false)`, `{"l":[],"m":{}}`, true},
		"objects are equal":              {`record.a == record.b`, `{"a":{"x":1,"y":[1,{"z":null}]},"b":{"y":[1.0,{"z":null}],"x":1}}`, true},
		"object to a map":                {`record.a == {"x": 1, "y": "z"} && {"x": 1, "y": "z"} == record.a`, `{"a":{"y":"z","x":1}}`, true},
		"large objects are equal":        {`record.a == record.b && record.a != record.c`, large, true},
		"null":                           {`record.a == null`, `{"a":null}`, true},
		"strings":                        {`record.a.lowerAscii().trim().split("/")[1].substring(1) == "bc"`, `{"a":" X/ABC "}`, true},
		"regular expression":             {`record.a.matches("^kube-[a-z]+$")`, `{"a":"kube-system"}`, true},
		"time":                           {`timestamp(record.t) < timestamp("2026-01-02T00:00:00Z") && timestamp(record.t).getHours() == 10`, `{"t":"2026-01-01T10:00:00Z"}`, true},
		"many lookups":                   {strings.Repeat(`record.o.a == 1 && record.b == 2 && !has(record.o.c) && `, 20) + `true`, `{"b":2,"o":{"a":1}}`, true},
		"result is a field":              {`record.take`, `{"take":false}`, false},
		"other side of or":               {`record.missing == 1 || record.a == 1`, `{"a":1}`, true},
		"other side of and":              {`record.missing == 1 && record.a == 1`, `{"a":2}`, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := mustCompile(t, tt.when).Takes([]byte(tt.record))
			if err != nil || got != tt.want {
				t.Errorf("%s of %.300s: got %t, %v, want %t", tt.when, tt.record, got, err, tt.want)
			}
		})
	}
}

// What cannot be evaluated is delivered, and said.
func TestCannotBeEvaluated(t *testing.T) {
	tests := map[string]struct{ when, record, want string }{
		"missing field":      {`record.a == 1`, `{"b":1}`, "no such key: a"},
		"field of no object": {`record.a.b == 1`, `{"a":1}`, "no such key: b"},
		"beyond a list":      {`record.a[2] == 1`, `{"a":[1]}`, "index out of bounds: 2"},
		"other type":         {`record.a.startsWith("x")`, `{"a":1}`, "no such overload"},
		"compare with text":  {`record.a > 1`, `{"a":"2"}`, "no such overload"},
		"no bool":            {`record.a`, `{"a":"true"}`, "the result must be bool, not string"},
		"no number":          {`int(record.a) == 1`, `{"a":"x"}`, "type conversion error from 'string' to 'int'"},
		"long name":          {`record.a[record.b] == 1`, `{"a":{},"b":"x\n` + strings.Repeat("y", 1000) + `"}`, "no such key: x yyy"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			took, err := mustCompile(t, tt.when).Takes([]byte(tt.record))
			if !took {
				t.Errorf("not delivered")
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
				t.Errorf("got error %q, want one short line with %q", err, tt.want)
			}
		})
	}
}

// However large the record, an expression gives up in time.
func TestStallsAreEnded(t *testing.T) {
	list := "[" + strings.TrimSuffix(strings.Repeat(`{"a":1,"b":[1,2,3]},`, 20_000), ",") + "]"
	text := strings.Repeat("a", 400_000)
	record := []byte(`{"l":` + list + `,"m":` + list + `,"o":{"l":` + list + `},"p":{"l":` + list + `},"t":"` + text + `","u":"` + text[:len(text)/2] + `b"}`)
	for name, when := range map[string]string{
		"nested loops":           `record.l.all(x, record.l.all(y, record.l.all(z, x == y || y == z || x == z || true)))`,
		"large values compared":  `record.l.all(x, record.l == record.m)`,
		"large objects compared": `record.l.all(x, record.o == record.p)`,
		"fields asked for":       `record.l.all(x, record.l.all(y, !has(record.z)))`,
		"large text in a loop":   `record.l.all(x, record.t.contains(record.u) || true)`,
		"text grows":             `record.l.map(x, record.t + record.t).size() > 0`,
		"text grows in steps":    `[record.t + record.t].exists(a, [a + a].exists(b, [b + b + b + b + b + b + b + b].exists(c, size(c + c + c + c) == 1)))`,
		"joined lists compared":  `[record.l + record.m].exists(c, [record.m + record.l].exists(d, record.l.all(x, c != d)))`,
		"membership":             `record.l.all(x, record.l in [record.m, record.m] || x in record.l)`,
		"patterns in a loop":     `record.l.all(x, record.t.matches("(a*a*a*a*a*)*b") || true)`,
	} {
		t.Run(name, func(t *testing.T) {
			f := mustCompile(t, when)
			took, err := f.Takes(record) // without limits: hours
			if !took || err == nil {
				t.Errorf("got %t, %v, want a record that is delivered, and an error", took, err)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	tests := map[string]struct{ when, want string }{
		"fine":                  {`record.a == 1`, ""},
		"empty":                 {``, ""},
		"half an expression":    {`record.a ==`, "1:12: unexpected end of the expression"},
		"one bracket too many":  {`record.a == 1)`, "1:14: unexpected ')'"},
		"second line":           {"record.a == 1 &&\n  rec.b == 1", "2:3: undeclared reference to 'rec' (did you mean 'record'?)"},
		"bare field":            {`enforcementAction == "deny"`, "1:1: undeclared reference to 'enforcementAction': fields of the record are record.NAME"},
		"assignment":            {`record.a = "deny"`, "1:10: "},
		"no bool":               {`record.a + 1`, "1:1: must be true or false for a record, not of type int"},
		"a text":                {`"deny"`, "1:1: must be true or false for a record, not of type string"},
		"unknown function":      {`record.a.frob()`, "1:14: undeclared reference to 'frob'"},
		"types that never meet": {`record == 1`, "1:8: found no matching overload for '_==_' applied to '(map(string, dyn), int)'"},
		"bad pattern":           {`record.a.matches("(")`, "1:18: invalid matches argument"},
		"pattern of the record": {`record.a.matches(record.b)`, "1:17: the pattern of matches must be a literal"},
		"function that grows":   {`record.a.replace("", record.b) == ""`, "1:17: replace is not for filters: use matches"},
		"quadratic function":    {`record.a.indexOf(record.b) == 0`, "1:17: indexOf is not for filters: use contains or matches"},
		"joined":                {`record.a.join(record.b) == ""`, "1:14: join is not for filters"},
		"too many loops":        {`[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))`, "comprehension exceeds nesting limit"},
		"too long":              {`record.a == "` + strings.Repeat("x", 9000) + `"`, "expression code point size exceeds limit"},
		"too deep":              {strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300), "recursion"},
		"several faults":        {`a == b && c == d && e`, "1:1: undeclared reference to 'a': fields of the record are record.NAME; 1:6: undeclared reference to 'b': fields of the record are record.NAME; 1:11: undeclared reference to 'c': fields of the record are record.NAME; and 2 more"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := filter.Check(tt.when)
			if tt.want == "" {
				if err != nil {
					t.Errorf("got %v, want none", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %v\nwant one line with %s", err, tt.want)
			}
			if f, again := filter.Compile(tt.when); f != nil || again == nil || again.Error() != err.Error() {
				t.Errorf("Compile: got %v, %v, want no filter and the same error", f, again)
			}
		})
	}
}

func TestEmptyTakesAll(t *testing.T) {
	f := mustCompile(t, "")
	if took, err := f.Takes([]byte(`{}`)); f != nil || !took || err != nil {
		t.Errorf("got %v, which takes %t, %v, want a nil filter that takes all", f, took, err)
	}
}

// FuzzTakes: no record, and no text that is none, makes a filter panic or stall.
func FuzzTakes(f *testing.F) {
	f.Add([]byte(`{"a":1,"l":[{"a":2},[],{}],"s":"\u0041"}`))
	f.Add([]byte(`{"a":`))
	f.Add([]byte(`{"a":[{"a"`))
	f.Add([]byte(``))
	filters := []*filter.Filter{
		mustCompile(f, `record.a == 1 || record.l.exists(x, x.a == 2)`),
		mustCompile(f, `record == record.a || size(record) > 2 && string(record.s) == "A"`),
		mustCompile(f, `normalized.decision == "deny" && normalized.when > timestamp("2026-01-05T10:00:00Z")`),
	}
	f.Fuzz(func(_ *testing.T, record []byte) {
		for _, filter := range filters {
			_, _ = filter.Takes(record)
		}
	})
}
