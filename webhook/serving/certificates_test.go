package serving

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pairs are those that a step can put into the directory.
type pairs map[string]pair

func newPairs(t *testing.T) pairs {
	now := time.Now()
	before, after := now.Add(-time.Hour), now.Add(time.Hour)
	return pairs{
		"a": validFor(t, before, after), "b": validFor(t, before, after), "short": validFor(t, before, now.Add(time.Minute)),
		"expired": validFor(t, before, now.Add(-time.Minute)), "later": validFor(t, now.Add(5*time.Minute), after),
	}
}

type change func(t *testing.T, dir string, all pairs)

func files(name string) change {
	return func(t *testing.T, dir string, all pairs) { all[name].files(t, dir) }
}

func secret(name string) change {
	return func(t *testing.T, dir string, all pairs) { all[name].secret(t, dir) }
}

func mixed(crt, key string) change {
	return func(t *testing.T, dir string, all pairs) { pair{crt: all[crt].crt, key: all[key].key}.files(t, dir) }
}

// cut writes pair b, and only so many bytes of each file.
func cut(crt, key int) change {
	return func(t *testing.T, dir string, all pairs) {
		b := all["b"]
		pair{crt: b.crt[:min(crt, len(b.crt))], key: b.key[:min(key, len(b.key))]}.files(t, dir)
	}
}

func removed(t *testing.T, dir string, _ pairs) {
	if err := os.Remove(filepath.Join(dir, "tls.key")); err != nil {
		t.Fatal(err)
	}
}

func after(d time.Duration) change {
	return func(*testing.T, string, pairs) { time.Sleep(d) }
}

func nothing(*testing.T, string, pairs) {}

// Each step changes the files, the first one before they are read at all. A second later one pair is in use, and an operator was told
// of what is new.
func TestCertificatesAreReadAgain(t *testing.T) {
	type step struct {
		change change
		inUse  string // empty: none
		told   string // in the one new log line; empty: there is none
	}
	const used, all = "certificate in use", 1 << 20
	for name, steps := range map[string][]step{
		"files replaced":            {{files("a"), "a", used}, {files("b"), "b", used}, {nothing, "b", ""}},
		"secret replaced":           {{secret("a"), "a", used}, {secret("b"), "b", used}, {secret("a"), "a", used}},
		"same pair again":           {{secret("a"), "a", used}, {secret("a"), "a", ""}},
		"certificate before key":    {{files("a"), "a", used}, {mixed("b", "a"), "a", "does not match"}, {nothing, "a", ""}, {files("b"), "b", used}},
		"key before certificate":    {{files("a"), "a", used}, {mixed("a", "b"), "a", "does not match"}, {files("b"), "b", used}},
		"the old pair comes back":   {{files("a"), "a", used}, {mixed("a", "b"), "a", "does not match"}, {files("a"), "a", used}},
		"key of another at first":   {{mixed("a", "b"), "", "does not match"}, {files("a"), "a", used}},
		"certificate half-written":  {{files("a"), "a", used}, {cut(99, all), "a", "failed to find"}, {files("b"), "b", used}},
		"key half-written":          {{files("a"), "a", used}, {cut(all, 99), "a", "failed to find"}, {files("b"), "b", used}},
		"both empty":                {{files("a"), "a", used}, {cut(0, 0), "a", "failed to find"}, {files("b"), "b", used}},
		"key removed":               {{files("a"), "a", used}, {removed, "a", "tls.key"}, {files("a"), "a", used}},
		"another failure":           {{files("a"), "a", used}, {mixed("b", "a"), "a", "does not match"}, {removed, "a", "tls.key"}},
		"empty directory at first":  {{nothing, "", "tls.crt"}, {nothing, "", ""}, {secret("a"), "a", used}},
		"expired":                   {{files("a"), "a", used}, {files("expired"), "a", "expired at"}, {files("b"), "b", used}},
		"expired, with none before": {{files("expired"), "expired", used}, {files("a"), "a", used}},
		"expired, as the other is":  {{files("short"), "short", used}, {after(2 * time.Minute), "short", ""}, {files("expired"), "expired", used}},
		"not valid yet":             {{files("a"), "a", used}, {files("later"), "a", "not valid before"}, {after(10 * time.Minute), "later", used}},
		"the last good one expires": {{files("short"), "short", used}, {files("later"), "short", "not valid before"}, {after(2 * time.Minute), "later", used}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, dir, logs := newPairs(t), t.TempDir(), newLogged()
				var c *certificates
				for i, step := range steps {
					before := len(logs.with("level="))
					step.change(t, dir, all)
					if c == nil {
						c = newCertificates(dir, logs.log())
					}
					time.Sleep(rereadEvery)
					if got := inUse(c, all); got != step.inUse {
						t.Errorf("step %d: got pair %q in use, want %q", i, got, step.inUse)
					}
					told := logs.with("level=")[before:]
					if step.told == "" && len(told) > 0 || step.told != "" && (len(told) != 1 || !strings.Contains(told[0], step.told)) {
						t.Errorf("step %d: got the log lines %q, want %q", i, told, step.told)
					}
				}
			})
		})
	}
}

// inUse returns the name of the pair that a client gets.
func inUse(c *certificates, all pairs) string {
	got, err := c.getCertificate(nil)
	if err != nil {
		return ""
	}
	for name, p := range all {
		if p.leaf.Equal(got.Leaf) {
			return name
		}
	}
	return "unknown"
}

// A client that connects while another one's handshake reads the files does not wait.
func TestCertificatesAreHandedOutWhileTheyAreRead(t *testing.T) {
	all, dir := newPairs(t), t.TempDir()
	all["a"].files(t, dir)
	c := newCertificates(dir, slog.New(slog.DiscardHandler))
	c.reading.Lock()
	defer c.reading.Unlock()
	got := make(chan string, 1)
	go func() { got <- inUse(c, all) }()
	if got := within(t, got); got != "a" {
		t.Errorf("got pair %q, want a", got)
	}
}

// forgetLook lets the next client read the files.
func (c *certificates) forgetLook() {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.looked = time.Time{}
}
