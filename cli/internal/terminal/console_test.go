package terminal

import (
	"fmt"
	"strings"
	"testing"
)

// TestConsole: a message takes the place of the progress line, and without a
// terminal there is no such line.
func TestConsole(t *testing.T) {
	for name, test := range map[string]struct {
		terminal bool
		want     string
	}{
		"terminal": {true, "10%\r\x1b[Kline 1 refused\n15%\r\x1b[Kfound\n20%\r\x1b[K30%\r\x1b[K"},
		"file":     {false, "line 1 refused\nfound\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			c := &Console{w: &b}
			if test.terminal {
				c.raw = &b
			}
			c.draw("10%")
			c.Say("line %d refused", 1)
			c.draw("15%")
			fmt.Fprintln(c.Beside(&b), "found")
			c.draw("20%")
			c.draw("30%")
			c.draw("")
			if got := b.String(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
