package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// version is one that no file of the tree names.
const version = "v0.2.7"

// made is a release of this tree for this machine, and the public key that it is signed for.
type made struct {
	release
	public string
}

var scratch string // outlives every test

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "docket-release-test-"); err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	return m.Run()
}

var theRelease = sync.OnceValues(func() (made, error) { return makeRelease(filepath.Join(scratch, "first")) })

func makeRelease(dir string) (made, error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return made{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return made{}, err
	}
	m := made{public: filepath.Join(dir, "key.pub"), release: release{
		root: root, out: filepath.Join(dir, "out"), version: version, image: "docket.test/docket",
		commit:    commit{"0123456789abcdef0123456789abcdef01234567", time.Unix(1_700_000_000, 0).UTC()},
		platforms: []string{"linux/" + runtime.GOARCH}, key: filepath.Join(dir, "key"),
	}}
	if err := writeKeys(m.key, m.public); err != nil {
		return made{}, err
	}
	return m, m.make(context.Background())
}

func writeKeys(private, public string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	open, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600),
		os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open}), 0o600))
}

func getRelease(t *testing.T) made {
	t.Helper()
	m, err := theRelease()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// artifact is the only file of the release whose name ends so.
func (m made) artifact(t *testing.T, suffix string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(m.out, "*"+suffix))
	if err != nil || len(found) != 1 {
		t.Fatalf("got files %q, %v, want one that ends in %s", found, err, suffix)
	}
	return found[0]
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// unpack returns the directory that an archive holds.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(zipped)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(dir, strings.TrimSuffix(filepath.Base(archive), ".tar.gz"))
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, h.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

// The archive holds a program of the version, what belongs to it, and the licence of everything in it.
func TestArchive(t *testing.T) {
	dir := unpack(t, getRelease(t).artifact(t, ".tar.gz"))
	program := filepath.Join(dir, "docket")
	said, err := exec.CommandContext(t.Context(), program, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(said), "docket "+version+" ") {
		t.Errorf("docket version: got %q, %v, want %s", said, err, version)
	}
	// Each pod of a sidecar loads it: a library that doubles it is noticed here.
	if size := len(readFile(t, program)); runtime.GOARCH == "amd64" && size > 25_000_000 {
		t.Errorf("the program has %d bytes, want at most 25,000,000", size)
	}
	for _, want := range []string{
		"LICENSE", "completions/docket.bash", "completions/docket.fish", "completions/docket.zsh", "man/docket.1", "man/docket-run.1",
		"systemd/docket.service", "systemd/docket.socket", "systemd/docket.yaml", "systemd/sysusers.conf",
	} {
		if len(readFile(t, filepath.Join(dir, want))) == 0 {
			t.Errorf("%s is empty", want)
		}
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	notice := string(readFile(t, filepath.Join(dir, "NOTICE")))
	seen := 0
	for _, dep := range info.Deps {
		if own(dep.Path) {
			continue
		}
		seen++
		if !strings.Contains(notice, "\n"+dep.Path+" "+dep.Version+" (") {
			t.Errorf("NOTICE says nothing of %s %s", dep.Path, dep.Version)
		}
	}
	if seen < 10 || !strings.Contains(notice, "Copyright 2009 The Go Authors") {
		t.Errorf("NOTICE: got %d libraries and no text of Go's licence", seen)
	}
}

func TestBOM(t *testing.T) {
	m := getRelease(t)
	info, err := buildinfo.ReadFile(filepath.Join(unpack(t, m.artifact(t, ".tar.gz")), "docket"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"std@" + strings.TrimPrefix(info.GoVersion, "go") + " BSD-3-Clause"}
	for _, dep := range info.Deps {
		if !own(dep.Path) {
			want = append(want, dep.Path+"@"+dep.Version)
		}
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(readFile(t, m.artifact(t, ".cdx.json"))), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, c := range *bom.Components {
		line := c.Name + "@" + c.Version
		if i == 0 {
			line += " " + (*c.Licenses)[0].Expression
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got components\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestLicences(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Apache License\n  Version 2.0, January 2004":                                      "Apache-2.0",
		"Permission is hereby granted, free\nof charge, to any person":                     "MIT",
		"Redistribution and use in source and binary forms":                                "BSD-2-Clause",
		"Redistribution and use in source and binary forms to endorse or promote products": "BSD-3-Clause",
		"Permission is hereby granted, free of charge. Apache License, Version 2.0":        "Apache-2.0 AND MIT",
		"GNU GENERAL PUBLIC LICENSE. Permission is hereby granted, free of charge":         "",
		"All rights reserved.": "",
	} {
		if got := spdx(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// opensslVerifies checks a signature with a program that is none of ours.
func opensslVerifies(t *testing.T, public string, message, signature []byte) error {
	t.Helper()
	dir := t.TempDir()
	signed, over := filepath.Join(dir, "signature"), filepath.Join(dir, "message")
	if err := errors.Join(os.WriteFile(signed, signature, 0o600), os.WriteFile(over, message, 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err := output(t.Context(), dir, "openssl", "dgst", "-sha256", "-verify", public, "-signature", signed, over)
	return err
}

// Everything is in the checksums, the checksums are signed, and so is the statement of
// how all of it was made.
func TestVouched(t *testing.T) {
	m := getRelease(t)
	var vouched []string
	for line := range strings.Lines(string(readFile(t, m.artifact(t, "_checksums.txt")))) {
		vouched = append(vouched, strings.Fields(line)[1])
	}
	if said, err := output(t.Context(), m.out, "sha256sum", "--check", "--strict", m.name()+"_checksums.txt"); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	entries, err := os.ReadDir(m.out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if after := strings.TrimPrefix(e.Name(), m.name()); strings.HasPrefix(after, "_checksums") || strings.HasPrefix(after, "_provenance") {
			continue
		}
		if !slices.Contains(vouched, e.Name()) {
			t.Errorf("%s is not in the checksums", e.Name())
		}
	}

	var blob struct {
		MessageSignature struct{ Signature []byte }
	}
	sums := readFile(t, m.artifact(t, "_checksums.txt"))
	if err := json.Unmarshal(readFile(t, m.artifact(t, "_checksums.txt.sigstore.json")), &blob); err != nil {
		t.Fatal(err)
	}
	if err := opensslVerifies(t, m.public, sums, blob.MessageSignature.Signature); err != nil {
		t.Error(err)
	}
	if opensslVerifies(t, m.public, append(sums, ' '), blob.MessageSignature.Signature) == nil {
		t.Error("the signature holds for other checksums")
	}

	var bundle struct{ DSSEEnvelope dsse.Envelope }
	if err := json.Unmarshal(readFile(t, m.artifact(t, "_provenance.sigstore.json")), &bundle); err != nil {
		t.Fatal(err)
	}
	payload, err := bundle.DSSEEnvelope.DecodeB64Payload()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(payload, readFile(t, m.artifact(t, "_provenance.json"))) {
		t.Error("another statement is signed than the one beside it")
	}
	signature, err := base64.StdEncoding.DecodeString(bundle.DSSEEnvelope.Signatures[0].Sig)
	if err != nil {
		t.Fatal(err)
	}
	if err := opensslVerifies(t, m.public, dsse.PAE("application/vnd.in-toto+json", payload), signature); err != nil {
		t.Error(err)
	}
	var s statement
	if err := json.Unmarshal(payload, &s); err != nil {
		t.Fatal(err)
	}
	var about []string
	for _, subject := range s.Subject[1:] {
		about = append(about, subject.Name)
	}
	if s.Subject[0].Name != "docket.test/docket" || !slices.Equal(about, vouched) {
		t.Errorf("got a statement about %q and %q, want the image and %q", s.Subject[0].Name, about, vouched)
	}
	if got := s.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"]; got != m.commit.hash {
		t.Errorf("got commit %s in the statement, want %s", got, m.commit.hash)
	}
}

// A second release of the same commit has the same bytes but for what is signed, whatever
// flags its caller builds with.
func TestReleaseTwice(t *testing.T) {
	first := getRelease(t)
	t.Setenv("GOFLAGS", "-gcflags=all=-dwarf=false")
	second, err := makeRelease(filepath.Join(scratch, "second"))
	if err != nil {
		t.Fatal(err)
	}
	one, two := readFile(t, first.artifact(t, "_checksums.txt")), readFile(t, second.artifact(t, "_checksums.txt"))
	if !bytes.Equal(one, two) {
		t.Errorf("got checksums\n%s\nand\n%s\nwant the same", one, two)
	}
}

// The Dockerfile makes the image of the release.
func TestDockerfile(t *testing.T) {
	img, err := tarball.ImageFromPath(getRelease(t).artifact(t, "_image.tar"), nil)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	entrypoint, err := json.Marshal(c.Entrypoint)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("ENV %s\nWORKDIR %s\nUSER %s\nENTRYPOINT %s\n", c.Env[0], c.WorkingDir, c.User, entrypoint)
	content := mutate.Extract(img)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if path.Base(h.Name) == "docket" { // the program and its directories
			want += " /" + h.Name + "\n"
		}
	}
	dockerfile := string(readFile(t, "../Dockerfile"))
	for line := range strings.Lines(want) {
		if !strings.Contains(dockerfile, line) {
			t.Errorf("the Dockerfile has no %q", line)
		}
	}
}

// The chart has the version of the release, which is that of the image.
func TestChart(t *testing.T) {
	m := getRelease(t)
	dir := unpack(t, m.artifact(t, "docket-0.2.7.tgz"))
	chart := string(readFile(t, filepath.Join(filepath.Dir(dir), "docket", "Chart.yaml")))
	for _, want := range []string{"\nversion: 0.2.7\n", "\nappVersion: v0.2.7\n"} {
		if !strings.Contains(chart, want) {
			t.Errorf("Chart.yaml has no %q:\n%s", want, chart)
		}
	}
	if len(readFile(t, filepath.Join(filepath.Dir(dir), "docket", "values.schema.json"))) == 0 {
		t.Error("the schema is empty")
	}
}
