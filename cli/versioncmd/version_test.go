package versioncmd

import (
	"runtime/debug"
	"testing"
)

// The version is that of docket, also in a program with a main package of its own. The
// commit is known of docket's own repository alone.
func TestVersionOfBuild(t *testing.T) {
	revision := []debug.BuildSetting{{Key: "vcs.revision", Value: "c0ffee"}}
	docket := debug.Module{Path: modulePath, Version: "v1.2.3"}
	for name, test := range map[string]struct {
		info debug.BuildInfo
		want Build
	}{
		"docket":             {debug.BuildInfo{Main: docket, Settings: revision}, Build{Version: "v1.2.3", Commit: "c0ffee"}},
		"a program of one's": {debug.BuildInfo{Main: debug.Module{Path: "example.com/p", Version: "v9.0.0"}, Deps: []*debug.Module{{Path: "example.com/a"}, &docket}, Settings: revision}, Build{Version: "v1.2.3"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got Build
			got.read(&test.info)
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
