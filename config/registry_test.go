package config

import (
	"slices"
	"testing"
)

type definition struct{ key, doc string }

func (d definition) ConfigKey() string { return d.key }

func TestRegistry(t *testing.T) {
	r := Registry[definition]{{"http", "a"}, {"file", "b"}}
	if got, want := r.Keys(), []string{"http", "file"}; !slices.Equal(got, want) {
		t.Errorf("Keys: got %q, want %q", got, want)
	}
	if d, ok := r.Lookup("file"); !ok || d.doc != "b" {
		t.Errorf("Lookup file: got %v %v, want the definition", d, ok)
	}
	if d, ok := r.Lookup("kafka"); ok || d != (definition{}) {
		t.Errorf("Lookup kafka: got %v %v, want nothing", d, ok)
	}
}
