package config

import (
	"reflect"
	"testing"
	"time"
)

func TestEncode(t *testing.T) {
	type entry struct {
		Name   string         `yaml:"name"`
		Kind   map[string]any `yaml:",rest"`
		Hidden string
	}
	type tls struct {
		CAFile SecretFile `yaml:"caFile"`
	}
	type file struct {
		Kind    string            `yaml:"kind"`
		Max     Size              `yaml:"max"`
		Wait    Duration          `yaml:"wait"`
		Port    uint16            `yaml:"port"`
		Low     int               `yaml:"low"`
		Stamp   bool              `yaml:"stamp"`
		Mode    string            `yaml:"mode"`
		Key     []string          `yaml:"key"`
		Headers map[string]string `yaml:"headers"`
		TLS     *tls              `yaml:"tls"`
		Auth    *tls              `yaml:"auth"`
		Later   Node              `yaml:"later"`
		Absent  Node              `yaml:"absent"`
		Sinks   []entry           `yaml:"sinks"`
	}
	later, _ := parse(t, "later: {x: [1, two]}").Get("later")
	got, err := Encode(file{
		Kind: "Exporter", Max: 64 << 20, Wait: Duration(time.Minute), Port: 80, Low: -1, Stamp: true, Mode: "0660",
		Headers: map[string]string{"B": "2", "A": "true", "C": ""},
		TLS:     &tls{CAFile: "/etc/ca.pem"},
		Later:   later,
		Sinks: []entry{
			{Name: "a", Kind: map[string]any{"http": &section{Name: "x"}}, Hidden: "h"},
			{Name: "b", Kind: map[string]any{"stdout": struct{}{}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `kind: Exporter
max: 64Mi
wait: 1m
port: 80
low: -1
stamp: true
mode: "0660"
key: []
headers:
  A: "true"
  B: "2"
  C: ""
tls:
  caFile: /etc/ca.pem
later: {x: [1, two]}
sinks:
- name: a
  http:
    name: x
    count: 0
- name: b
  stdout: {}
`
	if string(got) != want {
		t.Errorf("Encode:\n got %s\nwant %s", got, want)
	}
}

func TestEncodeIsReadBack(t *testing.T) {
	size := Size(7)
	want := everything{
		Text: "a: b #c", Mode: "~", Yes: true, Int: -5, Small: -128, Port: 65535, Big: 1<<64 - 1,
		Size: 1500, Wait: Duration(90 * time.Minute), Secret: "/a b",
		List:   []string{"", "- x", "<<", "*a", "&a", "1_0", "0x1", "null", "2024-01-01", "line\nline\n", "\t\n", " \t x ", "\x00\x7f\u0085\u2028", "é", "%", "@x", "no"},
		Labels: map[string]string{"": "empty", "<<": "merge", "404": "number", "~": "null", "a.b": "dot"},
		Opt:    &section{Name: "x"}, Max: &size, Subs: []section{{Count: 1}},
	}
	text, err := Encode(&want)
	if err != nil {
		t.Fatal(err)
	}
	var got everything
	if p := parse(t, string(text)).Decode(&got); len(p) > 0 {
		t.Fatalf("Decode: %s\n%s", texts(p), text)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v\n%s", got, want, text)
	}
}
