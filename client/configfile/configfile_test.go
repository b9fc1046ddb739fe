package configfile

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/decision"
)

// TestLoadBad compares every problem of each *.bad.yaml with its
// *.bad.problems.
func TestLoadBad(t *testing.T) {
	for _, file := range testFiles(t, "*.bad.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			config, err := Load(file)
			if err == nil {
				t.Fatal("got no error")
			}
			if !reflect.DeepEqual(config, client.Config{}) {
				t.Errorf("got %+v with an error, want the zero Config", config)
			}
			got := strings.ReplaceAll(err.Error(), file, "FILE") + "\n"
			want := readTestFile(t, strings.TrimSuffix(file, ".yaml")+".problems")
			if got != want {
				t.Errorf("got problems\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestLoadGood(t *testing.T) {
	want := map[string]client.Config{
		"minimal.good.yaml": {Address: "unix:///run/docket/docket.sock"},
		"full.good.yaml": {
			Address: "tcp://docket.example.com:7443", Producer: "0123", Mode: client.BlockingStrict,
			Timeout: 200 * time.Millisecond, MaxBufferedBytes: 512 << 10,
			Keep: []decision.Decision{decision.Deny, decision.Warn}, SpillFile: "/var/lib/engine/a b.spill",
			TLS: &client.TLSConfig{CAFile: "/etc/docket/ca.crt", CertFile: "/etc/docket/tls.crt", KeyFile: "/etc/docket/tls.key", ServerName: "docket"},
		},
		"block.good.yaml": {
			Address: "tcp://[2001:db8::1]:7443", Mode: client.Blocking, Timeout: 90 * time.Second, MaxBufferedBytes: 1 << 20,
			Keep: []decision.Decision{decision.Allow, decision.Deny}, TLS: &client.TLSConfig{},
		},
		"yaml.good.yaml": {
			Address: "tcp://docket.example.com:7443", Producer: "deny", Mode: client.Batch, Keep: []decision.Decision{decision.Deny, decision.Warn},
			TLS: &client.TLSConfig{CAFile: "/etc/docket/ca.crt", ServerName: "Client"},
		},
		"off.good.yaml":       {Producer: "gatekeeper-audit-0"},
		"elsewhere.good.yaml": {Address: "vsock://2:7443"},
	}
	files := testFiles(t, "*.good.yaml")
	if len(files) != len(want) {
		t.Errorf("got %d files, want %d", len(files), len(want))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			got, err := Load(file)
			if err != nil {
				t.Fatalf("got error\n%v\nwant none", err)
			}
			if want := want[filepath.Base(file)]; !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
		})
	}
}

// Without a path there is no file to read and no client to make.
func TestLoadWithoutPath(t *testing.T) {
	if config, err := Load(""); err != nil || !reflect.DeepEqual(config, client.Config{}) {
		t.Errorf("got %+v, %v, want the zero Config", config, err)
	}
}

func TestLoadUnreadable(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, []byte(strings.Repeat("#\n", maxBytes/2)+"#"), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file or directory: mount it, or correct the path",
		dir:                        "is not a regular file: name the file itself",
		pipe:                       "is not a regular file: name the file itself",
		large:                      "is larger than 64 KiB: is it the right file?",
	} {
		_, err := Load(path)
		if want := "client configuration " + path + ": " + want; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int{
		"65536": 65536, "64Ki": 65536, "8Mi": 8 << 20, "1Gi": 1 << 30, "70k": 70000, "1M": 1e6, "2G": 2e9,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "65535", "63Ki", "", "Ki", "8 Mi", "8MiB", "8mi", "+8Mi", "-8Mi", "0x10000", "0200000", "1e6", "8.5Mi", "9223372036854775808", "9223372036854775807Gi", "17179869185Gi", "1Ti"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%s: got %d, want an error", text, got)
		}
	}
}

// Text that YAML takes for something else is refused, so that no tool that writes the file
// changes it.
func TestTextThatYAMLTakesForSomethingElse(t *testing.T) {
	for text, want := range map[string]string{
		"TRUE": "a boolean", "false": "a boolean", "0": "a number", "0123": "a number", "0x1F": "a number", "0o17": "a number",
		"1_000": "a number", "1.5": "a number", ".5": "a number", "1e3": "a number", ".inf": "a number", ".NaN": "a number",
		"2024-01-02": "a date", "2024-01-02T10:00:00Z": "a date",
		"nope": "", "6f0c": "", "gatekeeper-0": "", "1e3x": "", "10.0.0.1": "", "'0123'": "", `"true"`: "", "!!str 0123": "",
	} {
		config, found := parse([]byte("apiVersion: docket.dev/v1alpha1\nkind: Client\naddress: ''\nproducer: " + text + "\n"))
		got := ""
		if len(found) > 0 {
			got = found[0].Text
		}
		if want == "" && (len(found) > 0 || config.Producer == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %+v and problem %q, want %q", text, config, got, want)
		}
	}
}

// A document that is broken as a whole has one problem, and no parser of YAML panics.
func TestDocument(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "the document is empty",
		"null":                "the document is empty",
		"- a":                 "must have keys with values",
		"text":                "must have keys with values",
		"a: b\n---\nc: d\n":   "must be one document",
		"a: b\n--- &x [\n":    "yaml: line 2",
		"a: 'b\n":             "yaml: ",
		"? [a]\n: b\n":        "unknown key",
		"a: &x {b: *x}\n":     "unknown key",
		"address: *none\n":    "unknown anchor",
		"<<: {address: b}\n":  "unknown key",
		"keep: [[deny]]":      "must be a single value, not a list",
		"keep: [&x {a: *x}]":  "must be a single value, not a mapping",
		"tls: {caFile: ~}":    "must have a value",
		"tls: {caFile: [a]}":  "must be a single value",
		"\xff\xfea\x00:\x00 ": "",
	} {
		_, found := parse([]byte(text))
		if !slices.ContainsFunc(found, func(p problem) bool { return strings.Contains(p.Text, want) }) {
			t.Errorf("%q: got %v, want %q", text, found, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, file := range append(testFiles(f, "*.good.yaml"), testFiles(f, "*.bad.yaml")...) {
		f.Add([]byte(readTestFile(f, file)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if config, found := parse(text); len(found) == 0 {
			if err := config.Validate(); err != nil && !strings.Contains(err.Error(), "a known scheme") {
				t.Fatalf("taken, and Validate says %v:\n%s", err, text)
			}
		}
	})
}

// testFiles returns the files of testdata that match, at least one.
func testFiles(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("got files %v, error %v, want some", files, err)
	}
	return files
}

func readTestFile(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
