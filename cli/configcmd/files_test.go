package configcmd

import (
	"os"
	"strings"
	"testing"

	"github.com/docket-export/docket/config"
)

// What cannot be read is named, with who cannot and what to do.
func TestFileProblems(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("token", []byte("t0ken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := fileProblems([]config.FileUse{
		{Path: "sinks[0].http.bearerTokenFile", File: "token", Secret: true},
		{Path: "sinks[0].http.tls.caFile", File: "none/ca.crt"},
		{Path: "sinks[1].http.bearerTokenFile", File: ".", Secret: true},
	})
	want := []string{"none/ca.crt cannot be read by user ", ". cannot be read by user "}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %d problems", got, len(want))
	}
	for i, text := range want {
		if !strings.HasPrefix(got[i].Text, text) || !strings.Contains(got[i].Text, "--no-files") {
			t.Errorf("got %q, want %q and --no-files in it", got[i].Text, text)
		}
	}
}
