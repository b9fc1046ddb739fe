package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// derivation makes one file of records from captures.
type derivation struct {
	name     string   // of the file of records
	captures []string // below the samples, in the order of their records
	extract  func(capture []byte) ([]json.RawMessage, error)
}

var derivations = []derivation{
	{
		name:     "gatekeeper-audit.ndjson",
		captures: []string{"gatekeeper/disk-export-audit-channel-2026-11-21T07_38_01Z.log"},
		extract:  lines,
	},
	{
		name:     "gatekeeper-audit-failed.ndjson",
		captures: []string{"gatekeeper/disk-export-failed-audit-looks-clean.log"},
		extract:  lines,
	},
	{
		name:     "gatekeeper-admission.ndjson",
		captures: []string{"gatekeeper-3.24/admission-20261121T080716.213551869Z-8ccf7d380018b3ee.log"},
		extract:  lines,
	},
	{
		name:     "gatekeeper-denies.ndjson",
		captures: []string{"gatekeeper/webhook-log-denies.jsonl"},
		extract:  lines,
	},
	{
		name:     "opa-decisions.ndjson",
		captures: []string{"opa/000.body", "opa/001.body", "opa/002.body"},
		extract:  opaEvents,
	},
	{
		name:     "kubernetes-audit.ndjson",
		captures: []string{"kube-audit/000.body"},
		extract:  auditEvents,
	},
}

// derive returns the records of d, each ended by "\n".
func (d derivation) derive(samples string) ([]byte, error) {
	var out bytes.Buffer
	for _, name := range d.captures {
		capture, err := os.ReadFile(filepath.Join(samples, name))
		if err != nil {
			return nil, fmt.Errorf("read capture: %w", err)
		}
		records, err := d.extract(capture)
		if err != nil {
			return nil, fmt.Errorf("capture %s: %w", name, err)
		}
		for i, r := range records {
			if !json.Valid(r) || bytes.ContainsAny(r, "\r\n") {
				return nil, fmt.Errorf("capture %s: record %d is not JSON on one line", name, i+1)
			}
			out.Write(r)
			out.WriteByte('\n')
		}
	}
	return out.Bytes(), nil
}

// lines are the records of a capture that is NDJSON already.
func lines(capture []byte) ([]json.RawMessage, error) {
	body, ok := bytes.CutSuffix(capture, []byte("\n"))
	if !ok {
		return nil, errors.New("the last line has no newline")
	}
	var records []json.RawMessage
	for _, line := range bytes.Split(body, []byte("\n")) {
		records = append(records, line)
	}
	return records, nil
}

// opaEvents are the events of a decision log upload: gzip of a JSON array.
func opaEvents(capture []byte) ([]json.RawMessage, error) {
	body, err := gunzip(capture)
	if err != nil {
		return nil, err
	}
	// A RawMessage holds the bytes of the value as they stand in the text.
	var events []json.RawMessage
	if err := json.Unmarshal(body, &events); err != nil {
		return nil, fmt.Errorf("read array: %w", err)
	}
	return events, nil
}

// auditEvents are the items of an audit.k8s.io EventList.
func auditEvents(capture []byte) ([]json.RawMessage, error) {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(capture, &list); err != nil {
		return nil, fmt.Errorf("read event list: %w", err)
	}
	return list.Items, nil
}

func gunzip(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("read gzip: %w", err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read gzip: %w", err)
	}
	return plain, nil
}
