package filesink

import (
	"crypto/ed25519"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// TestHashOfWhatWasWritten changes a byte of the active file behind the sink's
// back: the manifest must not bear witness to it.
func TestHashOfWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, batch(queueA, 1, 3))
	mustClose(t, s)
	damage(t, dir, activePrefix, func(b []byte) []byte { b[3] ^= 1; return b })
	s = mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, batch(queueA, 4, 4))
	mustFinish(t, s)
	if a := auditOf(t, dir); len(a.problems) == 0 {
		t.Error("an edited file is in the manifest with a hash that fits")
	}
}

// TestManifestDamage harms the manifest of a directory in which 1 to 3 and 4 to 6
// are finished and 7 is in the active file, and goes on to 8.
func TestManifestDamage(t *testing.T) {
	prepare := func(t *testing.T) (dir string) {
		dir = t.TempDir()
		s := mustOpen(t, rotating(dir, 0), nil)
		for _, seqs := range [][2]uint64{{1, 3}, {4, 6}} {
			mustSend(t, s, batch(queueA, seqs[0], seqs[1]))
			mustFinish(t, s)
		}
		mustSend(t, s, batch(queueA, 7, 7))
		mustClose(t, s)
		return dir
	}
	goOn := func(t *testing.T, dir string) {
		s := mustOpen(t, rotating(dir, 0), nil)
		mustSend(t, s, batch(queueA, 7, 8))
		mustFinish(t, s)
	}
	for name, tail := range map[string]string{"torn line": `{"version":1,"ty`, "whole line": "{}\n", "zeros": "\x00\x00"} {
		t.Run("cut/"+name, func(t *testing.T) {
			dir := prepare(t)
			appendTo(manifest.FileName, []byte(tail))(t, dir)
			goOn(t, dir)
			if got, want := len(mustAudit(t, dir).entries), 3; got != want {
				t.Errorf("%d entries, want %d", got, want)
			}
		})
		t.Run("position lost/"+name, func(t *testing.T) {
			dir := prepare(t)
			whole, err := os.ReadFile(filepath.Join(dir, manifest.FileName))
			if err != nil {
				t.Fatal(err)
			}
			appendTo(manifest.FileName, []byte(tail))(t, dir)
			remove(t, dir, positionName)
			goOn(t, dir)
			aside := names(t, dir, "decisions-unnumbered-*.jsonl")
			if strings.HasSuffix(tail, "\n") { // may have been written whole: kept, for verify to name
				whole, aside = append(whole, tail...), append(aside, "")
			} else if got, err := os.ReadFile(filepath.Join(dir, aside[0])); err != nil || string(got) != tail {
				t.Errorf("set aside %q, %v, want %q", got, err, tail)
			}
			got, err := os.ReadFile(filepath.Join(dir, manifest.FileName))
			if err != nil || len(aside) != 1 || !strings.HasPrefix(string(got), string(whole)) || len(got) == len(whole) {
				t.Errorf("manifest %q, %v, want %q and a line more; %d files set aside", got, err, whole, len(aside))
			}
		})
	}
	for name, harm := range map[string]func(*testing.T, string){
		"gone": func(t *testing.T, dir string) { remove(t, dir, manifest.FileName) },
		"short": func(t *testing.T, dir string) {
			damage(t, dir, manifest.FileName, func(b []byte) []byte { return b[:9] })
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := prepare(t)
			content, err := os.ReadFile(filepath.Join(dir, manifest.FileName))
			if err != nil {
				t.Fatal(err)
			}
			s := mustOpen(t, rotating(dir, 0), nil)
			harm(t, dir)
			before := directoryContent(t, dir)
			wantKind(t, s, batch(queueA, 8, 8), sinks.Misconfigured, filepath.Join(dir, manifest.FileName), "restore the file")
			mustClose(t, s)
			_, err = open(rotating(dir, 0), env(), nil)
			checkFailure(t, err, sinks.Misconfigured, filepath.Join(dir, manifest.FileName))
			if after := directoryContent(t, dir); after != before {
				t.Errorf("the directory was changed: got %q, want %q", after, before)
			}
			if err := os.WriteFile(filepath.Join(dir, manifest.FileName), content, 0o600); err != nil {
				t.Fatal(err)
			}
			goOn(t, dir)
			mustAudit(t, dir)
		})
	}
}

// TestManifestRewritten has somebody write the manifest anew while the sink is
// stopped: the next line still says what stood there.
func TestManifestRewritten(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, batch(queueA, 1, 3))
	mustFinish(t, s)
	mustClose(t, s)
	damage(t, dir, manifest.FileName, func(b []byte) []byte {
		return []byte(strings.Replace(string(b), `"firstTime":"0001`, `"firstTime":"2001`, 1))
	})
	s = mustOpen(t, rotating(dir, 0), nil)
	mustSend(t, s, batch(queueA, 4, 4))
	mustFinish(t, s)
	if a := auditOf(t, dir); !slices.Contains(a.problems, "line 2 of the manifest does not follow the one before") {
		t.Errorf("got problems %v, want the chain to be broken", a.problems)
	}
}

func writeKey(t *testing.T, path string) ed25519.PublicKey {
	t.Helper()
	private, public, err := manifest.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, private, 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := manifest.ParsePublicKeys(public)
	if err != nil {
		t.Fatal(err)
	}
	return keys[0]
}

// TestSignature signs with the key that is in the file at the time, and with none
// when none is configured.
func TestSignature(t *testing.T) {
	dir, key := t.TempDir(), filepath.Join(t.TempDir(), "key.pem")
	c := rotating(dir, 0)
	c.Retain.MaxFiles = 1
	s := mustOpen(t, c, nil)
	mustSend(t, s, batch(queueA, 1, 1))
	mustFinish(t, s)
	mustClose(t, s)

	c.Signature = &Signature{KeyFile: key}
	first := writeKey(t, key)
	s = mustOpen(t, c, nil)
	mustSend(t, s, batch(queueA, 2, 2))
	mustFinish(t, s)
	second := writeKey(t, key)
	mustSend(t, s, batch(queueA, 3, 3))
	mustFinish(t, s)
	a := mustAudit(t, dir)

	f, err := os.Open(filepath.Join(dir, manifest.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []string
	for line, err := range manifest.Read(f) {
		switch {
		case err != nil:
			t.Fatal(err)
		case !line.IsSigned():
			got = append(got, "none")
		case line.SignedBy(first):
			got = append(got, "first")
		case line.SignedBy(second):
			got = append(got, "second")
		default:
			got = append(got, "wrong")
		}
	}
	// Each file after the first one takes the place of the one before.
	if want := []string{"none", "first", "first", "second", "second"}; !slices.Equal(got, want) || len(a.removed) != 2 {
		t.Errorf("signatures %v, %d removed, want %v and 2", got, len(a.removed), want)
	}
}

func TestKeyThatCannotBeRead(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, path string){
		"gone":        func(t *testing.T, path string) { remove(t, filepath.Dir(path), filepath.Base(path)) },
		"not a key":   func(t *testing.T, path string) { writeFile(t, path, "s3cret") },
		"a directory": func(t *testing.T, path string) { remove(t, filepath.Dir(path), filepath.Base(path)); makeDir(t, path) },
		"too large":   func(t *testing.T, path string) { writeFile(t, path, strings.Repeat("s3cret", maxKeyFile)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, key := t.TempDir(), filepath.Join(t.TempDir(), "key.pem")
			c := rotating(dir, 1)
			c.Signature = &Signature{KeyFile: key}
			writeKey(t, key)
			s := mustOpen(t, c, nil)
			mustSend(t, s, batch(queueA, 1, 1))
			harm(t, key)
			wantKind(t, s, batch(queueA, 2, 2), sinks.Misconfigured, key, "docket keygen")
			if err := s.Send(t.Context(), batch(queueA, 2, 2)); strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows what is in the file: %v", err)
			}
			other := rotating(t.TempDir(), 0)
			other.Signature = &Signature{KeyFile: key}
			_, err := open(other, env(), nil)
			checkFailure(t, err, sinks.Misconfigured, key, "docket keygen")

			if err := os.RemoveAll(key); err != nil {
				t.Fatal(err)
			}
			writeKey(t, key)
			mustSend(t, s, batch(queueA, 2, 2))
			wantLines(t, "exported", exported(t, dir), records(queueA, 1, 2))
			mustAudit(t, dir)
		})
	}
}

// TestFinishedFileNotYetInManifest ends a process between the rename and the line,
// has somebody collect the file, and wants the line all the same.
func TestFinishedFileNotYetInManifest(t *testing.T) {
	for _, collected := range []bool{false, true} {
		dir := t.TempDir()
		var fail bool
		c := rotating(dir, 1)
		s := mustOpen(t, c, watched(dir, func(change, path string) error {
			if fail && change == "write" && filepath.Base(path) == manifest.FileName {
				return &fs.PathError{Op: change, Path: path, Err: unix.EIO}
			}
			return nil
		}))
		mustSend(t, s, batch(queueA, 1, 1))
		fail = true
		wantKind(t, s, batch(queueA, 2, 2), sinks.Transient, manifest.FileName, "check the disk")
		mustClose(t, s)
		list := finishedFiles(t, dir)
		if len(list) != 1 {
			t.Fatalf("finished files %v, want one", list)
		}
		if collected {
			if err := os.Remove(filepath.Join(dir, list[0])); err != nil {
				t.Fatal(err)
			}
		}
		s = mustOpen(t, c, nil)
		mustSend(t, s, batch(queueA, 2, 2))
		a := auditOf(t, dir)
		if len(a.entries) != 1 || a.entries[0].Name != list[0] || collected != (len(a.problems) > 0) {
			t.Errorf("collected %v: entries %+v, problems %v, want one for %s", collected, a.entries, a.problems, list[0])
		}
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func makeDir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}
