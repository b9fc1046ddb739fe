package client

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
)

// TestLoadConfigBad compares every problem of each *.bad.yaml with its
// *.bad.problems.
func TestLoadConfigBad(t *testing.T) {
	for _, file := range testFiles(t, "*.bad.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			config, err := LoadConfig(file)
			if err == nil {
				t.Fatal("got no error")
			}
			if !reflect.DeepEqual(config, Config{}) {
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

func TestLoadConfigGood(t *testing.T) {
	want := map[string]Config{
		"minimal.good.yaml": {Address: "unix:///run/docket/docket.sock"},
		"full.good.yaml": {
			Address: "tcp://docket.example.com:7443", Producer: "0123", Mode: BlockingStrict,
			Timeout: 200 * time.Millisecond, MaxBufferedBytes: 512 << 10,
			Keep: []decision.Decision{decision.Deny, decision.Warn}, SpillFile: "/var/lib/engine/a b.spill",
			TLS: &TLSConfig{CAFile: "/etc/docket/ca.crt", CertFile: "/etc/docket/tls.crt", KeyFile: "/etc/docket/tls.key", ServerName: "docket"},
		},
		"block.good.yaml": {
			Address: "tcp://[2001:db8::1]:7443", Mode: Blocking, Timeout: 90 * time.Second, MaxBufferedBytes: 1 << 20,
			Keep: []decision.Decision{decision.Allow, decision.Deny}, TLS: &TLSConfig{},
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
			got, err := LoadConfig(file)
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
func TestLoadConfigWithoutPath(t *testing.T) {
	if config, err := LoadConfig(""); err != nil || !reflect.DeepEqual(config, Config{}) {
		t.Errorf("got %+v, %v, want the zero Config", config, err)
	}
}

func TestLoadConfigUnreadable(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, []byte(strings.Repeat("#\n", maxConfigBytes/2)+"#"), 0o600); err != nil {
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
		_, err := LoadConfig(path)
		if want := "client configuration " + path + ": " + want; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Each key that is offered as known is one that is read.
func TestKnownKeysAreRead(t *testing.T) {
	text := "apiVersion: docket.dev/v1alpha1\nkind: Client\n"
	for _, key := range fileKeys {
		if key == "tls" {
			text += "tls:\n"
			for _, key := range tlsKeys {
				text += fmt.Sprintf("  %s: x\n", key)
			}
		} else if !strings.Contains(text, key+":") {
			text += key + ": x\n"
		}
	}
	_, found := parseConfig(text)
	if i := slices.IndexFunc(found, func(p problem) bool { return strings.Contains(p.text, "unknown key") }); i >= 0 {
		t.Errorf("got problem %v", found[i])
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

func TestPlainTextThatCouldBeSomethingElse(t *testing.T) {
	for text, want := range map[string]string{
		"null": "no value", "NULL": "no value", "Yes": "a boolean", "n": "a boolean", "off": "a boolean", "TRUE": "a boolean",
		"0": "a number", "0123": "a number", "0x1F": "a number", "0o17": "a number", "1_000": "a number", "0_b1": "a number", "1.5": "a number", ".5": "a number",
		"1e3": "a number", "1E+3": "a number", ".inf": "a number", ".NaN": "a number", "12:30": "a number", "10.0.0.1": "a number", ".": "a number",
		"2024-01-02": "a date", "2024-1-2T10:00:00Z": "a date",
		"nope": "", "6f0c": "", "gatekeeper-0": "", "1e3x": "", "200ms": "", "8Mi": "", "./ca.crt": "", "0x": "", "yes.crt": "",
	} {
		if got := otherwise(text); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// testFiles returns the files of testdata that match, at least one.
func testFiles(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("got files %v, error %v, want some", files, err)
	}
	return files
}

func readTestFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
