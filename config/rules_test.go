package config

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

type kitchen struct {
	Name   string   `yaml:"name"`
	Oven   string   `yaml:"oven"`
	Gas    bool     `yaml:"gas"`
	Plates int      `yaml:"plates"`
	Heat   Duration `yaml:"heat"`
	Pans   []pan    `yaml:"pans"`
	Shelf  *shelf   `yaml:"shelf"`
	Menu   []string `yaml:"menu"`
}

func (kitchen) Rules() []Rule {
	return []Rule{
		Required("name", "is required"),
		OneOf("oven", "Small", "Large"),
		Only("oven", "Small", "must be Small without gas").When(Set("gas").Not()),
		Between("plates", 1, 4),
		AtLeast("plates", 2).When(Is("oven", "Large")).Says("must be 2 or more for Large"),
		Positive("heat"),
		AtMost("menu", 2),
		Each("menu", HostPort, ".*:.*"),
		Forbidden("shelf", "must stand apart").When(Begins("name", "tiny")),
	}
}

type pan struct {
	Size Size `yaml:"size"`
}

func (*pan) Rules() []Rule { return []Rule{AtLeast("size", 1)} }

type shelf struct {
	Depth Duration `yaml:"depth"`
}

func (*shelf) Rules() []Rule { return []Rule{NotNegative("depth")} }

func usual() kitchen {
	return kitchen{Name: "a", Oven: "Small", Plates: 1, Heat: 1, Pans: []pan{{Size: 1}}, Shelf: &shelf{}}
}

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*kitchen)
		want   string
	}{
		"good":             {func(*kitchen) {}, ""},
		"missing":          {func(k *kitchen) { k.Name = "" }, "name: is required"},
		"the first alone":  {func(k *kitchen) { k.Oven = "Huge" }, `oven: must be Small or Large, not "Huge"`},
		"condition":        {func(k *kitchen) { k.Oven, k.Plates = "Large", 2 }, "oven: must be Small without gas"},
		"condition met":    {func(k *kitchen) { k.Oven, k.Gas, k.Plates = "Large", true, 2 }, ""},
		"its own words":    {func(k *kitchen) { k.Oven, k.Gas = "Large", true }, "plates: must be 2 or more for Large"},
		"out of range":     {func(k *kitchen) { k.Plates = 5 }, "plates: must be between 1 and 4"},
		"zero":             {func(k *kitchen) { k.Heat = 0 }, "heat: must be positive"},
		"in a list":        {func(k *kitchen) { k.Pans = append(k.Pans, pan{}) }, "pans[1].size: must be at least 1"},
		"behind a pointer": {func(k *kitchen) { k.Shelf.Depth = -1 }, "shelf.depth: must not be negative"},
		"no section":       {func(k *kitchen) { k.Shelf = nil }, ""},
		"prefix":           {func(k *kitchen) { k.Name = "tiny one" }, "shelf: must stand apart"},
		"too many":         {func(k *kitchen) { k.Menu = []string{"a:1", "b:1", "c:1"} }, "menu: must be at most 2"},
		"each":             {func(k *kitchen) { k.Menu = []string{"a:1", "b"} }, "menu[1]: must be host:port such as 127.0.0.1:9464, with an IPv6 host in brackets"},
	} {
		t.Run(name, func(t *testing.T) {
			k := usual()
			test.change(&k)
			if got := Check(&k).Error(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A rule about a key that the section has not is a mistake in the program.
func TestRuleForAnUnknownKey(t *testing.T) {
	defer func() {
		if r, _ := recover().(string); !strings.Contains(r, `rule for the unknown key "b"`) {
			t.Errorf("got %q, want a panic that names the key", r)
		}
	}()
	Check(&misruled{})
}

type misruled struct {
	A string `yaml:"a"`
}

func (*misruled) Rules() []Rule { return []Rule{Required("b", "is required")} }

// TestSchema pins the form: what is required, what null stands for, and a condition.
func TestSchema(t *testing.T) {
	s := Schema(&kitchen{Oven: "Small", Plates: 1, Heat: 1e9}, "k", func(path string) string { return "about " + path })
	durationPattern, _ := json.Marshal(Duration(0).Shape()["pattern"])
	durationText, _ := json.Marshal(notADuration)
	for path, want := range map[string]string{
		"name": `{"description":"about k.name","minLength":1,"type":["string"]}`,
		"oven": `{"default":"Small","description":"about k.oven","enum":["Small","Large",null],"type":["string","null"]}`,
		"gas":  `{"default":false,"description":"about k.gas","type":["boolean","null"]}`,
		"shelf": `{"additionalProperties":false,"description":"about k.shelf","properties":{"depth":{"description":"about k.shelf.depth","maximum":0,"minimum":0,"allOf":[{"pattern":"^[^-]","minimum":0}],
			"pattern":` + string(durationPattern) + `,"patternErrorMessage":` + string(durationText) + `,"type":["string","integer","null"]}},"type":["object","null"]}`,
	} {
		got, err := json.Marshal(s.Property(path))
		if err != nil {
			t.Fatal(err)
		}
		if !sameJSON(t, string(got), want) {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if got, _ := json.Marshal(s["required"]); string(got) != `["name"]` {
		t.Errorf("required: got %s, want name alone", got)
	}
	first := s["allOf"].([]any)[0]
	want := `{"if":{"allOf":[{"not":{"properties":{"gas":{"not":{"enum":[null,"",false,0,[]]}}},"required":["gas"]}}]},
		"then":{"properties":{"oven":{"enum":["Small",null]}}}}`
	if got, _ := json.Marshal(first); !sameJSON(t, string(got), want) {
		t.Errorf("condition: got %s, want %s", got, want)
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var va, vb any
	if err := errors.Join(json.Unmarshal([]byte(a), &va), json.Unmarshal([]byte(b), &vb)); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(va, vb)
}
