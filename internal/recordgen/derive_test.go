package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const (
	samplesDir = "../../testdata/samples"
	recordsDir = "../../testdata/records"
)

func TestPublishedRecordsAreUpToDate(t *testing.T) {
	fresh := t.TempDir()
	if err := run(samplesDir, fresh); err != nil {
		t.Fatal(err)
	}
	want, got := fileNames(t, fresh), fileNames(t, recordsDir)
	if !slices.Equal(got, want) {
		t.Fatalf("got files %v, want %v", got, want)
	}
	for _, name := range want {
		if !bytes.Equal(read(t, filepath.Join(recordsDir, name)), read(t, filepath.Join(fresh, name))) {
			t.Errorf("%s is not what the captures give: run go generate ./internal/recordgen", name)
		}
	}
}

// The captures come back when their records are put into the wrapping again: no
// record is missing and no byte differs. This does not use the extraction.
func TestRecordsKeepEveryByte(t *testing.T) {
	unpacked := func(name string) string {
		plain, err := gunzip(read(t, filepath.Join(samplesDir, name)))
		if err != nil {
			t.Fatal(err)
		}
		return string(plain)
	}
	plain := func(name string) string { return string(read(t, filepath.Join(samplesDir, name))) }
	tests := map[string]struct {
		counts    []int // records of each capture
		separator string
		captures  []string // in plain text
		open, end string
	}{
		"gatekeeper-audit.ndjson": {
			counts: []int{15}, separator: "\n", end: "\n",
			captures: []string{plain("gatekeeper/disk-export-audit-channel-2026-11-21T07_38_01Z.log")},
		},
		"gatekeeper-audit-failed.ndjson": {
			counts: []int{2}, separator: "\n", end: "\n",
			captures: []string{plain("gatekeeper/disk-export-failed-audit-looks-clean.log")},
		},
		"gatekeeper-admission.ndjson": {
			counts: []int{5}, separator: "\n", end: "\n",
			captures: []string{plain("gatekeeper-3.24/admission-20261121T080716.213551869Z-8ccf7d380018b3ee.log")},
		},
		"gatekeeper-denies.ndjson": {
			counts: []int{11}, separator: "\n", end: "\n",
			captures: []string{plain("gatekeeper/webhook-log-denies.jsonl")},
		},
		"opa-decisions.ndjson": {
			counts: []int{7, 4, 32}, separator: ",", open: "[", end: "]",
			captures: []string{unpacked("opa/000.body"), unpacked("opa/001.body"), unpacked("opa/002.body")},
		},
		"kubernetes-audit.ndjson": {
			counts: []int{8}, separator: ",",
			open: `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`, end: "]}\n",
			captures: []string{plain("kube-audit/000.body")},
		},
	}
	if got, want := len(tests), len(derivations); got != want {
		t.Errorf("got %d files tested, want %d", got, want)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			records := strings.Split(string(read(t, filepath.Join(recordsDir, name))), "\n")
			if last := len(records) - 1; records[last] != "" {
				t.Fatalf("the last line has no newline: %q", records[last])
			}
			records = records[:len(records)-1]
			for i, count := range tt.counts {
				if len(records) < count {
					t.Fatalf("capture %d: got %d records, want %d", i, len(records), count)
				}
				got := tt.open + strings.Join(records[:count], tt.separator) + tt.end
				if got != tt.captures[i] {
					t.Errorf("capture %d: got\n%.200s...\nwant\n%.200s...", i, got, tt.captures[i])
				}
				records = records[count:]
			}
			if len(records) > 0 {
				t.Errorf("got %d records too many", len(records))
			}
		})
	}
}

func TestDeriveRefuses(t *testing.T) {
	tests := map[string]struct {
		capture string
		d       derivation
		want    string
	}{
		"no file":               {"", derivation{captures: []string{"missing"}, extract: lines}, "read capture"},
		"last line cut":         {"{}\n{", derivation{extract: lines}, "no newline"},
		"not JSON":              {"{}\n{\n", derivation{extract: lines}, "record 2 is not JSON on one line"},
		"carriage return":       {"{}\r\n", derivation{extract: lines}, "record 1 is not JSON on one line"},
		"not gzip":              {"[{}]", derivation{extract: opaEvents}, "read gzip"},
		"not an event list":     {"[{}]", derivation{extract: auditEvents}, "read event list"},
		"event over many lines": {`{"items":[{"a":` + "\n" + `1}]}`, derivation{extract: auditEvents}, "record 1 is not JSON on one line"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.d.captures == nil {
				tt.d.captures = []string{"capture"}
				if err := os.WriteFile(filepath.Join(dir, "capture"), []byte(tt.capture), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := tt.d.derive(dir)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// The captures are evidence of what the engines write: nobody mends them.
func TestSamplesAreUntouched(t *testing.T) {
	want := make(map[string]string)
	list := bufio.NewScanner(bytes.NewReader(read(t, "../../testdata/samples.sha256")))
	for list.Scan() {
		sum, name, ok := strings.Cut(list.Text(), "  ")
		if !ok {
			t.Fatalf("line %q is not a sum and a name", list.Text())
		}
		want[name] = sum
	}
	got := make(map[string]string)
	for _, name := range fileNames(t, samplesDir) {
		sum := sha256.Sum256(read(t, filepath.Join(samplesDir, name)))
		got["samples/"+name] = hex.EncodeToString(sum[:])
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// fileNames lists the files below dir, relative to it and sorted.
func fileNames(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
