package exporter

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/redact"
)

// newRedactingIntake is an intake whose source "test" has rules. What it logs is in
// the returned buffer.
func newRedactingIntake(t *testing.T, opts queue.Options, rules ...redact.Rule) (*intakeTest, *bytes.Buffer) {
	t.Helper()
	in := newIntake(t, opts)
	var log bytes.Buffer
	r, err := newRedaction(SourceConfig{Name: "test", Redact: rules}, in.maxRecordBytes, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	in.redaction = r
	return in, &log
}

func rule(pointer string, action redact.Action) redact.Rule {
	return redact.Rule{Pointer: pointer, Action: action}
}

// hashed returns what is kept of a refused line that must not be kept.
func hashed(line string) map[string]any {
	sum := sha256.Sum256([]byte(line))
	return map[string]any{"bytes": float64(len(line)), "sha256": hex.EncodeToString(sum[:])}
}

func TestRecordsAreRedactedBeforeTheyAreStored(t *testing.T) {
	in, _ := newRedactingIntake(t, queue.Options{Directory: t.TempDir()},
		rule("/gone", redact.Remove), redact.Rule{Pointer: "/long", Action: redact.Replace, With: strings.Repeat("x", 100)},
		redact.Rule{Preset: redact.KubernetesSecrets})
	s, _, r := in.session(t, "p", 1)
	submit(t, s, "{\"a\":1}\r\n\n{\"gone\":1,\"b\":2}\n{\"long\":1}\nnope\n {\"kind\":\"Secret\",\"data\":1} \n{\"c\":3}\n")
	want := []string{`{"a":1}`, `{"b":2}`, `{"long":"` + strings.Repeat("x", 100) + `"}`, ` {"kind":"Secret"} `, `{"c":3}`}
	if got := in.stored(t); !slices.Equal(got, want) {
		t.Errorf("stored: got %q, want %q", got, want)
	}
	if got, want := r.refused(), []string{"4:InvalidJSON"}; !slices.Equal(got, want) || r.through() != 6 {
		t.Errorf("got through %d and refused %q, want 6 and %q", r.through(), got, want)
	}
	s.Close()

	// The same lines again are known by their numbers, and stored once.
	s, acked, _ := in.session(t, "p", 1)
	submit(t, s, "{\"a\":1}\n{\"gone\":1,\"b\":2}\n")
	if got := len(in.stored(t)); got != len(want) || acked != 6 {
		t.Errorf("got %d records and acked %d after a resend, want %d and 6", got, acked, len(want))
	}
}

// Chunks one after another, and from several sessions at a time, do not get into each
// other's buffers.
func TestRedactedChunksAreApart(t *testing.T) {
	in, _ := newRedactingIntake(t, queue.Options{Directory: t.TempDir()}, rule("/gone", redact.Remove))
	const producers, chunks = 4, 50
	want := make(map[string]int)
	done := make(chan struct{})
	for p := range producers {
		s, _, _ := in.session(t, fmt.Sprint("p", p), 1)
		for c := range chunks {
			want[fmt.Sprintf(`{"p":%d,"c":%d}`, p, c)]++
			want[fmt.Sprintf(`{"p":%d,"d":%d}`, p, c)]++
		}
		go func() {
			defer func() { done <- struct{}{} }()
			for c := range chunks {
				lines := fmt.Sprintf("{\"p\":%d,\"gone\":\"%s\",\"c\":%d}\n{\"p\":%d,\"d\":%d}\n", p, strings.Repeat("y", c), c, p, c)
				if err := s.Submit(t.Context(), []byte(lines)); err != nil {
					t.Errorf("submit: %v", err)
				}
			}
			if err := s.Settle(t.Context()); err != nil {
				t.Errorf("settle: %v", err)
			}
		}()
	}
	for range producers {
		<-done
	}
	got := make(map[string]int)
	for _, record := range in.stored(t) {
		got[record]++
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %d different records, want each of %d once", len(got), len(want))
	}
}

func TestUnredactableIsRefused(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	in, log := newRedactingIntake(t, queue.Options{Directory: t.TempDir()},
		redact.Rule{Pointer: "/user", Action: redact.HMACSHA256, KeyFile: config.SecretFile(key)})
	s, _, r := in.session(t, "p", 1)
	lines := []string{`{"user":"alice"}`, `{"user":"bob"}`}
	submit(t, s, lines[0]+"\n{\"n\":1}\n"+lines[1]+"\n")
	if got, want := r.refused(), []string{"1:Unredactable", "3:Unredactable"}; !slices.Equal(got, want) {
		t.Errorf("refused: got %q, want %q", got, want)
	}
	if got, want := in.stored(t), []string{`{"n":1}`}; !slices.Equal(got, want) {
		t.Errorf("stored: got %q, want %q", got, want)
	}
	kept := refusedFiles(t, in.dir)
	if len(kept) != len(lines) {
		t.Fatalf("refused files: got %v, want %d lines", kept, len(lines))
	}
	for i, line := range lines {
		want := hashed(line)
		if kept[i]["bytes"] != want["bytes"] || kept[i]["sha256"] != want["sha256"] || kept[i]["line"] != nil || kept[i]["lineBase64"] != nil {
			t.Errorf("kept: got %v, want %v and nothing of the text", kept[i], want)
		}
	}
	if got := strings.Count(log.String(), "records cannot be redacted"); got != 1 {
		t.Errorf("got %d lines in the log, want 1 for the same failure:\n%s", got, log)
	}
	if got := ledgerOf(in.queue.Stats()).Refused["Unredactable"]; got != 2 {
		t.Errorf("refused in the ledger: got %d, want 2", got)
	}

	if err := os.WriteFile(key, []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	submit(t, s, lines[0]+"\n")
	mac := hmac.New(sha256.New, []byte("key"))
	mac.Write([]byte("alice"))
	want := fmt.Sprintf(`{"user":"hmac-sha256:%x"}`, mac.Sum(nil))
	if got := in.stored(t); len(got) != 2 || got[1] != want {
		t.Errorf("stored with a key: got %q, want %s at the end", got, want)
	}
}

// Nothing of a line of such a source is written in clear, whatever it is refused for.
func TestRefusedLinesOfARedactingSourceAreHashed(t *testing.T) {
	in, _ := newRedactingIntake(t, queue.Options{Directory: t.TempDir()},
		redact.Rule{Pointer: "/*/*", Action: redact.Replace, With: strings.Repeat("x", 200)})
	s, _, r := in.session(t, "p", 1)
	lines := []string{
		`{"password":"hunter2"`,
		"{\"password\":\"hunter2\xff\"}",
		`["hunter2"]`,
		`{"password":"hunter2` + strings.Repeat("2", 1000) + `"}`,
		`{"password":["hunter2",1,2,3,4,5]}`, // grows beyond the limit of 1,000 bytes
	}
	submit(t, s, strings.Join(lines, "\n")+"\n")
	if err := s.SubmitTooLarge(t.Context(), []byte(`{"password":"hunter2`), 5000); err != nil {
		t.Fatal(err)
	}
	if err := s.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"1:InvalidJSON", "2:InvalidJSON", "3:NotObject", "4:TooLarge", "5:TooLarge", "6:TooLarge"}
	if got := r.refused(); !slices.Equal(got, want) {
		t.Errorf("refused: got %q, want %q", got, want)
	}
	kept := refusedFiles(t, in.dir)
	if len(kept) != len(want) {
		t.Fatalf("refused files: got %v, want %d lines", kept, len(want))
	}
	for i, o := range kept {
		if strings.Contains(fmt.Sprint(o), "hunter2") {
			t.Errorf("line %d is kept in clear: %v", i+1, o)
		}
		if i < len(lines) && (o["sha256"] != hashed(lines[i])["sha256"] || o["bytes"] != float64(len(lines[i])) || o["sha256Bytes"] != nil) {
			t.Errorf("line %d: got %v, want %v", i+1, o, hashed(lines[i]))
		}
	}
	last := kept[len(kept)-1]
	if last["bytes"] != 5000.0 || last["sha256Bytes"] != 20.0 || last["sha256"] != hashed(`{"password":"hunter2`)["sha256"] {
		t.Errorf("a line that was not held in full: got %v, want 5000 bytes and the hash of the first 20", last)
	}
	if got := in.stored(t); len(got) > 0 {
		t.Errorf("stored: %q", got)
	}
}

// What a producer reports as lost is counted, even where a rule takes it out.
func TestLossIsCountedBeforeRedaction(t *testing.T) {
	in, _ := newRedactingIntake(t, queue.Options{Directory: t.TempDir()}, rule("/lost", redact.Remove))
	s, _, _ := in.session(t, "p", 1)
	submit(t, s, `{"eventType":"docket.loss","lost":{"deny":3}}`+"\n")
	if got := ledgerOf(in.queue.Stats()).Lost["deny"]; got != 3 {
		t.Errorf("lost in the ledger: got %d, want 3", got)
	}
	if got, want := in.stored(t), []string{`{"eventType":"docket.loss"}`}; !slices.Equal(got, want) {
		t.Errorf("stored: got %q, want %q", got, want)
	}
}

// Another source of the same exporter keeps its bytes.
func TestOtherSourcesAreLeftAlone(t *testing.T) {
	in, _ := newRedactingIntake(t, queue.Options{Directory: t.TempDir()}, rule("/*", redact.Remove))
	in.intake = intake{ingest: in.ingest}
	s, _, _ := in.session(t, "p", 1)
	submit(t, s, "{\"a\":1}\nnope\n")
	if got, want := in.stored(t), []string{`{"a":1}`}; !slices.Equal(got, want) {
		t.Errorf("stored: got %q, want %q", got, want)
	}
	if got := refusedFiles(t, in.dir); len(got) != 1 || got[0]["line"] != "nope" || got[0]["sha256"] != nil {
		t.Errorf("refused files: got %v, want the line itself", got)
	}
}
