package sendcmd

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/lines"
	"github.com/docket-export/docket/client/clienttest"
)

// A line that send itself refuses is not stored, so the command must not end with 0,
// although the exporter has refused nothing.
func TestLinesRefusedHereAreAnError(t *testing.T) {
	hello := `{"docket":{"version":1,"producer":"p","next":1}}`
	for name, test := range map[string]struct{ input, want string }{
		"a hello":  {`{"n":1}` + "\n" + hello + "\n" + `{"n":2}` + "\n", "line 2 refused: Hello: "},
		"too long": {`{"n":1}` + "\n" + strings.Repeat("x", lines.Max+1) + "\n" + `{"n":2}` + "\n", "line 2 refused: TooLarge: "},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "socket")
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			e := clienttest.New()
			defer e.Close()
			go e.Serve(l) // until e is closed
			var out, said strings.Builder
			cmd := &cobra.Command{}
			cmd.SetOut(&out)
			cmd.SetErr(&said)
			s, err := newSendCommand(command.ConfigFlags{}, socket, "", cmd)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.run(t.Context(), strings.NewReader(test.input), 0); err == nil || err.Error() != "1 line refused" {
				t.Errorf("got %v, want that 1 line was refused", err)
			}
			if !strings.Contains(said.String(), test.want) {
				t.Errorf("got %q, want %q in it", said.String(), test.want)
			}
			if want := "2 lines stored, 1 refused, "; !strings.HasPrefix(out.String(), want) {
				t.Errorf("got %q, want %q", out.String(), want)
			}
		})
	}
}
