package runcmd

import (
	"strings"
	"testing"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/internal/command"
)

func TestBanner(t *testing.T) {
	for name, test := range map[string]struct {
		data string
		want []string
	}{
		"default": {command.DefaultDataDir, []string{"docket-data/docket.sock\n", "docket-data/export\n", "http://127.0.0.1:9464/status\n", "echo '" + command.ExampleRecord + "' | docket send\n"}},
		"--data":  {"/srv/d", []string{"/srv/d/docket.sock\n", "| docket send --data /srv/d\n", "docket config --data /srv/d\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := command.LoadConfig(builtin.Kinds(), "", test.data)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			printBanner(&b, test.data, cfg)
			for _, want := range test.want {
				if !strings.Contains(b.String(), want) {
					t.Errorf("got\n%s\nwant %q in it", b.String(), want)
				}
			}
		})
	}
}
