package hostcheck

import (
	"strings"
	"testing"

	"github.com/docket-export/docket/exporter"
)

func TestInodeWarning(t *testing.T) {
	q := exporter.QueueConfig{Directory: "/q", MaxBytes: 64 << 30}
	for _, tt := range []struct {
		total, free int64
		want        bool
	}{{1 << 20, 1 << 19, false}, {1 << 20, 1000, true}, {1 << 20, 0, true}, {0, 0, false}} {
		got := inodeWarning(q, tt.total, tt.free)
		if (got != "") != tt.want || tt.want && !strings.Contains(got, "df -i") {
			t.Errorf("%d of %d are free: got %q", tt.free, tt.total, got)
		}
	}
}
