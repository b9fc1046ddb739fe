package main

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/bench/trial"
)

// kafkaLab is a lab with the binary and a real Kafka. Where that cannot be had the test is
// skipped, unless CI is true: see the end-to-end tests.
func kafkaLab(t *testing.T) *lab {
	t.Helper()
	if testing.Short() {
		t.Skip("a real Kafka takes seconds to start")
	}
	for _, program := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") != "true" {
			t.Skip(err)
		}
	}
	l := docketLab(t)
	in(t, l, (*lab).fetchKafka)
	return l
}

// The modes on little: each row is measured.
func TestModes(t *testing.T) {
	l := kafkaLab(t)
	l.records *= 8
	var got values
	in(t, l, func(l *lab) { got = l.modesOf(1) })
	if got, want := slices.Sorted(maps.Keys(got)), valueKeys(t, "modes"); !slices.Equal(got, want) {
		t.Errorf("got values for %v, want %v", got, want)
	}
	for key, value := range got {
		if !(value > 0) { // or no number
			t.Errorf("%s: got %v", key, value)
		}
	}
	if got["once500Records"] < 500 || got["once4000Records"] < 4000 {
		t.Errorf("got transactions of %v and %v records, want what was configured at least", got["once500Records"], got["once4000Records"])
	}
	if want := valueKeys(t, "modes"); !slices.Equal(valueKeys(t, "modes3"), want) {
		t.Errorf("got rows %v for three brokers, want %v as for one", valueKeys(t, "modes3"), want)
	}
}

func TestKafkaNeedsPrograms(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := trial.Run(t.Context(), func(tr *trial.T) {
		l := testLab(t).in(tr)
		l.Root = "../"
		l.fetchKafka()
	})
	if err == nil || !strings.Contains(err.Error(), "default-jre-headless") || !strings.Contains(err.Error(), "-kafka=false") {
		t.Errorf("got error %v, want one with the package and the flag", err)
	}
}
