package gatekeepersource

import (
	"testing"

	"github.com/docket-export/docket/config"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config Config
		want   []string
	}{
		"as it should be": {Config{Path: "/tmp/violations/topics", SnapshotInterval: 1}, nil},
		"no path":         {Config{SnapshotInterval: 1}, []string{"path: is required: the path of Gatekeeper's Connection, such as /tmp/violations/topics"}},
		"relative":        {Config{Path: "topics", SnapshotInterval: 1}, []string{"path: must be absolute, such as /tmp/violations/topics"}},
		"all at once": {Config{SnapshotInterval: config.Duration(-1)}, []string{
			"path: is required: the path of Gatekeeper's Connection, such as /tmp/violations/topics",
			"snapshotInterval: must be positive",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range test.config.Validate() {
				got = append(got, p.String())
			}
			wantTexts(t, got, test.want)
		})
	}
	if p := Definition.NewConfig().Validate(); len(p) != 1 {
		t.Errorf("got the problems %v with the defaults, want that of the path alone", p)
	}
}
