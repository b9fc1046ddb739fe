package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

type mode string

// everything has a field of each kind that a configuration can have.
type everything struct {
	Text   string            `yaml:"text"`
	Mode   mode              `yaml:"mode"`
	Yes    bool              `yaml:"yes"`
	Int    int               `yaml:"int"`
	Small  int8              `yaml:"small"`
	Port   uint16            `yaml:"port"`
	Big    uint64            `yaml:"big"`
	Size   Size              `yaml:"size"`
	Wait   Duration          `yaml:"wait"`
	Secret SecretFile        `yaml:"secret"`
	List   []string          `yaml:"list"`
	Labels map[string]string `yaml:"labels"`
	Sub    section           `yaml:"sub"`
	Opt    *section          `yaml:"opt"`
	Max    *Size             `yaml:"max"`
	Subs   []section         `yaml:"subs"`
	Later  Node              `yaml:"later"`

	Internal string
}

type section struct {
	Name  string `yaml:"name"`
	Count int    `yaml:"count"`
}

func defaults() everything {
	return everything{
		Text: "t", Mode: "m", Yes: true, Int: 1, Size: 2, Wait: 3,
		List: []string{"a", "b"}, Labels: map[string]string{"k": "v"},
		Sub: section{Name: "n", Count: 9}, Internal: "i",
	}
}

func TestDecode(t *testing.T) {
	size := Size(64 << 20)
	tests := map[string]struct {
		yaml string
		want func(*everything)
	}{
		"absent keys keep defaults": {"{}", func(*everything) {}},
		"null keeps defaults": {"text:\nint: ~\nlist: null\nlabels:\nsub:\nopt:\nmax:\nsize:\nwait:\nyes:\n",
			func(*everything) {}},
		"strings": {"text: 'true'\nmode: Block\nsecret: /run/token\n", func(e *everything) {
			e.Text, e.Mode, e.Secret = "true", "Block", "/run/token"
		}},
		"an empty string":        {"text: ''\n", func(e *everything) { e.Text = "" }},
		"a block of text":        {"text: |\n  a\n  b\n", func(e *everything) { e.Text = "a\nb\n" }},
		"no environment":         {"text: $HOME ${HOME}\n", func(e *everything) { e.Text = "$HOME ${HOME}" }},
		"yes is a word":          {"text: yes\n", func(e *everything) { e.Text = "yes" }},
		"a boolean":              {"yes: false\n", func(e *everything) { e.Yes = false }},
		"lowest and highest":     {"small: -128\nport: 65535\nbig: 18446744073709551615\n", func(e *everything) { e.Small, e.Port, e.Big = -128, 65535, 1<<64-1 }},
		"zero":                   {"int: 0\n", func(e *everything) { e.Int = 0 }},
		"size with unit":         {"size: 64Mi\nmax: 64Mi\n", func(e *everything) { e.Size, e.Max = size, &size }},
		"size as a number":       {"size: 1500\n", func(e *everything) { e.Size = 1500 }},
		"duration":               {"wait: 1m30s\n", func(e *everything) { e.Wait = Duration(90 * time.Second) }},
		"a list replaces":        {"list: [c]\n", func(e *everything) { e.List = []string{"c"} }},
		"an empty list replaces": {"list: []\n", func(e *everything) { e.List = nil }},
		"a map replaces":         {"labels: {404: x, 'a b': ''}\n", func(e *everything) { e.Labels = map[string]string{"404": "x", "a b": ""} }},
		"a section is merged":    {"sub: {count: 3}\n", func(e *everything) { e.Sub.Count = 3 }},
		"an empty section":       {"opt: {}\n", func(e *everything) { e.Opt = &section{} }},
		"sections":               {"subs:\n- name: a\n- count: 2\n", func(e *everything) { e.Subs = []section{{Name: "a"}, {Count: 2}} }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, want := defaults(), defaults()
			tt.want(&want)
			if p := parse(t, tt.yaml).Decode(&got); len(p) > 0 {
				t.Fatalf("Decode: got %s, want no problem", texts(p))
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := map[string]struct{ yaml, want string }{
		"list for string":       {"text: [a]\n", "line 1: text: must be a string, not a list"},
		"mapping for string":    {"text: {a: b}\n", "line 1: text: must be a string, not a mapping"},
		"number for string":     {"text: 0660\n", "line 1: text: must be a string: put it in quotes"},
		"boolean for string":    {"mode: true\n", "line 1: mode: must be a string: put it in quotes"},
		"fraction for string":   {"text: 1.10\n", "line 1: text: must be a string: put it in quotes"},
		"date for string":       {"text: 2024-01-01\n", "line 1: text: must be a string: put it in quotes"},
		"word for boolean":      {"yes: on\n", "line 1: yes: must be true or false, not a string"},
		"number for boolean":    {"yes: 1\n", "line 1: yes: must be true or false, not a number"},
		"list for boolean":      {"yes: []\n", "line 1: yes: must be true or false, not a list"},
		"string for number":     {"int: '5'\n", "line 1: int: must be a whole number, not a string"},
		"fraction for number":   {"int: 1.5\n", "line 1: int: must be a whole number, not a fraction"},
		"octal":                 {"int: 010\n", "line 1: int: must be a whole number in decimal digits"},
		"hexadecimal":           {"int: 0x10\n", "line 1: int: must be a whole number in decimal digits"},
		"underscores":           {"int: 1_000\n", "line 1: int: must be a whole number in decimal digits"},
		"too high":              {"small: 128\n", "line 1: small: must be between -128 and 127"},
		"too low":               {"small: -129\n", "line 1: small: must be between -128 and 127"},
		"negative port":         {"port: -1\n", "line 1: port: must be between 0 and 65535"},
		"int64":                 {"int: 18446744073709551615\n", "line 1: int: must be between -9223372036854775808 and 9223372036854775807"},
		"list for size":         {"size: [1]\n", "line 1: size: must be a single value, not a list"},
		"bad size":              {"size: 64MB\n", `line 1: size: must be a size such as 64Mi or 2Gi, not "64MB", did you mean 64M?`},
		"fraction for size":     {"size: 1.5\n", `line 1: size: must be a size such as 64Mi or 2Gi, not "1.5"`},
		"number for duration":   {"wait: 5\n", `line 1: wait: must be a duration such as 500ms, 30s, 5m or 24h, with its unit (a day is 24h), not "5"`},
		"days for duration":     {"wait: 365d\n", `line 1: wait: must be a duration such as 500ms, 30s, 5m or 24h, with its unit (a day is 24h), not "365d"`},
		"boolean for duration":  {"wait: true\n", `line 1: wait: must be a duration such as 500ms, 30s, 5m or 24h, with its unit (a day is 24h), not "true"`},
		"string for list":       {"list: a\n", "line 1: list: must be a list, not a string"},
		"mapping for list":      {"subs: {name: a}\n", "line 1: subs: must be a list, not a mapping"},
		"null in a list":        {"list:\n- a\n-\n", "line 3: list[1]: must have a value"},
		"number in a list":      {"list:\n- a\n- 1\n", "line 3: list[1]: must be a string: put it in quotes"},
		"list for map":          {"labels: [a]\n", "line 1: labels: must be a mapping, not a list"},
		"null in a map":         {"labels:\n  a:\n", "line 2: labels.a: must have a value"},
		"string for section":    {"sub: x\n", "line 1: sub: must be a mapping, not a string"},
		"boolean for section":   {"opt: true\n", "line 1: opt: must be a mapping, not a boolean"},
		"date for section":      {"opt: 2024-01-01\n", "line 1: opt: must be a mapping, not a date"},
		"list as document":      {"- a\n", "line 1: must be a mapping, not a list"},
		"letters swapped":       {"lsit: []\n", `line 1: lsit: unknown key, did you mean "list"?`},
		"wrong case":            {"TEXT: x\n", `line 1: TEXT: unknown key, did you mean "text"?`},
		"key of another place":  {"sub:\n  whenFull: x\n", "line 2: sub.whenFull: unknown key, known keys: name, count"},
		"field without tag":     {"sub: {}\nopt: {Internal: x}\n", "line 2: opt.Internal: unknown key, known keys: name, count"},
		"key that needs quotes": {"sub: {'a b': x}\n", `line 1: sub["a b"]: unknown key, known keys: name, count`},
		"long key":              {"sub: {" + strings.Repeat("x", 200) + ": 1}\n", `line 1: sub["` + strings.Repeat("x", 64) + `..."]: unknown key, known keys: name, count`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := defaults()
			if got := texts(parse(t, tt.yaml).Decode(&got)); got != tt.want {
				t.Errorf("Decode:\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestEveryProblemAtOnce(t *testing.T) {
	const text = `subs:
- name: a
  nmae: b
- count: many
- name: [a]
- name: ok
  name: again
size: 1 Gi
prot: 80
`
	const want = `line 3: subs[0].nmae: unknown key, did you mean "name"?
line 4: subs[1].count: must be a whole number, not a string
line 5: subs[2].name: must be a string, not a list
line 7: subs[3].name: duplicate key, first on line 6
line 8: size: must be a size such as 64Mi or 2Gi, not "1 Gi", did you mean 1Gi?
line 9: prot: unknown key, did you mean "port"?`
	doc, problems := Parse([]byte(text))
	var e everything
	problems = append(problems, doc.Decode(&e)...)
	if got := texts(doc.Locate(problems)); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestDecodeRest(t *testing.T) {
	doc := parse(t, "name: siem\nhttp:\n  ulr: x\nstdout:\n")
	var sink struct {
		Name string          `yaml:"name"`
		Rest map[string]Node `yaml:",rest"`
	}
	if p := doc.Decode(&sink); len(p) > 0 {
		t.Fatalf("Decode: %s", texts(p))
	}
	if got, want := slices.Sorted(maps.Keys(sink.Rest)), []string{"http", "stdout"}; !slices.Equal(got, want) {
		t.Fatalf("rest: got %q, want %q", got, want)
	}
	var http struct {
		URL string `yaml:"url"`
	}
	if got, want := texts(sink.Rest["http"].Decode(&http)), `line 3: http.ulr: unknown key, did you mean "url"?`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if p := sink.Rest["stdout"].Decode(&http); len(p) > 0 || sink.Rest["stdout"].Line() != 4 {
		t.Errorf("a key without a value: got %v on line %d, want no problem on line 4", p, sink.Rest["stdout"].Line())
	}
}

func TestNearest(t *testing.T) {
	known := []string{"url", "bearerTokenFile", "maxBytes", "maxRecords", "maxWait", "tls"}
	tests := map[string]string{
		"ulr": "url", "uri": "url", "URL": "url", "urll": "url",
		"bearer_token_file": "bearerTokenFile", "bearerToken": "", "tokenFile": "",
		"max_bytes": "maxBytes", "maxByte": "maxBytes", "maxRecord": "maxRecords",
		"tsl": "tls", "x": "", "": "", "address": "",
	}
	for key, want := range tests {
		if got := nearest(key, known); got != want {
			t.Errorf("nearest(%q): got %q, want %q", key, got, want)
		}
	}
}
