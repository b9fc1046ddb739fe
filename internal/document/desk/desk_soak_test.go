//go:build soak && unix

package desk

import (
	"strings"
	"testing"

	"github.com/docket-export/docket/internal/document"
	"github.com/docket-export/docket/internal/testcli"
)

// What a page shows is compared with what its commands print, and a docket that it starts can be used by the next block.
func TestFollow(t *testing.T) {
	address, err := testcli.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	d := New(t, "127.0.0.1:9464", address)
	d.Follow(t, []document.Step{
		{Commands: "docket config | sed 's/address: .*/address: 127.0.0.1:9464/' > docket.yaml\ngrep -c 127.0.0.1:9464 docket.yaml\n", Output: "N\n"},
		{Commands: "docket run -f docket.yaml\n"},
		{Commands: "echo '{\"decision\":\"deny\"}' | docket send\n", Output: "1 line stored, 0 refused, in … (N lines/s)\n"},
	})
	if said := d.Do(t, "echo at 127.0.0.1:9464\n"); !strings.Contains(said, address) {
		t.Errorf("got %q, want %s in it", said, address)
	}
}
