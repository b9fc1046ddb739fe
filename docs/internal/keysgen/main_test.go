package main

import (
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/internal/repo"
)

func TestPagesHaveTheKeys(t *testing.T) {
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	docs := filepath.Join(root, "docs")
	pages, err := stale(docs)
	if err != nil {
		t.Fatal(err)
	}
	for page := range pages {
		t.Errorf("%s has other keys than docs/keys.md: run go generate ./docs", page)
	}
}
