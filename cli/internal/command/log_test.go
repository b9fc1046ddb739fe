package command

import (
	"strings"
	"testing"
)

func TestNewLog(t *testing.T) {
	for name, test := range map[string]struct{ format, level, want string }{
		"json":            {"json", "info", `"msg":"two"`},
		"text":            {"text", "info", `msg=two`},
		"not a terminal":  {"", "info", `"msg":"two"`},
		"from warning on": {"json", "warn", ``},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			log := NewLog(&b, test.format, test.level)
			log.Debug("one")
			log.Info("two")
			if got := b.String(); !strings.Contains(got, test.want) || strings.Contains(got, "one") || test.want == "" && got != "" {
				t.Errorf("got %q, want %q in it and nothing below level %s", got, test.want, test.level)
			}
		})
	}
}
