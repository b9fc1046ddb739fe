package main

import (
	"os"
	"testing"
)

func TestPageIsUpToDate(t *testing.T) {
	got, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(page()) {
		t.Error("docs/metrics.md is not what the registrations say: run go generate ./exporter")
	}
}
