package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// subject is one of the things that a statement is about (in-toto's ResourceDescriptor).
type subject struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

// statement is an in-toto statement whose predicate is SLSA's provenance.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []subject  `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

type provenance struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		InternalParameters   map[string]string `json:"internalParameters"`
		ResolvedDependencies []subject         `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder  map[string]string `json:"builder"`
		Metadata map[string]string `json:"metadata"`
	} `json:"runDetails"`
}

// The media type of a statement in an envelope.
const statementType = "application/vnd.in-toto+json"

// vouch writes the checksums of everything and the statement of how it was made, and
// signs both.
func (r release) vouch(signer *signer, image subject) error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	subjects := []subject{image}
	var sums strings.Builder
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(&sums, "%x  %s\n", sum, e.Name())
		subjects = append(subjects, subject{Name: e.Name(), Digest: map[string]string{"sha256": hex.EncodeToString(sum[:])}})
	}
	made, err := json.MarshalIndent(r.statement(subjects), "", "  ")
	if err != nil {
		return err
	}
	write := func(suffix string, content []byte) error {
		return os.WriteFile(filepath.Join(r.out, r.name()+suffix), content, 0o644)
	}
	if err := write("_checksums.txt", []byte(sums.String())); err != nil {
		return err
	}
	if err := write("_provenance.json", made); err != nil || signer == nil {
		return err
	}
	signed, err := signer.blob([]byte(sums.String()))
	if err != nil {
		return err
	}
	if err := write("_checksums.txt.sigstore.json", signed); err != nil {
		return err
	}
	if signed, err = signer.envelope(statementType, made); err != nil {
		return err
	}
	return write("_provenance.sigstore.json", signed)
}

func (r release) statement(subjects []subject) statement {
	s := statement{Type: "https://in-toto.io/Statement/v1", Subject: subjects, PredicateType: "https://slsa.dev/provenance/v1"}
	build := &s.Predicate.BuildDefinition
	build.BuildType = "https://" + module + "/release"
	build.ExternalParameters = map[string]string{"version": r.version, "platforms": strings.Join(r.platforms, ",")}
	build.InternalParameters = map[string]string{"go": runtime.Version(), "host": runtime.GOOS + "/" + runtime.GOARCH}
	build.ResolvedDependencies = []subject{{URI: "git+https://" + module, Digest: map[string]string{"gitCommit": r.commit.hash}}}
	// The caller's machine: no one else vouches for it.
	s.Predicate.RunDetails.Builder = map[string]string{"id": "https://" + module + "/release/local"}
	s.Predicate.RunDetails.Metadata = map[string]string{"finishedOn": time.Now().UTC().Format(time.RFC3339)}
	return s
}
