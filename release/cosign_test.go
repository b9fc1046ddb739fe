package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var cosign = flag.String("cosign", "", "cosign, to verify with: make release-test builds it; without it openssl alone verifies")

// The real cosign makes the keys, and verifies offline what is signed with them: the
// checksums, and the statement about each file and about no other.
func TestCosign(t *testing.T) {
	if *cosign == "" {
		t.Skip("make release-test builds cosign")
	}
	dir := t.TempDir()
	run := func(args ...string) error {
		cmd := exec.CommandContext(t.Context(), *cosign, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "COSIGN_PASSWORD=the password")
		out, err := cmd.CombinedOutput()
		t.Logf("%s: %v\n%s", cmd, err, out)
		return err
	}
	if err := run("generate-key-pair"); err != nil {
		t.Fatal(err)
	}
	m := getRelease(t)
	key := filepath.Join(dir, "cosign.key")
	if _, err := readKey(key, []byte("another")); err == nil {
		t.Error("the key is read with another password")
	}
	signer, err := readKey(key, []byte("the password"))
	if err != nil {
		t.Fatal(err)
	}
	m.out = filepath.Join(dir, "out")
	if err := os.CopyFS(m.out, os.DirFS(getRelease(t).out)); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"_checksums.txt", "_checksums.txt.sigstore.json", "_provenance.json", "_provenance.sigstore.json"} {
		if err := os.Remove(m.artifact(t, suffix)); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.vouch(signer, subject{Name: m.image, Digest: map[string]string{"sha256": "0"}}); err != nil {
		t.Fatal(err)
	}
	public := []string{"--key", "cosign.pub", "--insecure-ignore-tlog"}
	blob := append([]string{"verify-blob", "--bundle", m.artifact(t, "_checksums.txt.sigstore.json")}, public...)
	if run(append(blob, m.artifact(t, "_checksums.txt"))...) != nil {
		t.Error("cosign refuses the checksums")
	}
	if run(append(blob, m.artifact(t, "_image.tar"))...) == nil {
		t.Error("cosign takes the signature of the checksums for that of another file")
	}
	about := append([]string{"verify-blob-attestation", "--type", "slsaprovenance1", "--bundle", m.artifact(t, "_provenance.sigstore.json")}, public...)
	for _, suffix := range []string{".tar.gz", ".deb", ".rpm", "_image.tar"} {
		if run(append(about, m.artifact(t, suffix))...) != nil {
			t.Errorf("cosign refuses the statement about %s", suffix)
		}
	}
	if run(append(about, key)...) == nil {
		t.Error("cosign takes the statement for one about another file")
	}
}
